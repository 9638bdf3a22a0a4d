"""How a check is written: ``autograder/checks/STEM.py`` holds one ``Check`` for each kernel of its chapter."""

import hashlib
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from autograder.case import Case, Draw

Cases = Callable[[Draw], Iterable[Case]]
DIFFICULTIES = ("warm-up", "core", "stretch")


@dataclass(frozen=True)
class Aspect:
    """One thing that a right kernel does, the points it earns, and how its cases are drawn."""

    title: str
    points: int
    cases: Cases


@dataclass(frozen=True)
class Mistake:
    """A wrong version that people really write, and the sentence that tells them so without giving the code away."""

    id: str
    kernel: Callable
    hint: str
    source: str = ""


@dataclass
class Check:
    """What a right kernel is.

    Parameters
    ----------
    reference
        The kernel of ``autograder/reference/STEM.py``; its name is the check's name.
    difficulty
        One of ``DIFFICULTIES``.
    minutes
        How long a student is expected to need.
    hints
        The ladder: each says more than the one before, none is the code.
    reproduces
        Dotted names of ready-made functions that do the kernel's whole work: to call one is no solution.
    uses
        Names of kernels of the same chapter that this one calls.
    """

    reference: Callable
    difficulty: str
    minutes: int
    hints: Sequence[str]
    reproduces: Sequence[str] = ()
    uses: Sequence[str] = ()
    aspects: list[Aspect] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)

    def __post_init__(self):
        if self.difficulty not in DIFFICULTIES:
            raise ValueError(f"{self.name}: difficulty is {self.difficulty!r}; it must be one of {DIFFICULTIES}.")

    @property
    def name(self) -> str:
        return self.reference.__name__

    @property
    def points(self) -> int:
        return sum(aspect.points for aspect in self.aspects)

    def aspect(self, title: str, points: int) -> Callable[[Cases], Cases]:
        """Decorate a function of a ``Draw`` that yields cases. Without the first aspect no other earns points."""

        def register(cases: Cases) -> Cases:
            self.aspects.append(Aspect(title, points, cases))
            return cases

        return register

    def mistake(self, id: str, hint: str, source: str = "") -> Callable[[Callable], Callable]:
        """Decorate a wrong version of the kernel, with the same signature."""

        def register(kernel: Callable) -> Callable:
            self.mistakes.append(Mistake(id, kernel, hint, source))
            return kernel

        return register

    def slip(self, id: str, old: str, new: str, hint: str, source: str = "") -> None:
        """A wrong version that is the reference with ``old`` replaced by ``new`` in its source, once."""
        self.edit(id, hint, (old, new), source=source)

    def edit(self, id: str, hint: str, *edits: tuple[str, str], source: str = "") -> None:
        """A wrong version that is the reference with several pieces of its source replaced, each once."""
        self.mistakes.append(Mistake(id, edited(self.reference, *edits), hint, source))


def edited(kernel: Callable, *edits: tuple[str, str]) -> Callable:
    """The kernel with pieces of its source replaced, in the globals of its own module.

    Raises
    ------
    ValueError
        If a piece does not stand in the source exactly once, so that an edit cannot go stale in silence.
    """
    source = textwrap.dedent(inspect.getsource(kernel))
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(
                f"{kernel.__name__}: {old!r} stands {source.count(old)} times in the source; it must stand once."
            )
        source = source.replace(old, new)
    # The future import keeps annotations as text, as in the modules that load PyTorch late.
    flags = __import__("__future__").annotations.compiler_flag
    space = dict(vars(inspect.getmodule(kernel)))
    filename = f"<{kernel.__name__}, edited: {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)  # so that its source can be read
    exec(compile(source, filename, "exec", flags=flags), space)
    return space[kernel.__name__]
