# %% [markdown]
# # The Transformer
#
# Here you put the whole model together, and it translates in the end. Eight kernels:
#
# 1. `layer_norm`, `feed_forward` and `residual_add_norm`: the parts beside attention.
# 2. `EncoderBlock` and `DecoderBlock`: one layer of each stack.
# 3. `Transformer`: embeddings, positions, both stacks, output layer.
# 4. `noam_learning_rate` and `label_smoothing_loss`: how it is trained.
#
# The chapter "The Transformer" of the book derives all of it. Run the cells from top to bottom. Stuck? Add a cell and
# run `hint("layer_norm")` in it, with the name of your kernel.
#
# `MultiHeadAttention`, `causal_mask` and `sinusoidal_positions` are the ones that you wrote in "Multi-head attention"
# and "Self-attention". The course's own are imported here. Paste yours into a cell below the first one, if you like.

# %% tags=["setup"]
import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from autograder import begin, check, hint
from autograder.reference.multi_head_attention import MultiHeadAttention
from autograder.reference.self_attention import causal_mask, sinusoidal_positions

begin("transformer", release="")

# %% [markdown]
# ## Each token by itself: `layer_norm`
#
# Let a token be the vector $x$ with $d$ components. Its mean and its variance are its own:
#
# $$
# \mu = \frac{1}{d} \sum_i x_i, \qquad \sigma^2 = \frac{1}{d} \sum_i (x_i - \mu)^2, \qquad
# y_i = \gamma_i\, \frac{x_i - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta_i .
# $$
#
# The gain $\gamma$ and the shift $\beta$ are learned, and all tokens share them.

# %% kernel="layer_norm"

# %% check="layer_norm"

# %% [markdown]
# **Predict, then run.** A token is multiplied by 1,000, moved by 5, divided by 1,000. Which of the three changes what
# comes out?

# %%
generator = torch.Generator().manual_seed(0)
token = torch.randn(8, generator=generator)
gain, shift = torch.ones(8), torch.zeros(8)
normalised = layer_norm(token, gain, shift)
for what, changed in {"times 1,000": 1000 * token, "plus 5": token + 5, "over 1,000": token / 1000}.items():
    difference = (layer_norm(changed, gain, shift) - normalised).abs().max()
    print(f"{what:>11}: the result changes by up to {difference:.6f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only the last, really. Size and mean of a token are taken away, so neither of the first two matters. A token of size
# 0.001 has a variance of about $10^{-6}$, which is less than $\varepsilon = 10^{-5}$. There $\varepsilon$ rules, and
# the result stays small.
#
# </details>
#
# ## A small network for each token: `feed_forward`
#
# $$y = \max(0,\; x W_1^\top + b_1)\, W_2^\top + b_2 .$$
#
# The weights are in PyTorch's layout (out, in). The hidden layer is wider than the token, four times in the paper.

# %% kernel="feed_forward"

# %% check="feed_forward"

# %% [markdown]
# **Predict, then run.** A block of the paper has $d_{\text{model}} = 512$ and $d_{\text{ff}} = 2048$. Which has more
# parameters, its attention or its network? And which does more work, for a sentence of 30 words?

# %%
d_model, d_ff, length = 512, 2048, 30
attention = {"parameters": 4 * d_model**2, "multiply-adds": 4 * length * d_model**2 + 2 * length**2 * d_model}
network = {"parameters": 2 * d_model * d_ff, "multiply-adds": 2 * length * d_model * d_ff}
for what in attention:
    print(f"{what}: attention {attention[what]:,}, network {network[what]:,}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The network has twice the parameters, and does nearly twice the work. What attention does beyond its projections, the
# scores and the weighted means, is a small part here. It grows with the square of the length.
#
# </details>
#
# ## Around every sub-layer: `residual_add_norm`
#
# $$y = \operatorname{LayerNorm}\bigl(x + \operatorname{Dropout}(f(x))\bigr) .$$
#
# You get $x$ and the sub-layer's output $f(x)$. The norm comes *after* the sum. That is how it was in 2017.

# %% kernel="residual_add_norm"

# %% check="residual_add_norm"

# %% [markdown]
# **Predict, then run.** Twelve layers are stacked. Each is a random matrix and a hyperbolic tangent, and each makes its
# input smaller. Around it stands neither residual nor norm, one of them, or both. How large are the numbers at the top,
# and the gradient that comes back to the input? Which stacks still know, at the top, which token they were given?

# %%
W = torch.randn(12, 64, 64, generator=generator) / 16
gain, shift = torch.ones(64), torch.zeros(64)
tokens, direction = torch.randn(2, 5, 64, generator=generator)
ways = {
    "neither": lambda x, f_x: f_x,
    "the norm alone": lambda x, f_x: layer_norm(f_x, gain, shift),
    "the residual alone": lambda x, f_x: x + f_x,
    "both": lambda x, f_x: residual_add_norm(x, f_x, gain, shift),
}
for name, around in ways.items():
    x = start = tokens.clone().requires_grad_()
    for layer in range(12):
        x = around(x, torch.tanh(x @ W[layer]))
    (gradient,) = torch.autograd.grad((x * direction).sum(), start)
    cosine = F.cosine_similarity(x, start, dim=-1).mean()
    print(f"{name:>18}: numbers of size {x.std():.4f}, gradient {gradient.norm():7.4f}, cosine with input {cosine:.2f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# With neither, numbers and gradient die out. Either part alone mends that. The norm makes the numbers as large as
# before in every layer, and the gradient with them, but what comes out has nothing to do with the token any more. The
# residual keeps the token, which is still to be seen at the top, but the numbers grow from layer to layer. Both
# together keep the token, and the size too.
#
# </details>
#
# ## One layer of the encoder: `EncoderBlock`
#
# $$
# x' = \operatorname{LayerNorm}_1\bigl(x + \operatorname{Attention}(x, x, x)\bigr), \qquad
# y = \operatorname{LayerNorm}_2\bigl(x' + \operatorname{FeedForward}(x')\bigr) .
# $$
#
# The parameters have the names of PyTorch's `nn.TransformerEncoderLayer`. `self.norm1` and `self.norm2` hold the gains
# and shifts. Each sub-layer's output is dropped with probability `self.dropout`, but only in training: `self.training`
# says whether that is now.

# %% kernel="EncoderBlock"

# %% check="EncoderBlock"

# %% [markdown]
# **Predict, then run.** The five tokens of a sentence are put into another order. What happens to the block's outputs?
# And does the block agree with PyTorch's, when it takes over its parameters?

# %%
torch.manual_seed(0)
theirs = nn.TransformerEncoderLayer(d_model=16, nhead=4, dim_feedforward=32, dropout=0.0, batch_first=True)
block = EncoderBlock(d_model=16, num_heads=4, d_ff=32)
print(block.load_state_dict(theirs.state_dict()))
x, order = torch.randn(1, 5, 16), torch.tensor([2, 0, 1, 4, 3])
moved = (block(x[:, order]) - block(x)[:, order]).abs().max()
print(f"outputs of the reordered tokens, against the reordered outputs: largest difference {moved:.0e}")
print(f"against PyTorch's layer: largest difference {(block(x) - theirs(x)).abs().max():.0e}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The outputs are put into the same order, and nothing else happens. Neither attention nor the network knows where a
# token stands, and so no encoder does, however many blocks it has. That is what the positions are for.
#
# </details>
#
# ## One layer of the decoder: `DecoderBlock`
#
# The decoder writes. It has three sub-layers, each with residual and norm:
#
# 1. attention of the target's tokens to themselves and to those *before* them;
# 2. attention to the memory, which is what the encoder made of the source. The target asks: its tokens are the query.
# 3. the network.

# %% kernel="DecoderBlock"

# %% check="DecoderBlock"

# %% [markdown]
# **Predict, then run.** Which of the five outputs move if the third target token is changed? And if the third token of
# the memory is? And if the memory's tokens change places?

# %%
block = DecoderBlock(d_model=16, num_heads=4, d_ff=32)
x, memory = torch.randn(1, 5, 16), torch.randn(1, 6, 16)
third_target, third_source = torch.eye(5)[2][:, None], torch.eye(6)[2][:, None]
for what, output in {
    "third target token": block(x + third_target, memory),
    "third memory token": block(x, memory + third_source),
    "order of the memory": block(x, memory.flip(1)),
}.items():
    change = (output - block(x, memory)).abs().amax(-1)[0]
    print(f"{what:>19}:", *(f"{number:.3f}" for number in change.tolist()))

# %% [markdown]
# <details><summary>Answer</summary>
#
# The third target token moves the outputs from the third on. The first two do not see it: that is the causal mask, and
# it is why the whole target can be trained on in one pass. The memory's third token moves all five, since every target
# token may look at all of the source. The memory's order moves nothing. Its tokens carry their positions in
# themselves.
#
# </details>
#
# ## The whole model: `Transformer`
#
# - `embed`: rows of the embedding, times $\sqrt{d_{\text{model}}}$, plus the positions; then dropout.
# - `encode`: the source through all blocks of the encoder. What comes out is the memory.
# - `decode`: the target through all blocks of the decoder, each with the same memory; then the output layer. That layer
#   is *tied*: it is the target's embedding once more, without a bias, so that a word's score is the dot product of its
#   embedding with the last block's output.
# - `forward`: the first, then the second.

# %% kernel="Transformer"

# %% check="Transformer"

# %% [markdown]
# **Predict, then run.** Nothing has been trained yet. Does the model prefer any word at each place?

# %%
torch.manual_seed(0)
model = Transformer(source_size=300, target_size=500, d_model=64, num_heads=4, d_ff=128, num_layers=2)
source, target_in = torch.randint(300, (100, 9)), torch.randint(500, (100, 9))
best = model(source, target_in).argmax(-1)
print(f"The best word is the one that was just read in {(best == target_in).float().mean():.0%} of the places.")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Yes: the word that it has just read. The residuals carry its embedding through all blocks up to the top, and the tied
# output layer compares what arrives there with all embeddings. It finds the word itself. Training has to unlearn this
# first.
#
# </details>
#
# ## How fast to learn: `noam_learning_rate`
#
# $$\eta(t) = d_{\text{model}}^{-1/2} \cdot \min\bigl(t^{-1/2},\; t \cdot T^{-3/2}\bigr)$$
#
# is the rate of update $t = 1, 2, \dots$ with a warm-up of $T$ updates.

# %% kernel="noam_learning_rate"

# %% check="noam_learning_rate"

# %% [markdown]
# **Predict, then run.** A model that is four times as wide: is its rate higher or lower, and by what factor? When has
# the rate fallen to half of its peak?

# %%
for width in (128, 512):
    rates = [noam_learning_rate(step, d_model=width, warmup_steps=400) for step in (100, 400, 1600)]
    print(f"d_model = {width}: at updates 100, 400, 1600 the rate is", *(f"{rate:.5f}" for rate in rates))

# %% [markdown]
# <details><summary>Answer</summary>
#
# Half as high: the rate goes with one over the root of the width. It reaches half of its peak at four times the
# warm-up, since it falls with the root of the update.
#
# </details>
#
# ## Not too sure: `label_smoothing_loss`
#
# The target gives the right word $1 - \varepsilon$ of the probability, and spreads the rest over all $V$ words:
#
# $$
# \mathcal{L} = -(1 - \varepsilon) \log p_y - \frac{\varepsilon}{V} \sum_{v=1}^{V} \log p_v .
# $$
#
# The loss is the mean over the words that are not padding.

# %% kernel="label_smoothing_loss"

# %% check="label_smoothing_loss"

# %% [markdown]
# **Predict, then run.** There are 500 words, and the model gives the right one the probability $p$, the others an equal
# share of the rest. With $\varepsilon = 0.1$, at which of these $p$ is the loss the lowest?

# %%
for p in (0.5, 0.9, 0.99, 0.999999):
    logits = torch.full((1, 500), (1 - p) / 499)
    logits[0, 0] = p
    smooth, plain = (label_smoothing_loss(logits.log(), torch.tensor([0]), smoothing) for smoothing in (0.1, 0.0))
    print(f"p = {p:<8}: loss {smooth:.3f}, without smoothing {plain:.3f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# At 0.9, which is nearly what the smoothed target gives to the right word. A model that is surer is punished, though it
# is right. And no model gets below 0.94 here, so one cannot see from this loss alone how good a model is.
#
# </details>
#
# ## A translator from your own kernels
#
# The model below is your `Transformer`. It is trained with your `label_smoothing_loss` and your `noam_learning_rate`,
# on sentences of 3 to 10 words from the English-French corpus (about half a minute). What surrounds the model,
# `TransformerTranslator`, only knows the words: it turns them into numbers, pads, and shifts the target.

# %%
from lab import parallel_corpus, transformer_translation, translation

torch.set_num_threads(1)
torch.manual_seed(0)
pairs = parallel_corpus.draw_pairs("french", 6000, seed=0, lengths=(3, 10))
vocabularies = parallel_corpus.vocabularies(pairs)
sizes = {"d_model": 64, "num_heads": 4, "d_ff": 128, "num_layers": 2}
model = transformer_translation.TransformerTranslator(*vocabularies, transformer=Transformer, **sizes)

optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
batches = translation.batches(model, pairs, size=64, seed=0)
for step in range(1, 701):
    batch = next(batches)
    loss = label_smoothing_loss(model(batch), batch.target, ignore_index=parallel_corpus.PAD)
    optimizer.zero_grad()
    loss.backward()
    for group in optimizer.param_groups:
        group["lr"] = 0.5 * noam_learning_rate(step, sizes["d_model"], warmup_steps=200)
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step} of 700: loss {loss.item():.2f}", flush=True)

# %% [markdown]
# **Type your own.** Change the sentence and run the cell. A word that the translator never met is named, with known
# ones that are spelled alike. The picture shows how much each French word looks at each English one, in the last block
# of your decoder: the mean over the heads.

# %%
import matplotlib.pyplot as plt

from lab.alignments import show_alignment


def translate(text):
    words = model.source_vocabulary.read(text)
    results = transformer_translation.translate(model, [words])
    (result,) = transformer_translation.with_weights(model, [words], results, layer=-1)
    print(parallel_corpus.join(result.words))
    figure, axes = plt.subplots(figsize=(1 + 0.5 * len(words), 1 + 0.5 * len(result.words)), layout="constrained")
    show_alignment(axes, result.attn_weights, words, result.words)
    plt.show()


translate("we see the blue sky")

# %% [markdown]
# **Predict, then run.** In French the adjective comes after its noun. What will the picture look like for "the European
# economic policy", where three words turn round? Where does the article look?

# %%
translate("we discuss the European economic policy")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The three words lie on a diagonal that falls the other way. The article looks at "the", and also at "policy": it must
# know whether its noun is feminine, and the noun has not been written yet. For the same reason the verb looks at "we",
# which decides its ending.
#
# </details>
#
# Now measure it.

# %%
known = set(pairs)
unseen = [pair for pair in parallel_corpus.draw_pairs("french", 400, seed=1, lengths=(3, 10)) if pair not in known]
results = transformer_translation.translate(model, [pair.source for pair in unseen])
right = sum(pair.target == result.words for pair, result in zip(unseen, results, strict=True))
print(f"{right} of {len(unseen)} unseen sentences are translated exactly.")

# %% [markdown]
# **To try.** Take the positions out of your `embed`, run the cells from there on, and see what is left of the
# translation. Or turn the key mask round. Which is worse?
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
