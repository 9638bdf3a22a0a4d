"""Texts as vectors, with the trained weights."""

import pytest
import torch

from lab import minilm, search, sentences

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def vocabulary():
    return minilm.vocabulary()


@pytest.fixture(scope="module")
def encoder():
    return sentences.trained_encoder()


def test_vectors_are_those_of_the_library_transformers(encoder, vocabulary):
    found = sentences.vectors(encoder, list(sentences.FIRST_NUMBERS), vocabulary)
    wanted = torch.tensor(list(sentences.FIRST_NUMBERS.values()))
    torch.testing.assert_close(found[:, : wanted.shape[1]], wanted, rtol=0, atol=5e-6)


@torch.no_grad()
def test_states_are_those_of_the_plain_encoder_of_the_course(encoder, vocabulary):
    """`lab.minilm` has the same model in other words, without the kernels."""
    text = "A dog ate the food because it was hungry."
    reading = minilm.load()(text)
    tokens, key_mask = sentences.numbered([text], vocabulary)
    assert sentences.pieces(text, vocabulary) == reading.pieces
    torch.testing.assert_close(encoder.states(tokens, key_mask)[0], reading.states[-1], rtol=1e-4, atol=2e-5)


def test_batches_and_padding_change_no_vector(encoder, vocabulary):
    texts = [sentence for group in sentences.PAIRS[:4] for sentence in group]
    found = sentences.vectors(encoder, texts, vocabulary, batch=5)
    alone = torch.cat([sentences.vectors(encoder, [text], vocabulary) for text in texts])
    torch.testing.assert_close(found, alone, rtol=0, atol=1e-5)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(len(texts)))


def test_pieces_are_padded_and_cut_off(vocabulary):
    tokens, key_mask = sentences.numbered(["dog", "dog " * 600], vocabulary)
    assert tokens.shape == key_mask.shape == (2, sentences.MAX_PIECES)
    assert key_mask.sum(1).tolist() == [3, sentences.MAX_PIECES]
    assert tokens[0, :4].tolist() == [vocabulary[piece] for piece in ("[CLS]", "dog", "[SEP]", "[PAD]")]
    assert tokens[1, -1] == vocabulary["[SEP]"]


def test_your_own_kernels_are_used(vocabulary):
    cut = []

    def word_pieces(word, vocabulary):
        cut.append(word)
        return ["dog"]

    assert sentences.pieces("A cat", vocabulary, word_pieces) == ["[CLS]", "dog", "dog", "[SEP]"]
    assert cut == ["a", "cat"]
    with pytest.raises(RuntimeError, match="Missing key"):
        sentences.trained_encoder(rename_weights=lambda stored, num_layers: {})


@pytest.mark.slow
def test_paragraphs_are_read_page_by_page(encoder, vocabulary):
    found, vectors = search.read(["getting_started", "decoding"])
    assert {paragraph.page for paragraph in found} == {"getting_started", "decoding"}
    assert len(found) == len(vectors)
    few = [0, len(found) // 2, -1]
    alone = sentences.vectors(encoder, [found[place].text for place in few], vocabulary)
    torch.testing.assert_close(vectors[few], alone, rtol=0, atol=1e-5)


def test_recall_counts_pages_among_the_first():
    found = [["a", "b", "c"], ["c", "c", "a"], ["b", "b", "b"]]
    assert [search.recall("aaa", found, k) for k in (1, 2, 3)] == pytest.approx([1 / 3, 1 / 3, 2 / 3])


def test_words_in_common_are_similar():
    similarities = search.word_similarities(["green apples"], ["Red apples.", "A green apple tree.", "Blue sky."])
    assert similarities.shape == (1, 3)
    assert similarities[0, 2] == 0 < similarities[0, :2].min()
