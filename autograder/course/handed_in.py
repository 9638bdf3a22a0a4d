"""Everything that was handed in, kept: one file for each notebook, and a ledger of whose it is and when it came."""

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder import notebooks
from autograder.course.platforms import parsed_time
from autograder.course.settings import Settings
from autograder.grading.submission import NotReadable, read_file

STAMP = "timestamp.txt"
BY_HAND = "submitted"  # the platform of what lay in the grading directory already


@dataclass(frozen=True)
class HandedIn:
    """One notebook that came in.

    Parameters
    ----------
    student, stem
        Whose it is and of which chapter.
    platform, name, ident
        Where it came from, and the student's name and number there.
    origin
        Its path in what the platform gave out.
    digest
        The SHA-256 of its bytes, by which it is filed.
    received
        When it was handed in, as ISO 8601 in UTC; None where the platform does not say.
    late
        Whether the platform says that it was late.
    collected, run, order
        When it was last seen, in which run of the collector, and at which place in that run.
    """

    student: str
    stem: str
    platform: str
    name: str
    ident: str
    origin: str
    digest: str
    received: str | None
    late: bool
    collected: str
    run: int
    order: int

    @property
    def time(self) -> datetime.datetime | None:
        return datetime.datetime.fromisoformat(self.received) if self.received else None

    @property
    def age(self) -> tuple[str, int, int]:
        """What sorts hand-ins from old to new; one that has no time counts as of when it was collected."""
        return (self.received or self.collected, self.run, self.order)

    def days_late(self, settings: Settings) -> int:
        """The days begun after the deadline. Late by a time that nobody knows counts as one day."""
        deadline = settings.of(self.stem).deadline
        if self.time is not None and deadline is not None:
            return settings.late.days_late(deadline, self.time)
        return int(self.late)

    @property
    def lateness_is_guessed(self) -> bool:
        """Whether it was late by a time that the platform does not say."""
        return self.late and self.time is None


def as_text(moment: datetime.datetime | None) -> str | None:
    """A moment as the ledger writes it, in UTC, so that texts sort as moments do."""
    return moment and moment.astimezone(datetime.UTC).isoformat(timespec="microseconds")


class Ledger:
    """The hand-ins of a grading directory: ``handed_in/ledger.json``, and a file for each."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.archive = directory / "handed_in"
        try:
            stored = json.loads((self.archive / "ledger.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            stored = []
        self.entries = [HandedIn(**entry) for entry in stored]

    @property
    def next_run(self) -> int:
        return max((entry.run for entry in self.entries), default=0) + 1

    def add(self, entry: HandedIn, data: bytes) -> bool:
        """File a hand-in; whether it is new. One that was filed before counts as seen again."""
        key = (entry.student, entry.stem, entry.digest, entry.received)
        same = [n for n, e in enumerate(self.entries) if (e.student, e.stem, e.digest, e.received) == key]
        if same:
            self.entries[same[0]] = entry
            return False
        path = self.path(entry)
        if not path.exists():
            write_bytes(path, data)
        self.entries.append(entry)
        return True

    def path(self, entry: HandedIn) -> Path:
        return self.archive / entry.student / entry.stem / f"{entry.digest[:16]}.ipynb"

    def of(self, student: str, stem: str) -> list[HandedIn]:
        """A student's hand-ins of a chapter, from old to new."""
        return sorted((e for e in self.entries if (e.student, e.stem) == (student, stem)), key=lambda e: e.age)

    def save(self) -> None:
        text = json.dumps([dataclasses.asdict(entry) for entry in self.entries], ensure_ascii=False, indent=1)
        notebooks.write_text(self.archive / "ledger.json", text)

    def adopt(self, student: str, stem: str, now: datetime.datetime) -> None:
        """File what lies in ``submitted`` and did not come from here, before something takes its place."""
        path = submitted_path(self.directory, student, stem)
        try:
            data = read_file(path, self.directory / "submitted" / student) if path.exists() else None
        except NotReadable:
            return
        if data is None or digest_of(data) in {entry.digest for entry in self.of(student, stem)}:
            return
        received = as_text(_stamp_beside(path))
        place = f"{student}/{stem}/{path.name}"
        self.add(
            HandedIn(student, stem, BY_HAND, student, "", place, digest_of(data), received, False, as_text(now), 0, 0),
            data,
        )

    def place(self, entry: HandedIn) -> bool:
        """Put a hand-in where the grader reads it; whether something changed there.

        Raises
        ------
        NotReadable
            If what lies there leads elsewhere.
        """
        path = submitted_path(self.directory, entry.student, entry.stem)
        if not path.parent.resolve().is_relative_to((self.directory / "submitted").resolve()):
            raise NotReadable(f"{path.parent} is a link to another place; remove it.")
        data = self.path(entry).read_bytes()
        changed = not path.is_file() or path.is_symlink() or path.read_bytes() != data
        if changed:
            write_bytes(path, data)
        stamp = path.with_name(STAMP)
        if entry.time is None:
            stamp.unlink(missing_ok=True)
        else:
            notebooks.write_text(stamp, entry.time.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC"))
        return changed


def chosen(entries: Iterable[HandedIn], settings: Settings) -> HandedIn:
    """The one of a student's hand-ins of a chapter, given from old to new, that is graded."""
    entries = list(entries)
    if settings.repeated == "first":
        return entries[0]
    in_time = [entry for entry in entries if not entry.days_late(settings)]
    return in_time[-1] if settings.repeated == "latest in time" and in_time else entries[-1]


def graded(ledger: Ledger, student: str, stem: str) -> HandedIn | None:
    """The hand-in that lies where the grader reads it; one that did not come through the collector has its stamp."""
    path = submitted_path(ledger.directory, student, stem)
    digest = digest_of(path.read_bytes()) if path.is_file() else ""
    stamp = as_text(_stamp_beside(path))
    known = [entry for entry in ledger.of(student, stem) if entry.digest == digest]
    exact = [entry for entry in known if entry.received == stamp]
    if known:
        return (exact or known)[-1]
    return stamp and HandedIn(student, stem, BY_HAND, student, "", "", digest, stamp, False, stamp, 0, 0)


def submitted_path(directory: Path, student: str, stem: str) -> Path:
    """Where the grader reads a student's notebook of a chapter."""
    return directory / "submitted" / student / stem / f"{stem}.ipynb"


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _stamp_beside(notebook: Path) -> datetime.datetime | None:
    stamp = notebook.with_name(STAMP)
    try:
        return parsed_time(stamp.read_text(encoding="utf-8")[:100].strip()) if stamp.is_file() else None
    except (OSError, UnicodeDecodeError):
        return None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    with unfinished.open("xb") as file:
        file.write(data)
    unfinished.replace(path)
