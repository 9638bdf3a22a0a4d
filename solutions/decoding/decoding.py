# %% [markdown]
# # Decoding
#
# A trained model gives probabilities of the next word. It does not say a sentence yet. Here you write what stands
# before and after such a model, in seven kernels.
#
# 1. `teacher_forcing_batch` and `scheduled_sampling`: what the decoder reads while it trains.
# 2. `greedy_search` and `beam_search`: a sentence, one word after the other.
# 3. `nat_decode_by_length`, `nat_decode_until_eos` and `length_predictor_loss`: a sentence, all words at once.
#
# The chapter "Decoding" of the book measures what each is good for. At the end you train a small translator and
# search for its best translation of sentences that you type.
#
# Run the cells from top to bottom. Stuck? Add a cell and run `hint("beam_search")` in it, with the name of your kernel.

# %% tags=["setup"]
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from autograder import begin, check, hint

begin("decoding", release="")

# %% [markdown]
# ## What the decoder reads, and what it should say: `teacher_forcing_batch`
#
# While it trains, the decoder reads the *right* words before each place. Its input begins with `<bos>`. At each place
# it should say the next word, and at the last one `<eos>`. Sentences of different lengths are filled up with padding,
# and a mask says which places count.

# %% kernel="teacher_forcing_batch"

# %% check="teacher_forcing_batch"

# %% [markdown]
# **Predict, then run.** Many models have no token of their own for padding, and fill up with `<eos>`. Then someone
# makes the mask by `target != eos`. What does the model never learn?

# %%
eos = 2
_, target, mask = teacher_forcing_batch([[5, 6, 7], [8]], 1, eos, eos)
print("target           ", target.tolist())
print("counted by mask  ", target[mask].tolist())
print("counted by != eos", target[target != eos].tolist())

# %% [markdown]
# <details><summary>Answer</summary>
#
# To stop. No `<eos>` is left in the loss, so nothing ever asks for one.
#
# </details>

# %% [markdown]
# ## Some words of its own: `scheduled_sampling`
#
# When it is used, the decoder reads its own words, not the right ones. So let it meet some of its own while it trains.
# A first pass has made a guess at each place. Now mix: each word of the input stays, or the guess *at that word* takes
# its place. The random numbers are given to you; draw none.

# %% kernel="scheduled_sampling"

# %% check="scheduled_sampling"

# %% [markdown]
# ## One word after the other: `greedy_search`
#
# The model is a function of all that was said so far. It has no state: each step shows it the whole prefix again. That
# is what a Transformer wants, and what a search wants that goes on from many prefixes. `max(dim=-1)` of a tensor gives
# the largest numbers and their places at once.

# %% kernel="greedy_search"

# %% check="greedy_search"

# %% [markdown]
# ## The best sentence, as far as one can see: `beam_search`
#
# The most probable first word need not begin the most probable sentence. A *beam* keeps several hypotheses alive. At
# each step all their continuations compete, and the best `beam_size` of all are kept. The log-probability of a
# hypothesis is a sum, and longer sums are lower. So hypotheses of different lengths are compared by
#
# $$\text{score}(y) = \frac{\log p(y)}{|y|^{\alpha}} ,$$
#
# where $|y|$ counts all tokens that were said, `<eos>` too.

# %% kernel="beam_search"

# %% check="beam_search"

# %% [markdown]
# **Predict, then run.** A model thinks that a sentence of ten words, each with probability 0.9, is right; but with
# probability 0.4 it says nothing at all. Which of the two wins with $\alpha = 0$, and from which $\alpha$ on does the
# other one?

# %%
bos, word, eos = 0, 1, 2


def stays_silent_or_talks(prefix):
    first, later, last = ([0.0, 0.6, 0.4], [0.0, 0.9, 0.1], [0.0, 0.1, 0.9])
    length = prefix.shape[1]
    return torch.tensor([first if length == 1 else last if length > 10 else later]).log().expand(len(prefix), 3)


for alpha in (0.0, 0.1, 0.2, 0.3, 0.5, 1.0):
    tokens, score = beam_search(stays_silent_or_talks, bos, eos, 3, 12, alpha)
    print(f"alpha {alpha}: {len(tokens):2} tokens, score {score:.3f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Silence has log-probability $\ln 0.4 = -0.92$. The long sentence has $\ln 0.6 + 10 \ln 0.9 = -1.56$, and 11 tokens. So
# it wins as soon as $11^{\alpha} > 1.56 / 0.92$, from $\alpha = 0.22$ on.
#
# </details>

# %% [markdown]
# ## All words at once, when the length is known: `nat_decode_by_length`
#
# A non-autoregressive decoder says all words in one step. It must know how many there are. One way is to predict the
# length first.

# %% kernel="nat_decode_by_length"

# %% check="nat_decode_by_length"

# %% [markdown]
# ## All words at once, and more than needed: `nat_decode_until_eos`
#
# The other way is to say a word at more places than any sentence needs, and to cut at the first `<eos>`.

# %% kernel="nat_decode_until_eos"

# %% check="nat_decode_until_eos"

# %% [markdown]
# ## Learning the length: `length_predictor_loss`
#
# A length is a class like any other. You may use `torch.log_softmax`.

# %% kernel="length_predictor_loss"

# %% check="length_predictor_loss"

# %% [markdown]
# **Predict, then run.** French says "tu" or "vous" to "you", and a sentence must stay with one of them. A model saw
# both equally often, and now it says all words at once. How many of 500 sentences mix the two? It takes some 10 seconds
# to train.

# %%
from lab import two_answers
from lab.two_answers import EOS, HIDDEN, LONGEST, PAD

torch.set_num_threads(1)
model = two_answers.trained_all_at_once()
sentences = two_answers.encode(two_answers.draw_pairs(500, seed=1))
with torch.no_grad():
    memory = model.encode(sentences.source)
    lengths = model.length_logits(sentences.source, memory)
    by_length = nat_decode_by_length(lengths, model.emitter(sentences.source, memory), PAD)
    places = torch.full((500, LONGEST + 1), HIDDEN)
    until_eos = nat_decode_until_eos(model(sentences.source, memory, places), EOS, PAD)

for name, said in (("by length", by_length), ("until <eos>", until_eos)):
    found = two_answers.verdicts(said, sentences.answers)
    print(f"{name:12} {int(found['right'].sum()):3} right, {int(found['mixed'].sum()):3} mixed")
    print(*(f"    {two_answers.words(said[row])}" for row in (1, 2, 3)), sep="\n")

# %% [markdown]
# <details><summary>Answer</summary>
#
# About half of them, or more. Every word is right by itself, and no word knows which of the two the others chose.
#
# </details>

# %% [markdown]
# ## Search for translations
#
# A small Transformer learns to translate English sentences of 3 to 8 words, with your `teacher_forcing_batch`. It takes
# some 10 seconds. Then your searches look for its best translation.
#
# **Predict, then run.** Of 100 new sentences, how many more does a beam of 4 get right than greedy search? And of how
# many does it find a more probable translation?

# %%
from lab import exposure
from lab.parallel_corpus import BOS, EOS, PAD, vocabularies

torch.manual_seed(0)
translator = exposure.SmallTranslator(*vocabularies(exposure.corpus().train))
exposure.train(translator, exposure.corpus().train, teacher_forcing_batch=teacher_forcing_batch, progress=True)


def greedily(words):
    start = torch.tensor([BOS])
    tokens, log_probs = greedy_search(translator.next_log_probs([words]), start, EOS, PAD, exposure.MAX_LENGTH)
    return tokens[0], log_probs[0]


def with_a_beam(words, beam_size=4, alpha=0.0):
    return beam_search(translator.next_log_probs([words]), BOS, EOS, beam_size, exposure.MAX_LENGTH, alpha)


pairs = exposure.corpus().test[:100]
greedy, beam = ([search(pair.source) for pair in pairs] for search in (greedily, with_a_beam))
for name, found in (("greedy", greedy), ("beam of 4", beam)):
    right = sum(
        tuple(translator.target_vocabulary.decode(said)) == pair.target
        for pair, (said, _) in zip(pairs, found, strict=True)
    )
    print(f"{name:10} {right} of {len(pairs)} right to the last word")
better = sum(bool(one[1] > other[1] + 1e-4) for one, other in zip(beam, greedy, strict=True))
print(f"{better} translations of the beam are more probable")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Few. This model is nearly always sure of the next word, so the most probable words make the most probable sentence.
# Where the beam finds a more probable one, that one need not be right: what is left is mostly not the search's fault.
#
# </details>

# %% [markdown]
# ### Type a sentence
#
# Change the sentence, the beam and $\alpha$, and run the cell again. The translator knows few words, and says so where
# it does not know one. Can you find a sentence for which the beam says something else than greedy search?

# %%
for text in ("the cat sees my father", "they do not drink this wine", "we want to run in the big street"):
    words = translator.source_vocabulary.read(text)
    print(text)
    for name, (said, log_prob) in {"greedy": greedily(words), "beam": with_a_beam(words, 8)}.items():
        print(f"  {name:7} {log_prob:7.3f}  {translator.text(said)}")

# %% [markdown]
# The next chapter writes text with a model that has no source sentence, and draws its words at random.
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
