"""Searching the book: questions with the page that answers them, and how many find it.

- ``QUERIES``: each with the page on which the answer stands, written down before the first search.
- ``read(stems)``: the paragraphs of pages and their vectors, which are kept as trained models are.
- ``word_similarities(queries, texts)``: the baseline, which compares words by TF-IDF.
- ``recall(pages, found, k)``: the share of questions whose page is among those of the first ``k`` results.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lab import minilm, sentences
from lab.paragraphs import Paragraph, paragraphs
from lab.trained import trained_once

QUERIES = {
    "How do I hand in my notebook and get a grade?": "getting_started",
    "my function gives nan when the inputs are very large": "getting_started",
    "What can I do when I am stuck on an exercise?": "getting_started",
    "Why do we need hidden layers instead of a linear classifier?": "multilayer_perceptron",
    "how should I choose the step size so that training does not blow up": "multilayer_perceptron",
    "checking a hand-written gradient with small differences": "multilayer_perceptron",
    "Why does a fixed-size summary of a sentence hurt long translations?": "rnn_encoder_decoder",
    "stop updating the memory after the last real word of a padded sentence": "rnn_encoder_decoder",
    "how do gates help a recurrent network remember?": "rnn_encoder_decoder",
    "Which source word does the translator look at when it writes a word?": "rnn_attention",
    "Do attention weights agree with word alignments made by people?": "rnn_attention",
    "Why are the scores divided by the square root of the width?": "attention_layer",
    "questions from one sequence, answers from another": "attention_layer",
    "derive the backward pass of attention by hand": "attention_layer",
    "a network that cannot tell the order of its words": "self_attention",
    "sine and cosine waves that say where a word stands": "self_attention",
    "keep a token from seeing what comes later": "self_attention",
    "Are several small attentions better than one large?": "multi_head_attention",
    "which heads can be removed without harm": "multi_head_attention",
    "cost of recurrence, convolution and attention as sequences grow": "multi_head_attention",
    "raise the learning rate slowly at first": "transformer",
    "Why add the input of a layer to its output?": "transformer",
    "do not be too sure of the right word: soften the targets": "transformer",
    "keeping several half-finished translations at once": "decoding",
    "writing all words in a single step": "decoding",
    "the model meets its own mistakes only when it is used": "decoding",
    "remember keys and values so that nothing is computed twice": "language_model",
    "make the generated text more daring or more careful": "language_model",
    "How does a model copy a pattern that it has seen earlier in the text?": "language_model",
    "how surprised is the model by new text": "language_model",
}


class _Table(nn.Module):
    """Vectors of texts, in the form in which `trained_once` keeps what it was given."""

    def __init__(self, texts: Sequence[str]):
        super().__init__()
        self.register_buffer("vectors", torch.zeros(len(texts), minilm.D_MODEL))


def _fill(table: _Table, texts: Sequence[str]) -> None:
    table.vectors.copy_(sentences.vectors(_encoder(), texts, minilm.vocabulary()))


_encoder = functools.cache(sentences.trained_encoder)


def read(stems: Sequence[str]) -> tuple[list[Paragraph], Tensor]:
    """The paragraphs of pages and a vector for each. Only pages whose prose is new are read by the encoder."""
    found = {stem: paragraphs(stem) for stem in stems}
    tables = [
        trained_once(_Table, _fill, texts=[paragraph.text for paragraph in of_page])[0] for of_page in found.values()
    ]
    return sum(found.values(), []), torch.cat([table.vectors for table in tables])


def word_similarities(queries: Sequence[str], texts: Sequence[str]) -> Tensor:
    """Cosines of TF-IDF vectors, one row for each query: words in common count, rare ones more."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(stop_words="english", sublinear_tf=True)
    of_texts = vectorizer.fit_transform(texts)
    return torch.from_numpy((vectorizer.transform(queries) @ of_texts.T).toarray())


def recall(pages: Sequence[str], found: Sequence[Sequence[str]], k: int) -> float:
    """The share of queries whose page is among the pages of the first ``k`` results."""
    return sum(page in results[:k] for page, results in zip(pages, found, strict=True)) / len(pages)
