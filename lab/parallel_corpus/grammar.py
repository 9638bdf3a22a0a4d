"""Sentences as trees that hold for every language, drawn so that what is said makes sense.

A sentence starts as one to four bare clauses ("the girl sees the sky") and grows, one modifier after the other, until
it has the wanted number of English words.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .lexicon import (
    ADJECTIVES,
    ADVERBS,
    BE,
    MODALS,
    NOUNS,
    TIMES,
    VERBS,
    Adjective,
    Noun,
    Verb,
)

MAX_CLAUSES = 4
POLITICS = frozenset({"institution", "official", "citizen", "region", "act", "trouble"})
ANIMATE = frozenset({"person", "animal", "official", "citizen"})
STATES = frozenset({"tired", "happy", "sad", "sick", "rich", "young", "old"})  # what may stand after "because ... is"


@dataclass
class Pronoun:
    """A subject: one of ``PERSONS`` or "she"."""

    word: str

    @property
    def person(self) -> str:
        return "he" if self.word == "she" else self.word

    plural = property(lambda self: self.word in ("we", "you", "they"))


@dataclass
class NounPhrase:
    """A noun with what goes with it."""

    noun: Noun
    determiner: str  # "the", "a", "this", "my", "our", "two", "three"
    plural: bool = False
    adjectives: list[Adjective] = field(default_factory=list)  # in the order of English
    of: "NounPhrase | None" = None
    relative: "Clause | None" = None  # the clause whose subject or object is this very phrase

    @property
    def person(self) -> str:
        return "they" if self.plural else "he"


@dataclass
class Clause:
    """A verb with what goes with it."""

    subject: "Pronoun | NounPhrase"
    verb: Verb
    object: NounPhrase | None = None
    recipient: NounPhrase | None = None
    modal: Verb | None = None
    negated: bool = False
    adverb: str | None = None
    predicate: Adjective | None = None
    place: tuple[str, NounPhrase] | None = None  # a preposition and a noun phrase
    time: str | None = None

    @property
    def verb_negated(self) -> bool:
        return self.negated or self.adverb == "never"


@dataclass
class Sentence:
    """Clauses, each but the first after its connective."""

    clauses: list[Clause]
    connectives: list[str]

    def noun_phrases(self) -> Iterator[NounPhrase]:
        for clause in self.clauses:
            yield from _phrases(clause)

    def adjective_noun_pairs(self) -> set[tuple[str, str]]:
        """Each adjective with the noun that it stands at."""
        return {(a.english, phrase.noun.name) for phrase in self.noun_phrases() for a in phrase.adjectives}


def _phrases(clause: Clause, outside: NounPhrase | None = None) -> Iterator[NounPhrase]:
    """The noun phrases of a clause, and those inside them; not ``outside``, which a relative clause belongs to."""
    place = clause.place[1] if clause.place else None
    for phrase in (clause.subject, clause.object, clause.recipient, place):
        if isinstance(phrase, NounPhrase) and phrase is not outside:
            yield phrase
            if phrase.of:
                yield phrase.of
            if phrase.relative:
                yield from _phrases(phrase.relative, phrase)


# Bare clauses


def _nouns(wanted: frozenset[str]) -> list[Noun]:
    return [noun for noun in NOUNS if noun.fits(wanted)]


SUBJECTS = {id(verb): _nouns(verb.subject) for verb in [*VERBS, BE]}
OBJECTS = {id(verb): _nouns(verb.object) for verb in VERBS}
PERSONS_AND_FRIENDS = _nouns(frozenset({"person"}))
WHOLES = {noun: _nouns(noun.whole) for noun in NOUNS}
QUALITIES = {noun: [a for a in ADJECTIVES if noun.fits(a.tags)] for noun in NOUNS}
PLACES = {False: _nouns(frozenset({"place"})), True: _nouns(frozenset({"region"}))}
DESCRIBED = [noun for noun in NOUNS if QUALITIES[noun] and "kin" not in noun.tags]


def _phrase(rng: random.Random, noun: Noun) -> NounPhrase:
    """A noun with a determiner that suits it."""
    if "kin" in noun.tags:
        return NounPhrase(noun, rng.choice(("my", "our")), len(noun.english) > 1 and rng.random() < 0.3)
    if "sight" in noun.tags and len(noun.english) == 1:
        return NounPhrase(noun, "the")
    if len(noun.english) == 1:
        return NounPhrase(noun, rng.choice(("the", "the", "this", "my", "our")))
    plural = rng.random() < 0.35
    own = noun.fits(frozenset({"animal", "text", "thing", "friend", "house", "garden", "kitchen", "room"}))
    determiners = ["the", "the", "the", "this", *(["two", "three"] if plural else ["a", "a"]), *(["my", "our"] * own)]
    return NounPhrase(noun, rng.choice(determiners), plural)


def _subject(rng: random.Random, verb: Verb, pronouns: list[str]) -> Pronoun | NounPhrase:
    if pronouns and rng.random() < 0.35:
        return Pronoun(rng.choice(pronouns))
    return _phrase(rng, rng.choice(SUBJECTS[id(verb)]))


def _core(rng: random.Random, verb: Verb, subject: Pronoun | NounPhrase) -> Clause:
    """The smallest clause of a verb and its subject."""
    clause = Clause(subject, verb)
    if verb.object:
        nouns = [n for n in OBJECTS[id(verb)] if not isinstance(subject, NounPhrase) or n != subject.noun]
        clause.object = _phrase(rng, rng.choice(nouns))
    if verb.kind == "giving":
        nouns = [n for n in PERSONS_AND_FRIENDS if not isinstance(subject, NounPhrase) or n != subject.noun]
        clause.recipient = _phrase(rng, rng.choice(nouns))
    return clause


def _description(rng: random.Random, pronouns: list[str], politics: bool, states: bool) -> Clause:
    """A clause with "be": "the dog is black", "she is tired"."""
    third = [p for p in pronouns if p in ("he", "she", "they")]
    if third and rng.random() < 0.3:
        predicates = [a for a in ADJECTIVES if "person" in a.tags]
        return Clause(Pronoun(rng.choice(third)), BE, predicate=rng.choice(predicates))
    nouns = [noun for noun in DESCRIBED if bool(POLITICS & noun.tags) == politics]
    while True:
        noun = rng.choice(nouns)
        predicates = [a for a in QUALITIES[noun] if a.place in ("before", "after")]
        if states:
            predicates = [a for a in predicates if a.english in STATES]
        if predicates:
            phrase = _phrase(rng, noun)
            if phrase.determiner == "a":
                phrase.determiner = "the"
            return Clause(phrase, BE, predicate=rng.choice(predicates))


PLAIN = {politics: [v for v in VERBS if v.kind != "knowing" and v.politics == politics] for politics in (False, True)}
KNOWING = [v for v in VERBS if v.kind == "knowing"]


def _clause(rng: random.Random, pronouns: list[str], politics: bool, connective: str, last: bool) -> Clause:
    """A bare clause that may stand after ``connective``."""
    if not last and rng.random() < 0.15:
        verb = rng.choice(KNOWING)
        nouns = [n for n in SUBJECTS[id(verb)] if ("official" in n.tags) == politics]
        use_pronoun = pronouns and rng.random() < 0.4
        return Clause(Pronoun(rng.choice(pronouns)) if use_pronoun else _phrase(rng, rng.choice(nouns)), verb)
    if connective == "because" or rng.random() < 0.1:
        return _description(rng, pronouns, politics, states=connective == "because")
    verb = rng.choice(PLAIN[politics])
    persons = "person" in verb.subject or "official" in verb.subject
    return _core(rng, verb, _subject(rng, verb, pronouns if persons else []))


def _bare(rng: random.Random, number: int) -> Sentence:
    """A sentence of ``number`` bare clauses about one topic, politics or daily life."""
    politics = rng.random() < 0.3
    clauses: list[Clause] = []
    connectives: list[str] = []
    pronouns = ["I", "we", "you", "he", "she", "they"]
    for place in range(number):
        connective = ""
        if clauses:
            if clauses[-1].verb.kind == "knowing":
                connective = "that"
            else:
                choice = ["and", "and", ", but", "when", "while", "because"]
                connective = rng.choice([c for c in choice if c == "and" or c not in connectives])
            connectives.append(connective)
        clause = _clause(rng, pronouns, politics, connective, last=place == number - 1)
        clauses.append(clause)
        # A pronoun of the third person comes before everyone whom it might be taken to mean.
        pronouns = pronouns[:3]
    return Sentence(clauses, connectives)


# Growing

Growth = Callable[[random.Random, Sentence, int], int]  # adds at most so many words, and says how many


def _grow_adjective(rng: random.Random, sentence: Sentence, room: int) -> int:
    phrase = rng.choice(list(sentence.noun_phrases()) or [None])
    if phrase is None:
        return 0
    had = phrase.adjectives
    places = {a.place for a in had}
    fitting = [a for a in QUALITIES[phrase.noun] if _joins(a, places)]
    if not fitting or len(had) == 2 or phrase.determiner in ("my", "our") and "kin" in phrase.noun.tags:
        return 0
    phrase.adjectives.append(rng.choice(fitting))
    phrase.adjectives.sort(key=lambda a: ("before", "outer", "after", "inner").index(a.place))
    return 1


def _joins(adjective: Adjective, places: set[str]) -> bool:
    """Whether an adjective may join others at these places: "small black", "European economic", "new European"."""
    if adjective.place in places:
        return False
    return not places or adjective.place == "before" or places <= {"before"} or places <= {"outer", "inner"}


def _grow_of(rng: random.Random, sentence: Sentence, room: int) -> int:
    phrases = [p for p in sentence.noun_phrases() if WHOLES[p.noun] and p.of is None and p.relative is None]
    phrases = [p for p in phrases if p.determiner in ("the", "a", "two", "three")]
    if room < 3 or not phrases:
        return 0
    phrase = rng.choice(phrases)
    whole = _phrase(rng, rng.choice(WHOLES[phrase.noun]))
    if whole.determiner in ("a", "two", "three"):
        whole.determiner = "the"
    phrase.of = whole
    return 3


def _grow_negation(rng: random.Random, sentence: Sentence, room: int) -> int:
    clause = rng.choice(sentence.clauses)
    modal = clause.modal.english[0] if clause.modal else None
    cost = 1 if modal == "must" or clause.verb is BE else 2
    if clause.negated or clause.adverb or clause.verb.kind == "knowing" or modal == "can" or room < cost:
        return 0
    clause.negated = True
    return cost


def _grow_adverb(rng: random.Random, sentence: Sentence, room: int) -> int:
    clause = rng.choice(sentence.clauses)
    if clause.adverb or clause.negated or clause.time or clause.verb.english[0] == "arrive":
        return 0
    words = [w for w in ADVERBS if w != "never" or clause.verb.kind != "knowing"]
    clause.adverb = rng.choice(words)
    return 1


def _grow_modal(rng: random.Random, sentence: Sentence, room: int) -> int:
    clause = rng.choice(sentence.clauses)
    modal = rng.choice(MODALS)
    cost = 2 if modal.english[0] == "want" else 1
    unable = clause.verb is BE or clause.verb.kind == "knowing" or "trouble" in clause.verb.subject
    if clause.modal or clause.negated or clause.adverb or unable or room < cost:
        return 0
    if modal.english[0] == "want" and not _has_will(clause.subject):
        return 0
    clause.modal = modal
    return cost


def _has_will(subject: Pronoun | NounPhrase) -> bool:
    return isinstance(subject, Pronoun) or "trouble" not in subject.noun.tags


def _grow_place(rng: random.Random, sentence: Sentence, room: int) -> int:
    clause = rng.choice(sentence.clauses)
    if room < 3 or clause.place or clause.verb is BE or clause.verb.kind == "knowing":
        return 0
    if clause.object and (clause.object.noun.fits(frozenset({"place", "sight", "region"})) or clause.object.relative):
        return 0
    preposition = rng.choice(("in", "in", "near")) if not clause.verb.politics else "in"
    nouns = PLACES[clause.verb.politics]
    if preposition == "near":
        nouns = [n for n in nouns if n.fits(frozenset({"building", "landscape", "town", "garden"}))]
    mentioned = {phrase.noun for phrase in _phrases(clause)}
    phrase = _phrase(rng, rng.choice([n for n in nouns if n not in mentioned]))
    if phrase.determiner in ("two", "three"):
        phrase.determiner = "the"
    clause.place = (preposition, phrase)
    return 3


def _grow_time(rng: random.Random, sentence: Sentence, room: int) -> int:
    clause = rng.choice(sentence.clauses)
    time = rng.choice(list(TIMES))
    cost = len(time.split())
    if clause.time or clause.adverb or clause.verb.kind == "knowing" or room < cost:
        return 0
    if clause.verb is BE and time == "every day":
        return 0
    clause.time = time
    return cost


def _grow_relative(rng: random.Random, sentence: Sentence, room: int) -> int:
    clause = rng.choice(sentence.clauses)
    phrases = [p for p in (clause.subject, clause.object) if isinstance(p, NounPhrase)]
    if room < 3 or clause.place or clause.recipient or any(p.relative for p in phrases) or not phrases:
        return 0
    phrase = rng.choice(phrases)
    if phrase.of or phrase.determiner not in ("the", "a", "two", "three") or len(phrase.noun.english) == 1:
        return 0
    politics = bool(POLITICS & phrase.noun.tags)
    verbs = [v for v in PLAIN[politics] if v is not clause.verb and v.kind == "plain"]
    as_subject = [v for v in verbs if phrase.noun.fits(v.subject)]
    as_object = [v for v in verbs if phrase.noun.fits(v.object)]
    if as_subject and (not as_object or rng.random() < 0.6):
        relative = _core(rng, rng.choice(as_subject), phrase)
        cost = 2 + _particle(relative.verb) + (2 if relative.object else 0)
    elif as_object:
        verb = rng.choice(as_object)
        persons = "person" in verb.subject or "official" in verb.subject
        subject = _subject(rng, verb, ["I", "we", "you"] if persons else [])
        if isinstance(subject, NounPhrase) and subject.noun == phrase.noun:
            return 0
        relative = Clause(subject, verb, object=phrase)
        cost = 2 + _particle(verb) + (2 if isinstance(subject, NounPhrase) else 1)
    else:
        return 0
    if cost > room:
        return 0
    phrase.relative = relative
    return cost


def _particle(verb: Verb) -> int:
    return verb.particle is not None


GROWTHS: list[tuple[Growth, int]] = [
    (_grow_adjective, 10),
    (_grow_of, 3),
    (_grow_negation, 3),
    (_grow_adverb, 2),
    (_grow_modal, 3),
    (_grow_place, 4),
    (_grow_time, 2),
    (_grow_relative, 4),
]
_KINDS, _WEIGHTS = zip(*GROWTHS, strict=True)


def _words(clause: Clause) -> int:
    """The number of words of a bare clause."""
    phrases = [p for p in (clause.subject, clause.object, clause.recipient) if p]
    words = sum(1 if isinstance(p, Pronoun) else 2 for p in phrases)
    return words + 1 + _particle(clause.verb) + (clause.recipient is not None) + (clause.predicate is not None)


def draw(rng: random.Random, words: int) -> Sentence:
    """A sentence of exactly so many English words."""
    most = min(MAX_CLAUSES, max(1, words // 5))
    least = min(most, 1 + words // 14)
    while True:
        sentence = _bare(rng, rng.randint(least, most))
        connectives = sum(len(c.split()) for c in sentence.connectives)
        room = words - connectives - sum(map(_words, sentence.clauses))
        for _ in range(12 + 3 * room):
            if room <= 0:
                break
            (grow,) = rng.choices(_KINDS, _WEIGHTS)
            room -= grow(rng, sentence, room)
        if room == 0:
            return sentence
