"""A parser of the parallel corpus's sentences that knows its words but nothing of how it makes sentences.

It reads a sentence from left to right and raises ``Ungrammatical`` where forms do not agree, a word is elided or
contracted wrongly, or a verb, a noun or an adjective stands with something that makes no sense.
"""

from collections import defaultdict

from lab.parallel_corpus.lexicon import ADJECTIVES, ADVERBS, BE, MODALS, NOUNS, PERSONS, VERBS

MINDS = {"person", "official", "citizen"}
PASSING = {"tired", "happy", "sad", "sick", "rich", "young", "old"}
ALL_VERBS = [*VERBS, *MODALS, BE]


class Ungrammatical(Exception):
    """A sentence that nobody would say, and why."""


class Parser:
    """Parses one sentence: ``Parser(tokens).sentence()``. The subclasses know what differs between languages."""

    language: str
    connectives: tuple[tuple[str, ...], ...]
    times: tuple[tuple[str, ...], ...]
    places: tuple[str, ...]
    to: str
    of: str
    pronouns: dict[str, str]  # word -> person

    def __init__(self, tokens):
        self.raw = tuple(tokens)
        self.tokens = self.expand(self.raw)
        self.at = 0

    # Words

    def peek(self, ahead=0):
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else ""

    def take(self, *wanted):
        """Take the words if they come next; whether they did."""
        if self.tokens[self.at : self.at + len(wanted)] == wanted:
            self.at += len(wanted)
            return True
        return False

    def demand(self, condition, why):
        if not condition:
            raise Ungrammatical(f"{why} at {self.peek()!r} of: {' '.join(self.raw)}")

    # Structure

    def sentence(self):
        self.lasting = True  # whether a clause may say what something always is, as after "when" it may not
        self.clause()
        while self.at < len(self.tokens):
            found = [place for place, words in enumerate(self.connectives) if self.take(*words)]
            self.demand(found, "a connective is wanted")
            self.lasting = found[0] not in (2, 3, 4)
            self.clause()

    def clause(self):
        noun, person, gender = self.subject()
        self.predicate(noun, person, gender)

    def subject(self):
        """The noun, or None for a pronoun; the person; and the gender, None if unknown."""
        if self.peek() in self.pronouns:
            person = self.pronouns[self.peek()]
            gender = "f" if self.peek() in ("she", "elle") else "m"
            self.at += 1
            return None, person, gender
        noun, plural, gender = self.noun_phrase()
        return noun, "they" if plural else "he", gender

    def predicate(self, noun, person, gender, moved=None):
        """The rest of a clause; ``moved`` is an object that stands before it, outside of a relative clause."""
        negated, verb = self.verb(person)
        if verb is BE:
            self.adjective_of_predicate(noun, person, gender)
        else:
            fits = verb.subject & MINDS if noun is None else noun.fits(verb.subject)
            self.demand(fits, f"{noun.name if noun else person} cannot {verb.name}")
        if verb.kind == "knowing":
            return
        if verb.object:
            thing = moved or self.noun_phrase(denied=negated)[0]
            self.demand(thing.fits(verb.object), f"one cannot {verb.name} {thing.name}")
        if verb.kind == "giving":
            self.demand(self.take(self.to), "a recipient is wanted")
            self.demand("person" in self.noun_phrase()[0].tags, "only persons are given things")
        for preposition in self.places:
            if self.take(*preposition):
                place = self.noun_phrase()[0]
                self.demand(
                    place.fits({"place", "forum", "building", "landscape", "town"}), f"{place.name} is no place"
                )
        any(self.take(*words) for words in self.times)

    def predicated(self, noun, adjective):
        """Check a predicate; ``noun`` is None for a pronoun."""
        self.demand(self.lasting or adjective.english in PASSING, f"{adjective.english} is for ever")
        if noun:
            self.described(noun, adjective)
        else:
            self.demand("person" in adjective.tags, f"nobody is {adjective.english}")

    def described(self, noun, adjective):
        self.demand(noun.fits(adjective.tags), f"{noun.name} is not {adjective.english}")

    def after_noun(self, noun, plural, gender):
        """What may follow a noun and its adjectives: another noun that it belongs to, a relative clause."""
        if noun.whole and self.take(self.of):
            whole = self.noun_phrase()[0]
            self.demand(whole.fits(noun.whole), f"there is no {noun.name} of {whole.name}")
        self.relative(noun, plural, gender)


def readings(language, entries):
    """Each form of the language with the entries and the places in their tables that it may come from."""
    forms = defaultdict(list)
    for entry in entries:
        for place, form in enumerate(getattr(entry, language)):
            forms[form].append((entry, place))
    return forms


class English(Parser):
    language = "english"
    connectives = (("and",), (",", "but"), ("when",), ("while",), ("because",), ("that",))
    times = (("today",), ("now",), ("every", "day"))
    places = (("in",), ("near",))
    to, of = "to", "of"
    pronouns = {"I": "I", "he": "he", "she": "he", "we": "we", "you": "you", "they": "they"}
    nouns = readings("english", NOUNS)
    adjectives = {a.english: a for a in ADJECTIVES}
    determiners = {"the": None, "a": 0, "an": 0, "this": 0, "these": 1, "my": None, "our": None, "two": 1, "three": 1}

    def expand(self, raw):
        return raw

    def noun_phrase(self, denied=False):
        word = self.peek()
        self.demand(word in self.determiners, "a determiner is wanted")
        self.at += 1
        if word in ("a", "an"):
            sounds_like_vowel = self.peek()[0] in "aeiouAEIOU" and not self.peek().startswith(("uni", "Euro"))
            self.demand((word == "an") == sounds_like_vowel, "a and an")
        adjectives = []
        while self.peek() in self.adjectives:
            adjectives.append(self.adjectives[self.peek()])
            self.at += 1
        order = [("before", "outer", "inner", "after").index(a.place) for a in adjectives]
        self.demand(order == sorted(set(order)), "order of adjectives")
        self.demand(self.peek() in self.nouns, "a noun is wanted")
        ((noun, plural),) = self.nouns[self.peek()]
        self.at += 1
        self.demand(self.determiners[word] in (None, plural), "determiner and number")
        self.demand(noun.counted or self.determiners[word] is None or word == "this", f"{noun.name} is not counted")
        for adjective in adjectives:
            self.described(noun, adjective)
        self.after_noun(noun, plural, None)
        return noun, plural, None

    def relative(self, noun, plural, gender):
        who = "who" if noun.fits(MINDS) else "that"
        if self.peek() not in ("who", "that"):
            return
        starts_clause = self.peek(1) in self.determiners or self.peek(1) in self.pronouns
        word = self.peek()
        self.at += 1
        if starts_clause:
            self.demand(word == "that", "that before a subject")
            other, person, gender = self.subject()
            self.predicate(other, person, gender, moved=noun)
        else:
            self.demand(word == who, "who for persons")
            self.predicate(noun, "they" if plural else "he", gender)

    def verb(self, person):
        third = person == "he"
        negated = False
        self.adverb()
        if self.take("am" if person == "I" else "is" if third else "are"):
            negated = self.take("not")
            self.adverb()
            return negated, BE
        infinitive = False
        if self.take("can") or self.take("must"):
            negated, infinitive = self.take("not"), True
        elif self.peek() in ("do", "does"):
            self.demand(self.take("does" if third else "do", "not"), "do and does")
            negated, infinitive = True, True
        self.adverb()
        if self.take("want" if infinitive or not third else "wants", "to"):
            infinitive = True
        form = 0 if infinitive or not third else 1
        for verb in VERBS:
            words = (verb.english[form], *([verb.particle] if verb.particle else []))
            if self.take(*words):
                return negated, verb
        raise Ungrammatical(f"a verb is wanted at {self.peek()!r} of: {' '.join(self.raw)}")

    def adverb(self):
        self.at += self.peek() in ADVERBS

    def adjective_of_predicate(self, noun, person, gender):
        self.demand(self.peek() in self.adjectives, "a predicate is wanted")
        adjective = self.adjectives[self.peek()]
        self.at += 1
        self.predicated(noun, adjective)


class Romance(Parser):
    """What French and Italian share: agreement, adjectives on both sides of the noun."""

    def noun_phrase(self, denied=False):
        determiner = self.determiner()
        noun, plural, gender, before = self.noun()
        after = []
        while self.peek() in self.adjectives:
            after.append(self.agreeing(gender, plural))
        for adjective in before:
            self.demand(adjective.place == "before", f"{adjective.english} follows its noun")
        order = [("inner", "outer", "after").index(a.place) if a.place != "before" else -1 for a in after]
        self.demand(order == sorted(set(order)) and -1 not in order and len(before) < 2, "order of adjectives")
        for adjective in before + after:
            self.described(noun, adjective)
        self.demand(noun.counted or not plural, f"{noun.name} is not counted")
        self.check_determiner(determiner, noun, gender, plural, bare=not before and not after, denied=denied)
        self.after_noun(noun, plural, gender)
        return noun, plural, gender

    def noun(self):
        """The noun after a determiner, with its number and gender and the adjectives before it."""
        before, places = [], []
        while self.peek() in self.before and self.peek(1) in {**self.nouns, **self.before}:
            places.append(self.at)
            before.append(self.before[self.peek()])
            self.at += 1
        self.demand(self.peek() in self.nouns, "a noun is wanted")
        choices = self.nouns[self.peek()]
        noun = choices[0][0]
        gender = noun.gender[self.language]
        plural = choices[0][1] if len(choices) == 1 else self.number
        for place in places:
            form, after = self.tokens[place], self.tokens[place + 1]
            adjective = self.before[form]
            self.demand(form == self.form_before(adjective, gender, plural, after), f"{form} before {after}")
        self.at += 1
        return noun, plural, gender, before

    def agreeing(self, gender, plural):
        """The adjective that comes next, in the wanted form."""
        (adjective,) = {a for a, _ in self.adjectives[self.peek()]}
        wanted = adjective.form(self.language, gender, plural)
        self.demand(self.peek() == wanted, f"{wanted} is wanted")
        self.at += 1
        return adjective

    def adjective_of_predicate(self, noun, person, gender):
        self.demand(self.peek() in self.adjectives, "a predicate is wanted")
        if gender is None:  # a dropped "he" or "she"
            entry, place = self.adjectives[self.peek()][0]
            genders = [g for g in "mf" if entry.form(self.language, g, person == "they") == self.peek()]
            self.demand(genders, "number of the predicate")
            gender = genders[0]
        adjective = self.agreeing(gender, person == "they")
        self.predicated(noun, adjective)

    def finite(self, person):
        """The verb, or the infinitive after a modal; with an adverb after the finite form."""
        found = [v for v, place in self.verbs[self.peek()] if place < len(PERSONS) and PERSONS[place] == person]
        self.demand(found, f"a verb that agrees with {person} is wanted")
        self.at += 1
        never = self.middle()
        if found[0].kind == "modal":
            found = [v for v, place in self.verbs[self.peek()] if place == len(PERSONS)]
            self.demand(found, "an infinitive is wanted")
            self.at += 1
        return never, self.choose(found)

    def choose(self, verbs):
        """Of verbs with the same form, as "look at" and "look for" never have here, the first."""
        self.demand(len(verbs) == 1, "one reading")
        return verbs[0]


class French(Romance):
    language = "french"
    connectives = (("et",), (",", "mais"), ("quand",), ("pendant", "que"), ("parce", "que"), ("que",))
    times = (("aujourd'hui",), ("maintenant",), ("chaque", "jour"))
    places = (("dans",), ("près", "de"))
    to, of = "à", "de"
    pronouns = {"je": "I", "il": "he", "elle": "he", "nous": "we", "vous": "you", "ils": "they"}
    nouns = readings("french", NOUNS)
    adjectives = readings("french", ADJECTIVES)
    verbs = readings("french", ALL_VERBS)
    before = {
        **{form: a for a in ADJECTIVES if a.place == "before" for form in a.french},
        **{
            f: a
            for a in ADJECTIVES
            for f in {"old": ["vieil"], "new": ["nouvel"], "beautiful": ["bel"]}.get(a.english, [])
        },
    }
    elided = {"l'": None, "d'": "de", "n'": "ne", "j'": "je", "qu'": "que"}
    contracted = {"du": ("de", "le"), "des": ("de", "les"), "au": ("à", "le"), "aux": ("à", "les")}
    vowels = tuple("aeiouhâàéèêëîïôöûùüœ")
    plural_determiners = ("les", "ces", "mes", "nos", "deux", "trois")

    def expand(self, raw):
        tokens = []
        for word, after in zip(raw, [*raw[1:], ""], strict=True):
            vowel = after.startswith(self.vowels)
            if word in ("le", "la", "de", "ne", "je", "que", "ma", "ce") and vowel:
                raise Ungrammatical(f"{word} {after}: not elided")
            if word in self.elided and not vowel:
                raise Ungrammatical(f"{word} {after}: elided before a consonant")
            if (word, after) in self.contracted.values():
                raise Ungrammatical(f"{word} {after}: not contracted")
            tokens += self.contracted.get(word, (self.elided.get(word) or word,))
        return tuple(tokens)

    def determiner(self):
        word = self.peek()
        self.number = int(word in self.plural_determiners)
        self.at += 1
        return word

    def check_determiner(self, word, noun, gender, plural, bare, denied):
        self.demand(not (denied and word in ("un", "une")), "un after a negation")
        self.demand(word != "de" or denied, "de without a negation")
        if plural:
            self.demand(word in self.plural_determiners, f"{word} before a plural")
            return
        fitting = {
            "m": ("le", "l'", "un", "ce", "cet", "mon", "notre", "de"),
            "f": ("la", "l'", "une", "cette", "ma", "mon", "notre", "de"),
        }
        self.demand(word in fitting[gender], f"{word} before {noun.name}")
        after = self.first_after(word)
        if word == "cet" or (gender == "f" and word == "mon"):
            self.demand(after.startswith(self.vowels), f"{word} before a consonant")

    def first_after(self, word):
        """The word after the last determiner of this form that was passed."""
        place = max(i for i in range(self.at) if self.tokens[i] == word)
        return self.tokens[place + 1]

    def form_before(self, adjective, gender, plural, after):
        special = {"old": "vieil", "new": "nouvel", "beautiful": "bel"}.get(adjective.english)
        if special and (gender, plural) == ("m", 0) and after.startswith(self.vowels):
            return special
        return adjective.form("french", gender, plural)

    def relative(self, noun, plural, gender):
        if self.take("qui"):
            self.predicate(noun, "they" if plural else "he", gender)
        elif self.peek() == "que":
            self.at += 1
            other, person, gender = self.subject()
            self.predicate(other, person, gender, moved=noun)

    def verb(self, person):
        self.ne = self.take("ne")
        negated, verb = self.finite(person)
        self.demand(negated == self.ne, "ne and pas or jamais")
        return negated, verb

    def middle(self):
        pas = self.take("pas")
        if not pas and self.take("jamais"):
            return True
        if self.peek() in ("souvent", "toujours"):
            self.at += 1
        return pas


ARTICLES = ("il", "lo", "l'", "la", "i", "gli", "le")


class Italian(Romance):
    language = "italian"
    connectives = (("e",), (",", "ma"), ("quando",), ("mentre",), ("perché",), ("che",))
    times = (("oggi",), ("adesso",), ("ogni", "giorno"))
    places = (("in",), ("vicino", "a"))
    to, of = "a", "di"
    pronouns = {}
    nouns = readings("italian", NOUNS)
    adjectives = readings("italian", ADJECTIVES)
    verbs = readings("italian", ALL_VERBS)
    before = {
        **{form: a for a in ADJECTIVES if a.place == "before" for form in a.italian},
        **{f: a for a in ADJECTIVES if a.english == "beautiful" for f in ("bel", "bell'", "bei", "begli")},
    }
    vowels = tuple("aeiouàèéìòù")
    articles = ARTICLES
    contracted = {
        word + end: (preposition, article)
        for preposition, word in (("di", "de"), ("a", "a"), ("in", "ne"))
        for article, end in zip(ARTICLES, ("l", "llo", "ll'", "lla", "i", "gli", "lle"), strict=True)
    }

    def expand(self, raw):
        tokens = []
        for word, after in zip(raw, [*raw[1:], ""], strict=True):
            if word in ("di", "a", "in") and after in self.articles:
                raise Ungrammatical(f"{word} {after}: not contracted")
            tokens += self.contracted.get(word, (word,))
        return tuple(tokens)

    def impure(self, word):
        return word.startswith(("z", "gn", "ps")) or (word.startswith("s") and not word[1:].startswith(self.vowels))

    def determiner(self):
        words = [self.peek()]
        self.at += 1
        if self.peek() in ("mio", "mia", "miei", "mie", "nostro", "nostra", "nostri", "nostre"):
            words.append(self.peek())
            self.at += 1
        self.number = int(words[0] in ("i", "gli", "le", "questi", "queste", "due", "tre", "miei", "mie"))
        self.place = self.at
        return tuple(words)

    def check_determiner(self, words, noun, gender, plural, bare, denied):
        first, *possessive = words
        if first[:2] in ("mi", "no") and not possessive:
            self.demand("kin" in noun.tags and bare and not plural, "a possessive without its article")
            possessive, first = [first], None
        elif possessive:
            self.demand("kin" not in noun.tags or plural, "an article with one's kin")
        if possessive:
            wanted = {
                "m0": ("mio", "nostro"),
                "f0": ("mia", "nostra"),
                "m1": ("miei", "nostri"),
                "f1": ("mie", "nostre"),
            }
            self.demand(possessive[0] in wanted[f"{gender}{plural}"], f"{possessive[0]} before {noun.name}")
        if first in ("due", "tre"):
            self.demand(plural, "a numeral before a singular")
        elif first is not None:
            after = possessive[0] if possessive else self.tokens[self.place]
            self.demand(first in self.wanted(gender, plural, after), f"{first} before {after}")

    def wanted(self, gender, plural, after):
        """The article, the indefinite article and "this" before a word."""
        vowel, impure = after.startswith(self.vowels), self.impure(after)
        match gender, bool(plural):
            case "m", False:
                return (
                    ("l'", "un", "quest'") if vowel else ("lo", "uno", "questo") if impure else ("il", "un", "questo")
                )
            case "f", False:
                return ("l'", "un'", "quest'") if vowel else ("la", "una", "questa")
            case "m", True:
                return ("gli", "questi") if vowel or impure else ("i", "questi")
            case _:
                return ("le", "queste")

    def form_before(self, adjective, gender, plural, after):
        form = adjective.form("italian", gender, plural)
        vowel, impure = after.startswith(self.vowels), self.impure(after)
        if form == "bello":
            return "bell'" if vowel else form if impure else "bel"
        if form == "belli":
            return "begli" if vowel or impure else "bei"
        return "bell'" if form == "bella" and vowel else form

    def subject(self):
        """A clause that starts with its verb has a pronoun that was dropped; the verb says which."""
        word = self.peek(1) if self.peek() == "non" else self.peek()
        starts = self.peek() in self.articles or self.peek() in ("un", "uno", "una", "un'", "due", "tre")
        starts = starts or self.peek().startswith("quest") or self.peek() in ("mio", "mia", "nostro", "nostra")
        if starts:
            noun, plural, gender = self.noun_phrase()
            return noun, "they" if plural else "he", gender
        persons = {PERSONS[place] for _, place in self.verbs.get(word, []) if place < len(PERSONS)}
        persons -= {"I"} if word == "sono" else set()  # "I am" is not said in the corpus
        self.demand(len(persons) == 1, "a verb that says its person is wanted")
        return None, persons.pop(), None

    def relative(self, noun, plural, gender):
        if not self.take("che"):
            return
        word = self.peek(1) if self.peek() == "non" else self.peek()
        persons = {PERSONS[place] for _, place in self.verbs.get(word, []) if place < len(PERSONS)}
        if persons & {"he", "they"} and self.peek() not in self.articles:
            self.predicate(noun, "they" if plural else "he", gender)
        else:
            other, person, gender = self.subject()
            self.predicate(other, person, gender, moved=noun)

    def verb(self, person):
        non = self.take("non")
        never, verb = self.finite(person)
        self.demand(non or not never, "mai without non")
        return non, verb

    def middle(self):
        if self.take("mai"):
            return True
        if self.peek() in ("spesso", "sempre"):
            self.at += 1
        return False


PARSERS = {"english": English, "french": French, "italian": Italian}


def parse(language, words):
    """Parse a sentence; raise ``Ungrammatical`` if it is wrong."""
    PARSERS[language](words).sentence()
