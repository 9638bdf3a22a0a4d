# %% [markdown]
# # Linear attention
#
# Here you change the order of multiplication, and attention becomes linear in the length, and a recurrent network.
#
# 1. `matmul_cost`: what the two orders cost.
# 2. `elu_features`, `linear_attention`: the layer, for all tokens at once.
# 3. `causal_linear_attention`, `linear_attention_state`: looking back only, by chunks and token by token.
# 4. `orthogonal_projections`, `performer_features`: the softmax, estimated by chance.
#
# The chapter "Linear attention" of the book derives all of it. Run the cells from top to bottom. Stuck? Add a cell and
# run `hint("linear_attention")` in it, with the name of your kernel.
#
# The kernel `scaled_dot_product_attention` is the one that you wrote in "The attention layer". The course's own is
# imported here. Paste yours into a cell below the first one, if you like.

# %% tags=["setup"]
import torch
from jaxtyping import Bool, Float
from torch.nn import functional as F

from autograder import begin, check, hint
from autograder.reference.attention_layer import scaled_dot_product_attention

begin("linear_attention", release="")

# %% [markdown]
# ## Two orders: `matmul_cost`
#
# Without the softmax, attention would be $Q K^\top V$, and $(Q K^\top) V = Q (K^\top V)$. How many multiply-adds does
# each side take?

# %% kernel="matmul_cost"

# %% check="matmul_cost"

# %% [markdown]
# **Predict, then run.** Queries, keys and values have width 64. At which length do the two orders cost the same? How
# far apart are they at 4,096 tokens?

# %%
for length in (16, 64, 256, 1024, 4096):
    left_first, right_first = matmul_cost(length, length, 64, 64)
    print(f"N = {length:>4}: {left_first:>13,} against {right_first:>10,}, ratio {left_first / right_first:g}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# At 64. The ratio is $N (d_k + d_v) / (2 d_k d_v)$, here $N / 64$. For short sequences the usual order is the cheaper
# one.
#
# </details>
#
# ## Features: `elu_features`
#
# The softmax stands between the two products. In its place comes a *feature map* $\phi$, and the weight of a key is
# $\phi(q) \cdot \phi(k)$. The simplest one makes each component positive by itself:
#
# $$\phi(x) = \operatorname{elu}(x) + 1 .$$
#
# In floating point, mind what becomes of this sum where $x$ is far below 0.

# %% kernel="elu_features"

# %% check="elu_features"

# %% [markdown]
# ## The layer: `linear_attention`
#
# $$
# o_i = \frac{\phi(q_i) \left( \sum_j \phi(k_j)^\top v_j \right)}{\phi(q_i) \cdot \left( \sum_j \phi(k_j) \right)}
# $$
#
# Both sums are alike for all queries. The kernel gets queries and keys *after* the feature map. A key that is padding
# must be missing in both sums.

# %% kernel="linear_attention"

# %% check="linear_attention"

# %% [markdown]
# **Predict, then run.** All values are 1. What are the outputs, of the layer and without its denominator? How long does
# a sequence of 4,096 tokens take, beside softmax attention?

# %%
import time

torch.set_num_threads(1)
torch.manual_seed(0)
query, key, value = torch.randn(3, 4096, 64)
ones = torch.ones(4096, 1)
print("with the denominator:   ", linear_attention(elu_features(query), elu_features(key), ones)[:3, 0])
print("without the denominator:", (elu_features(query) @ (elu_features(key).T @ ones))[:3, 0])
layers = {
    "softmax": lambda: scaled_dot_product_attention(query, key, value),
    "linear": lambda: linear_attention(elu_features(query), elu_features(key), value),
}
for name, layer in layers.items():
    begun = time.perf_counter()
    layer()
    print(f"{name:<8} {1e3 * (time.perf_counter() - begun):7.1f} ms")

# %% [markdown]
# <details><summary>Answer</summary>
#
# A mean of ones is one. Without the denominator, the outputs grow with the length. The time depends on the machine;
# softmax attention makes a table of 17 million numbers, and linear attention makes none.
#
# </details>
#
# ## Looking back, by chunks: `causal_linear_attention`
#
# Now token $i$ sees the tokens up to itself. For all chunks before its own, it needs one state: the sums at the border.
# Inside its own chunk the small table of products is made and masked.

# %% kernel="causal_linear_attention"

# %% check="causal_linear_attention"

# %% [markdown]
# **Predict, then run.** The result does not depend on the size of the chunks. At which size is the largest tensor
# smallest? 2,048 tokens, 64 features, values of width 64.

# %%
from autograder.work import count_work

features = elu_features(query[:2048]), elu_features(key[:2048])
expected = causal_linear_attention(*features, value[:2048], 2048)
for chunk_size in (1, 8, 64, 512, 2048):
    outputs = []
    work = count_work(
        lambda size=chunk_size, kept=outputs: kept.append(causal_linear_attention(*features, value[:2048], size))
    )
    difference = (outputs[0] - expected).abs().max()
    print(f"chunks of {chunk_size:>4}: largest tensor {work.largest:>9,} numbers, difference {difference:.0e}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# At 64. There are $N / C$ states of $D d_v$ numbers and $N / C$ tables of $C^2$. The two are equal where
# $C^2 = D d_v$. A cumulative sum over the tokens, which is $C = 1$, costs as much memory as the table of all pairs of a
# sequence of $D d_v$ tokens.
#
# </details>
#
# ## A recurrent network: `linear_attention_state`
#
# The same layer, one token at a time: add to the state, then read it.

# %% kernel="linear_attention_state"

# %% check="linear_attention_state"

# %% [markdown]
# **Predict, then run.** Does the recurrent form give the numbers of the chunks? How much must it keep after 2,048
# tokens, and how much does a cache of keys and values keep?

# %%
state, key_sum, outputs = torch.zeros(64, 64), torch.zeros(64), []
for query_features, key_features, token_value in zip(*features, value[:2048], strict=True):
    attn_output, state, key_sum = linear_attention_state(state, key_sum, query_features, key_features, token_value)
    outputs.append(attn_output)
print(f"largest difference: {(torch.stack(outputs) - expected).abs().max():.0e}")
print(f"state: {state.numel() + key_sum.numel():,} numbers; cache: {key[:2048].numel() + value[:2048].numel():,}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Yes, but for rounding. The state has $D (d_v + 1)$ numbers at any length, as much as the cache of 33 tokens.
#
# </details>
#
# ## Your state as a memory
#
# Pairs of a key and a value are given, one key is asked for. The models differ in their attention only, and train on
# lists of 2 to 32 pairs.
#
# **Predict, then run.** Softmax with queries of width 8, and your layer with 8 and with 64 features: who still answers
# at 64 pairs? (This takes some fifteen seconds.)

# %%
from lab import linear, recall


def linear_layer(query, key, value):
    """Linear attention by your own kernels."""
    return linear_attention(elu_features(query), elu_features(key), value)


for name, attend, d_k in (
    ("softmax, width 8", scaled_dot_product_attention, 8),
    ("linear, 8 features", linear_layer, 8),
    ("linear, 64 features", linear_layer, 64),
):
    torch.manual_seed(0)
    model = linear.Recall(attend, d_k)
    recall.train(model, steps=800, max_pairs=32)
    shares = ", ".join(f"{pairs}: {recall.accuracy(model, pairs):.2f}" for pairs in (4, 16, 64, 256))
    print(f"{name:<20} right answers by pairs: {shares}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Softmax. The state is a sum of all pairs, and a query reads all of them at once, each with its weight. More features
# let the weights differ more, but they cannot be made as sharp as one likes. A fixed state is a bottleneck again, as in
# the chapter on the recurrent encoder-decoder.
#
# </details>
#
# ## Random directions: `orthogonal_projections`
#
# Performer estimates the softmax's exponentials with random directions. They are better at right angles. Make them so,
# in blocks, without giving up that each one is uniformly distributed.

# %% kernel="orthogonal_projections"

# %% check="orthogonal_projections"

# %% [markdown]
# ## Random features: `performer_features`
#
# With $y = x / d_k^{1/4}$ and directions $w_1, \dots, w_m$,
#
# $$
# \phi(x) = \frac{1}{\sqrt m} \Bigl( e^{w_1 \cdot y - |y|^2 / 2}, \dots, e^{w_m \cdot y - |y|^2 / 2} \Bigr) .
# $$

# %% kernel="performer_features"

# %% check="performer_features"

# %% [markdown]
# **Predict, then run.** How far is the output from that of softmax attention, for normal queries and keys of standard
# deviation 0.5 and of 1? An error of 1 is that of answering zero.


# %%
def directions(count, seed):
    """Orthogonal random directions of width 64 by your own kernel."""
    generator = torch.Generator().manual_seed(seed)
    gaussian, other = torch.randn(2, count, 64, generator=generator, dtype=torch.float64)
    return orthogonal_projections(gaussian, other.norm(dim=1))


print("directions   " + "".join(f"{count:>8}" for count in (64, 256, 1024, 4096)))
for std in (0.5, 1.0):
    query, key, value = linear.inputs(256, std)
    right = scaled_dot_product_attention(query, key, value)
    errors = []
    for count in (64, 256, 1024, 4096):
        drawn = directions(count, seed=1)
        estimate = linear_attention(performer_features(query, drawn), performer_features(key, drawn), value)
        errors.append((estimate - right).norm() / right.norm())
    print(f"deviation {std}" + "".join(f"{error:>8.2f}" for error in errors))

# %% [markdown]
# <details><summary>Answer</summary>
#
# At 0.5 the error falls about as $1 / \sqrt m$. At 1 it stays above 1 for all of these: the relative variance of an
# estimate is near $e^{2 \sigma^2 \sqrt{d_k}} / m$, and $e^{16}$ is nine million.
#
# </details>
#
# **To try.** Draw the directions of queries and keys apart, and see what the weights become. Leave out the half square
# in one of the two: does it matter for queries, and for keys? Put your Performer features into the memory above.
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
