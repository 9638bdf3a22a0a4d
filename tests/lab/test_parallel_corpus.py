"""The parallel corpus: sentences are right and make sense, links are the right ones, and the parts do not overlap."""

import random
from collections import Counter, defaultdict

import pytest
import torch

from lab import parallel_corpus
from lab.parallel_corpus import BOS, EOS, PAD, SPECIAL, UNK, Pair, UnknownWords, Vocabulary, grammar
from lab.parallel_corpus.data import held_out
from lab.parallel_corpus.grammar import Clause, NounPhrase, Pronoun, Sentence
from lab.parallel_corpus.lexicon import ADJECTIVES, BE, LANGUAGES, MODALS, NOUNS, VERBS
from tests.lab.parsing import Ungrammatical, parse

languages = pytest.mark.parametrize("language", LANGUAGES)


@pytest.fixture(scope="module")
def pairs():
    """Pairs of all lengths in each language, from a seed that the corpus does not use."""
    draw = parallel_corpus.draw_pairs
    return {name: draw(name, 1000, 7, (3, 20)) + draw(name, 500, 8, (21, 40)) for name in LANGUAGES}


@pytest.fixture(scope="module")
def splits():
    return {name: parallel_corpus.corpus(name, train=1500, validation=150, test=150) for name in LANGUAGES}


@languages
def test_every_sentence_agrees_and_makes_sense(pairs, language):
    for pair in pairs[language]:
        parse("english", pair.source)
        parse(language, pair.target)


@pytest.mark.parametrize(
    ("language", "wrong"),
    [
        ("english", "a apple is red"),
        ("english", "the girl sing"),
        ("english", "the man that sings sleeps"),
        ("english", "the girl eats the mirror"),
        ("english", "the water sleeps"),
        ("french", "le fille chante"),
        ("french", "la fille chantent"),
        ("french", "une pomme rouges est froide"),
        ("french", "le ami chante"),
        ("french", "le garçon regarde le blanc chien"),
        ("french", "nous ne chantons"),
        ("french", "nous ne voyons pas un chien"),
        ("french", "la porte de le jardin"),
        ("french", "le vieux homme chante"),
        ("french", "une zone européenne économique menace le marché"),
        ("french", "je veux chante"),
        ("italian", "il studente canta"),
        ("italian", "la ragazza cantano"),
        ("italian", "un' uomo canta"),
        ("italian", "la mia madre canta"),
        ("italian", "lavoriamo in il giardino"),
        ("italian", "i bello uccelli dormono"),
        ("italian", "il cane nera dorme"),
        ("italian", "vediamo mai il cielo"),
        ("italian", "la banca mangia la mela"),
    ],
)
def test_the_parser_sees_what_is_wrong(language, wrong):
    with pytest.raises(Ungrammatical):
        parse(language, wrong.split())


def entry(entries, name):
    return next(e for e in entries if name in e.english)


def test_a_dropped_pronoun_and_its_verb_share_one_word():
    sky = NounPhrase(entry(NOUNS, "sky"), "the")
    sentence = Sentence([Clause(Pronoun("we"), entry(VERBS, "see"), sky)], [])
    pair = parallel_corpus.pair_of(sentence, "italian")
    assert pair == Pair(("we", "see", "the", "sky"), ("vediamo", "il", "cielo"), {(0, 0), (0, 1), (1, 2), (2, 3)})
    pair = parallel_corpus.pair_of(sentence, "french")
    assert parallel_corpus.join(pair.target) == "nous voyons le ciel"
    assert pair.alignment == {(place, place) for place in range(4)}


def test_adjectives_that_follow_their_noun_turn_round():
    adjectives = [next(a for a in ADJECTIVES if a.english == name) for name in ("European", "economic")]
    area = NounPhrase(entry(NOUNS, "area"), "the", adjectives=adjectives)
    government = NounPhrase(entry(NOUNS, "government"), "the")
    clause = Clause(government, entry(VERBS, "support"), area, negated=True)
    pair = parallel_corpus.pair_of(Sentence([clause], []), "french")
    assert parallel_corpus.join(pair.source) == "the government does not support the European economic area"
    assert parallel_corpus.join(pair.target) == "le gouvernement ne soutient pas la zone économique européenne"
    links = {(0, 0), (1, 1), (2, 3), (3, 2), (3, 4), (4, 3), (5, 5), (6, 8), (7, 7), (8, 6)}
    assert pair.alignment == links


@languages
def test_every_word_is_linked(pairs, language):
    for pair in pairs[language]:
        assert {t for t, _ in pair.alignment} == set(range(len(pair.target)))
        assert {s for _, s in pair.alignment} == set(range(len(pair.source)))


@languages
def test_content_words_are_linked_with_their_translations(pairs, language):
    entries = [*NOUNS, *ADJECTIVES, *VERBS, *MODALS, BE]
    english, foreign = defaultdict(set), defaultdict(set)
    for entry in entries:
        names = [entry.english] if isinstance(entry.english, str) else entry.english
        for form in names:
            english[form].add(entry)
        for form in getattr(entry, language):
            foreign[form].add(entry)
    for form in ("bel", "bell'", "bei", "begli", "vieil", "nouvel"):  # forms before a vowel
        foreign[form] |= {a for a in ADJECTIVES if a.english in ("beautiful", "old", "new")}
    for pair in pairs[language]:
        for place, word in enumerate(pair.source):
            if english[word]:
                linked = set().union(*(foreign[pair.target[t]] for t, s in pair.alignment if s == place))
                assert english[word] & linked, (word, pair)


@languages
def test_words_of_several_kinds_of_links_occur(pairs, language):
    """One to one, two source words to one, and two target words for one."""
    several_sources, several_targets, crossing = 0, 0, 0
    for pair in pairs[language]:
        several_sources += max(Counter(t for t, _ in pair.alignment).values()) > 1
        several_targets += max(Counter(s for _, s in pair.alignment).values()) > 1
        links = sorted(pair.alignment)
        crossing += any(s > later for (t, s), (u, later) in zip(links, links[1:], strict=False) if u > t)
    assert min(several_sources, several_targets, crossing) > len(pairs[language]) / 4


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("french", ["l'", "n'", "qu'", "d'", "j'", "du", "des", "au", "aux", "cet", "mon", "bel", "nouvel", "vieil"]),
        ("french", ["ne", "pas", "jamais", "européenne", "nationaux", "vieilles", "de"]),
        ("italian", ["l'", "un'", "uno", "lo", "gli", "dell'", "degli", "nell'", "nella", "allo", "bell'", "begli"]),
        ("italian", ["quest'", "non", "mai", "europee", "mia", "miei", "vicino"]),
    ],
)
def test_forms_that_depend_on_their_neighbours_occur(pairs, language, words):
    assert set(words) <= {word for pair in pairs[language] for word in pair.target}


@pytest.mark.parametrize("lengths", [(3, 3), (4, 4), (11, 12), (40, 40)])
def test_lengths_are_kept(lengths):
    drawn = Counter(len(pair.source) for pair in parallel_corpus.draw_pairs("french", 200, 0, lengths))
    assert drawn.keys() == set(range(lengths[0], lengths[1] + 1))
    assert min(drawn.values()) > 60


def test_sentences_have_one_to_four_clauses():
    rng = random.Random(0)
    drawn = [(length, len(grammar.draw(rng, length).clauses)) for length in range(3, 41) for _ in range(20)]
    assert {clauses for _, clauses in drawn} == {1, 2, 3, 4}
    assert {clauses for length, clauses in drawn if length < 7} == {1}
    assert {clauses for length, clauses in drawn if length > 30} >= {3, 4}


def test_the_same_seed_draws_the_same_pairs_and_another_others():
    draw = parallel_corpus.draw_pairs
    assert draw("french", 50, 3) == draw("french", 50, 3)
    assert draw("french", 50, 3) != draw("french", 50, 4)
    assert [p.source for p in draw("french", 50, 3)] == [p.source for p in draw("italian", 50, 3)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("german", 1, 0), "language is 'german'; it must be one of 'french', 'italian'"),
        (("french", 1, 0, (2, 9)), r"lengths are \(2, 9\); they must be a range inside 3 to 40"),
        (("french", 1, 0, (9, 8)), "lengths are"),
        (("french", 1, 0, (9, 41)), "lengths are"),
    ],
)
def test_wrong_arguments_are_errors_in_words(arguments, message):
    with pytest.raises(ValueError, match=message):
        parallel_corpus.draw_pairs(*arguments)


@languages
def test_no_sentence_of_one_part_is_in_another(splits, language):
    parts = vars(splits[language])
    sources = {name: {pair.source for pair in part} for name, part in parts.items()}
    for name, part in sources.items():
        others = set().union(*(other for key, other in sources.items() if key != name))
        assert part.isdisjoint(others), name
        assert len(part) == len(parts[name]) or name == "train"


@languages
def test_longer_sentences_are_longer_than_those_of_training(splits, language):
    assert max(len(pair.source) for pair in splits[language].train) == 20
    assert min(len(pair.source) for pair in splits[language].longer) > 20
    assert max(len(pair.source) for pair in splits[language].longer) > 35


@languages
def test_new_pairs_are_of_words_that_training_shows_apart(splits, language):
    def shown(part):
        """Adjectives with the noun that they stand at, read off the English sentences."""
        names, nouns = {a.english for a in ADJECTIVES}, {form: n.name for n in NOUNS for form in n.english}
        found = []
        for pair in part:
            waiting = set()
            pairs = set()
            for word in pair.source:
                if word in names:
                    waiting.add(word)
                else:
                    pairs |= {(adjective, nouns[word]) for adjective in waiting if word in nouns}
                    waiting = set()
            found.append(pairs)
        return found

    parts = splits[language]
    known = set().union(*shown(parts.train), *shown(parts.test), *shown(parts.validation), *shown(parts.longer))
    assert known.isdisjoint(held_out())
    assert all(found & held_out() for found in shown(parts.new_pairs))
    adjectives, nouns = {a for a, _ in known}, {n for _, n in known}
    assert {a for a, _ in held_out()} <= adjectives
    assert {n for _, n in held_out()} <= nouns


def test_parts_of_a_corpus_that_overlap_in_length_are_an_error():
    with pytest.raises(ValueError, match="starts at 12 words; the others go up to 15"):
        parallel_corpus.corpus("french", lengths=(3, 15), longer=(12, 40))


# Vocabularies and batches


def test_a_vocabulary_numbers_words_after_the_special_tokens():
    vocabulary = Vocabulary([("we", "see"), ("I", "see")])
    assert vocabulary.words == (*SPECIAL, "I", "see", "we")
    assert vocabulary.encode(["we", "see", "you"]) == [6, 5, UNK]
    assert vocabulary.decode([BOS, 6, 5, EOS, 4, PAD]) == ["we", "see"]
    assert "see" in vocabulary
    assert "you" not in vocabulary


@pytest.mark.slow
@languages
def test_vocabularies_hold_every_word_of_every_part(splits, language):
    train = parallel_corpus.corpus(language).train
    for vocabulary, side in zip(parallel_corpus.vocabularies(train), ("source", "target"), strict=True):
        for part in vars(splits[language]).values():
            assert all(UNK not in vocabulary.encode(getattr(pair, side)) for pair in part)
        assert 200 < len(vocabulary) < 700


def test_typed_text_is_read():
    vocabulary = Vocabulary([("I", "see", "the", "Italian", "sky", ",", "but", "today")])
    assert vocabulary.read("i see THE italian sky, but today.") == [
        "I",
        "see",
        "the",
        "Italian",
        "sky",
        ",",
        "but",
        "today",
    ]


def test_unknown_words_are_named_with_near_ones():
    vocabulary = Vocabulary([("the", "mountain", "sees")])
    with pytest.raises(UnknownWords) as caught:
        vocabulary.read("the zebra sees the mountains")
    assert str(caught.value) == (
        "Unknown: 'mountains' (near: mountain), 'zebra'. The vocabulary has 3 words; its attribute `words` lists them."
    )
    with pytest.raises(UnknownWords, match="no word in the text"):
        vocabulary.read(" . ")


@pytest.mark.parametrize("text", ["l'homme n'aime pas l'eau, mais aujourd'hui il dort", "un'amica vede l'isola"])
def test_what_is_joined_can_be_taken_apart(text):
    assert parallel_corpus.join(parallel_corpus.tokenize(text)) == text


@languages
def test_every_target_survives_joining(pairs, language):
    for pair in pairs[language][:300]:
        assert tuple(parallel_corpus.tokenize(parallel_corpus.join(pair.target))) == pair.target


def test_a_batch_is_padded_and_targets_end():
    pairs = [Pair(("a", "b", "c"), ("x",), frozenset()), Pair(("b",), ("y", "x"), frozenset())]
    made = parallel_corpus.batch(pairs, *parallel_corpus.vocabularies(pairs))
    assert made.source.tolist() == [[4, 5, 6], [5, PAD, PAD]]
    assert made.source_lengths.tolist() == [3, 1]
    assert made.target.tolist() == [[4, EOS, PAD], [5, 4, EOS]]
    assert made.target_lengths.tolist() == [2, 3]
    assert made.source.dtype == torch.int64
