"""English sentences that have two right translations: French says "tu" or "vous" to "you", and must stay with it.

- ``draw_pairs(number, seed)``: sentences with both translations, which are equally long.
- ``encode(pairs)``: the same as tensors; ``SOURCE_WORDS`` and ``TARGET_WORDS`` are the vocabularies.
- ``verdicts(said, pairs)``: which translations are right, and which mix the two.
- ``OneByOne``: a Transformer that says one word after the other. ``AllAtOnce``: a model that fills in all hidden words
  of a translation in one step, and predicts its length.
- ``trained_one_by_one()``, ``trained_all_at_once()``: both, trained once for page and tests.
- ``refine(model, source, steps)``: translate in a fixed number of steps, the surest words first.
- ``with_noise(log_probs, generator)``: makes the most probable word a word that is drawn.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.decoding import length_predictor_loss, teacher_forcing_batch
from autograder.reference.self_attention import sinusoidal_positions
from autograder.reference.transformer import EncoderBlock, Transformer
from lab.trained import trained_once
from lab.training import fit

PAD, BOS, EOS, HIDDEN = range(4)
SPECIAL = ("<pad>", "<bos>", "<eos>", "<hidden>")

# Each with its form for "tu" and for "vous".
VERBS = {
    "see": ("vois", "voyez"),
    "sell": ("vends", "vendez"),
    "find": ("trouves", "trouvez"),
    "lose": ("perds", "perdez"),
    "paint": ("peins", "peignez"),
    "want": ("veux", "voulez"),
    "show": ("montres", "montrez"),
    "clean": ("nettoies", "nettoyez"),
    "repair": ("répares", "réparez"),
    "take": ("prends", "prenez"),
}
POSSESSIVES = {"m": ("ton", "votre"), "f": ("ta", "votre"), "plural": ("tes", "vos")}
NOUNS = {
    "house": ("maison", "f"),
    "car": ("voiture", "f"),
    "table": ("table", "f"),
    "lamp": ("lampe", "f"),
    "bed": ("lit", "m"),
    "bag": ("sac", "m"),
    "boat": ("bateau", "m"),
    "coat": ("manteau", "m"),
    "keys": ("clés", "plural"),
    "shoes": ("chaussures", "plural"),
    "gloves": ("gants", "plural"),
    "chairs": ("chaises", "plural"),
}
ADJECTIVES = {"pink": "rose", "yellow": "jaune", "fragile": "fragile", "magnificent": "magnifique"}
JOINTS = {"and": "et", "but": "mais"}
ENDINGS = {"": "", "today": "aujourd'hui", "again": "de nouveau"}


@dataclass(frozen=True)
class Pair:
    """A sentence, and its two translations word by word.

    Parameters
    ----------
    source
        The English words.
    answers
        The French words, with "tu" and with "vous"; as many in both.
    """

    source: tuple[str, ...]
    answers: tuple[tuple[str, ...], tuple[str, ...]]


def draw_pairs(number: int, seed: int) -> list[Pair]:
    """Draw sentences of one or two clauses; the same seed gives the same ones."""
    rng = random.Random(seed)
    return [_pair(rng) for _ in range(number)]


def _pair(rng: random.Random) -> Pair:
    english, french = _clause(rng)
    if rng.random() < 0.5:
        joint = rng.choice([*JOINTS])
        more_english, more_french = _clause(rng)
        english = f"{english} {joint} {more_english}"
        french = tuple(f"{one} {JOINTS[joint]} {more}" for one, more in zip(french, more_french, strict=True))
    ending = rng.choice([*ENDINGS])
    answers = tuple(tuple(f"{one} {ENDINGS[ending]}".split()) for one in french)
    return Pair(tuple(f"{english} {ending}".split()), answers)


def _clause(rng: random.Random) -> tuple[str, tuple[str, ...]]:
    verb, noun = rng.choice([*VERBS]), rng.choice([*NOUNS])
    adjective = rng.choice([*ADJECTIVES]) if rng.random() < 0.3 else ""
    french_noun, kind = NOUNS[noun]
    quality = ADJECTIVES.get(adjective, "") + ("s" if adjective and kind == "plural" else "")
    answers = (
        f"{you} {form} {your} {french_noun} {quality}"
        for you, form, your in zip(("tu", "vous"), VERBS[verb], POSSESSIVES[kind], strict=True)
    )
    return f"you {verb} your {adjective} {noun}", tuple(answers)


def _vocabulary(texts: Sequence[str]) -> tuple[str, ...]:
    return (*SPECIAL, *sorted({word for text in texts for word in text.split()}))


SOURCE_WORDS = _vocabulary(["you your", *VERBS, *NOUNS, *ADJECTIVES, *JOINTS, *ENDINGS])
TARGET_WORDS = _vocabulary(
    [
        "tu vous",
        *(form for forms in (*VERBS.values(), *POSSESSIVES.values()) for form in forms),
        *(noun for noun, _ in NOUNS.values()),
        *(quality + plural for quality in ADJECTIVES.values() for plural in ("", "s")),
        *JOINTS.values(),
        *ENDINGS.values(),
    ]
)
LONGEST = 13  # words of a translation: two clauses of 5, a joint between them, an ending of 2


@dataclass(frozen=True)
class Encoded:
    """Pairs as numbers: ``source`` ``(B, N)`` and ``answers`` ``(2, B, LONGEST)``, filled up with 0."""

    source: Tensor
    answers: Tensor


def encode(pairs: Sequence[Pair]) -> Encoded:
    """The numbers of words, without ``<eos>``."""
    source = _padded([pair.source for pair in pairs], SOURCE_WORDS, max(len(pair.source) for pair in pairs))
    answers = [_padded([pair.answers[form] for pair in pairs], TARGET_WORDS, LONGEST) for form in (0, 1)]
    return Encoded(source, torch.stack(answers))


def _padded(sentences: Sequence[Sequence[str]], words: Sequence[str], width: int) -> Tensor:
    numbers = {word: number for number, word in enumerate(words)}
    rows = [[numbers[word] for word in sentence] for sentence in sentences]
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def words(tokens: Tensor) -> str:
    """A translation as a text, up to its ``<eos>`` or its padding."""
    said = tokens.tolist()
    ends = [place for place, token in enumerate(said) if token in (PAD, EOS)]
    return " ".join(TARGET_WORDS[token] for token in said[: min(ends, default=len(said))])


def verdicts(said: Tensor, answers: Tensor) -> dict[str, Tensor]:
    """Whether translations ``(B, N)`` are right, and whether they mix the two: each word is right, the whole is not.

    ``<eos>`` and what stands behind it count as padding.
    """
    ended = (said == EOS).cumsum(1) > 0
    said = F.pad(said.masked_fill(ended, PAD), (0, LONGEST))[:, :LONGEST]
    right = (said == answers).all(-1).any(0)
    each_word = (said == answers).any(0).all(-1)
    return {"right": right, "mixed": each_word & ~right}


class OneByOne(nn.Module):
    """A Transformer that reads what it has said before each word."""

    def __init__(self, d_model: int):
        super().__init__()
        self.transformer = Transformer(len(SOURCE_WORDS), len(TARGET_WORDS), d_model, 4, 2 * d_model, num_layers=1)

    def forward(self, source: Tensor, decoder_input: Tensor) -> Tensor:
        return self.transformer(source, decoder_input, source != PAD)

    def next_log_probs(self, source: Tensor) -> Callable[[Tensor], Tensor]:
        """The model as a search takes it, for these sources."""
        memory = self.transformer.encode(source, source != PAD)

        def next_log_probs(prefix: Tensor) -> Tensor:
            return self.transformer.decode(prefix, memory, source != PAD)[:, -1].log_softmax(-1)

        return next_log_probs


class AllAtOnce(nn.Module):
    """A model that sees all places of a translation at once, in both directions, and fills in those that are hidden.

    Its decoder is an encoder block, over the encoded source and the places side by side: nothing is causal.
    """

    def __init__(self, d_model: int):
        super().__init__()
        self.source_embedding = nn.Embedding(len(SOURCE_WORDS), d_model)
        self.target_embedding = nn.Embedding(len(TARGET_WORDS), d_model)
        self.side = nn.Parameter(torch.zeros(2, d_model))  # tells source and places apart
        self.encoder, self.decoder = (EncoderBlock(d_model, 4, 2 * d_model) for _ in range(2))
        self.length = nn.Linear(d_model, LONGEST + 1)
        self.output = nn.Linear(d_model, len(TARGET_WORDS))

    def _embed(self, tokens: Tensor, embedding: nn.Embedding, side: int) -> Tensor:
        x = embedding(tokens)
        return x + sinusoidal_positions(*x.shape[-2:]).to(x) + self.side[side]

    def encode(self, source: Tensor) -> Tensor:
        return self.encoder(self._embed(source, self.source_embedding, 0), source != PAD)

    def length_logits(self, source: Tensor, memory: Tensor) -> Tensor:
        """A score for each length of the translation, from the encoded last word of the source."""
        last = (source != PAD).sum(1) - 1
        return self.length(memory[torch.arange(len(source)), last])

    def forward(self, source: Tensor, memory: Tensor, places: Tensor) -> Tensor:
        """Logits for all places, which hold words, ``HIDDEN``, or ``PAD`` beyond the end."""
        x = torch.cat([memory, self._embed(places, self.target_embedding, 1)], 1)
        x = self.decoder(x, torch.cat([source, places], 1) != PAD)
        return self.output(x[:, source.shape[1] :])

    def emitter(self, source: Tensor, memory: Tensor) -> Callable[[Tensor], Tensor]:
        """The model as `nat_decode_by_length` takes it: logits for translations of given lengths, all words hidden."""
        return lambda lengths: self(source, memory, hidden_places(lengths))


def hidden_places(lengths: Tensor) -> Tensor:
    """Places ``(B, N)`` for translations of these lengths, of which nothing is known yet."""
    return (torch.arange(int(lengths.max())) < lengths[:, None]) * HIDDEN


STEPS = {"one by one": 300, "all at once": 500}
TRAIN_PAIRS, BATCH, PEAK = 4000, 48, 5e-3


def trained_one_by_one(d_model: int = 32) -> OneByOne:
    """The model that says one word after the other, trained with teacher forcing."""
    return trained_once(_one_by_one, _train_one_by_one, d_model=d_model, steps=STEPS["one by one"])[0]


def trained_all_at_once(d_model: int = 48) -> AllAtOnce:
    """The model that fills in hidden words, trained on both ways to know the length."""
    return trained_once(_all_at_once, _train_all_at_once, d_model=d_model, steps=STEPS["all at once"])[0]


def _one_by_one(d_model: int, steps: int) -> OneByOne:
    torch.manual_seed(0)
    return OneByOne(d_model)


def _all_at_once(d_model: int, steps: int) -> AllAtOnce:
    torch.manual_seed(0)
    return AllAtOnce(d_model)


def _drawer(seed: int = 0) -> tuple[Callable[[], tuple[Tensor, Tensor]], torch.Generator]:
    """A function that draws sources and one of the two translations of each, and its generator."""
    generator = torch.Generator().manual_seed(seed)
    data = encode(draw_pairs(TRAIN_PAIRS, seed))

    def draw() -> tuple[Tensor, Tensor]:
        rows = torch.randint(TRAIN_PAIRS, (BATCH,), generator=generator)
        form = torch.randint(2, (BATCH,), generator=generator)
        return data.source[rows], data.answers[form, rows]

    return draw, generator


def _train_one_by_one(model: OneByOne, d_model: int, steps: int) -> list[float]:
    draw, _ = _drawer()

    def next_loss() -> Tensor:
        source, answer = draw()
        said = [[token for token in sentence if token != PAD] for sentence in answer.tolist()]
        decoder_input, target, mask = teacher_forcing_batch(said, BOS, EOS, PAD)
        return F.cross_entropy(model(source, decoder_input)[mask], target[mask])

    return fit(model, next_loss, steps, PEAK, warm_up=steps // 10, max_norm=1.0)


def _train_all_at_once(model: AllAtOnce, d_model: int, steps: int) -> list[float]:
    """Two steps of three hide some words of a translation whose length is known, up to all of them.

    The third gives one place more than any translation needs, hides all, and asks for the words and ``<eos>``.
    """
    draw, generator = _drawer()
    turns = itertools.cycle(("length", "length", "eos"))

    def next_loss() -> Tensor:
        source, answer = draw()
        memory = model.encode(source)
        if next(turns) == "eos":
            lengths = (answer != PAD).sum(1, keepdim=True)
            target = F.pad(answer, (0, 1)).scatter(1, lengths, EOS)
            places, asked = torch.full_like(target, HIDDEN), target != PAD
        else:
            share = 1.25 * torch.rand(BATCH, 1, generator=generator)  # in a fifth of the sentences, all
            asked = (torch.rand(answer.shape, generator=generator) < share) & (answer != PAD)
            target, places = answer, answer.masked_fill(asked, HIDDEN)
        loss = F.cross_entropy(model(source, memory, places)[asked], target[asked])
        return loss + 0.3 * length_predictor_loss(model.length_logits(source, memory), answer, PAD)

    return fit(model, next_loss, steps, PEAK, warm_up=steps // 10, max_norm=1.0)


def with_noise(log_probs: Tensor, generator: torch.Generator) -> Tensor:
    """Log-probabilities with Gumbel noise: the largest of them is a draw from the distribution that they give."""
    uniform = torch.rand(log_probs.shape, generator=generator).clamp(min=1e-10)
    return log_probs - torch.log(-torch.log(uniform))


@torch.no_grad()
def refine(model: AllAtOnce, source: Tensor, steps: int) -> Tensor:
    """Translate in a fixed number of steps: each fills in an equal share of the places, those with the surest words.

    With one step this is `nat_decode_by_length`. Words that stand are not changed any more.
    """
    memory = model.encode(source)
    lengths = model.length_logits(source, memory).argmax(-1)
    places = hidden_places(lengths)
    for step in range(1, steps + 1):
        log_probs, tokens = model(source, memory, places).log_softmax(-1).max(-1)
        still_hidden = lengths * (steps - step) // steps
        sureness = log_probs.masked_fill(places != HIDDEN, -torch.inf)
        rank = sureness.argsort(1, descending=True).argsort(1)
        filled = rank < ((places == HIDDEN).sum(1) - still_hidden)[:, None]
        places = torch.where(filled & (places == HIDDEN), tokens, places)
    return places
