# %% [markdown]
# # The attention layer
#
# Here you write attention as a layer, in five kernels. Each does a little more than the one before:
#
# 1. `similarity`: the scores of one query.
# 2. `attention_weights`: the weights of many queries.
# 3. `scaled_dot_product_attention`: the whole layer, with a mask.
# 4. `cross_attention`: one sequence looks things up in another.
# 5. `attention_backward`: the gradient by hand, for those who want to know.
#
# The chapter "The attention layer" of the book derives all of it. Use the same words here: a *query* asks, a *key* is
# compared with it, a *value* is handed out.
#
# Run the cells from top to bottom. Stuck? Add a cell and run `hint("similarity")` in it, with the name of your kernel.

# %% tags=["setup"]
import math

import numpy as np
import torch
from jaxtyping import Bool, Float

from autograder import begin, check, hint

begin("attention_layer", release="")

# %% [markdown]
# ## One query: `similarity`
#
# A query $q$ and keys $k_1, \dots, k_{N_k}$ are vectors of the same width $d_k$. The score of key $i$ is
#
# $$s_i = \frac{q \cdot k_i}{\sqrt{d_k}}.$$

# %% kernel="similarity"

# %% check="similarity"

# %% [markdown]
# **Predict, then run.** Queries and keys have standard normal components. Without the division, the scores have a
# standard deviation of $\sqrt{d_k}$. What is it with the division, at widths 4, 64 and 1,024?

# %%
generator = torch.Generator().manual_seed(0)
for width in (4, 64, 1024):
    queries = torch.randn(300, width, generator=generator)
    keys = torch.randn(300, width, generator=generator)
    scores = torch.stack([similarity(query, keys) for query in queries])
    print(f"width {width:>4}: standard deviation of the scores {scores.std():.2f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# About 1 at every width. The variance of a sum of $d_k$ independent products is $d_k$, and the division by $\sqrt{d_k}$
# divides it by $d_k$.
#
# </details>

# %% [markdown]
# ## Many queries: `attention_weights`
#
# Stack the queries as rows of $Q$ and the keys as rows of $K$. Then
#
# $$A = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right),$$
#
# with the softmax over each row. Any number of leading dimensions may stand in front: a batch, or a batch and heads.
# You may use `torch.softmax`. You wrote your own in "Getting started".

# %% kernel="attention_weights"

# %% check="attention_weights"

# %% [markdown]
# **Predict, then run.** How hard does a query choose among 64 keys, if the scale is taken out again by a factor of
# $\sqrt{d_k}$ on the query? Think of the largest weight at width 1, and at width 1,024.

# %%
import matplotlib.pyplot as plt

generator = torch.Generator().manual_seed(0)
widths = [1, 4, 16, 64, 256, 1024]
largest_weight = {"divided by the root": [], "not divided": []}
for width in widths:
    query = torch.randn(500, 1, width, generator=generator)
    key = torch.randn(500, 64, width, generator=generator)
    for label, factor in zip(largest_weight, (1, math.sqrt(width)), strict=True):
        weights = attention_weights(factor * query, key)
        largest_weight[label].append(weights.amax(-1).mean().item())

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for (label, numbers), style in zip(largest_weight.items(), ("o-", "s--"), strict=True):
    axes.semilogx(widths, numbers, style, label=label)
axes.set(xlabel="width", ylabel="mean of the largest weight", ylim=(0, 1))
axes.legend()
plt.show()

# %% [markdown]
# <details><summary>Answer</summary>
#
# Divided by the root, the largest weight hardly depends on the width. Not divided, it climbs towards one: the layer
# makes a hard choice, by chance, before it has learned anything.
#
# </details>

# %% [markdown]
# ## The layer: `scaled_dot_product_attention`
#
# $$O = A V,$$
#
# where row $j$ of $V$ is the value of key $j$. New here is the **mask**: `attn_mask` is True where a query may attend
# to a key. A key that is blocked must have weight exactly zero, and the other weights of the row must still sum to one.
#
# A query that may attend to nothing gets the zero vector, and finite gradients. Think of this row early: it decides how
# you treat the mask.

# %% kernel="scaled_dot_product_attention"

# %% check="scaled_dot_product_attention"

# %% [markdown]
# **Predict, then run.** With the identity matrix as values, the output is the matrix of weights. What do the four rows
# look like, if all queries and keys are zero and the mask is the one below?

# %%
attn_mask = torch.tensor(
    [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, True],
        [False, False, False, False],
    ]
)
nothing = torch.zeros(4, 8)
print(scaled_dot_product_attention(nothing, nothing, torch.eye(4), attn_mask))

# %% [markdown]
# <details><summary>Answer</summary>
#
# All scores are zero, so each row shares one among the keys that it may attend to: 1; then one half twice; then one
# quarter four times. The last row is zero.
#
# </details>
#
# **Predict, then run.** Attention does not see the order of the pairs. What happens to the output if keys and values
# are shuffled in the same way? And if the keys alone are shuffled?

# %%
generator = torch.Generator().manual_seed(0)
query, key, value = (torch.randn(length, 8, generator=generator) for length in (3, 6, 6))
order = torch.randperm(6, generator=generator)
output = scaled_dot_product_attention(query, key, value)
both = scaled_dot_product_attention(query, key[order], value[order])
keys_only = scaled_dot_product_attention(query, key[order], value)
print(f"both shuffled: largest change {(both - output).abs().max():.1e}")
print(f"only the keys shuffled: largest change {(keys_only - output).abs().max():.1e}")

# %% [markdown]
# ## Two sequences: `cross_attention`
#
# Queries come from one sequence, keys and values from another:
#
# $$Q = X_q W_Q, \qquad K = X_{kv} W_K, \qquad V = X_{kv} W_V.$$
#
# Call the kernel that you wrote above for the rest.

# %% kernel="cross_attention"

# %% check="cross_attention"

# %% [markdown]
# ### Your kernel learns to look things up
#
# In associative recall a list of pairs of a key and a value is shown, then one key is asked for. The model below is one
# call of your `cross_attention`, from the question to the list. It trains on lists of 2 to 32 pairs.
#
# **Predict, then run.** How many pairs can it handle after training: up to 32, as it has seen, or more? (This takes
# a few seconds.)

# %%
from lab import recall

torch.set_num_threads(1)
torch.manual_seed(0)
model = recall.AttentionRecall(cross_attention, width=16)
losses = recall.train(model, steps=600, max_pairs=32)
print(f"loss of the first 50 steps {sum(losses[:50]) / 50:.2f}, of the last 50 steps {sum(losses[-50:]) / 50:.2f}")
for pairs in (2, 8, 32, 128, 512):
    print(f"{pairs:>3} pairs: {recall.accuracy(model, pairs):.3f} of the answers are right")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Far more than 32: a weighted mean can be taken over any number of values. But it is not free. Each further key takes
# a little of the weight, and the share of right answers slowly falls. Try `width=4`, where it falls sooner.
#
# </details>

# %% [markdown]
# ## The gradient by hand: `attention_backward`
#
# Let $G$ be the gradient of a loss for the output $O$, and $P$ that for the weights $A$. The chapter derives
#
# $$
# \frac{\partial L}{\partial V} = A^\top G, \qquad P = G V^\top, \qquad
# \frac{\partial L}{\partial S_{ij}} = A_{ij} \Bigl( P_{ij} - \sum_m A_{im} P_{im} \Bigr),
# $$
#
# $$
# \frac{\partial L}{\partial Q} = \frac{1}{\sqrt{d_k}} \frac{\partial L}{\partial S} K, \qquad
# \frac{\partial L}{\partial K} = \frac{1}{\sqrt{d_k}} \Bigl(\frac{\partial L}{\partial S}\Bigr)^{\!\top} Q.
# $$
#
# This kernel is in NumPy, so no automatic gradient helps you. The check gives points for each of the three gradients:
# return zeros of the right shape for those that you do not have yet.

# %% kernel="attention_backward"

# %% check="attention_backward"

# %% [markdown]
# **Predict, then run.** The queries and the first key are made longer and longer, so that one key takes all the weight.
# Which of the three gradients goes to zero?

# %%
rng = np.random.default_rng(0)
query, key, value = np.ones((3, 4)), rng.normal(size=(5, 4)), rng.normal(size=(5, 2))
key[0] = 1.0
for factor in (1, 3, 10):
    gradients = attention_backward(np.ones((3, 2)), factor * query, factor * key, value)
    sizes = ", ".join(f"{np.linalg.norm(gradient):.1e}" for gradient in gradients)
    print(f"factor {factor:>2}: size of the gradients for queries, keys and values: {sizes}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Those for queries and keys. When one weight is one and the others are zero, the Jacobian of the softmax is zero, and
# nothing passes through it. The values still learn. A layer that starts with hard choices is slow to change its mind.
#
# </details>
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
