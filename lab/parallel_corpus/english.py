"""A sentence in English."""

from .grammar import BE, MINDS, Clause, NounPhrase, Pronoun, Sentence

Token = tuple[str, list]  # a word, and the keys of what it stands for: a node of the tree and a role in it
VOWELS = tuple("aeiouAEIOU")
LIKE_YOU = ("uni", "Euro")  # words that start with a consonant to the ear


def words(sentence: Sentence) -> list[Token]:
    """The words with their keys."""
    tokens: list[Token] = []
    for place, clause in enumerate(sentence.clauses):
        if place:
            key = (id(clause), "connective")
            tokens += [(w, [(id(clause), ",") if w == "," else key]) for w in sentence.connectives[place - 1].split()]
        tokens += _subject(clause) + _predicate(clause)
    following = [word for word, _ in tokens[1:]] + [""]
    return [
        ("an" if word == "a" and _starts_with_vowel(after) else word, keys)
        for (word, keys), after in zip(tokens, following, strict=True)
    ]


def _starts_with_vowel(word: str) -> bool:
    return word.startswith(VOWELS) and not word.startswith(LIKE_YOU)


def _subject(clause: Clause) -> list[Token]:
    if isinstance(clause.subject, Pronoun):
        return [(clause.subject.word, [(id(clause.subject), "pronoun")])]
    return _noun_phrase(clause.subject)


def _predicate(clause: Clause) -> list[Token]:
    """All of a clause but its subject."""
    third = clause.subject.person == "he"
    verb, infinitive = (id(clause), "verb"), (id(clause), "infinitive")
    no = [("not", [(id(clause), "not")])] if clause.negated else []
    adverb = [(clause.adverb, [(id(clause), "adverb")])] if clause.adverb else []
    if clause.verb is BE:
        form = "am" if clause.subject.person == "I" else "is" if third else "are"
        tokens = [(form, [verb]), *no, *adverb, (clause.predicate.english, [(id(clause), "predicate")])]
    else:
        finite = clause.modal or clause.verb
        base, with_third = finite.english
        if clause.modal and base in ("can", "must"):
            tokens = [(base, [verb]), *no, *adverb]
        elif clause.negated:
            tokens = [("does" if third else "do", [verb]), *no, *adverb, (base, [verb])]
        else:
            tokens = [*adverb, (with_third if third else base, [verb])]
        if clause.modal:
            to = [("to", [infinitive])] if base == "want" else []
            tokens += [*to, (clause.verb.english[0], [infinitive])]
    main = infinitive if clause.modal else verb
    if clause.verb.particle:
        tokens.append((clause.verb.particle, [main]))
    if clause.object and clause.object.relative is not clause:
        tokens += _noun_phrase(clause.object)
    if clause.recipient:
        tokens += [("to", [(id(clause), "to")]), *_noun_phrase(clause.recipient)]
    if clause.place:
        preposition, phrase = clause.place
        tokens += [(preposition, [(id(clause), "place")]), *_noun_phrase(phrase)]
    if clause.time:
        tokens += [(word, [(id(clause), "time", place)]) for place, word in enumerate(clause.time.split())]
    return tokens


def _noun_phrase(phrase: NounPhrase) -> list[Token]:
    determiner = "these" if phrase.determiner == "this" and phrase.plural else phrase.determiner
    tokens = [(determiner, [(id(phrase), "determiner")])]
    tokens += [(a.english, [(id(phrase), a.english)]) for a in phrase.adjectives]
    tokens.append((phrase.noun.english[phrase.plural], [(id(phrase), "noun")]))
    if phrase.of:
        tokens += [("of", [(id(phrase), "of")]), *_noun_phrase(phrase.of)]
    if phrase.relative:
        clause = phrase.relative
        by_subject = clause.subject is phrase
        who = "who" if by_subject and phrase.noun.fits(MINDS) else "that"
        tokens.append((who, [(id(phrase), "relative")]))
        tokens += _predicate(clause) if by_subject else _subject(clause) + _predicate(clause)
    return tokens
