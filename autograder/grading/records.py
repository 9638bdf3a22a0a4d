"""What a grading directory keeps between runs: the secret seed, and the result of each submission."""

import contextlib
import dataclasses
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder import __version__, notebooks
from autograder.grading.placing import Found
from autograder.grading.results import SubmissionResult
from autograder.grading.session import Limits

SEED_BITS = 63
# The modules of the engine that decide a mark or its words.
ENGINE = (
    *("case", "catalog", "checking", "compare", "judging", "notebooks", "probing", "reading", "telling", "watching"),
    "work",
)


def seed_of(directory: Path) -> int:
    """The secret seed of a grading directory, drawn when first asked for and readable by its owner alone."""
    path = directory / "seed"
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(str(secrets.randbits(SEED_BITS)))
    return int(path.read_text())


def course_digest(stem: str) -> str:
    """A digest of all that decides a mark beside the submission and the seed: the course's code and the release."""
    package = Path(__file__).parents[1]
    rooms = [package / room / f"{stem}.py" for room in ("reference", "probes", "checks")]
    engine = [package / f"{name}.py" for name in ENGINE]
    digest = hashlib.sha256(__version__.encode())
    for path in (*engine, *sorted((package / "grading").glob("*.py")), *rooms, notebooks.released_path(stem)):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def key_of(found: Found, seed: int, limits: Limits, course: str) -> str:
    """What a result is filed under: another submission, seed, limit or course asks for another result."""
    context = repr((found.remarks, seed, limits, course))
    return hashlib.sha256(context.encode() + (found.data or b"")).hexdigest()


class Results:
    """The results of a grading directory, one file ``results/STUDENT/STEM.json`` for each submission."""

    def __init__(self, directory: Path):
        self.directory = directory / "results"

    def _path(self, student: str, stem: str) -> Path:
        return self.directory / student / f"{stem}.json"

    def read(self, student: str, stem: str, key: str | None = None) -> SubmissionResult | None:
        """The stored result; None where there is none, or none under this key."""
        try:
            stored = json.loads(self._path(student, stem).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return SubmissionResult.from_dict(stored["result"]) if key in (None, stored["key"]) else None

    def write(self, student: str, key: str, result: SubmissionResult) -> None:
        text = json.dumps({"key": key, "result": dataclasses.asdict(result)}, ensure_ascii=False)
        notebooks.write_text(self._path(student, result.stem), text)

    def remove(self, student: str, stem: str) -> None:
        """Forget a result, before another takes its place: none is left to stand as new where grading fails."""
        self._path(student, stem).unlink(missing_ok=True)

    def all(self) -> Iterator[tuple[str, SubmissionResult]]:
        """Student and result of everything that is stored, in order."""
        for path in sorted(self.directory.glob("*/*.json")):
            if (result := self.read(path.parent.name, path.stem)) is not None:
                yield path.parent.name, result


class Filed(Sequence[tuple[str, SubmissionResult]]):
    """Student and result of some submissions, each read from its file when it is asked for, however large a class is.

    Parameters
    ----------
    results
        Where they are stored.
    places
        Student and chapter of each.
    """

    def __init__(self, results: Results, places: Sequence[tuple[str, str]]):
        self.results, self.places = results, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[str, SubmissionResult]:
        student, stem = self.places[index]
        return student, self.results.read(student, stem)
