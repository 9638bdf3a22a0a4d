"""What French and Italian sentences share."""

from collections.abc import Callable

from .english import Token
from .grammar import Clause, NounPhrase, Pronoun, Sentence
from .lexicon import CONNECTIVES, LANGUAGES, TIMES


def clauses(sentence: Sentence, language: str, say: Callable[[Clause], list[Token]]) -> list[Token]:
    """The clauses, each as ``say`` says it, with the connectives between them."""
    tokens = say(sentence.clauses[0])
    for clause, connective in zip(sentence.clauses[1:], sentence.connectives, strict=True):
        for word in CONNECTIVES[connective][LANGUAGES.index(language)].split():
            tokens.append((word, [(id(clause), "," if word == "," else "connective")]))
        tokens += say(clause)
    return tokens


def agreeing(clause: Clause, language: str) -> str:
    """The predicate, in the gender and number of the subject."""
    match clause.subject:
        case Pronoun(word=word):
            gender = "f" if word == "she" else "m"
        case NounPhrase(noun=noun):
            gender = noun.gender[language]
    return clause.predicate.form(language, gender, clause.subject.plural)


def adjectives(phrase: NounPhrase, language: str) -> tuple[list[Token], list[Token]]:
    """The adjectives before the noun and those after it, which turn the order of English round."""
    gender = phrase.noun.gender[language]
    before, after = [], []
    for adjective in phrase.adjectives:
        token = (adjective.form(language, gender, phrase.plural), [(id(phrase), adjective.english)])
        (before if adjective.place == "before" else after).append(token)
    return before, after[::-1]


def time(clause: Clause, language: str) -> list[Token]:
    """The words for "every day" and the like."""
    words = TIMES[clause.time][LANGUAGES.index(language)].split() if clause.time else []
    return [(word, [(id(clause), "time", place)]) for place, word in enumerate(words)]
