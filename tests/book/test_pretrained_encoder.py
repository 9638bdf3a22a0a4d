"""What the page "A pretrained encoder" says in words, on the data that it plots."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.checks import pretrained_encoder as checks
from autograder.reference.pretrained_encoder import (
    SentenceEncoder,
    gelu,
    mean_pool,
    most_similar,
    rename_weights,
    word_pieces,
)
from lab import minilm, paragraphs, search, sentences
from lab.parallel_corpus import vocabularies
from lab.translation import corpus

torch.set_num_threads(1)


def known(check, id):
    return next(mistake.kernel for mistake in check.mistakes if mistake.id == id)


@pytest.fixture(scope="module")
def vocabulary():
    return minilm.vocabulary()


@pytest.fixture(scope="module")
def stored():
    return minilm.stored_weights()


@pytest.fixture(scope="module")
def encoder():
    return sentences.trained_encoder()


@pytest.fixture(scope="module")
def read():
    """The paragraphs of the chapters before, and their vectors."""
    return search.read(paragraphs.chapters("pretrained_encoder"))


@pytest.fixture(scope="module")
def encoders(encoder, stored):
    """The right encoder, and those with one fault each."""
    sizes = minilm.D_MODEL, minilm.NUM_HEADS, minilm.D_FF
    made = {"right": encoder}
    for name, id in (
        ("eps", "bert-block-eps-of-2017"),
        ("tanh", "bert-block-gelu-tanh"),
        ("ramp", "bert-block-ramp"),
    ):
        made[name] = SentenceEncoder(**sentences.SIZES)
        kernel = known(checks.BertBlock, id)
        made[name].blocks = nn.ModuleList(kernel(*sizes) for _ in range(minilm.NUM_LAYERS))
        made[name].load_state_dict(encoder.state_dict())
    made["swapped"] = SentenceEncoder(**sentences.SIZES)
    swap = known(checks.rename_weights, "rename-query-and-key-swapped")
    made["swapped"].load_state_dict(swap(stored, minilm.NUM_LAYERS))
    made["shifted"] = known(checks.SentenceEncoder, "encoder-positions-from-one")(**sentences.SIZES)
    made["shifted"].load_state_dict(encoder.state_dict())
    return made


@pytest.fixture(scope="module")
def columns(encoder, vocabulary):
    """Vectors of the sentences, of their paraphrases, and of what only sounds alike."""
    return [sentences.vectors(encoder, list(column), vocabulary) for column in zip(*sentences.PAIRS, strict=True)]


def found_by(similarities):
    return (similarities.argmax(-1) == torch.arange(len(similarities))).sum().item()


@pytest.mark.slow
def test_the_translator_knows_few_words_and_the_pieces_all(read, vocabulary):
    book, _ = read
    english, _ = vocabularies(corpus("french").train)
    words = [word for paragraph in book for word in minilm.words(paragraph.text) if word.isascii() and word.isalpha()]
    assert 250 < len(english.words) < 400
    assert 0.25 < np.mean([word in english for word in words]) < 0.45
    assert np.mean([word in english for word in set(words)]) < 0.12
    cut = {word: word_pieces(word, vocabulary) for word in set(words)}
    assert not [word for word, pieces in cut.items() if pieces == ["[UNK]"]]
    assert np.mean([len(cut[word]) == 1 for word in words]) > 0.9
    assert word_pieces("词", vocabulary) == ["[UNK]"]


def test_more_than_half_of_the_parameters_are_the_table_of_pieces(stored):
    numbers = {name: weight.numel() for name, weight in stored.items() if name != "embeddings.position_ids"}
    assert len(stored) == 104
    assert sum(numbers.values()) == 22_713_216
    assert numbers["embeddings.word_embeddings.weight"] == 11_720_448
    renamed = rename_weights(stored, minilm.NUM_LAYERS)
    pooler = sum(number for name, number in numbers.items() if name.startswith("pooler."))
    assert sum(weight.numel() for weight in renamed.values()) == 22_713_216 - pooler


def test_gelu_dips_a_little_and_its_other_form_is_near():
    x = torch.linspace(-4, 4, 801, dtype=torch.float64)
    assert -0.18 < gelu(x).min() < -0.16
    gap = (F.gelu(x, approximate="tanh") - gelu(x)).abs()
    assert 4e-4 < gap.max() < 5e-4


@torch.no_grad()
def test_each_fault_begins_where_the_page_says_and_is_as_large(encoders, vocabulary):
    texts = [sentence for sentence, _, _ in sentences.PAIRS]
    tokens, key_mask = sentences.numbered(texts, vocabulary)
    right = encoders["right"]
    x = right.words(tokens) + right.positions.weight[: tokens.shape[1]] + right.segments.weight[0]
    oracle = [F.layer_norm(x, x.shape[-1:], right.norm.weight, right.norm.bias, minilm.EPSILON)]
    for block in right.blocks:
        options = {"activation": "gelu", "layer_norm_eps": minilm.EPSILON, "batch_first": True}
        layer = nn.TransformerEncoderLayer(minilm.D_MODEL, minilm.NUM_HEADS, minilm.D_FF, **options).eval()
        layer.load_state_dict(block.state_dict())
        oracle.append(layer(oracle[-1], src_key_padding_mask=~key_mask))
    differences = {}
    for name, model in encoders.items():
        states = [model.embed(tokens)]
        for block in model.blocks:
            states.append(block(states[-1], key_mask))
        differences[name] = [
            (mine - its)[key_mask].abs().max().item() for mine, its in zip(states, oracle, strict=True)
        ]
    assert max(differences["right"]) < 3e-5
    assert 2e-5 < differences["eps"][-1] < 5e-4
    assert 1e-3 < differences["tanh"][-1] < 1e-2
    assert all(differences[name][-1] > 0.5 for name in ("ramp", "swapped", "shifted"))
    assert all(differences[name][0] < 1e-5 for name in ("right", "tanh", "ramp", "swapped"))
    assert differences["shifted"][0] > 0.5


@torch.no_grad()
def test_the_mean_finds_paraphrases_and_words_do_not(encoder, vocabulary, columns):
    first, same, _ = (list(column) for column in zip(*sentences.PAIRS, strict=True))
    by_mean = found_by(columns[0] @ columns[1].T)
    assert by_mean >= 15

    def pooled(texts, how):
        tokens, key_mask = sentences.numbered(texts, vocabulary)
        return F.normalize(how(tokens, key_mask), dim=-1)

    def of_marks(tokens, key_mask):
        return encoder.states(tokens, key_mask)[:, 0]

    def of_embeddings(tokens, key_mask):
        return mean_pool(encoder.words(tokens), key_mask)

    by_marks, by_embeddings = (found_by(pooled(first, how) @ pooled(same, how).T) for how in (of_marks, of_embeddings))
    assert by_mean >= by_marks >= 12
    assert by_embeddings <= by_mean - 4
    assert found_by(search.word_similarities(first, same)) <= 4


def test_groups_hold_together_but_for_our_own_subject(encoder, vocabulary):
    texts = [text for group in sentences.GROUPS.values() for text in group]
    vectors = sentences.vectors(encoder, texts, vocabulary)
    between = (vectors @ vectors.T).numpy()
    inside = {
        name: between[3 * i : 3 * i + 3, 3 * i : 3 * i + 3][np.triu_indices(3, 1)].mean()
        for i, name in enumerate(sentences.GROUPS)
    }
    groups = np.repeat(np.arange(4), 3)
    across = between[groups[:, None] != groups].mean()
    assert inside["weather"] > 0.45
    assert inside["attention"] < 0.2
    assert min(inside, key=inside.get) == "attention"
    assert across < 0.1


@pytest.mark.slow
def test_the_encoder_finds_more_pages_than_words_in_common(encoder, vocabulary, read):
    book, answers = read
    assert set(search.QUERIES.values()) <= {paragraph.page for paragraph in book}
    queries, pages = list(search.QUERIES), list(search.QUERIES.values())
    texts = [paragraph.text for paragraph in book]
    by_meaning, _ = most_similar(sentences.vectors(encoder, queries, vocabulary), answers, k=10)
    by_words = search.word_similarities(queries, texts).sort(dim=-1, descending=True, stable=True).indices[:, :10]
    meaning, words = (
        [search.recall(pages, [[book[i].page for i in row] for row in rows.tolist()], k) for k in range(1, 11)]
        for rows in (by_meaning, by_words)
    )
    assert 0.45 < meaning[0] < 0.8
    assert meaning[0] > words[0] + 0.15
    assert meaning[2] > 0.7
    assert meaning[2] > words[2]
    assert min(meaning[9], words[9]) > 0.85


def test_small_faults_change_no_result(encoders, columns, vocabulary):
    first, same, _ = (list(column) for column in zip(*sentences.PAIRS, strict=True))
    right = torch.cat(columns[:2])
    least, finds = {}, {}
    for name, model in encoders.items():
        vectors = sentences.vectors(model.eval(), first + same, vocabulary)
        least[name] = (vectors * right).sum(-1).min().item()
        finds[name] = found_by(vectors[: len(first)] @ vectors[len(first) :].T)
    assert min(least["eps"], least["tanh"]) > 0.9999
    assert finds["eps"] == finds["tanh"] == finds["right"]
    assert least["ramp"] < 0.8
    assert finds["ramp"] >= 13
    assert finds["shifted"] >= 14
    assert finds["swapped"] <= 8


@torch.no_grad()
def test_padding_moves_a_vector_that_is_not_masked(encoder, vocabulary):
    tokens, _ = sentences.numbered(["The train was late because of the snow."], vocabulary)
    alone = encoder(tokens)[0]
    filled = F.pad(tokens, (0, 100), value=vocabulary["[PAD]"])
    assert encoder(filled)[0] @ alone < 0.6
    masked = encoder(filled, torch.arange(filled.shape[1])[None] < tokens.shape[1])[0]
    torch.testing.assert_close(masked, alone, rtol=0, atol=1e-5)


def test_the_end_of_a_long_text_is_not_read(encoder, vocabulary):
    beginning = "The trial lasted for several weeks, and many witnesses were heard. " * 30
    texts = [beginning + "He was found guilty.", beginning + "He went free."]
    guilty, free = (sentences.numbered([text], vocabulary)[0] for text in texts)
    assert torch.equal(guilty, free)


def test_contraries_are_nearer_than_the_same_thought(encoder, vocabulary):
    one, contrary, other = (
        sentences.vectors(encoder, list(column), vocabulary) for column in zip(*sentences.CONTRARIES, strict=True)
    )
    assert ((one * contrary).sum(-1) > (one * other).sum(-1) + 0.04).all()


def test_words_in_common_pull_paraphrases_away(columns):
    first, same, alike = columns
    wins = ((first * same).sum(-1) > (first * alike).sum(-1)).sum()
    assert 4 <= wins <= 10
