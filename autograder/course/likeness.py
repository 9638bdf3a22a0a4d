"""Near-identical code between students, to be looked at by a person; it proves nothing.

What a student wrote in each kernel is compared: without comments, docstring and given input checks, and with the
student's own names replaced by their order, so that renaming changes nothing. RapidFuzz compares all pairs. Short
kernels have few right forms, so answers that the course itself has, or that many students share, are left out.
"""

import ast
import builtins
import inspect
import io
import itertools
import textwrap
import tokenize
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autograder import catalog
from autograder.grading.results import SubmissionResult
from autograder.reading import definition
from autograder.stubs import answers

ALIKE = 0.9  # share of the tokens of two students that are the same, from which they are shown
TOKENS = 60  # fewer tokens in all say nothing
COMMON = 0.05  # an answer that this share of a class has in the same form is left out
COMMON_AT_LEAST = 4  # and that at least so many have
BLOCK = 500  # students whose rows of the table of pairs are held at once
NOT_RENAMED = {*dir(builtins), "np", "numpy", "torch", "math", "nn", "F", "einops", "self"}
SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER, tokenize.NEWLINE)


@dataclass(frozen=True)
class Alike:
    """Two students whose code is nearly the same: the share of it, its tokens, and the kernels that were compared."""

    one: str
    other: str
    share: float
    tokens: int
    kernels: tuple[str, ...]


def alike(results: Sequence[tuple[str, SubmissionResult]]) -> list[Alike]:
    """The pairs of students of one chapter whose code is nearly the same, the most alike first."""
    from rapidfuzz import process
    from rapidfuzz.distance import Indel

    written = _written(results)
    letters = _Letters()
    streams = {student: "".join(letters.of(answer) for answer in own.values()) for student, own in written.items()}
    students = [student for student, stream in streams.items() if len(stream) >= TOKENS]
    texts = [streams[student] for student in students]
    found = []
    for start in range(0, len(texts), BLOCK):
        rows = texts[start : start + BLOCK]
        table = process.cdist(rows, texts[start:], scorer=Indel.normalized_similarity, score_cutoff=ALIKE, workers=1)
        for row, column in zip(*table.nonzero(), strict=True):
            if row < column:
                pair = students[start + row], students[start + column]
                kernels = tuple(name for name in written[pair[0]] if name in written[pair[1]])
                tokens = min(len(streams[student]) for student in pair)
                found.append(Alike(*pair, float(table[row, column]), tokens, kernels))
    return sorted(found, key=lambda pair: (-pair.share, -pair.tokens, pair.one, pair.other))


def _written(results: Sequence[tuple[str, SubmissionResult]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """What each student wrote that says something, by kernel."""
    written = {
        student: {mark.kernel: own for mark in result.kernels if (own := tokens_of(mark.source, mark.kernel))}
        for student, result in results
    }
    kernels = {name for own in written.values() for name in own}
    counts = {name: Counter(own[name] for own in written.values() if name in own) for name in kernels}
    limit = max(COMMON_AT_LEAST, COMMON * len(results))
    known = {name: _courses_own(name) for name in kernels}

    def says_something(name: str, answer: tuple[str, ...]) -> bool:
        return counts[name][answer] < limit and answer not in known[name]

    return {
        student: {name: answer for name, answer in own.items() if says_something(name, answer)}
        for student, own in written.items()
    }


def _courses_own(kernel: str) -> set[tuple[str, ...]]:
    """The answers of the reference and of the known mistakes."""
    if kernel not in catalog.kernels():
        return set()
    check = catalog.check_of(kernel)
    sources = [inspect.getsource(made) for made in (check.reference, *(mistake.kernel for mistake in check.mistakes))]
    return {tokens for source in sources for tokens in [_first_tokens(source)] if tokens}


def _first_tokens(source: str) -> tuple[str, ...]:
    node = ast.parse(textwrap.dedent(source)).body[0]
    return tokens_of(textwrap.dedent(source), node.name)


def tokens_of(source: str, kernel: str) -> tuple[str, ...]:
    """The tokens of a student's answer, with names of the student's own replaced by numbers; () where there is none."""
    node = definition(source, kernel)
    if node is None:
        return ()
    try:
        bodies = ["\n".join(map(ast.unparse, statements)) for _, statements in answers(node)]
    except RecursionError:  # nested too deeply to be anybody's answer
        return ()
    text = "\n".join(bodies)
    if not text or text.startswith("raise NotImplementedError"):
        return ()
    return tuple(_renamed(_tokens(text), _own_names(node)))


def _own_names(node: ast.AST) -> Collection[str]:
    """The names that a definition binds itself, arguments included."""
    parts = list(ast.walk(node))
    names = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return (names | {part.arg for part in parts if isinstance(part, ast.arg)}) - NOT_RENAMED


def _tokens(text: str) -> Iterator[str]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text + "\n").readline):
            if token.type not in SKIPPED:
                yield (
                    tokenize.tok_name[token.type] if token.type in (tokenize.INDENT, tokenize.DEDENT) else token.string
                )
    except (tokenize.TokenError, SyntaxError):
        return


def _renamed(tokens: Iterator[str], own: Collection[str]) -> Iterator[str]:
    numbers: Mapping[str, int] = {}
    for token in tokens:
        yield f"name {numbers.setdefault(token, len(numbers))}" if token in own else token


class _Letters:
    """One letter for each kind of token, so that a stream of tokens is a string, which RapidFuzz compares fastest."""

    def __init__(self):
        self._numbers: dict[str, int] = {}
        self._next = itertools.count(0xE000)  # from the private letters upwards, past the surrogates

    def of(self, tokens: Sequence[str]) -> str:
        return "".join(chr(self._number(token)) for token in tokens)

    def _number(self, token: str) -> int:
        if token not in self._numbers:
            self._numbers[token] = next(self._next)
        return self._numbers[token]
