# %% [markdown]
# # Self-attention
#
# Here a sequence attends to itself, learns where its tokens stand, and is kept from looking ahead. Six kernels:
#
# 1. `self_attention`: query, key and value from one input.
# 2. `fused_qkv`: the three projections as one matrix product.
# 3. `sinusoidal_positions`: a vector for each position.
# 4. `causal_mask`: no look at the future.
# 5. `padding_mask`: no look at padding.
# 6. `masked_self_attention`: all of it together.
#
# The chapter "Self-attention" of the book derives all of it. Everywhere, a boolean mask is **True where a query may
# attend**.
#
# Run the cells from top to bottom. Stuck? Add a cell and run `hint("self_attention")` in it, with the name of your
# kernel.

# %% tags=["setup"]
import math

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from autograder import begin, check, hint

# Your own kernel from the notebook before does as well: paste it below this line.
from autograder.reference.attention_layer import scaled_dot_product_attention

begin("self_attention", release="")

# %% [markdown]
# ## One sequence: `self_attention`
#
# $$
# Q = X W_Q, \qquad K = X W_K, \qquad V = X W_V, \qquad
# O = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V.
# $$
#
# Each token asks, can be found, and gives something. `scaled_dot_product_attention` is there to be called.

# %% kernel="self_attention"

# %% check="self_attention"

# %% [markdown]
# **Predict, then run.** "the dog bites the man" and "the man bites the dog" have the same words in another order. Each
# word below is one random vector. What does your kernel put out for `dog` in the one sentence, and what in the other?

# %%
generator = torch.Generator().manual_seed(0)
vectors = {word: torch.randn(8, generator=generator) for word in ("the", "dog", "bites", "man")}
weights = [torch.randn(8, 8, generator=generator) / math.sqrt(8) for _ in range(3)]


def outputs_of_words(sentence):
    words = sentence.split()
    X = torch.stack([vectors[word] for word in words])
    return dict(zip(words, self_attention(X, *weights), strict=True))


one, other = outputs_of_words("the dog bites the man"), outputs_of_words("the man bites the dog")
for word in one:
    print(f"{word:>6}: largest difference {(one[word] - other[word]).abs().max():.1e}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The same, up to rounding. Each `dog` sees the same words with the same weights. Who bites whom is lost.
#
# </details>

# %% [markdown]
# ## Three projections at once: `fused_qkv`
#
# $$X\, [\,W_Q \;\; W_K \;\; W_V\,] = [\,X W_Q \;\; X W_K \;\; X W_V\,].$$
#
# The check counts your matrix products: there should be one.

# %% kernel="fused_qkv"

# %% check="fused_qkv"

# %% [markdown]
# ## Where a token stands: `sinusoidal_positions`
#
# Position $t$, counted from 0, becomes a vector of sines and cosines:
#
# $$p_{t,\,2i} = \sin\!\left(\frac{t}{10000^{2i/d_{\text{model}}}}\right), \qquad
# p_{t,\,2i+1} = \cos\!\left(\frac{t}{10000^{2i/d_{\text{model}}}}\right).$$
#
# Here $2i$ is the number of a column, not a count of pairs that is to be doubled again. A sine and the cosine beside it
# share one angle. The width may be odd.

# %% kernel="sinusoidal_positions"

# %% check="sinusoidal_positions"

# %% [markdown]
# **Predict, then run.** The dot product of the encodings of two positions says how alike they look to an attention
# layer. How does it change with the distance between them? And with where they stand?

# %%
import matplotlib.pyplot as plt

encodings = sinusoidal_positions(200, 64)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for position, style in ((20, "-"), (100, "--"), (150, ":")):
    distances = range(-20, 41)
    products = [encodings[position] @ encodings[position + distance] for distance in distances]
    axes.plot(distances, products, style, label=f"from {position}")
axes.set(xlabel="distance", ylabel="dot product")
axes.legend()
plt.show()

# %% [markdown]
# <details><summary>Answer</summary>
#
# It is largest at distance 0 and falls on both sides, with waves. The three curves lie on each other: it depends on the
# distance alone.
#
# </details>

# %% [markdown]
# ### A task that order decides
#
# In a sequence of symbols, two are marked. Which of them comes first? The model is your `self_attention`, once without
# positions and once with yours.
#
# **Predict, then run.** It trains on 2 to 16 symbols. How often is each model right at length 12, and at length 48?
# (This takes some seconds.)

# %%
from lab import order

torch.set_num_threads(1)
for name, positions in {"without positions": None, "with positions": sinusoidal_positions(64, 32)}.items():
    torch.manual_seed(0)
    model = order.OrderModel(self_attention, positions)
    order.train(model, steps=1200, max_length=16)
    for length in (12, 48):
        print(f"{name}, length {length}: {order.accuracy(model, length):.2f} of the answers are right")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Without positions one half at every length: it cannot do better than guess. With positions nearly all at length 12. At
# length 48 it has encodings, but it never learned what these positions mean, and most of the gain is lost.
#
# </details>

# %% [markdown]
# ## No look at the future: `causal_mask`
#
# A model that predicts the next token must not see it. Row $i$ is True up to the position of query $i$. With a cache
# there are more keys than queries: the queries are then the *last* positions.

# %% kernel="causal_mask"

# %% check="causal_mask"

# %% [markdown]
# **Predict, then run.** Two queries and five keys: which entries are True?

# %%
print(causal_mask(2, 5).int())

# %% [markdown]
# ## No look at padding: `padding_mask`

# %% kernel="padding_mask"

# %% check="padding_mask"

# %% [markdown]
# ## All together: `masked_self_attention`
#
# A token may attend to another if *both* masks allow it. The padding mask has a row for each sequence and says the same
# to every query of it.

# %% kernel="masked_self_attention"

# %% check="masked_self_attention"

# %% [markdown]
# ### Your kernel keeps a secret
#
# `dependency_matrix` computes how strongly each output depends on each input, by derivatives.
#
# **Predict, then run.** Which entries of the three matrices are exactly zero?

# %%
from lab.dependency import dependency_matrix

X = torch.randn(6, 8, generator=generator)
key_mask = padding_mask(torch.tensor([4]), 6)[0]
settings = {"no mask": {}, "causal": {"causal": True}, "causal, length 4": {"causal": True, "key_mask": key_mask}}
figure, panels = plt.subplots(1, 3, figsize=(7, 2.6), layout="constrained")
for axes, (title, options) in zip(panels, settings.items(), strict=True):
    matrix = dependency_matrix(lambda x, options=options: masked_self_attention(x, *weights, **options), X)
    axes.imshow(matrix > 0, cmap="Blues", vmin=0, vmax=1.5)
    axes.set(title=title, xlabel="input token", ylabel="output token")
plt.show()

# %% [markdown]
# <details><summary>Answer</summary>
#
# None without a mask. With the causal mask, everything above the diagonal: no output depends on a later token. With
# length 4 also the last two columns, except on the diagonal: the padded tokens are not looked at, but they still ask,
# and so their outputs depend on themselves as queries.
#
# </details>
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
