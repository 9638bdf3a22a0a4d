# %% [markdown]
# # A pretrained encoder
#
# Nothing new is derived here. You put together what you wrote in the chapters before, load the weights of a real
# encoder that others trained on a billion pairs of sentences, get the numbers that it should give, and use it. Seven
# kernels:
#
# 1. `word_pieces`: how a text comes in.
# 2. `gelu` and `BertBlock`: one layer, which differs in two details from the block of 2017.
# 3. `mean_pool` and `SentenceEncoder`: from tokens to one vector for a text.
# 4. `rename_weights`: the weights of the file, under your names.
# 5. `most_similar`: what the vectors are good for.
#
# The checks need no trained weights. The experiments do: all-MiniLM-L6-v2, 84 MB, comes as a package. If it is missing,
# the cell that wants it says what to type.
#
# The chapter "A pretrained encoder" of the book explains all of it. Run the cells from top to bottom. Stuck? Add a cell
# and run `hint("BertBlock")` in it, with the name of your kernel.
#
# What you wrote in the chapters before is imported here. Paste your own into a cell below the first one, if you like.

# %% tags=["setup"]
import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from autograder import begin, check, hint
from autograder.reference.multi_head_attention import MultiHeadAttention
from autograder.reference.transformer import layer_norm

begin("pretrained_encoder", release="")

# %% [markdown]
# ## Words in pieces: `word_pieces`
#
# No list holds all words. So a rare word is cut into pieces that the list does hold: from left to right, each time the
# longest piece that fits. A piece that goes on with a word is marked by `##`. If nothing fits at some place, the whole
# word becomes `[UNK]`.

# %% kernel="word_pieces"

# %% check="word_pieces"

# %% [markdown]
# **Predict, then run.** Into which pieces will these words be cut? The vocabulary has 30,522 pieces, made from English
# text of 2018 and before.

# %%
from lab import minilm

vocabulary = minilm.vocabulary()
for word in ("attention", "attentions", "backpropagation", "unbelievable", "grothendieck", "softmax", "qzxv", "注"):
    print(f"{word:16}", word_pieces(word, vocabulary))

# %% [markdown]
# <details><summary>Answer</summary>
#
# Frequent words are one piece. The others are cut, and not always where a linguist would cut. Nearly every word can be
# cut somehow, since single letters are pieces too; a Chinese character that is not in the list cannot.
#
# </details>
#
# ## A smooth ramp: `gelu`
#
# The network of 2017 has the ramp $\max(0, x)$ between its two layers: it multiplies $x$ by 0 or by 1. GELU multiplies
# by something in between, the probability that a standard normal number $Z$ lies below $x$:
#
# $$
# \mathrm{GELU}(x) = x \cdot P(Z \le x), \qquad P(Z \le x) = \frac{1}{2} + \frac{1}{2}\,\mathrm{erf}\frac{x}{\sqrt 2} .
# $$

# %% kernel="gelu"

# %% check="gelu"

# %% [markdown]
# **Predict, then run.** Where does GELU fall, and how far below zero does it come? And how
# far off is the form with tanh?

# %%
x = torch.linspace(-4, 4, 8001, dtype=torch.float64)
y = gelu(x)
print(f"lowest: {y.min():.3f} at x = {x[y.argmin()]:.2f}")
print(f"largest distance from the ramp {(y - x.relu()).abs().max():.3f}")
print(f"largest distance from the form with tanh {(y - F.gelu(x, approximate='tanh')).abs().max():.5f}")

# %% [markdown]
# ## One layer: `BertBlock`
#
# Attention, residual, norm; network, residual, norm: the encoder's block that you know. Two details are others. GELU
# stands where the ramp was, and the norms add `eps` = 1e-12 to the variance instead of 1e-5. So `feed_forward` and
# `residual_add_norm` cannot be used as they are; `layer_norm` can, for it takes `eps`. Each of the block's norms
# carries its gain (`weight`), its shift (`bias`) and its `eps`.

# %% kernel="BertBlock"

# %% check="BertBlock"

# %% [markdown]
# **Predict, then run.** PyTorch's own layer has parameters of the same names. Load yours into it: do the two agree to
# 1e-3, to 1e-6 or to the last digit? And with the default `eps`?

# %%
torch.manual_seed(0)
block, x = BertBlock(d_model=48, num_heads=4, d_ff=96).eval(), torch.randn(5, 7, 48)
for eps in (1e-12, 1e-5, 1e-2):
    other = nn.TransformerEncoderLayer(48, 4, 96, activation="gelu", layer_norm_eps=eps, batch_first=True).eval()
    other.load_state_dict(block.state_dict())
    with torch.no_grad():
        print(f"eps {eps:5}: largest difference {(block(x) - other(x)).abs().max():.1e}")

# %% [markdown]
# ## One vector for a text: `mean_pool`
#
# Behind the last block each token has a vector. A text gets the mean of them, of the real ones only: texts of a batch
# have different lengths, and what stands on padding means nothing.

# %% kernel="mean_pool"

# %% check="mean_pool"

# %% [markdown]
# ## All of it: `SentenceEncoder`
#
# A token comes in as the sum of three vectors: of its piece, of its position, and of its *segment* (BERT reads pairs of
# texts; a single text is segment 0). Nothing is scaled, and the sum is normalised. Then come the blocks, the mean, and
# a division by the mean's length, so that a product of two results is a cosine.

# %% kernel="SentenceEncoder"

# %% check="SentenceEncoder"

# %% [markdown]
# ## The weights of the file: `rename_weights`
#
# Every library has names of its own. A file of BERT keeps queries, keys and values apart; your attention has them below
# each other in one matrix. A weight that is missing must be an error, and so must one that nobody uses: else a model
# loads that is half random, and nothing tells you.

# %% kernel="rename_weights"

# %% check="rename_weights"

# %% [markdown]
# **The moment.** Your encoder, with your names, on your pieces. The numbers beside it are those of the library
# `transformers`, which most people use. Of the 104 tensors of the file three are not
# needed; all others must find their place.

# %%
from lab import sentences

torch.set_num_threads(1)
encoder = sentences.trained_encoder(build=SentenceEncoder, rename_weights=rename_weights)
texts = list(sentences.FIRST_NUMBERS)
found = sentences.vectors(encoder, texts, vocabulary, word_pieces)
for text, vector in zip(texts, found, strict=True):
    wanted = torch.tensor(sentences.FIRST_NUMBERS[text])
    print(f"{(vector[:6] - wanted).abs().max():.1e}  {text}")
print(f"{sum(weight.numel() for weight in encoder.parameters()):,} parameters")

# %% [markdown]
# <details><summary>What you should see</summary>
#
# Differences below 1e-6: the wanted numbers are rounded to six places. If yours are near 1e-4, look at the form of
# GELU. The wrong `eps` makes some 2e-6, which is easily overlooked. Much more than that, and some weight is in the
# wrong place.
#
# </details>
#
# **Predict, then run.** Sentences from four fields, three from each. Which two are nearest? Which field does not hold
# together?

# %%
names = [name for name, group in sentences.GROUPS.items() for _ in group]
texts = [text for group in sentences.GROUPS.values() for text in group]
found = sentences.vectors(encoder, texts, vocabulary, word_pieces)
for name, text, row in zip(names, texts, found @ found.T, strict=True):
    print(f"{name:10}", " ".join(f"{value:5.2f}" for value in row), f" {text}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The two on the weather are nearest. The field that does not hold together is our own: what a decoder and a key have to
# do with each other was not in the texts that the model was trained on, or not often.
#
# </details>
#
# ## What the vectors are for: `most_similar`
#
# All cosines of a query with all texts, the largest first.

# %% kernel="most_similar"

# %% check="most_similar"

# %% [markdown]
# **Predict, then run.** A search in Python's own help. Hardly a word of the questions stands in the answers. (To read
# some hundred paragraphs takes some ten seconds.)

# %%
from lab import python_text

paragraphs = [text for text in python_text.paragraphs() if 60 < len(text) < 260][:400]
found = sentences.vectors(encoder, paragraphs, vocabulary, word_pieces)
questions = [
    "leave a loop early",
    "is this the same thing or only an equal one?",
    "what happens when something goes wrong",
]
indices, similarities = most_similar(sentences.vectors(encoder, questions, vocabulary, word_pieces), found, k=2)
for question, best, values in zip(questions, indices.tolist(), similarities.tolist(), strict=True):
    print(question)
    for number, value in zip(best, values, strict=True):
        print(f"    {value:.2f}  {paragraphs[number][:150]}")

# %% [markdown]
# **Predict, then run.** What is nearer to a sentence: its contrary, or the same thought in other words?

# %%
for sentence, contrary, same in sentences.CONTRARIES:
    one, other, like = sentences.vectors(encoder, [sentence, contrary, same], vocabulary, word_pieces)
    print(f"{one @ other:.2f}  {contrary:28} {one @ like:.2f}  {same:45} {sentence}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The contrary, each time. It is about the same thing, in the same words. "Near" means "about the same", not "true at
# the same time".
#
# </details>
#
# **To try.** Ask questions of your own, and texts of your own. Leave the padding in the mean, or swap queries and keys
# when you rename, and see how long it takes until you notice.
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
