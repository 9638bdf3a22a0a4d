"""From what a platform gave out to ``submitted/STUDENT/CHAPTER/CHAPTER.ipynb``, with every hand-in kept."""

import datetime
import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autograder import notebooks
from autograder.course import platforms
from autograder.course.entries import Entry, entries_of, with_zips_opened
from autograder.course.handed_in import HandedIn, Ledger, as_text, chosen, digest_of
from autograder.course.platforms import HandIn
from autograder.course.settings import Settings
from autograder.grading.placing import LOOK_LIMIT
from autograder.grading.submission import NotReadable, read_notebook

NAME_LIMIT = 200  # bytes of a student's name, which names a folder


@dataclass
class Collected:
    """What a run of the collector did.

    Parameters
    ----------
    kinds
        For each source, which of ``platforms.FORMATS`` it was.
    new, seen
        How many hand-ins were new, and how many were there already.
    chosen
        The hand-in that is graded, for each student and chapter that this run saw.
    problems
        What could not be placed.
    notes
        What was placed and should be looked at.
    """

    kinds: dict[Path, str] = field(default_factory=dict)
    new: int = 0
    seen: int = 0
    chosen: list[HandedIn] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def collect(
    sources: Collection[Path],
    directory: Path,
    settings: Settings,
    stems: Collection[str],
    *,
    kind: str | None = None,
    assignment: str | None = None,
) -> Collected:
    """Bring hand-ins into a grading directory. Cut off at any moment, the next run brings it to the same end.

    Parameters
    ----------
    sources
        Folders and zips, as the platforms give them out.
    directory
        The grading directory.
    stems
        The chapters of the course.
    kind
        One of ``platforms.FORMATS``; recognised where None.
    assignment
        The chapter of notebooks that do not say it themselves.
    """
    collector = _Collector(directory, settings, stems, assignment)
    for source in sources:
        collector.take(source, kind)
    collector.finish()
    return collector.outcome


class _Collector:
    def __init__(self, directory: Path, settings: Settings, stems: Collection[str], assignment: str | None):
        self.directory, self.settings, self.stems, self.assignment = directory, settings, stems, assignment
        self.ledger = Ledger(directory)
        self.run, self.now = self.ledger.next_run, datetime.datetime.now(datetime.UTC)
        self.touched: dict[tuple[str, str], None] = {}
        self.outcome = Collected()
        submitted = directory / "submitted"
        folders = [path.name for path in submitted.iterdir()] if submitted.is_dir() else []
        self.taken = {fold(name): name for name in (*folders, *(entry.student for entry in self.ledger.entries))}

    def take(self, source: Path, kind: str | None) -> None:
        """File what one source holds."""
        problems = self.outcome.problems
        entries = entries_of(source, problems)
        kind = self.outcome.kinds[source] = kind or platforms.recognised(entries, source)
        for hand_in in platforms.hand_ins(source, entries, kind, self.stems, problems):
            self._take_hand_in(hand_in, kind)

    def finish(self) -> None:
        """Write the ledger, and put what is graded where the grader reads it."""
        self.ledger.save()
        for student, stem in self.touched:
            entry = chosen(self.ledger.of(student, stem), self.settings)
            try:
                self.ledger.place(entry)
            except NotReadable as error:
                self.outcome.problems.append(f"{student}: {stem}: {error}")
                continue
            self.outcome.chosen.append(entry)

    def _take_hand_in(self, hand_in: HandIn, kind: str) -> None:
        problems = self.outcome.problems
        entries = with_zips_opened(hand_in.entries, problems)
        if kind == "folder" and platforms.is_of_a_platform(entries):
            problems.append(f"{hand_in.name}: it is what a platform gave out, not a student's; collect it by itself.")
            return
        found = list(self._placed(hand_in.name, [entry for entry in entries if entry.path.suffix == ".ipynb"]))
        if not found and not any(entry.path.suffix == ".ipynb" for entry in entries):
            names = ", ".join(str(entry.path) for entry in entries[:3]) or "nothing"
            problems.append(f"{hand_in.name}: no notebook was handed in, but {names}.")
        for order, (stem, entry, data) in enumerate(found):
            student = self._student(hand_in, kind, stem)
            if student is None:
                continue
            self.ledger.adopt(student, stem, self.now)
            filed = HandedIn(
                student=student,
                stem=stem,
                platform=kind,
                name=hand_in.name,
                ident=hand_in.ident,
                origin=str(entry.path),
                digest=digest_of(data),
                received=as_text(hand_in.received or (kind == "folder" and _stamp(entry, hand_in)) or None),
                late=hand_in.late,
                collected=as_text(self.now),
                run=self.run,
                order=order,
            )
            new = self.ledger.add(filed, data)
            self.outcome.new += new
            self.outcome.seen += not new
            self.touched[student, stem] = None

    def _placed(self, name: str, entries: list[Entry]) -> Iterator[tuple[str, Entry, bytes]]:
        """The notebooks of a hand-in with their chapters; of several for one, those that are named for it are last."""
        if len(entries) > LOOK_LIMIT:
            self.outcome.problems.append(
                f"{name}: {len(entries)} notebooks were handed in; only the first {LOOK_LIMIT} were looked at."
            )
        found = []
        for entry in entries[:LOOK_LIMIT]:
            try:
                data = entry.read()
                stem = self._stem(entry, data)
            except (NotReadable, OSError) as error:
                self.outcome.problems.append(f"{name}: {entry.path}: {error}")
                continue
            if stem is None:
                self.outcome.problems.append(
                    f"{name}: {entry.path}: its chapter cannot be told; --assignment CHAPTER says it."
                )
            else:
                found.append((stem, entry, data))
        # Canvas and browsers number a file that comes again: `softmax-1.ipynb`, `softmax (1).ipynb`.
        yield from sorted(
            found, key=lambda part: bool(re.fullmatch(rf"{part[0]}(-\d+| ?\(\d+\))?\.ipynb", part[1].name))
        )

    def _stem(self, entry: Entry, data: bytes) -> str | None:
        """The chapter of a notebook: as it says itself, else as asked for, else by its path."""
        try:
            stem = notebooks.chapter_of(read_notebook(data), Path(entry.path))
            return stem if stem in self.stems else None
        except (NotReadable, ValueError):
            if self.assignment:
                return self.assignment
        parts = [re.sub(r"[\s-]+", "_", part.lower()) for part in entry.path.parts]
        named = [stem for stem in self.stems if any(stem in part for part in parts)]
        return named[0] if len(named) == 1 else None

    def _student(self, hand_in: HandIn, kind: str, stem: str) -> str | None:
        """The student's name in the grading directory: as the platform has it, with its number where two share it."""
        name = folder_name(hand_in.name)
        if name is None:
            self.outcome.problems.append(f"{hand_in.name!r}: no student can have this name.")
            return None
        if not hand_in.ident:
            return self._unless_clash(name)
        # Moodle numbers students anew in each assignment, Canvas once and for all.
        same = [e for e in self.ledger.entries if e.platform == kind and (kind != "moodle" or e.stem == stem)]
        if known := [entry.student for entry in same if entry.ident == hand_in.ident]:
            return known[0]
        namesakes = [e for e in same if fold(e.student) == fold(name) and e.ident != hand_in.ident]
        if namesakes:
            name = f"{name} ({hand_in.ident})"
            note = f"{name}: there is another {namesakes[0].student}; {kind.capitalize()}'s number tells them apart"
            note += ", but is another one in each assignment: see that marks go to the right one." * (kind == "moodle")
            self.outcome.notes.append(note.rstrip(".") + ".")
        return self._unless_clash(name)

    def _unless_clash(self, name: str) -> str | None:
        """The name, unless it is another student's but for capital letters, which some file systems ignore."""
        other = self.taken.setdefault(fold(name), name)
        if other != name:
            self.outcome.problems.append(
                f"{name}: it differs from {other} in capital letters alone; rename one of them."
            )
            return None
        return name


def _stamp(entry: Entry, hand_in: HandIn) -> datetime.datetime | None:
    """The time that nbgrader left beside a notebook; one in a zip was packed by the student and says nothing."""
    return platforms.stamp_beside(entry.path, hand_in.entries)


def fold(name: str) -> str:
    """What names have in common that a file system may take for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def folder_name(name: str) -> str | None:
    """A student's name as the name of a folder, in any script; None where nothing usable is in it."""
    text = " ".join(unicodedata.normalize("NFC", name).replace("/", " ").replace("\\", " ").split())
    kept = "".join(letter for letter in text if unicodedata.category(letter) not in ("Cc", "Cs", "Co", "Cn"))
    usable = kept.strip(" ").lstrip(".")
    return usable if usable and len(usable.encode()) <= NAME_LIMIT else None
