# %% [markdown]
# # Attention in the decoder
#
# Here you give the decoder a look at every word of the source sentence, anew at each step. Six kernels:
#
# 1. `additive_scores` and `multiplicative_scores`: how well does each source word fit the decoder's state?
# 2. `masked_softmax`: scores become weights, and padding gets none.
# 3. `context_vector`: the encoder's states, summed by these weights.
# 4. `attention_decoder_step`: the new decoder.
# 5. `alignment_error_rate`: did it look at the right words?
#
# At the end your kernels translate from English to Italian, and you can watch where they look. The chapter "Attention
# in the decoder" of the book derives all of it.
#
# Run the cells from top to bottom. Stuck? Add a cell and run `hint("masked_softmax")` in it, with the name of your
# kernel. The kernel `gru_cell` is the one that you wrote in "The recurrent encoder-decoder". The course's own is
# imported here. Paste yours into a cell below the first one, if you like.

# %% tags=["setup"]
from collections.abc import Sequence, Set

import torch
from jaxtyping import Bool, Float

from autograder import begin, check, hint
from autograder.reference.rnn_encoder_decoder import gru_cell

begin("rnn_attention", release="")

# %% [markdown]
# ## Scores by a small network: `additive_scores`
#
# The decoder is in the state $s$, about to say a word. The encoder left a state $h_i$ at each source word. How well do
# the two fit? Bahdanau's answer is a network with one hidden layer:
#
# $$e_i = \tanh(s W + h_i U) \cdot v .$$
#
# The states $h_1, \dots, h_N$ are the rows of $H$. Before them may stand any leading dimensions, such as a batch.

# %% kernel="additive_scores"

# %% check="additive_scores"

# %% [markdown]
# **Predict, then run.** Two decoder states ask the same source words. The weights are a softmax of the scores, so a
# number that is added to all of them changes nothing. Do the two states get different weights? And if the hyperbolic
# tangent is left out?

# %%
generator = torch.Generator().manual_seed(0)
two_states = torch.randn(2, 6, generator=generator)
H = torch.randn(4, 8, generator=generator).expand(2, 4, 8)
W, U = torch.randn(6, 5, generator=generator), torch.randn(8, 5, generator=generator)
v = torch.randn(5, generator=generator)
without_tanh = (two_states @ W)[:, None] @ v + H @ U @ v
for name, scores in {"as it is": additive_scores(two_states, H, W, U, v), "without": without_tanh}.items():
    first, second = torch.softmax(scores, dim=-1).tolist()
    print(f"{name:>8}:", *(f"{weight:.2f}" for weight in first), " | ", *(f"{weight:.2f}" for weight in second))

# %% [markdown]
# <details><summary>Answer</summary>
#
# With the tangent they do. Without it each score is a sum of a part of $s$ and a part of $h_i$. The part of $s$ is the
# same for all words, and the softmax cancels it: the decoder could not say what it is looking for.
#
# </details>
#
# ## Scores by a product: `multiplicative_scores`
#
# Luong's score has a single matrix between the two states:
#
# $$e_i = s\, W\, h_i^\top .$$

# %% kernel="multiplicative_scores"

# %% check="multiplicative_scores"

# %% [markdown]
# **Predict, then run.** All states are made ten times as long. By what factor do the scores grow, with each of the two?

# %%
s, H = two_states[0], H[0]
W_between = torch.randn(6, 8, generator=generator)
for factor in (1, 10, 100):
    additive = additive_scores(factor * s, factor * H, W, U, v)
    multiplicative = multiplicative_scores(factor * s, factor * H, W_between)
    print(
        f"states times {factor:>3}: spread {additive.std():8.2f} additive, {multiplicative.std():10.2f} multiplicative"
    )

# %% [markdown]
# <details><summary>Answer</summary>
#
# The product grows with the square of the factor: a hundred times at ten. The additive score cannot grow without end:
# each hidden unit lies between -1 and 1, so no score is larger than the sum of the sizes of the numbers in $v$.
#
# </details>
#
# ## From scores to weights: `masked_softmax`
#
# $$a_i = \frac{e^{e_i}}{\sum_j e^{e_j}},$$
#
# where both $i$ and $j$ run over the real words. Padding must get exactly zero, and the rest must still sum to one.
# A sentence without any real word gets zeros, and finite gradients. Think of this row early: it decides how you treat
# the mask. You may use `torch.softmax`.

# %% kernel="masked_softmax"

# %% check="masked_softmax"

# %% [markdown]
# **Predict, then run.** Which weights come out?

# %%
key_mask = torch.tensor([[True, True, True], [True, True, False], [False, False, False]])
print(masked_softmax(torch.tensor([[0.0, 0.0, 100.0]] * 3), key_mask))

# %% [markdown]
# <details><summary>Answer</summary>
#
# First row: the third word takes all. Second row: the third word is padding, and the other two have equal scores, so
# one half each. Third row: zeros.
#
# </details>
#
# ## What the decoder reads: `context_vector`
#
# $$c = \sum_i a_i\, h_i .$$

# %% kernel="context_vector"

# %% check="context_vector"

# %% [markdown]
# **Predict, then run.** The context is a smooth function of everything. How does the first component of $c$ change
# with the first component of each $h_i$?

# %%
H = torch.randn(4, 8, generator=generator, requires_grad=True)
attn_weights = torch.tensor([0.1, 0.6, 0.3, 0.0])
context_vector(attn_weights, H)[0].backward()
print("derivatives:", [round(number, 3) for number in H.grad[:, 0].tolist()])

# %% [markdown]
# <details><summary>Answer</summary>
#
# By its weight. The gradient that a word receives through the context is in proportion to the attention that it got.
#
# </details>
#
# ## The new decoder: `attention_decoder_step`
#
# The order is Bahdanau's: the state *before* asks, and the cell reads the answer.
#
# $$
# s_{t-1} \to e_t \to a_t \to c_t, \qquad
# s_t = \operatorname{GRU}\bigl([\,y_{t-1}, c_t\,],\, s_{t-1}\bigr) .
# $$
#
# Here $y_{t-1}$ is the embedding of the word before. Call the kernels that you wrote above, and `gru_cell`.

# %% kernel="attention_decoder_step"

# %% check="attention_decoder_step"

# %% [markdown]
# **Predict, then run.** The source words are shuffled, each with its state. What happens to the new state, and to the
# weights?

# %%
y, s, H = (torch.randn(*shape, generator=generator) for shape in ((1, 3), (1, 6), (1, 4, 8)))
cell = torch.nn.GRUCell(3 + 8, 6)
cell_weights = [parameter.detach() for parameter in cell.parameters()]
everything_real = torch.ones(1, 4, dtype=torch.bool)
order = torch.tensor([2, 0, 3, 1])
s_new, _, weights = attention_decoder_step(y, s, H, everything_real, W, U, v, *cell_weights)
s_other, _, weights_other = attention_decoder_step(y, s, H[:, order], everything_real, W, U, v, *cell_weights)
print(f"largest change of the state: {(s_new - s_other).abs().max():.1e}")
print("weights:         ", [round(number, 2) for number in weights[0].tolist()])
print("weights shuffled:", [round(number, 2) for number in weights_other[0].tolist()])

# %% [markdown]
# <details><summary>Answer</summary>
#
# The state stays as it is, and the weights are shuffled in the same way. Attention does not see the order of the words.
# The decoder knows it only because the encoder's states do.
#
# </details>
#
# ## Did it look at the right words? `alignment_error_rate`
#
# A grammar, or people, have marked which words stand for which. Let $A$ be the links that were found, $S$ the sure
# ones, and $P$ the possible ones, with $S$ inside $P$:
#
# $$\text{AER} = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|} .$$
#
# All sentences are counted together.

# %% kernel="alignment_error_rate"

# %% check="alignment_error_rate"

# %% [markdown]
# **Predict, then run.** Four target words and four source words stand for each other in order. One aligner finds the
# first two links and no others; another links everything with everything. Which has the smaller error?

# %%
diagonal = [{(0, 0), (1, 1), (2, 2), (3, 3)}]
print("the first two:", alignment_error_rate([{(0, 0), (1, 1)}], diagonal, diagonal))
print("everything:   ", alignment_error_rate([{(i, j) for i in range(4) for j in range(4)}], diagonal, diagonal))

# %% [markdown]
# <details><summary>Answer</summary>
#
# The cautious one: 1 - (2 + 2) / (2 + 4), one third. The other finds all four sure links, but 12 of its 16 are wrong:
# 1 - (4 + 4) / (16 + 4), or 0.6.
#
# </details>
#
# ## A translator from your own kernels
#
# The model below reads English and writes Italian. Its encoder is the one of "The recurrent encoder-decoder". Its
# decoder takes each step by your `attention_decoder_step`. It trains on sentences of 3 to 8 words (about half a
# minute).

# %%
from dataclasses import replace

from lab import parallel_corpus, translation
from lab.parallel_corpus import join

torch.set_num_threads(1)
torch.manual_seed(0)
pairs = parallel_corpus.draw_pairs("italian", 6000, seed=0, lengths=(3, 8))
vocabularies = parallel_corpus.vocabularies(pairs)
kernels = replace(translation.Kernels.reference(), attention_decoder_step=attention_decoder_step)
model = translation.Translator(*vocabularies, attention=True, width=48, hidden=64, kernels=kernels)
losses = translation.train(model, pairs, steps=500, lr=8e-3, progress=True)

# %% [markdown]
# **Type your own.** Change the sentence, run the cell, and see which English words each Italian word looks at. A word
# that the translator never met is named, with known ones that are spelled alike.

# %%
import matplotlib.pyplot as plt

from lab.alignments import show_alignment


def translate(text):
    words = model.source_vocabulary.read(text)
    (result,) = translation.translate(model, [words])
    print(join(result.words))
    figure, axes = plt.subplots(figsize=(1 + 0.5 * len(words), 1 + 0.5 * len(result.words)), layout="constrained")
    show_alignment(axes, result.attn_weights, words, result.words)
    plt.show()


translate("we see the blue sky")

# %% [markdown]
# **Predict, then run.** "European Economic Area" turns round in Italian, and "we see" becomes one word. What will the
# picture look like for "we discuss the European economic policy"? Where does the article look?

# %%
translate("we discuss the European economic policy")

# %% [markdown]
# Now measure it. The links of the grammar are all taken as sure here.

# %%
known = set(pairs)
unseen = [pair for pair in parallel_corpus.draw_pairs("italian", 400, seed=1, lengths=(3, 8)) if pair not in known]
results = translation.translate(model, [pair.source for pair in unseen])
right = [(pair, result) for pair, result in zip(unseen, results, strict=True) if pair.target == result.words]
print(f"{len(right)} of {len(unseen)} unseen sentences are translated exactly.")
found = [translation.links(result) for _, result in right]
gold = [set(pair.alignment) for pair, _ in right]
print(f"Alignment error rate on these: {alignment_error_rate(found, gold, gold):.2f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The error is not small, though the translations are right. Each Italian word is given one link here, the word with the
# largest weight, so a verb that stands for "we see" loses one of its two links for sure. And the attention is not made
# to align: it looks wherever it learns what to say. The chapter takes this apart.
#
# </details>
#
# **To try.** Take the context out of the input of your step's cell, train again, and see what is left of the
# translation.
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
