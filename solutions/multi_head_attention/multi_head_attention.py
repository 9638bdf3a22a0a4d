# %% [markdown]
# # Multi-head attention
#
# Here you write attention with several heads, as a module that can stand in for PyTorch's own. Then you count what it
# costs.
#
# 1. `split_heads` and `merge_heads`: one vector into pieces, and back.
# 2. `MultiHeadAttention`: the module, with masks.
# 3. `attention_as_four_matmuls`: the same for self-attention, in four matrix products.
# 4. `attention_flops`, `attention_memory`, `path_length`: what it costs, and what it buys.
#
# The chapter "Multi-head attention" of the book derives all of it. Run the cells from top to bottom. Stuck? Add a cell
# and run `hint("split_heads")` in it, with the name of your kernel.
#
# The kernel `scaled_dot_product_attention` is the one that you wrote in "The attention layer". The course's own is
# imported here. Paste yours into a cell below the first one, if you like.

# %% tags=["setup"]
import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from autograder import begin, check, hint
from autograder.reference.attention_layer import scaled_dot_product_attention

begin("multi_head_attention", release="")

# %% [markdown]
# ## Into heads: `split_heads`
#
# A token's vector of width $d_{\text{model}}$ is cut into $H$ pieces of width $d_{\text{head}}$. Piece $h$ of every
# token belongs to head $h$:
#
# $$(B, N, d_{\text{model}}) \to (B, H, N, d_{\text{head}}), \qquad d_{\text{head}} = d_{\text{model}} / H .$$

# %% kernel="split_heads"

# %% check="split_heads"

# %% [markdown]
# **Predict, then run.** Below are two tokens of width 4, with components numbered from 0. They are split in two ways.
# Both results have the shape (2, 2, 2). Are they equal?

# %%
x = torch.arange(8.0).reshape(1, 2, 4)
print("split_heads:", split_heads(x, 2)[0].tolist())
print("a view:     ", x.view(1, 2, 2, 2)[0].tolist())

# %% [markdown]
# <details><summary>Answer</summary>
#
# No. In the view, head 0 holds both halves of token 0, and head 1 those of token 1. The heads have become tokens. No
# shape is wrong, so nothing complains, and a model with this mistake even trains. The chapter shows how far it gets.
#
# </details>
#
# ## And back: `merge_heads`

# %% kernel="merge_heads"

# %% check="merge_heads"

# %% [markdown]
# ## The module: `MultiHeadAttention`
#
# $$
# O = \operatorname{Concat}(O_1, \dots, O_H)\, W_O + b_O, \qquad
# O_h = \operatorname{softmax}\!\left(\frac{Q_h K_h^\top}{\sqrt{d_{\text{head}}}}\right) V_h ,
# $$
#
# where $Q_h$, $K_h$ and $V_h$ are the pieces of $Q$, $K$ and $V$ that belong to head $h$.
#
# The parameters have the names and shapes of `nn.MultiheadAttention`. Modules keep PyTorch's layout (out, in), which
# `F.linear` reads. There are two masks, and in both **True means: may attend**.

# %% kernel="MultiHeadAttention"

# %% check="MultiHeadAttention"

# %% [markdown]
# **Predict, then run.** Your layer takes over the parameters of PyTorch's own. How must the masks be handed to PyTorch,
# so that the two agree?

# %%
torch.manual_seed(0)
theirs = nn.MultiheadAttention(embed_dim=32, num_heads=4, batch_first=True)
ours = MultiHeadAttention(d_model=32, num_heads=4)
print(ours.load_state_dict(theirs.state_dict()))

tokens = torch.randn(2, 6, 32)
causal = torch.ones(6, 6, dtype=torch.bool).tril()
key_mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
mine = ours(tokens, tokens, tokens, attn_mask=causal, key_mask=key_mask)
same_masks, _ = theirs(tokens, tokens, tokens, attn_mask=causal, key_padding_mask=key_mask)
turned_round, _ = theirs(tokens, tokens, tokens, attn_mask=~causal, key_padding_mask=~key_mask)
print(f"masks as they are: largest difference {(mine - same_masks).abs().max():.1e}")
print(f"masks turned round: largest difference {(mine - turned_round).abs().max():.1e}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Turned round: in PyTorch's module True means *blocked*. With the masks as they are, some query may attend to nothing,
# and the result is NaN. One is lucky then: with other masks it would only be wrong.
#
# </details>
#
# ## Four products: `attention_as_four_matmuls`
#
# For self-attention everything is four matrix products and one softmax, all heads and sequences at once:
#
# $$
# [Q\; K\; V] = X\, W_{QKV}, \qquad S = \frac{Q K^\top}{\sqrt{d_{\text{head}}}}, \qquad
# O = \operatorname{softmax}(S)\, V, \qquad Y = \operatorname{merge}(O)\, W_O .
# $$
#
# The check counts the products. Some points are for the right numbers alone.

# %% kernel="attention_as_four_matmuls"

# %% check="attention_as_four_matmuls"

# %% [markdown]
# ## What it costs: `attention_flops` and `attention_memory`
#
# A product of shapes $(n, m)$ and $(m, p)$ takes $n m p$ multiply-adds, two operations each. List the products of one
# layer, with $N_q$ tokens that ask and $N_k$ that are looked up.

# %% kernel="attention_flops"

# %% check="attention_flops"

# %% kernel="attention_memory"

# %% check="attention_memory"

# %% [markdown]
# **Predict, then run.** A layer has $d_{\text{model}} = 512$ and 8 heads. At which length do the scores and the
# weighted means take as much work as the projections? What do the scores of one sequence weigh there?

# %%
for length in (256, 512, 1024, 2048, 4096):
    work = attention_flops(1, length, length, 8, 64)
    projections = 8 * length * 512**2
    megabytes = attention_memory(1, length, length, 8) / 1e6
    print(
        f"N = {length:>4}: {1 - projections / work:4.0%} of the work is N x N, and the scores take {megabytes:6.1f} MB"
    )

# %% [markdown]
# <details><summary>Answer</summary>
#
# At $N = 2 d_{\text{model}}$: the projections take $4 N d_{\text{model}}^2$ multiply-adds and the rest $2 N^2
# d_{\text{model}}$. For most sentences the "quadratic" layer is mostly linear. The memory has no such other part.
#
# </details>
#
# ## What it buys: `path_length`
#
# How many steps lie between two tokens that are far apart?

# %% kernel="path_length"

# %% check="path_length"

# %%
print("    N   rnn  convolution  dilated  self-attention")
for length in (10, 100, 1000, 10_000):
    names = ("rnn", "convolution", "dilated convolution", "self-attention")
    rnn, convolution, dilated, attention = (path_length(name, length) for name in names)
    print(f"{length:>5} {rnn:>5} {convolution:>12} {dilated:>8} {attention:>15}")

# %% [markdown]
# ## Your heads learn to look at two places
#
# Each token of a sequence holds a symbol and two pointers to places. It must say which symbols stand there. The model
# is one layer of your `MultiHeadAttention` between embeddings and a linear read-out.
#
# **Predict, then run.** The number of parameters does not depend on the number of heads. What share of the first
# answers, of the second and of both will be right, with one head and with two? (This takes a few seconds.)

# %%
from lab import pointers

torch.set_num_threads(1)
models = {}
for num_heads in (1, 2):
    torch.manual_seed(0)
    models[num_heads] = model = pointers.PointerModel(MultiHeadAttention(64, num_heads))
    pointers.train(model, steps=500)
    parameters = sum(p.numel() for p in model.parameters())
    shares = ", ".join(f"{name} {share:.2f}" for name, share in pointers.accuracy(model).items())
    print(f"{num_heads} head{'s' * (num_heads > 1)}, {parameters:,} parameters: {shares}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# A head gives each query one set of weights. With one head the model settles on one of the pointers and answers that
# one only. With two, each head takes a pointer.
#
# </details>
#
# **Predict, then run.** Which answers go wrong if one of the two heads is silenced?

# %%
for head in (0, 1):
    with pointers.without_head(models[2], head):
        shares = ", ".join(f"{name} {share:.2f}" for name, share in pointers.accuracy(models[2]).items())
    print(f"without head {head}: {shares}")

# %% [markdown]
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
