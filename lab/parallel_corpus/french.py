"""A sentence in French."""

from . import romance
from .english import Token
from .grammar import BE, Clause, NounPhrase, Pronoun, Sentence
from .lexicon import ADVERBS, NUMERALS

PRONOUNS = {"I": "je", "he": "il", "she": "elle", "we": "nous", "you": "vous", "they": "ils"}
DETERMINERS = {  # masculine and feminine singular, plural
    "the": ("le", "la", "les"),
    "a": ("un", "une", ""),
    "this": ("ce", "cette", "ces"),
    "my": ("mon", "ma", "mes"),
    "our": ("notre", "notre", "nos"),
}
BEFORE_VOWEL = {  # in the singular
    "ce": "cet",
    "ma": "mon",
    "beau": "bel",
    "nouveau": "nouvel",
    "vieux": "vieil",
}
ELIDED = {"le": "l'", "la": "l'", "de": "d'", "ne": "n'", "je": "j'", "que": "qu'"}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
VOWELS = tuple("aeiouyhâàéèêëîïôöûùüœ")  # no word of the lexicon has an aspirated h


def words(sentence: Sentence) -> list[Token]:
    """The words with their keys."""
    return _sound(romance.clauses(sentence, "french", lambda clause: _subject(clause) + _predicate(clause)))


def _subject(clause: Clause) -> list[Token]:
    if isinstance(clause.subject, Pronoun):
        return [(PRONOUNS[clause.subject.word], [(id(clause.subject), "pronoun")])]
    return _noun_phrase(clause.subject)


def _predicate(clause: Clause) -> list[Token]:
    """All of a clause but its subject."""
    verb, infinitive, no = (id(clause), "verb"), (id(clause), "infinitive"), (id(clause), "not")
    finite = (clause.modal or clause.verb).finite("french", clause.subject.person)
    adverb = [(ADVERBS[clause.adverb][0], [(id(clause), "adverb")])] if clause.adverb else []
    tokens: list[Token] = []
    if clause.verb_negated:
        tokens.append(("ne", [no] if clause.negated else [(id(clause), "adverb")]))
    tokens.append((finite, [verb]))
    if clause.negated:
        tokens.append(("pas", [no]))
    tokens += adverb
    if clause.modal:
        tokens.append((clause.verb.infinitive("french"), [infinitive]))
    if clause.verb is BE:
        tokens.append((romance.agreeing(clause, "french"), [(id(clause), "predicate")]))
    if clause.object and clause.object.relative is not clause:
        tokens += _noun_phrase(clause.object, denied=clause.verb_negated)
    if clause.recipient:
        tokens += [("à", [(id(clause), "to")]), *_noun_phrase(clause.recipient)]
    if clause.place:
        preposition, phrase = clause.place
        key = [(id(clause), "place")]
        tokens += [("dans", key)] if preposition == "in" else [("près", key), ("de", key)]
        tokens += _noun_phrase(phrase)
    return tokens + romance.time(clause, "french")


def _noun_phrase(phrase: NounPhrase, denied: bool = False) -> list[Token]:
    """A noun phrase; ``denied`` if it is the object of a negated verb, where "un" becomes "de"."""
    noun, plural, gender = phrase.noun, phrase.plural, phrase.noun.gender["french"]
    if phrase.determiner in NUMERALS:
        determiner = NUMERALS[phrase.determiner][0]
    elif phrase.determiner == "a" and denied:
        determiner = "de"
    else:
        determiner = DETERMINERS[phrase.determiner][2 if plural else gender == "f"]
    before, after = romance.adjectives(phrase, "french")
    core = [(determiner, [(id(phrase), "determiner")]), *before, (noun.french[plural], [(id(phrase), "noun")])]
    if not plural:
        following = [word for word, _ in core[1:]] + [""]
        core = [
            (BEFORE_VOWEL.get(word, word) if next_word.startswith(VOWELS) else word, keys)
            for (word, keys), next_word in zip(core, following, strict=True)
        ]
    core += after
    if phrase.of:
        core += [("de", [(id(phrase), "of")]), *_noun_phrase(phrase.of)]
    if phrase.relative:
        clause = phrase.relative
        by_subject = clause.subject is phrase
        core.append(("qui" if by_subject else "que", [(id(phrase), "relative")]))
        core += _predicate(clause) if by_subject else _subject(clause) + _predicate(clause)
    return core


def _sound(tokens: list[Token]) -> list[Token]:
    """Elide before a vowel, then contract a preposition with its article."""
    result: list[Token] = []  # from the last word to the first
    for word, keys in reversed(tokens):
        after, after_keys = result[-1] if result else ("", [])
        if word in ELIDED and after.startswith(VOWELS):
            result.append((ELIDED[word], keys))
        elif (word, after) in CONTRACTED:
            result[-1] = (CONTRACTED[word, after], keys + after_keys)
        else:
            result.append((word, keys))
    return result[::-1]
