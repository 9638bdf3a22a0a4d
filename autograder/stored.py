"""Checks as stored arrays: what students get in place of modules that hold references and known mistakes.

``dump`` runs the reference and each known mistake of a chapter on the visible cases, once, and keeps the arrays;
``load`` makes checks of them that judge and name mistakes as before, without a line of the code that made the arrays.
"""

import dataclasses
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autograder.case import Case, Draw
from autograder.checking import Aspect, Check, Mistake
from autograder.compare import same
from autograder.probing import Fault, Outcome

META = "meta"


def dump(stem: str) -> bytes:
    """The checks of a chapter on the visible cases, as the bytes of an ``.npz`` file."""
    from autograder import catalog

    pool = _Pool()
    meta = {"stem": stem, "checks": [_dumped(check, pool) for check in catalog.checks(stem).values()]}
    text = np.frombuffer(json.dumps(meta, ensure_ascii=False).encode(), np.uint8)
    file = io.BytesIO()
    np.savez_compressed(file, **{META: text}, **{f"a{n}": array for n, array in enumerate(pool.arrays)})
    return file.getvalue()


def load(path: Path) -> dict[str, Check]:
    """The checks in such a file, by kernel name."""
    arrays = np.load(path, allow_pickle=False)  # stays open: an array is read when it is first asked for
    meta = json.loads(arrays[META].tobytes())
    return {entry["name"]: _loaded(entry, meta["stem"], arrays) for entry in meta["checks"]}


class StoredKernel:
    """Stands for a kernel whose outcomes on the visible cases are known, and whose code is not here."""

    def __init__(self, name: str, module: str, outcomes: list[dict[str, Any]], arrays: Mapping[str, np.ndarray]):
        self.__name__, self.__module__ = name, module
        self._outcomes, self._arrays = outcomes, arrays

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            f"The course's own {self.__name__} comes when its chapter is over; this release has no code."
        )

    def stored_outcome(self, number: int) -> Outcome:
        """What the kernel gave on the visible case of that number."""
        entry = self._outcomes[number]
        fault = Fault(**entry["fault"]) if entry["fault"] else None
        return Outcome({name: self._arrays[f"a{n}"] for name, n in entry["arrays"].items()}, fault)


class _Pool:
    """Arrays, each kept once."""

    def __init__(self):
        self.arrays: list[np.ndarray] = []
        self._places: dict[tuple, int] = {}

    def place(self, value: Any) -> int:
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._places:
            self._places[key] = len(self.arrays)
            self.arrays.append(array)
        return self._places[key]


def _dumped(check: Check, pool: _Pool) -> dict[str, Any]:
    from autograder.judging import exam

    given = exam(check.name)
    numbers = range(len(given.drawn))
    right = [given.outcome(check.reference, number) for number in numbers]
    fields = [field.name for field in dataclasses.fields(Case) if field.name != "watch"]
    cases = [
        {"aspect": aspect, **{name: _encoded(getattr(case, name), pool) for name in fields}}
        for aspect, case in given.drawn
    ]
    return {
        "name": check.name,
        **{name: list(getattr(check, name)) for name in ("hints", "reproduces", "uses")},
        "difficulty": check.difficulty,
        "minutes": check.minutes,
        "aspects": [[aspect.title, aspect.points] for aspect in check.aspects],
        "cases": cases,
        "outcomes": [_outcome(outcome, pool) for outcome in right],
        "mistakes": [
            {
                "id": mistake.id,
                "hint": mistake.hint,
                "source": mistake.source,
                "outcomes": [
                    _outcome(_as_right(given.outcome(mistake.kernel, number), right[number]), pool)
                    for number in numbers
                ],
            }
            for mistake in check.mistakes
        ],
    }


def _as_right(outcome: Outcome, right: Outcome) -> Outcome:
    """The right outcome where this one cannot be told from it, so that its arrays are kept once."""
    alike = not outcome.fault and not right.fault and same(right.arrays, outcome.arrays)
    return dataclasses.replace(outcome, arrays=right.arrays) if alike else outcome


def _outcome(outcome: Outcome, pool: _Pool) -> dict[str, Any]:
    fault = dataclasses.asdict(dataclasses.replace(outcome.fault, details="", line=None)) if outcome.fault else None
    return {"arrays": {name: pool.place(array) for name, array in outcome.arrays.items()}, "fault": fault}


def _encoded(value: Any, pool: _Pool) -> Any:
    """A value of a case as JSON, its arrays by their place in the pool."""
    if isinstance(value, np.ndarray):
        return {"array": pool.place(value)}
    if isinstance(value, np.generic):
        return {"number": pool.place(value)}
    if isinstance(value, Mapping):
        return {"dict": {name: _encoded(item, pool) for name, item in value.items()}}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_encoded(item, pool) for item in value]}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"A case holds {value!r}, of a kind that cannot be stored.")


def _decoded(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return arrays[f"a{content}"]
    if kind == "number":
        return arrays[f"a{content}"][()]
    if kind == "dict":
        return {name: _decoded(item, arrays) for name, item in content.items()}
    items = [_decoded(item, arrays) for item in content]
    return tuple(items) if kind == "tuple" else items


def _loaded(entry: Mapping[str, Any], stem: str, arrays: Mapping[str, np.ndarray]) -> Check:
    module = f"autograder.reference.{stem}"
    check = Check(
        StoredKernel(entry["name"], module, entry["outcomes"], arrays),
        **{name: tuple(entry[name]) for name in ("hints", "reproduces", "uses")},
        difficulty=entry["difficulty"],
        minutes=entry["minutes"],
    )
    for title, points in entry["aspects"]:
        own = [case for case in entry["cases"] if case["aspect"] == title]
        check.aspects.append(Aspect(title, points, _cases(own, arrays)))
    for mistake in entry["mistakes"]:
        kernel = StoredKernel(entry["name"], module, mistake["outcomes"], arrays)
        check.mistakes.append(Mistake(mistake["id"], kernel, mistake["hint"], mistake["source"]))
    return check


def _cases(entries: list[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]):
    def cases(draw: Draw) -> Iterable[Case]:
        if draw.hidden:
            raise RuntimeError("This release of the course has the visible cases alone; it cannot grade.")
        return _drawn(entries, arrays)

    return cases


def _drawn(entries: list[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]) -> Iterator[Case]:
    for entry in entries:
        yield Case(**{name: _decoded(value, arrays) for name, value in entry.items() if name != "aspect"})
