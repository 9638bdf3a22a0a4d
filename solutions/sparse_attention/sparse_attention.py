# %% [markdown]
# # Sparse attention
#
# Full attention compares each token with each other one: $N^2$ pairs. Here you write patterns that leave most of them
# out. Seven kernels:
#
# 1. `local_attention` and `strided_attention`: neighbours, and every $s$-th token.
# 2. `global_attention`, `external_global_attention` and `longformer_attention`: a few special tokens in which all meet.
# 3. `sparse_pattern` and `pattern_reachability`: what a pattern is, and how many layers it needs.
#
# The first five must never make the matrix of all pairs, not even to mask it. The checks count the work and measure the
# largest tensor; the right numbers alone earn a part of the points.
#
# The chapter "Sparse attention" of the book derives all of it. Run the cells from top to bottom. Stuck? Add a cell and
# run `hint("local_attention")` in it, with the name of your kernel.
#
# `scaled_dot_product_attention` of an earlier chapter is imported here: queries, keys and values with any leading
# dimensions, and a mask that is true where a query may attend. Paste your own into a cell below the first one, if you
# like.

# %% tags=["setup"]
import torch
from jaxtyping import Bool, Float, Int
from torch.nn import functional as F

from autograder import begin, check, hint
from autograder.reference.attention_layer import scaled_dot_product_attention

begin("sparse_attention", release="")

# %% [markdown]
# ## Neighbours: `local_attention`
#
# Token $i$ attends to token $j$ if $|i - j| < w$. If it is causal, it attends if $0 \le i - j < w$: it sees itself and
# the $w - 1$ tokens before it.
#
# Cut the queries into blocks of $w$. The keys that block $b$ needs lie in the blocks $b - 1$, $b$ and $b + 1$. So pad
# the keys, cut out the three blocks for each block of queries, and let the blocks be one more leading dimension. Two
# kinds of scores must be masked inside a block: those of tokens that are too far away, and those of padding. Mind the
# length that $w$ does not divide.

# %% kernel="local_attention"

# %% check="local_attention"

# %% [markdown]
# **Predict, then run.** By what factor does the work grow when the length doubles, and by what factor when the window
# doubles? And how much of the work of full attention is it at the end?

# %%
from autograder.work import count_work

torch.set_num_threads(1)
for length, window in ((512, 16), (1024, 16), (2048, 16), (2048, 32)):
    query, key, value = torch.randn(3, length, 32)
    near = count_work(lambda q=query, k=key, v=value, w=window: local_attention(q, k, v, w))
    full = count_work(lambda q=query, k=key, v=value: scaled_dot_product_attention(q, k, v))
    share = near.multiply_adds / full.multiply_adds
    print(
        f"N = {length:>4}, w = {window}: {near.multiply_adds:>10,} multiply-adds, {share:5.1%} of full attention; "
        f"largest tensor {near.largest:>7,} entries, not {full.largest:>9,}"
    )

# %% [markdown]
# <details><summary>Answer</summary>
#
# Twofold each time, nearly: the products take $3 N w (d_k + d_v)$. A mask on the full matrix would have saved nothing.
#
# </details>
#
# ## Every s-th token: `strided_attention`
#
# Token $i$ attends to token $j$ if $i - j$ is a multiple of $s$. Tokens with the same remainder meet, and nobody else.
# So lay the tokens out in rows of $s$, and let the columns attend to themselves. Again the last row may be incomplete.

# %% kernel="strided_attention"

# %% check="strided_attention"

# %% [markdown]
# ## Tokens that see all: `global_attention`
#
# The tokens at `positions` attend to every token. Every other token attends to the tokens at `positions`, and here to
# nothing else. Two small attentions, and one question: which output belongs where?

# %% kernel="global_attention"

# %% check="global_attention"

# %% [markdown]
# ## Outside the sequence: `external_global_attention`
#
# The special tokens may also stand beside the sequence, with queries, keys and values of their own. The sequence sees
# them; they see each other and the sequence.

# %% kernel="external_global_attention"

# %% check="external_global_attention"

# %% [markdown]
# ## Both in one softmax: `longformer_attention`
#
# A window and special tokens together. Each query has *one* softmax over all that it sees, and each key counts once,
# also a special one that stands within the window.

# %% kernel="longformer_attention"

# %% check="longformer_attention"

# %% [markdown]
# **Predict, then run.** All scores are equal, and the special token at place 4 has the value 1, all others 0. What do
# the tokens 3 and 15 get, with a window of 3?

# %%
query, key, value = torch.zeros(16, 4), torch.zeros(16, 4), torch.zeros(16, 1)
value[4] = 1.0
print(longformer_attention(query, key, value, 3, torch.tensor([4]))[:, 0].numpy().round(3))

# %% [markdown]
# <details><summary>Answer</summary>
#
# Token 3 sees the five tokens 1 to 5, the special one among them: 1/5. Token 15 sees 13, 14, itself and the special
# one: 1/4. If your token 3 gets 1/3, the special token was counted twice: 2 of 6.
#
# </details>
#
# ## A pattern as a mask: `sparse_pattern`
#
# To draw a pattern, and to test kernels, one does want the matrix. It is the union of its parts: window, stride,
# special tokens, random keys. Causal, it keeps what lies at or before each token.

# %% kernel="sparse_pattern"

# %% check="sparse_pattern"

# %% [markdown]
# With it you can test your kernels yourself: full attention with the mask must give the same numbers.

# %%
query, key, value = torch.randn(3, 2, 37, 8, dtype=torch.float64)
places = torch.tensor([0, 17])
pairs = {
    "local": (local_attention(query, key, value, 5), sparse_pattern(37, window=5)),
    "local, causal": (local_attention(query, key, value, 5, causal=True), sparse_pattern(37, window=5, causal=True)),
    "strided": (strided_attention(query, key, value, 5), sparse_pattern(37, stride=5)),
    "longformer": (
        longformer_attention(query, key, value, 5, places),
        sparse_pattern(37, window=5, positions=places),
    ),
}
for name, (attn_output, pattern) in pairs.items():
    difference = (attn_output - scaled_dot_product_attention(query, key, value, pattern)).abs().max()
    print(f"{name:<14} {int(pattern.sum()):>4} of {37 * 37} pairs, largest difference {difference:.1e}")

# %% [markdown]
# ## How many layers? `pattern_reachability`
#
# In each layer a token reads the tokens that it sees, and the residual connection keeps what it had. After how many
# layers can every token have something of every other one?

# %% kernel="pattern_reachability"

# %% check="pattern_reachability"

# %% [markdown]
# **Predict, then run.** 64 tokens and a window of 4. How many layers? And with a stride of 4, with one special token,
# with two random keys for each token?

# %%
random_keys = torch.randint(64, (64, 2), generator=torch.Generator().manual_seed(0))
print("window         ", pattern_reachability(sparse_pattern(64, window=4)))
print("stride alone   ", pattern_reachability(sparse_pattern(64, stride=4)))
print("window, stride ", pattern_reachability(sparse_pattern(64, window=4, stride=4)))
print("window, special", pattern_reachability(sparse_pattern(64, window=4, positions=torch.tensor([0]))))
print("window, random ", pattern_reachability(sparse_pattern(64, window=4, random_keys=random_keys)))

# %% [markdown]
# <details><summary>Answer</summary>
#
# $63 / 3 = 21$ layers; never; 2; 2; and a few, about the logarithm of the length.
#
# </details>
#
# ## Your patterns at work
#
# Sequences of 64 tokens, a window of 8, a stride of 8. Each token holds a key and a value. In the first task one token
# is marked, and all others must name its value. The models are small encoders whose layers are your kernels.
#
# **Predict, then run.** At which distances is the message known, for one layer of a window, for two, and for a window
# followed by a stride? (This takes some ten seconds.)

# %%
from functools import partial

from lab import sparse


def right_answers(task, layers, steps):
    """Train a model with these layers, and print the share of right answers by distance."""
    torch.manual_seed(0)
    model = sparse.SparseReader(layers)
    sparse.train(model, task, steps, batch=32 if task == "few tokens ask" else 16)
    shares = sparse.accuracy_by_distance(model, task, sequences=200)
    ranges = {"1 to 7": shares[1:8], "8 to 14": shares[8:15], "15 to 63": shares[15:]}
    return ", ".join(f"{name}: {part.nanmean():.2f}" for name, part in ranges.items())


window, stride = partial(local_attention, window=8), partial(strided_attention, stride=8)
for name, layers in {"window": [window], "window, window": [window] * 2, "window, stride": [window, stride]}.items():
    print(f"{name:<15}", right_answers("one message", layers, 120))

# %% [markdown]
# <details><summary>Answer</summary>
#
# One window carries the message 7 tokens, two carry it 14, and a window with a stride carries it everywhere. Beyond
# that the model guesses, and one guess in 32 is right.
#
# </details>
#
# In the second task *each* token asks for a value of its own: it holds the key of another token, and must say which
# value goes with that key.
#
# **Predict, then run.** A window followed by a stride reaches every token in two layers, as before. At which distances
# will it answer? And in the last line only four tokens ask. They are special ones, and there is a single layer. (This
# takes some ten seconds.)

# %%
every = "every token asks"
print(f"{'full':<17}", right_answers(every, [scaled_dot_product_attention], 120))
print(f"{'window, stride':<17}", right_answers(every, [window, stride], 170))
special = partial(longformer_attention, window=8, positions=sparse.SPECIAL)
print(f"{'those who ask see':<17}", right_answers("few tokens ask", [special], 130))

# %% [markdown]
# <details><summary>Answer</summary>
#
# It answers inside the window and guesses outside. A path is there, but the token in the middle of it does not know
# what will be asked, and cannot keep all that it has seen in one vector. Give the sight of everything to those who
# ask, and one layer is enough.
#
# </details>
#
# **To try.** Put one layer of full attention above a window: which distances come back? Make the window 16, and count
# the work again. Let the message pass through `global_attention` alone.
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
