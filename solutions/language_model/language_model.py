# %% [markdown]
# # Language models
#
# A language model says how probable each next token of a text is. It needs no source sentence, and any text trains it.
# Here you write one, train it, and let it write. Seven kernels:
#
# 1. `next_token_loss` and `perplexity`: how it is trained, and how it is measured.
# 2. `KVCache` and `CausalBlock`: one layer of the model, and the memory that saves it from reading everything again.
# 3. `sample_temperature`, `top_k_filter` and `top_p_filter`: from probabilities to a token.
#
# The chapter "Language models" of the book derives all of it. Run the cells from top to bottom. Stuck? Add a cell and
# run `hint("CausalBlock")` in it, with the name of your kernel.
#
# What you wrote in the chapters before is imported here. Paste your own into a cell below the first one, if you like.

# %% tags=["setup"]
import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from autograder import begin, check, hint
from autograder.reference.attention_layer import scaled_dot_product_attention
from autograder.reference.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from autograder.reference.self_attention import causal_mask
from autograder.reference.transformer import feed_forward, residual_add_norm

begin("language_model", release="")

# %% [markdown]
# ## Each token from those before it: `next_token_loss`
#
# By the chain rule the probability of a text is a product,
#
# $$
# p(x_1, \dots, x_N) = p(x_1) \prod_{t=1}^{N-1} p(x_{t+1} \mid x_1, \dots, x_t) .
# $$
#
# The model reads the whole text at once, and its logits at place $t$ are for the token at place $t + 1$. So the text is
# its own target, shifted by one. The loss is the mean of $-\log p$ over all predictions that count.

# %% kernel="next_token_loss"

# %% check="next_token_loss"

# %% [markdown]
# **Predict, then run.** The text is "abababab", in an alphabet of 26 letters. One model knows nothing. One is sure that
# each letter comes again. One is sure that the two letters take turns. What are their losses?

# %%
text = torch.tensor([[0, 1] * 4])
same_again, other_one = (12.0 * F.one_hot(letters, 26) for letters in (text, 1 - text))
for name, logits in {"knows nothing": torch.zeros(1, 8, 26), "again": same_again, "take turns": other_one}.items():
    print(f"{name:14} {next_token_loss(logits.float(), text):.4f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# $\ln 26 = 3.26$; about 12, the difference of the logits; nearly 0. If your loss is lowest for "again", a model that is
# trained with it learns to copy what it reads.
#
# </details>
#
# ## Among how many tokens? `perplexity`
#
# The loss is easier to imagine as $e^{\text{loss}}$: so many equally probable tokens would leave a model as unsure as
# it was. For several texts there is one mean, over all tokens of all of them, and then one exponential.

# %% kernel="perplexity"

# %% check="perplexity"

# %% [markdown]
# **Predict, then run.** A long text has 9 tokens, each of probability 1/2. A short one has a single token, of
# probability 1/1000. Is the perplexity of the two together nearer to 2, to 4 or to 500?

# %%
probs = torch.full((2, 9), 0.5)
probs[1, 0] = 0.001
mask = torch.ones(2, 9, dtype=torch.bool)
mask[1, 1:] = False
print(f"together {perplexity(probs.log(), mask):.2f}")
for row, real in zip(probs, mask, strict=True):
    print(f"one text {perplexity(row.log(), real):.2f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Nearer to 4. The tokens have $2^9 \cdot 1000 = 512{,}000$ together, and the tenth root of that is 3.7. The mean of the
# two perplexities would be 501, nearly all of it from one token.
#
# </details>
#
# ## What was read stays read: `KVCache`
#
# A model writes one token, reads the text with it, writes the next. The keys and values of all earlier tokens are the
# same as before: in a causal model no token is changed by one that comes later. So each layer keeps them. It computes
# those of the new token alone, and the new query looks at all.
#
# `append` takes keys and values of the new tokens and returns those of all so far. They have shape
# $(B, H, \text{tokens}, d)$; only the axis of the tokens grows.

# %% kernel="KVCache"

# %% check="KVCache"

# %% [markdown]
# **Predict, then run.** GPT-2 in its smallest size has 12 layers of width 768, 124 million parameters, and reads up to
# 1,024 tokens. How many texts must it write at once until the caches take more memory than the model?

# %%
numbers = 2 * 12 * 1024 * 768
print(f"the caches of one text: {numbers:,} numbers, {4 * numbers / 1e6:.0f} MB in single precision")
print(f"the model: {4 * 124:,} MB, as much as {124e6 / numbers:.1f} texts")

# %% [markdown]
# ## One layer: `CausalBlock`
#
# A decoder's block without the attention to a source, for there is none: causal self-attention, then the feed-forward
# network, each with residual and norm. Its parameters are those of an encoder's block.
#
# The cache holds keys and values as the attention uses them: projected, and split into heads. So write the attention
# yourself here: project (`in_proj_weight` and `in_proj_bias` give queries, keys and values side by side), split, ask
# the cache if there is one, attend, merge, and apply `out_proj`. With a cache there are more keys than queries. Think
# about the mask: several new tokens may come at once, as when a prompt is read.

# %% kernel="CausalBlock"

# %% check="CausalBlock"

# %% [markdown]
# **Predict, then run.** A text of six tokens goes through the block in one piece, and then through another call in
# pieces, with a cache. What are the differences? And which outputs move if the fourth token is replaced?

# %%
torch.manual_seed(0)
block, x = CausalBlock(d_model=24, num_heads=4, d_ff=48), torch.randn(1, 6, 24)
with torch.no_grad():
    whole = block(x)
    for pieces in ([6], [3, 3], [4, 1, 1], [1] * 6):
        cache = KVCache(max_length=6)
        in_pieces = torch.cat([block(piece, cache) for piece in x.split(pieces, dim=1)], dim=1)
        print(f"pieces of {pieces}: largest difference {(in_pieces - whole).abs().max():.1e}")
    x[:, 3] = torch.randn(24)
    print("move of each output:", (block(x) - whole).abs().amax((0, 2)).numpy().round(2))

# %% [markdown]
# <details><summary>Answer</summary>
#
# All differences are rounding, however the text is cut. The first three outputs do not move at all.
#
# </details>
#
# ## From probabilities to a token: `sample_temperature`
#
# Always to take the most probable token makes dull text. So a token is drawn, each with its probability, after the
# logits $z$ were divided by a temperature $T$:
#
# $$
# p_v = \frac{e^{z_v / T}}{\sum_w e^{z_w / T}} .
# $$
#
# A random number $u$ from 0 to 1 becomes a token like this: lay the probabilities end to end along the line from 0 to
# 1, and see on whose piece $u$ falls. The random numbers are given to you; draw none.

# %% kernel="sample_temperature"

# %% check="sample_temperature"

# %% [markdown]
# **Predict, then run.** At temperature 1 one token is four times as probable as another. How many times as probable is
# it at temperature 0.5, and at 2?

# %%
logits = torch.tensor([4.0, 1.0]).log().expand(10_000, 2)
u = (torch.arange(10_000) + 0.5) / 10_000
for temperature in (0.0, 0.5, 1.0, 2.0, 100.0):
    first, second = sample_temperature(logits, temperature, u).bincount(minlength=2).tolist()
    print(f"temperature {temperature:5}: {first:6,} times the one, {second:5,} times the other")

# %% [markdown]
# <details><summary>Answer</summary>
#
# $4^{1/T}$: 16 times at 0.5, twice at 2. At 0 the other one never comes, and at 100 the two are nearly equal.
#
# </details>
#
# ## The best few: `top_k_filter`
#
# A vocabulary has thousands of tokens that make no sense at a given place. Each is improbable, but together they are
# not, and one of them spoils a text. So only the `k` best may be drawn. What is excluded gets the logit $-\infty$.

# %% kernel="top_k_filter"

# %% check="top_k_filter"

# %% [markdown]
# ## As few as have probability p: `top_p_filter`
#
# After "the United States of" one token makes sense; after "I like" a thousand do. No `k` is right for both. *Nucleus*
# sampling leaves the fewest tokens that together have at least the probability $p$.

# %% kernel="top_p_filter"

# %% check="top_p_filter"

# %% [markdown]
# **Predict, then run.** Two models of 1,000 tokens: one is sure, the other has hardly an idea. How many tokens does
# each filter leave to each?

# %%
ranks = torch.arange(1, 1001, dtype=torch.float32)
for name, logits in {"sure": -3 * ranks, "no idea": -0.002 * ranks}.items():
    left = {"k = 40": top_k_filter(logits, 40), "p = 0.9": top_p_filter(logits, 0.9)}
    print(f"{name:8}", {limit: int(kept.isfinite().sum()) for limit, kept in left.items()})

# %% [markdown]
# <details><summary>Answer</summary>
#
# 40 and 40 by $k$: too many for the one, too few for the other. By $p$ a single one, and most of the 1,000.
#
# </details>
#
# ## Your own language model
#
# Two of your blocks, with an embedding before them and the same embedding as output layer after them. The text is what
# Python's own help says about the language, character by character. It trains with your `next_token_loss` for about
# half a minute.

# %%
from lab import language_model, python_text

torch.set_num_threads(1)
torch.manual_seed(0)
corpus = python_text.corpus()
print(f"{len(corpus.train):,} characters, {python_text.VOCAB_SIZE} different ones. They begin:")
print(python_text.decode(corpus.train[:200]))
model = language_model.LanguageModel(python_text.VOCAB_SIZE, block=CausalBlock)
losses = language_model.train(model, corpus.train, steps=1500, next_token_loss=next_token_loss, progress=True)

# %% [markdown]
# **Predict, then run.** The first loss was above that of a model that knows nothing, $\ln 96 = 4.56$. Among how many
# characters is the model unsure now, in text that it was not trained on?

# %%
unseen = corpus.validation[: 200 * 129].view(200, 129)
with torch.no_grad():
    of_next = model(unseen).log_softmax(-1)[:, :-1].gather(-1, unseen[:, 1:, None]).squeeze(-1)
print(f"first loss {losses[0]:.2f}, last losses {sum(losses[-100:]) / 100:.2f}, perplexity {perplexity(of_next):.2f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Among five or six, of 96. Before training the model guesses the character that it has just read, because the embedding
# is the output layer too; it is rarely right.
#
# </details>
#
# **Let it write.** Change the prompt, the temperatures and the filters, and run the cell again. Where does it begin to
# repeat itself, where does it stop making words?

# %%
kernels = {"sample_temperature": sample_temperature, "top_k_filter": top_k_filter, "top_p_filter": top_p_filter}
for temperature, p in ((0, None), (0.5, None), (1, None), (1, 0.9), (2, None)):
    choose = language_model.chooser(temperature, p=p, seed=0, **kernels)
    print(f"temperature {temperature}, p = {p}:")
    print(language_model.write(model, "The class ", 120, choose, make_cache=KVCache), "\n")

# %% [markdown]
# <details><summary>Answer</summary>
#
# At temperature 0 it soon runs in a circle. At 2 it hardly writes a word. In between it writes words, and half
# sentences that nearly make sense; with $p = 0.9$ fewer of the words are none.
#
# </details>
#
# **Predict, then run.** It writes texts that are twice as long each time. By how much does the time grow with your
# cache, and by how much without?

# %%
import time

greedy = language_model.chooser(0)
prompt = python_text.encode("The ")[None]
for number in (64, 128, 256, 512):
    seconds, written = [], []
    for make_cache in (KVCache, None):
        start = time.perf_counter()
        written.append(language_model.generate(model, prompt, number, greedy, make_cache))
        seconds.append(time.perf_counter() - start)
    same = "the same text" if torch.equal(*written) else "texts that differ"
    print(f"{number} tokens: {seconds[0]:.2f} s with the cache, {seconds[1]:.2f} s without, {same}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# With the cache it little more than doubles. Without, each token costs a pass over the whole text, so it grows faster,
# in the end fourfold and more. The texts are the same, unless rounding decides between two characters that are nearly
# equal.
#
# </details>
#
# **To try.** Train with the loss not shifted, and look at the loss and at what the model writes. Leave the mask out of
# your block: the loss falls far below what any model of this text reaches. Why does it write so badly?
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
