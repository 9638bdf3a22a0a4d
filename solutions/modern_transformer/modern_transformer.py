# %% [markdown]
# # The modern Transformer
#
# A large language model of today is still a stack of attention and feed-forward networks. But hardly a part of the
# block is as it was in 2017. Here you write the parts that were exchanged. Seven kernels:
#
# 1. `PreNormBlock` and `rms_norm`: where the norm stands, and which norm it is.
# 2. `swiglu`: a feed-forward network with gates.
# 3. `rotary_embedding`: positions that turn queries and keys.
# 4. `grouped_query_attention`: heads that share keys and values.
# 5. `moe_route` and `MoELayer`: many networks, of which each token uses a few.
#
# The chapter "The modern Transformer" of the book derives all of it. Run the cells from top to bottom. Stuck? Add a
# cell and run `hint("moe_route")` in it, with the name of your kernel.
#
# What you wrote in the chapters before is imported here. Paste your own into a cell below the first one, if you like.

# %% tags=["setup"]
import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from autograder import begin, check, hint
from autograder.reference.attention_layer import scaled_dot_product_attention
from autograder.reference.multi_head_attention import MultiHeadAttention
from autograder.reference.transformer import feed_forward, layer_norm

begin("modern_transformer", release="")

# %% [markdown]
# ## Where the norm stands: `PreNormBlock`
#
# In 2017 each sub-layer $f$ was followed by a norm of the sum. Since 2019 the norm stands before the sub-layer:
#
# $$
# \text{post-norm:} \quad x \leftarrow \mathrm{norm}(x + f(x)) \qquad
# \text{pre-norm:} \quad x \leftarrow x + f(\mathrm{norm}(x)) .
# $$
#
# In the second form a path leads from the first block to the last on which nothing stands. Everything else in the block
# is as it was: layer norm, the attention, the network with the ramp. The mask says who may look at whom.

# %% kernel="PreNormBlock"

# %% check="PreNormBlock"

# %% [markdown]
# **Predict, then run.** Tokens of size 1 go through 48 fresh blocks of each kind. How large are they behind the last
# one? And how large is the gradient that arrives at the first block's input, beside that at the last block's?

# %%
from autograder.reference.transformer import EncoderBlock

torch.set_num_threads(1)
for block in (EncoderBlock, PreNormBlock):
    torch.manual_seed(0)
    blocks = [block(d_model=32, num_heads=4, d_ff=128) for _ in range(48)]
    inputs = [torch.randn(8, 10, 32, requires_grad=True)]
    for layer in blocks:
        inputs.append(layer(inputs[-1]))
    loss = (inputs[-1] * torch.randn(8, 10, 32)).sum()
    first, last = torch.autograd.grad(loss, (inputs[0], inputs[-2]))
    size = inputs[-1].square().mean().sqrt()
    print(f"{block.__name__:13} size of a number {size:.2f}, gradient first / last {first.norm() / last.norm():.3f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Post-norm keeps every token at size 1, whatever the depth, and pays with the gradient: each of its 96 norms takes a
# little of it away. With pre-norm the tokens grow, because each block adds to them. So a late block, which reads them
# divided by their size, adds less in proportion, and it is the first ones that get the larger gradient. The growth is
# also why a stack of pre-norm blocks ends with one more norm.
#
# </details>
#
# ## Half a layer norm: `rms_norm`
#
# Layer norm takes the mean away and divides by the standard deviation. RMS norm leaves the mean and divides by the
# *root mean square*:
#
# $$
# y_c = g_c \cdot \frac{x_c}{\sqrt{\frac{1}{d} \sum_j x_j^2 + \varepsilon}} .
# $$
#
# It is less to compute, and in trained models nothing is lost. Mind half precision: its largest number is 65,504.

# %% kernel="rms_norm"

# %% check="rms_norm"

# %% [markdown]
# **Predict, then run.** A token is multiplied by 10. To another, 10 is added in every component. Which of the two
# leaves RMS norm as it was, and which leaves layer norm as it was?

# %%
torch.manual_seed(0)
x, gain = torch.randn(64), torch.ones(64)
for name, changed in {"times 10": 10 * x, "plus 10": x + 10}.items():
    of_rms = (rms_norm(changed, gain) - rms_norm(x, gain)).abs().max()
    of_layer = (layer_norm(changed, gain, 0 * gain) - layer_norm(x, gain, 0 * gain)).abs().max()
    print(f"{name}: RMS norm moves by up to {of_rms:.5f}, layer norm by {of_layer:.5f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# A factor leaves both as they were, but for the eps. A shift is lost on layer norm alone, which takes the mean away;
# RMS norm lets it through.
#
# </details>
#
# ## Gates: `swiglu`
#
# The network of 2017 has one hidden layer with a ramp. Here two layers read the token, and their outputs are multiplied
# entry by entry: one opens or closes the way for the other. With $z = W_{\text{gate}}\, x$,
#
# $$
# \mathrm{swiglu}(x) = W_{\text{down}} \left( \mathrm{silu}(z) \odot W_{\text{up}}\, x \right) , \qquad
# \mathrm{silu}(z) = \frac{z}{1 + e^{-z}} .
# $$

# %% kernel="swiglu"

# %% check="swiglu"

# %% [markdown]
# **Predict, then run.** A token is doubled. The output of the network of 2017 without biases doubles too. By what
# factor does that of this network grow, for a small token, and for a large one?

# %%
torch.manual_seed(0)
W_gate, W_up, W_down = torch.randn(40, 16), torch.randn(40, 16), torch.randn(16, 40)
token = torch.randn(16)
for scale in (1e-3, 1.0, 1e3):
    one, two = (swiglu(factor * scale * token, W_gate, W_up, W_down) for factor in (1, 2))
    print(f"a token {scale:g} times as large: the output grows by a factor of {two.norm() / one.norm():.2f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# By a factor of about 4: the output is a product of two things that both double. For a small token, silu is nearly
# $z / 2$; for a large one it is the ramp. In between it grows a little faster, because gates open.
#
# </details>
#
# ## Positions that turn: `rotary_embedding`
#
# A score should depend on how far apart two tokens are, not on where they stand. So cut a query, or a key, into pairs
# of components, and turn pair number $i$ of the token at position $m$ by the angle $m\, \theta_i$:
#
# $$
# \begin{pmatrix} a \\ b \end{pmatrix} \leftarrow
# \begin{pmatrix} \cos m\theta_i & -\sin m\theta_i \\ \sin m\theta_i & \cos m\theta_i \end{pmatrix}
# \begin{pmatrix} a \\ b \end{pmatrix} , \qquad \theta_i = 10000^{-2i/d} .
# $$
#
# A dot product does not change when both vectors are turned by the same angle. So what is left of $m$ and $n$ is the
# angle between them, $(m - n)\, \theta_i$.
#
# Which components are a pair is a convention. The paper takes neighbours; many models take the two halves. A model
# trained with one and run with the other reads nonsense, and nothing fails.

# %% kernel="rotary_embedding"

# %% check="rotary_embedding"

# %% [markdown]
# **Predict, then run.** A query at position 5 and a key at position 2 have some score. Which of the following have the
# same one?

# %%
torch.manual_seed(0)
query, key = torch.randn(1, 16), torch.randn(1, 16)


def score(m, n, layout="interleaved", layout_of_key="interleaved"):
    rotated_query = rotary_embedding(query, torch.tensor([m]), layout=layout)
    rotated_key = rotary_embedding(key, torch.tensor([n]), layout=layout_of_key)
    return (rotated_query @ rotated_key.T).item()


for m, n in ((5, 2), (105, 102), (13, 10), (2, 5)):
    halves, mixed = score(m, n, "halves", "halves"), score(m, n, "interleaved", "halves")
    print(f"positions {m:3} and {n:3}: {score(m, n):6.3f}, halves {halves:6.3f}, mixed layouts {mixed:6.3f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Those with the same distance, 3: (105, 102) and (13, 10), in each of the two layouts. (2, 5) has the distance $-3$,
# which is another thing. With mixed layouts no two agree: the property is gone.
#
# </details>
#
# ## Heads that share: `grouped_query_attention`
#
# When a model writes, it reads the keys and values of all tokens again for each new one, from every layer and every
# head. That traffic, not arithmetic, is what takes the time. So let neighbouring heads share one head of keys and
# values. With $H$ heads of queries and $H_{kv}$ of keys, each is shared by $H / H_{kv}$.

# %% kernel="grouped_query_attention"

# %% check="grouped_query_attention"

# %% [markdown]
# **Predict, then run.** A model has 32 layers, 32 heads of width 128, and reads 8,192 tokens, in half precision. How
# much memory does the cache of one text take, with 32, with 8 and with 1 head of keys and values?

# %%
for kv_heads in (32, 8, 1):
    numbers = 2 * 32 * kv_heads * 8192 * 128
    print(f"{kv_heads:2} heads of keys and values: {2 * numbers / 2**30:.2f} GiB")
query, key, value = torch.randn(32, 1, 128), torch.randn(8, 100, 128), torch.randn(8, 100, 128)
print("the output has the shape", tuple(grouped_query_attention(query, key, value).shape), "as with 32")

# %% [markdown]
# <details><summary>Answer</summary>
#
# 4 GiB, 1 GiB, and an eighth of one. Eight is what many models of this size have.
#
# </details>
#
# ## Who goes where: `moe_route`
#
# Most parameters of a Transformer are in its feed-forward networks. More of them make it better, and slower: each token
# passes through all. A *mixture of experts* breaks this up. There are many networks, the *experts*, and a *router*
# sends each token through the $k$ best of them.
#
# From the router's logits come the probabilities $p_{t,e}$ of expert $e$ for token $t$. The probabilities of the chosen
# experts are their *gates*. Each expert has room for `capacity` tokens, so that all take about equally long; what comes
# too late is dropped there. Room is given to first choices before second ones, and to earlier tokens before later ones.
#
# Left alone, the router favours experts that happen to be good already, and these get better still. Against this stands
# the *load-balancing loss*
#
# $$
# L = E \sum_{e=1}^{E} f_e\, P_e , \qquad P_e = \frac{1}{T} \sum_t p_{t,e} ,
# $$
#
# where $f_e$ is the share of all choices that fell on expert $e$. It is a count and has no gradient; $P_e$ has one.

# %% kernel="moe_route"

# %% check="moe_route"

# %% [markdown]
# **Predict, then run.** Six tokens and three experts, one choice each. All tokens prefer expert 0, the first one only
# just and the last one strongly. There is room for two. Which tokens are kept? What is the loss, and what would it be
# if the tokens were spread evenly?

# %%
logits = torch.zeros(6, 3)
logits[:, 0] = torch.arange(1.0, 7.0)
gates, experts, kept, loss = moe_route(logits, k=1, capacity=2)
print("kept:", kept.flatten().tolist())
print("gates:", [round(gate, 2) for gate in gates.flatten().tolist()])
print(f"loss {loss:.2f}")
even = 5.0 * F.one_hot(torch.arange(6) % 3, 3)
print(f"loss of an even spread {moe_route(even, k=1, capacity=2)[3]:.2f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The first two, however weak their preference: they come first. The loss is 2.6: it would be 3, the number of experts,
# if all were quite sure of one of them. Spread evenly it is 1.
#
# </details>
#
# ## Many networks, little work: `MoELayer`
#
# The layer stands where the feed-forward network stood. It routes all tokens of the batch together. Each expert works
# on the tokens that were sent to it, and on no others: the check counts. What the experts give is multiplied by the
# gates and added up. A token that was dropped gets zeros, and the residual around the layer carries it on.

# %% kernel="MoELayer"

# %% check="MoELayer"

# %% [markdown]
# **Predict, then run.** Layers with 1, 4 and 16 experts, of which each token uses one. How do the parameters grow, and
# how the work?

# %%
from autograder.work import count_work

x = torch.randn(4, 64, 32)
for number in (1, 4, 16):
    layer = MoELayer(d_model=32, d_ff=128, num_experts=number, k=1, capacity_factor=16.0)
    parameters = sum(parameter.numel() for parameter in layer.parameters())
    with torch.no_grad():
        work = count_work(lambda layer=layer: layer(x)).multiply_adds
    print(f"{number:2} experts: {parameters:7,} parameters, {work:9,} multiply-adds")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Sixteen times the parameters, for a fifth more work: that of the router, and of sorting the tokens.
#
# </details>
#
# ## Your own modern language model
#
# Two blocks of your kernels, with an embedding before them and the same embedding as output layer after them, beside
# two blocks of 2017, which are a little larger. Both read the same text: what Python's own help says about the
# language, character by character.
#
# **Predict, then run.** Which has learned more after the same number of steps?

# %%
from lab import modern, python_text

mine = {
    "rms_norm": rms_norm,
    "swiglu": swiglu,
    "rotary_embedding": rotary_embedding,
    "grouped_query_attention": grouped_query_attention,
}
for name, design in {"2017": modern.OF_2017, "today": modern.TODAY}.items():
    torch.manual_seed(0)
    model = modern.ModernLanguageModel(python_text.VOCAB_SIZE, design, **mine)
    size = sum(parameter.numel() for parameter in model.parameters())
    losses = modern.train(model, steps=400, progress=True)
    print(f"{name:5}: {size:,} parameters, loss {sum(losses[-50:]) / 50:.2f} nats a character")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The model of today, by far, although it is smaller. The chapter takes the changes apart.
#
# </details>
#
# **To try.** Exchange one piece at a time: `modern.LADDER` has a design for each step from 2017 to today. Which piece
# does most? Give one model `functools.partial(rotary_embedding, layout="halves")`: does it learn as well? And does a
# model that was trained with one layout work with the other?
#
# ## Experts that die
#
# A task for eight experts. There are eight kinds of tokens, each around its own centre, and each kind is to be changed
# by a matrix of its own. One small network is enough for one kind. Two layers learn it, one of them with the
# load-balancing loss.
#
# **Predict, then run.** How many tokens will each expert get, with the loss and without? Which layer makes the smaller
# error?

# %%
torch.manual_seed(1)
centres, matrices = 3 * torch.randn(8, 12), torch.randn(8, 12, 12) / math.sqrt(12)


def draw(number):
    kinds, deviations = torch.randint(8, (number,)), torch.randn(number, 12)
    return centres[kinds] + deviations, torch.einsum("ti,tij->tj", deviations, matrices[kinds])


for factor in (0.0, 0.5):
    torch.manual_seed(1)
    layer = MoELayer(d_model=12, d_ff=12, num_experts=8, k=1, capacity_factor=8.0)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    for _ in range(400):
        x, wanted = draw(128)
        output, balance = layer(x)
        loss = F.mse_loss(output, wanted) + factor * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        x, wanted = draw(4000)
        error = F.mse_loss(layer(x)[0], wanted)
        loads = moe_route(layer.router(x), k=1, capacity=4000)[1].flatten().bincount(minlength=8)
    print(f"balance times {factor}: error {error:.3f}, tokens of each expert {loads.tolist()}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Without the loss some experts get no token at all. What gets no token has no gradient, so it stays as it was drawn,
# and others do the work of two. With the loss each expert finds work, and the error is smaller.
#
# </details>
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
