"""A sentence in Italian."""

from . import romance
from .english import Token
from .grammar import BE, Clause, NounPhrase, Pronoun, Sentence
from .lexicon import ADVERBS, NUMERALS

DETERMINERS = {  # masculine and feminine singular, masculine and feminine plural
    "the": ("il", "la", "i", "le"),
    "a": ("un", "una", "", ""),
    "this": ("questo", "questa", "questi", "queste"),
}
POSSESSIVES = {"my": ("mio", "mia", "miei", "mie"), "our": ("nostro", "nostra", "nostri", "nostre")}
VOWELS = tuple("aeiouàèéìòù")
BEFORE_VOWEL = {"il": "l'", "la": "l'", "i": "gli", "una": "un'", "questo": "quest'", "questa": "quest'"}
BEFORE_IMPURE = {"il": "lo", "i": "gli", "un": "uno"}
BELLO = {"bello": ("bel", "bell'", "bello"), "belli": ("bei", "begli", "begli"), "bella": ("bella", "bell'", "bella")}
STEMS = {"di": "de", "a": "a", "in": "ne"}  # "di" and "il" make "del"


def words(sentence: Sentence) -> list[Token]:
    """The words with their keys."""
    return _sound(romance.clauses(sentence, "italian", lambda clause: _subject(clause) + _predicate(clause)))


def _subject(clause: Clause) -> list[Token]:
    return [] if isinstance(clause.subject, Pronoun) else _noun_phrase(clause.subject)


def _predicate(clause: Clause) -> list[Token]:
    """All of a clause but its subject; the verb stands for a pronoun that is dropped."""
    verb, infinitive = [(id(clause), "verb")], (id(clause), "infinitive")
    if isinstance(clause.subject, Pronoun):
        verb = [(id(clause.subject), "pronoun"), *verb]
    adverb = [(ADVERBS[clause.adverb][1], [(id(clause), "adverb")])] if clause.adverb else []
    tokens: list[Token] = []
    if clause.verb_negated:
        tokens.append(("non", [(id(clause), "not" if clause.negated else "adverb")]))
    tokens.append(((clause.modal or clause.verb).finite("italian", clause.subject.person), verb))
    tokens += adverb
    if clause.modal:
        tokens.append((clause.verb.infinitive("italian"), [infinitive]))
    if clause.verb is BE:
        tokens.append((romance.agreeing(clause, "italian"), [(id(clause), "predicate")]))
    if clause.object and clause.object.relative is not clause:
        tokens += _noun_phrase(clause.object)
    if clause.recipient:
        tokens += [("a", [(id(clause), "to")]), *_noun_phrase(clause.recipient)]
    if clause.place:
        preposition, phrase = clause.place
        key = [(id(clause), "place")]
        tokens += [("in", key)] if preposition == "in" else [("vicino", key), ("a", key)]
        tokens += _noun_phrase(phrase)
    return tokens + romance.time(clause, "italian")


def _noun_phrase(phrase: NounPhrase) -> list[Token]:
    noun, plural, gender = phrase.noun, phrase.plural, phrase.noun.gender["italian"]
    form = 2 * plural + (gender == "f")
    key = [(id(phrase), "determiner")]
    if phrase.determiner in NUMERALS:
        core = [(NUMERALS[phrase.determiner][1], key)]
    elif phrase.determiner in POSSESSIVES:
        core = [(POSSESSIVES[phrase.determiner][form], key)]
        if not ("kin" in noun.tags and not plural):
            core = [(DETERMINERS["the"][form], key), *core]
    else:
        core = [(DETERMINERS[phrase.determiner][form], key)]
    before, after = romance.adjectives(phrase, "italian")
    head = noun.italian[plural]
    core += [(_before(form, head), keys) for form, keys in before]
    core += [(head, [(id(phrase), "noun")]), *after]
    if phrase.of:
        core += [("di", [(id(phrase), "of")]), *_noun_phrase(phrase.of)]
    if phrase.relative:
        clause = phrase.relative
        core.append(("che", [(id(phrase), "relative")]))
        core += _predicate(clause) if clause.subject is phrase else _subject(clause) + _predicate(clause)
    return core


def _before(adjective: str, noun: str) -> str:
    """An adjective before its noun: "bello" changes as the article does."""
    if adjective not in BELLO:
        return adjective
    plain, vowel, impure = BELLO[adjective]
    return vowel if noun.startswith(VOWELS) else impure if _impure(noun) else plain


def _impure(word: str) -> bool:
    """Whether a word starts with z, gn, ps or with s and a consonant, which takes "lo" and "uno"."""
    return word.startswith(("z", "gn", "ps")) or (word[:1] == "s" and not word[1:].startswith(VOWELS))


def _sound(tokens: list[Token]) -> list[Token]:
    """Fit each article to the next word, then contract a preposition with its article."""
    result: list[Token] = []  # from the last word to the first
    for word, keys in reversed(tokens):
        after, after_keys = result[-1] if result else ("", [])
        if after.startswith(VOWELS):
            word = BEFORE_VOWEL.get(word, word)
        elif _impure(after):
            word = BEFORE_IMPURE.get(word, word)
        if word in STEMS and after in ("il", "lo", "la", "l'", "i", "gli", "le"):
            joined = "l" if after == "il" else after if after in ("i", "gli") else "l" + after
            result[-1] = (STEMS[word] + joined, keys + after_keys)
        else:
            result.append((word, keys))
    return result[::-1]
