"""The course's parallel corpus: English sentences with their French or Italian translations and gold word alignments.

A synchronous grammar makes both sentences of a pair from one tree, so that it knows which words stand for which. All is
drawn from a seed; nothing is downloaded.

- ``draw_pairs(language, number, seed, lengths)``: pairs with source lengths from a range.
- ``corpus(language)``: training, validation and test pairs, and two harder tests: ``longer`` sentences, and
  ``new_pairs`` of an adjective and a noun that training never shows together.
- ``Pair(source, target, alignment)``: words, words, and the set of links (target index, source index).
- ``Vocabulary``: words and their numbers; 0 is ``<pad>``, 1 ``<bos>``, 2 ``<eos>``, 3 ``<unk>``. Its ``read(text)``
  takes what one types, and names the words that it does not know.
- ``batch(pairs, source_vocabulary, target_vocabulary)``: padded tensors.
- ``tokenize(text)`` and ``join(words)``: from what one types to words, and back.
"""

from .data import (
    BOS,
    EOS,
    PAD,
    SPECIAL,
    UNK,
    Batch,
    Pair,
    Splits,
    UnknownWords,
    Vocabulary,
    batch,
    corpus,
    draw_pairs,
    join,
    pad,
    pair_of,
    tokenize,
    vocabularies,
)

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIAL",
    "UNK",
    "Batch",
    "Pair",
    "Splits",
    "UnknownWords",
    "Vocabulary",
    "batch",
    "corpus",
    "draw_pairs",
    "join",
    "pad",
    "pair_of",
    "tokenize",
    "vocabularies",
]
