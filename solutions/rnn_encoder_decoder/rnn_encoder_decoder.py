# %% [markdown]
# # The recurrent encoder-decoder
#
# Here you write a translator, in seven kernels. It reads a sentence word by word and keeps what it has read in one
# vector, the *state*. Then it writes the translation, word by word, from that state.
#
# 1. `rnn_cell`, `gru_cell`, `lstm_cell`: one step of three recurrent cells.
# 2. `encode`: all steps of a batch of sentences that differ in length.
# 3. `shift_right` and `masked_cross_entropy`: what training needs.
# 4. `greedy_decode`: what translating needs.
#
# The chapter "The recurrent encoder-decoder" of the book derives all of it. At the end you train a translator on your
# own kernels and type sentences into it.
#
# Run the cells from top to bottom. Stuck? Add a cell and run `hint("gru_cell")` in it, with the name of your kernel.

# %% tags=["setup"]
from collections.abc import Callable

import torch
from jaxtyping import Float, Int

from autograder import begin, check, hint

begin("rnn_encoder_decoder", release="")

# %% [markdown]
# ## One step: `rnn_cell`
#
# The new state depends on the input and on the state before:
#
# $$h_t = \tanh(x_t W_{ih}^\top + b_{ih} + h_{t-1} W_{hh}^\top + b_{hh}).$$
#
# There is one row for each sentence of a batch. The weights have PyTorch's layout (out, in), hence the transposes. The
# two biases could be one; PyTorch keeps both, so we do too.

# %% kernel="rnn_cell"

# %% check="rnn_cell"

# %% [markdown]
# **Predict, then run.** Two states differ a little. Then both read the same 30 words. Are they closer to each other
# after that, or further apart? The weights are those that PyTorch begins with, and then five times as large.

# %%
generator = torch.Generator().manual_seed(0)
words = torch.randn(30, 1, 16, generator=generator)
start = torch.randn(1, 32, generator=generator)
for factor in (1, 5):
    torch.manual_seed(0)
    weights = [factor * weight.detach() for weight in torch.nn.RNNCell(16, 32).parameters()]
    one, other = start, start + 0.01
    for word in words:
        one, other = rnn_cell(word, one, *weights), rnn_cell(word, other, *weights)
    print(f"weights times {factor}: difference 0.01 before, {(one - other).abs().max():.1e} after")

# %% [markdown]
# <details><summary>Answer</summary>
#
# With small weights the difference all but vanishes: each step shrinks it, so what stood at the beginning is forgotten.
# With large ones it grows until the hyperbolic tangent stops it. The same factors act on the gradient on its way back.
#
# </details>

# %% [markdown]
# ## A state that can be kept: `gru_cell`
#
# The gated recurrent unit has two *gates*, numbers between 0 and 1 that the cell computes itself: a reset gate $r$ and
# an update gate $z$. With $\sigma$ for the sigmoid and $\odot$ for the product number by number,
#
# $$\begin{aligned}
# r &= \sigma(x W_{ir}^\top + b_{ir} + h W_{hr}^\top + b_{hr}) \\
# z &= \sigma(x W_{iz}^\top + b_{iz} + h W_{hz}^\top + b_{hz}) \\
# n &= \tanh\bigl(x W_{in}^\top + b_{in} + r \odot (h W_{hn}^\top + b_{hn})\bigr) \\
# h' &= (1 - z) \odot n + z \odot h .
# \end{aligned}$$
#
# `W_ih` holds the rows of $W_{ir}$, then those of $W_{iz}$, then those of $W_{in}$; the others likewise.

# %% kernel="gru_cell"

# %% check="gru_cell"

# %% [markdown]
# **Predict, then run.** All weights are zero, and so are the biases, but for that of the update gate. The state begins
# at 1 and takes 20 steps. What is left of it, if that bias is 0, 2 or 5?

# %%
for bias in (0.0, 2.0, 5.0):
    h, biases = torch.ones(1, 1), torch.tensor([0.0, bias, 0.0])
    for _ in range(20):
        h = gru_cell(torch.zeros(1, 1), h, torch.zeros(3, 1), torch.zeros(3, 1), biases, torch.zeros(3))
    print(f"bias {bias}: {h.item():.6f} is left")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The candidate is 0, so each step multiplies the state by $\sigma$ of the bias: one half to the power of 20, which is a
# millionth; 0.88 to that power, 0.08; and 0.993 to that power, 0.87. A gate near one is what lets a state live.
#
# </details>

# %% [markdown]
# ## Two states: `lstm_cell`
#
# The long short-term memory is older. It keeps a second state, the cell state $c$, which is only scaled and added to:
#
# $$\begin{aligned}
# c' &= \sigma(f) \odot c + \sigma(i) \odot \tanh(g) \\
# h' &= \sigma(o) \odot \tanh(c')
# \end{aligned}$$
#
# where $i$, $f$, $g$ and $o$ are four parts, in this order, of $x W_{ih}^\top + b_{ih} + h W_{hh}^\top + b_{hh}$.

# %% kernel="lstm_cell"

# %% check="lstm_cell"

# %% [markdown]
# ## A whole batch: `encode`
#
# The sentences of a batch differ in length, so the shorter ones are filled up with *padding*. Padding is not language:
# a state must stop where its sentence ends. `step` is a cell with its weights already in it, so you only say
# `step(x, h)`.

# %% kernel="encode"

# %% check="encode"

# %% [markdown]
# **Predict, then run.** One sentence has 3 words, another 6. How does the last state of the first one change, if its
# padding is replaced by other numbers? And that of the second one, if its first word is?

# %%
torch.manual_seed(0)
weights = [weight.detach() for weight in torch.nn.GRUCell(8, 16).parameters()]


def read(X):
    return encode(lambda x, h: gru_cell(x, h, *weights), X, torch.tensor([3, 6]), torch.zeros(2, 16))[1]


X = torch.randn(2, 6, 8, generator=generator)
padding_changed, word_changed = X.clone(), X.clone()
padding_changed[0, 3:] = 100.0
word_changed[1, 0] = 100.0
print(f"padding: the first one moves by {(read(X) - read(padding_changed))[0].abs().max():.3f}")
print(f"first word: the second one moves by {(read(X) - read(word_changed))[1].abs().max():.3f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The first one does not move at all. The second one moves: five words later, something is left of the first.
#
# </details>

# %% [markdown]
# ## What the decoder reads: `shift_right`
#
# While it trains, the decoder reads the *right* words before each place, not its own. This is *teacher forcing*. The
# target is a sentence with its `<eos>`; the input is the same, one place to the right, with `<bos>` in front.

# %% kernel="shift_right"

# %% check="shift_right"

# %% [markdown]
# ## The loss: `masked_cross_entropy`
#
# Only real tokens count, and each counts the same. You may use `torch.log_softmax`.

# %% kernel="masked_cross_entropy"

# %% check="masked_cross_entropy"

# %% [markdown]
# **Predict, then run.** A model knows nothing: all its logits are zero. What is its loss in a vocabulary of 100 tokens?
# How does it change, if half of the places are padding?

# %%
target = torch.randint(1, 100, (4, 10), generator=generator)
half = torch.where(torch.arange(10) < 5, target, 0)
for name, tokens in (("no padding", target), ("half padding", half)):
    print(f"{name}: loss {masked_cross_entropy(torch.zeros(4, 10, 100), tokens, 0):.4f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# $\ln 100 = 4.6052$ in both cases. Each real token has probability one in a hundred, and padding is not counted.
#
# </details>

# %% [markdown]
# ## Translating: `greedy_decode`
#
# Nobody knows the right words now. So the decoder reads its own: the most probable token of each step is the input of
# the next. Every sentence goes on until it says `<eos>`, or until `max_length`.

# %% kernel="greedy_decode"

# %% check="greedy_decode"

# %% [markdown]
# ## A translator from your kernels
#
# `Translator` puts them together: your `encode` and `gru_cell` read the English sentence, forwards and backwards. The
# last states are the *context*. Your `gru_cell` writes French from it, with your `greedy_decode`. It is trained with
# your `shift_right` and `masked_cross_entropy`, on sentences of 3 to 8 words.
#
# **Predict, then run.** It takes some 40 seconds to train. How many of 200 new sentences will it get right to the
# last word? And how many of twice the length?

# %%
import dataclasses

from lab import parallel_corpus
from lab.translation import Kernels, Translator, say, train, translate

torch.set_num_threads(1)

yours = dataclasses.replace(
    Kernels.reference(),
    gru_cell=gru_cell,
    encode=encode,
    shift_right=shift_right,
    masked_cross_entropy=masked_cross_entropy,
    greedy_decode=greedy_decode,
)
pairs = parallel_corpus.corpus("french", train=10_000, test=200, lengths=(3, 8), longer=(9, 16))
torch.manual_seed(0)
translator = Translator(*parallel_corpus.vocabularies(pairs.train), attention=False, kernels=yours)
train(translator, pairs.train, steps=1000, progress=True)

for name, part in (("3 to 8 words", pairs.test), ("9 to 16 words", pairs.longer)):
    said = translate(translator, [pair.source for pair in part])
    right = sum(translation.words == pair.target for pair, translation in zip(part, said, strict=True))
    print(f"{name}: {right} of {len(part)} are right to the last word")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Some three quarters of the new sentences of up to 8 words, and hardly any of the longer ones. It never saw such
# lengths; but look in the book at what happens to a translator that did.
#
# </details>

# %% [markdown]
# ### Type a sentence
#
# Change the sentence, and run the cell again. The translator knows few words, and says so where it does not know one.
# Short sentences first. Then a longer one: which part of it is still right?

# %%
for sentence in ("the cat sees my father", "they do not drink this wine", "we want to run in the big street"):
    print(f"{sentence:35} {say(translator, sentence)}")

# %% [markdown]
# The next chapter, "Attention in the decoder", lets the decoder look back at every state of the encoder.
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
