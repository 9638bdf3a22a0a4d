"""Sentences as trees that hold for every language, drawn so that what is said makes sense.

A sentence starts as one to four bare clauses ("the girl sees the sky") and grows, one modifier after the other, until
it has the wanted number of English words.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .lexicon import ADJECTIVES, ADVERBS, BE, MODALS, NOUNS, TIMES, VERBS, Adjective, Noun, Verb

MAX_CLAUSES = 4
POLITICS = frozenset({"institution", "official", "citizen", "region", "act", "trouble"})  # tags of what it is about
MINDS = frozenset({"person", "official", "citizen"})  # who is a "who"
MOODS = frozenset({"tired", "happy", "sad", "sick"})  # predicates that come and go
REASONS = MOODS | {"rich", "young", "old"}  # and those that explain politics
ONCE = frozenset({"buy", "sell", "find", "sign"})  # what nobody does every day


@dataclass
class Pronoun:
    """A subject: "I", "he", "she", "we", "you" or "they"."""

    word: str

    @property
    def person(self) -> str:
        return "he" if self.word == "she" else self.word

    @property
    def plural(self) -> bool:
        return self.word in ("we", "you", "they")


@dataclass
class NounPhrase:
    """A noun with what goes with it."""

    noun: Noun
    determiner: str  # "the", "a", "this", "my", "our", "two" or "three"
    plural: bool = False
    adjectives: list[Adjective] = field(default_factory=list)  # in the order of English
    of: "NounPhrase | None" = None
    relative: "Clause | None" = None  # a clause whose subject or object is this very phrase

    @property
    def person(self) -> str:
        return "they" if self.plural else "he"

    def inside(self) -> Iterator["NounPhrase"]:
        """This phrase and those within it."""
        yield self
        if self.of:
            yield from self.of.inside()
        if self.relative:
            for phrase in self.relative.own_phrases():
                if phrase is not self:
                    yield from phrase.inside()


@dataclass
class Clause:
    """A verb with what goes with it."""

    subject: Pronoun | NounPhrase
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

    def own_phrases(self) -> Iterator[NounPhrase]:
        """The noun phrases that it is made of."""
        for part in (self.subject, self.object, self.recipient, self.place and self.place[1]):
            if isinstance(part, NounPhrase):
                yield part


@dataclass
class Sentence:
    """Clauses, each but the first after its connective."""

    clauses: list[Clause]
    connectives: list[str]

    def noun_phrases(self) -> Iterator[NounPhrase]:
        """All noun phrases, those within others too."""
        for clause in self.clauses:
            for phrase in clause.own_phrases():
                yield from phrase.inside()

    def adjective_noun_pairs(self) -> set[tuple[str, str]]:
        """Each adjective with the noun that it stands at."""
        return {(a.english, phrase.noun.name) for phrase in self.noun_phrases() for a in phrase.adjectives}


def _nouns(wanted: Iterable[str]) -> list[Noun]:
    return [noun for noun in NOUNS if noun.fits(frozenset(wanted))]


SUBJECTS = {verb: _nouns(verb.subject) for verb in VERBS}
OBJECTS = {verb: _nouns(verb.object) for verb in VERBS}
WHOLES = {noun: _nouns(noun.whole) for noun in NOUNS}
QUALITIES = {noun: [a for a in ADJECTIVES if noun.fits(a.tags)] for noun in NOUNS}
PREDICATES = {noun: [a for a in QUALITIES[noun] if a.place in ("before", "after")] for noun in NOUNS}
PLAIN = {politics: [v for v in VERBS if v.kind != "knowing" and v.politics == politics] for politics in (False, True)}
KNOWING = [verb for verb in VERBS if verb.kind == "knowing"]
WANT = next(modal for modal in MODALS if modal.name == "want")
OWNED = frozenset({"animal", "text", "thing", "friend", "house", "garden", "kitchen", "room"})
PERSONS = _nouns({"person"})
ROOMS, OUTDOORS, FORUMS = _nouns({"place"}), _nouns({"outdoors"}), _nouns({"forum"})
SHOPS = _nouns({"town", "street"})
LANDMARKS = _nouns({"building", "landscape", "town", "garden"})


def draw(rng: random.Random, words: int) -> Sentence:
    """A sentence of exactly so many English words."""
    while True:
        composer = _Composer(rng, words)
        if composer.room >= 0:
            composer.grow()
        if composer.room == 0:
            return composer.sentence


class _Composer:
    """Composes one sentence; ``room`` is the number of words that it still lacks."""

    def __init__(self, rng: random.Random, words: int):
        self.rng = rng
        self.politics = rng.random() < 0.3
        self.used: set[Noun | Verb | str] = set()  # so that a sentence does not repeat itself
        most = min(MAX_CLAUSES, max(1, words // 5))
        self.sentence = self._bare(rng.randint(min(most, 1 + words // 14), most))
        connectives = sum(len(connective.split()) for connective in self.sentence.connectives)
        self.room = words - connectives - sum(map(_words, self.sentence.clauses))

    # Bare clauses

    def _bare(self, number: int) -> Sentence:
        clauses: list[Clause] = []
        connectives: list[str] = []
        for place in range(number):
            if clauses and clauses[-1].verb.kind == "knowing":
                connectives.append("that")
            elif clauses:
                fresh = [c for c in (", but", "when", "while", "because") if c not in connectives]
                connectives.append(self.rng.choice(["and", "and", *fresh]))
            connective = connectives[-1] if connectives else ""
            clauses.append(self._clause(connective, first=place == 0, last=place == number - 1))
        return Sentence(clauses, connectives)

    def _clause(self, connective: str, first: bool, last: bool) -> Clause:
        """A bare clause that makes sense after a connective: a reason after "because"."""
        # A pronoun of the third person comes first: nobody is there yet whom it might be taken to mean.
        pronouns = ["I", "we", "you", *(["he", "she", "they"] if first else [])]
        chance = self.rng.random()
        lasting = connective not in ("when", "while", "because")  # whether it may say what something always is
        if connective == "because":
            return self._wish(pronouns) if chance < 0.4 else self._description(pronouns, lasting)
        if not last and chance < 0.15:
            verb = self.rng.choice(KNOWING)
            nouns = [noun for noun in SUBJECTS[verb] if bool(POLITICS & noun.tags) == self.politics]
            return Clause(self._subject(nouns, pronouns), verb)
        if chance > 0.9:
            return self._description(pronouns, lasting)
        return self._core(self._fresh(PLAIN[self.politics]), pronouns)

    def _core(self, verb: Verb, pronouns: list[str]) -> Clause:
        """The smallest clause of a verb."""
        clause = Clause(self._subject(SUBJECTS[verb], pronouns if MINDS & verb.subject else []), verb)
        if verb.object:
            clause.object = self._phrase(self._fresh(OBJECTS[verb]))
        if verb.kind == "giving":
            clause.recipient = self._phrase(self._fresh(PERSONS))
        return clause

    def _description(self, pronouns: list[str], lasting: bool) -> Clause:
        """A clause with "be" and a predicate: "the dog is black", or only what may change, "she is tired"."""
        third = [pronoun for pronoun in pronouns if pronoun in ("he", "she", "they")]
        if third and self.rng.random() < 0.3:
            moods = [a for a in ADJECTIVES if a.english in MOODS]
            return Clause(Pronoun(self.rng.choice(third)), BE, predicate=self.rng.choice(moods))
        fitting = {
            noun: [a for a in predicates if lasting or a.english in (REASONS if self.politics else MOODS)]
            for noun, predicates in PREDICATES.items()
            if bool(POLITICS & noun.tags) == self.politics
        }
        noun = self._fresh([noun for noun, predicates in fitting.items() if predicates])
        phrase = self._phrase(noun)
        if phrase.determiner == "a":
            phrase.determiner = "the"
        return Clause(phrase, BE, predicate=self.rng.choice(fitting[noun]))

    def _wish(self, pronouns: list[str]) -> Clause:
        """A clause with "want"."""
        verbs = [v for v in PLAIN[self.politics] if MINDS & v.subject and _takes_modal(v) and v.kind == "plain"]
        clause = self._core(self._fresh(verbs), pronouns)
        if not _has_will(clause.subject):
            clause.subject = Pronoun("we")
        clause.modal = WANT
        return clause

    def _subject(self, nouns: list[Noun], pronouns: list[str]) -> Pronoun | NounPhrase:
        if pronouns and self.rng.random() < 0.35:
            return Pronoun(self.rng.choice(pronouns))
        return self._phrase(self._fresh(nouns))

    def _fresh(self, choices: list) -> Noun | Verb:
        """One that the sentence does not hold yet, as long as there is one."""
        chosen = self.rng.choice([c for c in choices if c not in self.used] or choices)
        self.used.add(chosen)
        return chosen

    def _phrase(self, noun: Noun, singular: bool = False) -> NounPhrase:
        """A noun with a determiner that suits it."""
        plural = noun.counted and not singular and self.rng.random() < 0.35
        if "kin" in noun.tags:
            determiners = ["my", "our"]
        elif "sight" in noun.tags and not noun.counted:
            determiners = ["the"]
        else:
            determiners = ["the", "the", "the", "this"]
            if noun.counted:
                determiners += ["two", "three"] if plural else ["a", "a"]
            if noun.fits(OWNED) or not noun.counted:
                determiners += ["my", "our"]
        return NounPhrase(noun, self.rng.choice(determiners), plural)

    # Growing: each method adds one modifier at random, where it finds a place and room for it.

    def grow(self) -> None:
        """Add modifiers until there is no room, or none seems to fit."""
        for _ in range(12 + 3 * self.room):
            if self.room == 0:
                break
            add = self.rng.choice(GROWTHS)
            add(self, self.rng.choice(self.sentence.clauses))

    def _add_adjective(self, clause: Clause) -> None:
        phrases = [p for part in clause.own_phrases() for p in part.inside()]
        if not phrases:
            return
        phrase = self.rng.choice(phrases)
        fitting = [a for a in QUALITIES[phrase.noun] if _joins(a, phrase.adjectives)]
        if not fitting or "kin" in phrase.noun.tags or (phrase is clause.subject and clause.predicate):
            return
        phrase.adjectives.append(self.rng.choice(fitting))
        phrase.adjectives.sort(key=lambda a: ("before", "outer", "inner", "after").index(a.place))
        self.room -= 1

    def _add_of(self, clause: Clause) -> None:
        phrases = [p for p in clause.own_phrases() if WHOLES[p.noun] and not p.of and not p.relative]
        phrases = [p for p in phrases if p.determiner in ("the", "a", "two", "three")]
        if self.room < 3 or not phrases:
            return
        phrase = self.rng.choice(phrases)
        phrase.of = self._phrase(self._fresh(WHOLES[phrase.noun]))
        if phrase.of.determiner in ("a", "two", "three"):
            phrase.of.determiner = "the"
        self.room -= 3

    def _add_negation(self, clause: Clause) -> None:
        must = clause.modal is not None and clause.modal.name == "must"
        cost = 1 if must or clause.verb is BE else 2
        can = clause.modal is not None and clause.modal.name == "can"  # "cannot" is one word
        if can or clause.negated or clause.adverb or clause.verb.kind == "knowing" or self.room < cost:
            return
        clause.negated = True
        self.room -= cost

    def _add_adverb(self, clause: Clause) -> None:
        once = clause.verb.name in ONCE or clause.verb.name in ("arrive", "know")
        if once or clause.adverb or clause.negated or clause.time or not _may_pass(clause):
            return
        clause.adverb = self.rng.choice([a for a in ADVERBS if a != "never" or clause.verb.kind != "knowing"])
        self.room -= 1

    def _add_modal(self, clause: Clause) -> None:
        modal = self.rng.choice(MODALS)
        cost = 2 if modal is WANT else 1
        if clause.modal or clause.negated or clause.adverb or self.room < cost:
            return
        if not _takes_modal(clause.verb) or (modal is WANT and not _has_will(clause.subject)):
            return
        clause.modal = modal
        self.room -= cost

    def _add_place(self, clause: Clause) -> None:
        taken = clause.object and (clause.object.relative or clause.object.noun.fits({"place", "sight", "region"}))
        if self.room < 3 or clause.place or taken or clause.verb is BE or clause.verb.kind == "knowing":
            return
        beasts = any("animal" in phrase.noun.tags for phrase in clause.own_phrases())
        preposition = "near" if not self.politics and self.rng.random() < 0.3 else "in"
        if preposition == "near":
            nouns = LANDMARKS
        elif self.politics:
            nouns = FORUMS
        elif clause.verb.name in ("buy", "sell"):
            nouns = SHOPS
        else:
            nouns = OUTDOORS if beasts or clause.verb.name == "find" else ROOMS
        phrase = self._phrase(self._fresh(nouns), singular=True)
        if self.politics and phrase.determiner == "a":
            phrase.determiner = "the"
        clause.place = (preposition, phrase)
        self.room -= 3

    def _add_time(self, clause: Clause) -> None:
        time = self.rng.choice(list(TIMES))
        cost = len(time.split())
        if clause.time or clause.adverb or clause.verb.kind == "knowing" or not _may_pass(clause) or self.room < cost:
            return
        if time == "every day" and (clause.verb is BE or clause.verb.name in ONCE or clause.verb.politics):
            return
        if time in self.used:
            return
        self.used.add(time)
        clause.time = time
        self.room -= cost

    def _add_relative(self, clause: Clause) -> None:
        phrases = [part for part in (clause.subject, clause.object) if isinstance(part, NounPhrase)]
        if clause.place or clause.recipient or any(p.relative for p in phrases) or not phrases:
            return
        phrase = self.rng.choice(phrases)
        if phrase.of or not phrase.noun.counted or phrase.determiner not in ("the", "a", "two", "three"):
            return
        verbs = [v for v in PLAIN[self.politics] if v not in self.used and v.kind == "plain"]
        as_subject = [v for v in verbs if phrase.noun.fits(v.subject)]
        as_object = [v for v in verbs if phrase.noun.fits(v.object)]
        if as_subject and (not as_object or self.rng.random() < 0.6):
            relative = Clause(phrase, self.rng.choice(as_subject))
            if relative.verb.object:
                relative.object = self._phrase(self._fresh(OBJECTS[relative.verb]))
        elif as_object:
            verb = self.rng.choice(as_object)
            pronouns = ["I", "we", "you"] if MINDS & verb.subject else []
            relative = Clause(self._subject(SUBJECTS[verb], pronouns), verb, object=phrase)
        else:
            return
        cost = _words(relative) - 2 + 1  # without the phrase itself, and with "who" or "that"
        if cost > self.room:
            return
        self.used.add(relative.verb)
        phrase.relative = relative
        self.room -= cost


GROWTHS = [
    *[_Composer._add_adjective] * 10,
    *[_Composer._add_place, _Composer._add_relative] * 4,
    *[_Composer._add_of, _Composer._add_negation, _Composer._add_modal] * 3,
    *[_Composer._add_adverb, _Composer._add_time] * 2,
]


def _words(clause: Clause) -> int:
    """The number of English words of a clause that has not grown."""
    parts = [part for part in (clause.subject, clause.object, clause.recipient) if part]
    words = sum(1 if isinstance(part, Pronoun) else 2 for part in parts)
    others = (clause.verb.particle, clause.recipient, clause.predicate)
    return words + 1 + sum(other is not None for other in others) + (2 if clause.modal else 0)


def _joins(adjective: Adjective, others: list[Adjective]) -> bool:
    """Whether an adjective may join those that a noun has: "small black", "new European", "European economic"."""
    if not others:
        return True
    pair = {adjective.place, others[0].place}
    return len(others) == 1 and len(pair) == 2 and ("before" in pair or pair == {"outer", "inner"})


def _takes_modal(verb: Verb) -> bool:
    return verb is not BE and verb.kind != "knowing" and verb.name != "love" and "trouble" not in verb.subject


def _has_will(subject: Pronoun | NounPhrase) -> bool:
    return isinstance(subject, Pronoun) or subject.noun.fits(MINDS | {"institution", "animal"})


def _may_pass(clause: Clause) -> bool:
    """Whether what a clause says may hold at one time and not at another."""
    return clause.verb.name != "love" and (clause.predicate is None or clause.predicate.english in MOODS)
