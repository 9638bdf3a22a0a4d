"""Texts as vectors, by the weights of all-MiniLM-L6-v2 and by whoever wrote the encoder.

- ``numbered(texts, vocabulary)``: pieces as numbers, and which of them are real. ``word_pieces=`` for your own.
- ``trained_encoder()``: the course's encoder with the trained weights; ``build=`` and ``rename_weights=`` for your own.
- ``vectors(encoder, texts, vocabulary)``: one vector for each of many texts, in batches of like length.
- ``FIRST_NUMBERS``: how the vectors of a few sentences begin, computed by the library ``transformers``.
- ``GROUPS``: sentences of near meaning. ``PAIRS``: sentences and their paraphrases, beside what only sounds alike.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from autograder.reference import pretrained_encoder as reference
from lab import minilm

MAX_PIECES = 256  # of a text, as the model's authors set it; what is longer is cut off
SIZES = {
    "vocab_size": minilm.VOCAB_SIZE,
    "max_length": minilm.MAX_LENGTH,
    "d_model": minilm.D_MODEL,
    "num_heads": minilm.NUM_HEADS,
    "d_ff": minilm.D_FF,
    "num_layers": minilm.NUM_LAYERS,
    "eps": minilm.EPSILON,
}


def pieces(text: str, vocabulary: dict[str, int], word_pieces: Callable = reference.word_pieces) -> list[str]:
    """A text in pieces of the vocabulary, between ``[CLS]`` and ``[SEP]``, of which there are at most 256."""
    inner = [piece for word in minilm.words(text) for piece in word_pieces(word, vocabulary)]
    return ["[CLS]", *inner[: MAX_PIECES - 2], "[SEP]"]


def numbered(
    texts: Sequence[str], vocabulary: dict[str, int], word_pieces: Callable = reference.word_pieces
) -> tuple[Tensor, Tensor]:
    """The pieces of texts as numbers, one text in each row and padded, and True where a piece is real."""
    rows = [
        torch.tensor([vocabulary[piece] for piece in pieces(text, vocabulary, word_pieces)], dtype=torch.long)
        for text in texts
    ]
    tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=vocabulary["[PAD]"])
    lengths = torch.tensor([len(row) for row in rows])
    return tokens, torch.arange(tokens.shape[1]) < lengths[:, None]


def trained_encoder(
    build: Callable[..., nn.Module] = reference.SentenceEncoder,
    rename_weights: Callable = reference.rename_weights,
) -> nn.Module:
    """An encoder of the trained model's sizes, with its weights.

    Raises
    ------
    ModuleNotFoundError
        If the package with the weights is not installed; the message says how to install it.
    """
    encoder = build(**SIZES).eval()
    encoder.load_state_dict(rename_weights(minilm.stored_weights(), minilm.NUM_LAYERS))
    return encoder


@torch.no_grad()
def vectors(
    encoder: nn.Module,
    texts: Sequence[str],
    vocabulary: dict[str, int],
    word_pieces: Callable = reference.word_pieces,
    batch: int = 16,
) -> Tensor:
    """One vector for each text, in their order. Texts of like length are read together, so that little is padding."""
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    found = torch.empty(len(texts), encoder.words.embedding_dim)
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        found[rows] = encoder(*numbered([texts[row] for row in rows], vocabulary, word_pieces))
    return found


# The first numbers of each vector, by transformers 5.24 (`BertModel`) and tokenizers 0.23 with the same files.
FIRST_NUMBERS = {
    "The weather is lovely today.": (0.019196, 0.120085, 0.159598, 0.067066, 0.050075, -0.025919),
    "It is so sunny outside!": (-0.010078, 0.053021, 0.071430, 0.072256, 0.068593, -0.014675),
    "He drove to the stadium.": (0.136502, 0.082273, -0.025262, 0.030451, 0.053312, 0.050809),
    "A dog ate the food because it was hungry.": (0.009574, 0.063395, 0.050223, 0.126469, -0.070699, 0.025226),
    "Attention is all you need.": (0.071077, -0.014153, -0.013098, -0.038780, 0.047926, 0.067854),
    "Hello": (-0.062772, 0.054959, 0.052165, 0.085790, -0.082749, -0.074573),
}

GROUPS = {
    "weather": ("The weather is lovely today.", "It is so sunny outside!", "Not a cloud in the sky this morning."),
    "sport": (
        "He drove to the stadium.",
        "They lost in the last minute.",
        "Our team plays at home on Sunday.",
    ),
    "cooking": ("Fry the onions in butter.", "The soup needs more salt.", "Bake the bread for half an hour."),
    "attention": (
        "Each query looks at all keys.",
        "The decoder chooses which source words to read.",
        "Weights over the tokens sum to one.",
    ),
}

# A sentence; the same thought in other words; another thought in the same words.
PAIRS = (
    ("The children are playing in the garden.", "Kids have fun outdoors.", "The children are sleeping in the house."),
    ("He bought a new car last week.", "A few days ago he purchased a vehicle.", "He washed his old car last week."),
    (
        "The film was so dull that I fell asleep.",
        "I dozed off in a boring movie.",
        "The film was so loud that I left.",
    ),
    ("She is afraid of dogs.", "Canines frighten her.", "She is fond of dogs."),
    ("The shop closes at six.", "You cannot buy anything there in the evening.", "The shop opens a new branch."),
    (
        "My grandfather died last year.",
        "I lost my mother's father months ago.",
        "My grandfather moved last year.",
    ),
    (
        "The train was late because of the snow.",
        "Winter delayed the railway.",
        "The train was full because of the match.",
    ),
    ("Please turn off the light.", "Make the room dark.", "Please turn off at the next street."),
    (
        "The doctor told him to stop smoking.",
        "A physician said: no more cigarettes.",
        "The doctor told him to start walking.",
    ),
    ("This exercise is too hard for me.", "I cannot solve the problem.", "This chair is too hard for me."),
    ("The bank lent us money for the house.", "We took out a mortgage.", "We sat on the bank behind the house."),
    ("The river flooded the village.", "Houses stood under water.", "The river passes the village."),
    ("The team won the final.", "They are the champions.", "The team moved to the final."),
    ("Nobody answered the phone.", "I called, but no one picked up.", "Nobody repaired the phone."),
    ("Prices are rising quickly.", "Everything is getting more expensive.", "Balloons are rising quickly."),
    ("He speaks three languages fluently.", "He is a polyglot.", "He repeats three sentences slowly."),
)

# A sentence and its contrary; a sentence that says the same as the first.
CONTRARIES = (
    ("It rains.", "It does not rain.", "Water falls from the sky."),
    ("The model is accurate.", "The model is not accurate.", "The predictions are nearly always right."),
    ("I like this book.", "I do not like this book.", "This novel pleases me."),
    ("The train stops here.", "The train does not stop here.", "You can get on the train at this place."),
    ("All students passed.", "No student passed.", "Nobody failed the exam."),
    ("Prices will rise.", "Prices will fall.", "Things are going to cost more."),
)
