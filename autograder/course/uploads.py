"""Marks in the form in which Canvas and Moodle take them, laid over a file that the platform itself exported.

Canvas imports its own gradebook: the columns ``Student``, ``ID``, the SIS columns, ``Section``, then assignments as
``Title (number)``, with a row ``Points Possible``. Moodle imports an assignment's grading worksheet (``Identifier`` …
``Grade``, ``Maximum Grade``), or any CSV whose columns its user maps by hand.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autograder.course.collecting import fold
from autograder.course.handed_in import HandedIn
from autograder.course.marks import Total, Totals
from autograder.grading.exporting import harmless

CANVAS_PEOPLE = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
CANVAS_KEYS = ("SIS Login ID", "SIS User ID", "ID")
MOODLE_KEYS = ("Username", "ID number", "Email address")
POINTS = "    Points Possible"
KEPT = re.compile(r"-?[\d.,:%/ -]*")  # a cell that is a number, a date or a dash is no formula
BOM = "\ufeff"
Mark = Callable[[Total], float | None]  # what of a sum is uploaded


class BaseError(ValueError):
    """What is wrong with the file that marks were to be laid over."""


@dataclass
class Upload:
    """A table for a platform, and what did not find its place in it."""

    rows: list[list[str]] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    bom: bool = False

    def text(self) -> str:
        """The table as CSV."""
        file = io.StringIO(newline="")
        csv.writer(file, lineterminator="\r\n").writerows(self.rows)
        return (BOM if self.bom else "") + file.getvalue()


@dataclass(frozen=True)
class Base:
    """A CSV that a platform exported: its header and its rows, each as long as the header."""

    path: Path
    header: list[str]
    rows: list[list[str]]
    bom: bool

    def column(self, title: str) -> int | None:
        """Where a column stands, whatever its capitals."""
        titles = [name.strip().casefold() for name in self.header]
        return titles.index(title.casefold()) if title.casefold() in titles else None

    def cell(self, row: Sequence[str], title: str) -> str:
        """A row's cell in a column, "" where there is no such column."""
        place = self.column(title)
        return "" if place is None else row[place].strip()


def read_base(path: Path) -> Base:
    """The CSV of a platform, with commas, semicolons or tabs.

    Raises
    ------
    BaseError
        If it is not one.
    """
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BaseError(f"{path} is not text in UTF-8; export it from the platform again.") from None
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    if len(rows) < 2 or len(rows[0]) < 2:
        raise BaseError(f"{path} holds no table; give the CSV that the platform exported.")
    header = rows[0]
    filled = [(row + [""] * len(header))[: len(header)] for row in rows[1:]]
    return Base(path, header, filled, data.startswith(BOM.encode()))


def for_canvas(sums: Totals, people: Iterable[HandedIn], value: Mark, base: Base | None) -> Upload:
    """The file for Canvas's gradebook import: the people of the base, and a column for each chapter."""
    stems = sorted({stem for _, stem in sums})
    numbers = _numbers(people, "canvas")
    if base is None:
        return _canvas_alone(sums, numbers, stems, value)
    if base.column("Student") is None or base.column("ID") is None or base.column("Section") is None:
        raise BaseError(f"{base.path} has no columns Student, ID and Section; give Canvas's exported gradebook.")
    people_end = base.column("Section") + 1
    columns = {stem: _column_of(stem, base, range(people_end, len(base.header))) for stem in stems}
    upload = Upload(bom=base.bom)
    upload.rows.append(base.header[:people_end] + [_title(stem, columns[stem], base) for stem in stems])
    points: dict[str, float] = {}
    rows = []
    for row in base.rows:
        if row[0].strip().startswith("Points Possible"):
            points = _points(row, columns, sums)
            cells = [row[columns[s]] if columns[s] is not None else _number(_most(s, sums)) for s in stems]
            upload.rows.append(row[:people_end] + cells)
        elif base.cell(row, "Student"):  # else a row such as "Manual Posting", which Canvas passes over
            rows.append(row)
    matched = _matched(sums, rows, base, CANVAS_KEYS, numbers, "ID", "Student", upload)
    for row in rows:
        cells = [_kept(cell) for cell in row[:people_end]]
        for stem in stems:
            total, place = sums.get((matched.get(id(row)), stem)), columns[stem]
            # An empty cell would take away the mark that Canvas has.
            as_before = "" if place is None else _kept(row[place])
            cells.append(_scaled(total, value, points.get(stem)) or as_before)
        upload.rows.append(cells)
    return upload


def _canvas_alone(sums: Totals, numbers: dict[str, str], stems: Sequence[str], value: Mark) -> Upload:
    names = {student: number for number, student in numbers.items()}
    upload = Upload([[*CANVAS_PEOPLE, *stems], [POINTS, "", "", "", "", *(_number(_most(s, sums)) for s in stems)]])
    for student in sorted({student for student, _ in sums}):
        number = names.get(student, "")
        if not number:
            upload.notes.append(f"{student}: Canvas's number is not known; Canvas will look for the name or the login.")
        marks = [_scaled(sums.get((student, stem)), value, None) for stem in stems]
        upload.rows.append([harmless(student), number, "", "" if number else harmless(student), "", *marks])
    return upload


def for_moodle(
    sums: Totals,
    people: Iterable[HandedIn],
    value: Mark,
    base: Base | None,
    stems: Sequence[str],
    grade_column: str = "Grade",
) -> Upload:
    """The file for Moodle: over a grading worksheet of one chapter, or a table to be mapped by hand."""
    if base is None:
        return _moodle_alone(sums, people, value, stems)
    if len(stems) != 1:
        raise BaseError(f"a grading worksheet is of one assignment; say which:  --assignment {'|'.join(stems)}")
    (stem,) = stems
    place = base.column(grade_column)
    if place is None:
        raise BaseError(
            f"{base.path} has no column {grade_column!r}; name the one for marks with --column, one of: "
            f"{', '.join(base.header)}."
        )
    upload = Upload([base.header], bom=base.bom)
    numbers = _numbers((entry for entry in people if entry.stem == stem), "moodle")
    own = {key: total for key, total in sums.items() if key[1] == stem}
    matched = _matched(own, base.rows, base, MOODLE_KEYS, numbers, base.header[0], "Full name", upload)
    for row in base.rows:
        total = own.get((matched.get(id(row)), stem))
        most = _as_number(base.cell(row, "Maximum Grade"))
        cells = [_kept(cell) for cell in row]
        cells[place] = _scaled(total, value, most) or cells[place]
        upload.rows.append(cells)
    return upload


def _moodle_alone(sums: Totals, people: Iterable[HandedIn], value: Mark, stems: Sequence[str]) -> Upload:
    names = {entry.student: entry.name for entry in people if entry.platform == "moodle"}
    header = ["Student", "Full name"]
    for stem in stems:
        header += [f"{stem} (of {_most(stem, sums):g})", f"{stem}: before penalty", f"{stem}: days late"]
    upload = Upload([header])
    for student in sorted({student for student, _ in sums}):
        row = [harmless(student), harmless(names.get(student, student))]
        for stem in stems:
            total = sums.get((student, stem))
            row += [_scaled(total, value, None), _number(total.earned), str(total.days_late)] if total else [""] * 3
        upload.rows.append(row)
    return upload


def _matched(
    sums: Totals,
    rows: Sequence[list[str]],
    base: Base,
    keys: Sequence[str],
    numbers: dict[str, str],
    ident: str,
    name: str,
    upload: Upload,
) -> dict[int, str]:
    """Which student each row is: by the platform's number, else by a login, else by a name that only one has."""
    students = sorted({student for student, _ in sums})
    found: dict[int, str] = {}

    def claim(candidates: dict[str, str], keys_of: Callable[[list[str]], list[str]]) -> None:
        taken = set(found.values())
        claims: dict[str, list[list[str]]] = {}
        for row in rows:
            hits = {candidates[key] for key in keys_of(row) if key in candidates} - taken
            if id(row) not in found and len(hits) == 1:
                claims.setdefault(hits.pop(), []).append(row)
        for student, own in claims.items():
            if len(own) == 1:
                found[id(own[0])] = student

    wanted = set(students)
    claim({n: s for n, s in numbers.items() if s in wanted}, lambda row: re.findall(r"\d+$", base.cell(row, ident)))
    claim({fold(s): s for s in students}, lambda row: [fold(base.cell(row, k)) for k in keys if base.cell(row, k)])
    claim(_by_name(students), lambda row: _forms(_full_name(row, base, name)))
    missing = [student for student in students if student not in found.values()]
    upload.unplaced += [f"{student}: not in {base.path}, or not the only one of this name." for student in missing]
    return found


def _full_name(row: Sequence[str], base: Base, name: str) -> str:
    parts = f"{base.cell(row, 'First name')} {base.cell(row, 'Last name')}".strip()
    return base.cell(row, name) or parts


def _by_name(students: Collection[str]) -> dict[str, str]:
    """Each form of a name that only one student has, and the student."""
    forms = [(form, student) for student in students for form in _forms(student)]
    counts = Counter(form for form, _ in forms)
    return {form: student for form, student in forms if counts[form] == 1}


def _forms(name: str) -> list[str]:
    """A name in the forms in which platforms write it, squeezed: "Doe, Jane" is also "Jane Doe" and "doejane"."""
    last, comma, first = name.partition(",")
    written = [name, f"{first} {last}"] if comma else [name]
    return list(dict.fromkeys(re.sub(r"[\W_]", "", fold(text)) for text in written if text.strip()))


def _numbers(people: Iterable[HandedIn], platform: str) -> dict[str, str]:
    """The platform's number of a student to the student."""
    return {entry.ident: entry.student for entry in people if entry.platform == platform and entry.ident}


def _column_of(stem: str, base: Base, places: Iterable[int]) -> int | None:
    """The column of a chapter: the one whose title, without its number, is the chapter's name, or ends in it."""
    wanted = stem.replace("_", " ")
    titles = {n: re.sub(r"\s*\(\d+\)$", "", base.header[n]).replace("_", " ").casefold() for n in places}
    exact = [n for n, title in titles.items() if title.strip() == wanted]
    near = [n for n, title in titles.items() if re.search(rf"\b{re.escape(wanted)}$", title.strip())]
    return (exact or (near if len(near) == 1 else [None]))[0]


def _title(stem: str, place: int | None, base: Base) -> str:
    return stem if place is None else base.header[place]


def _points(row: Sequence[str], columns: dict[str, int | None], sums: Totals) -> dict[str, float]:
    """The platform's maximum of each chapter that has a column there."""
    given = {stem: _as_number(row[place]) for stem, place in columns.items() if place is not None}
    return {stem: points for stem, points in given.items() if points}


def _most(stem: str, sums: Totals) -> float:
    return max((total.points for (_, of), total in sums.items() if of == stem), default=0.0)


def _as_number(text: str) -> float | None:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None


def _scaled(total: Total | None, value: Mark, most: float | None) -> str:
    """A mark, on the platform's scale where that is another one; "" where there is none."""
    mark = None if total is None else value(total)
    if mark is None:
        return ""
    scale = most / total.points if most and total.points else 1.0
    return _number(mark * scale)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{round(value, 2):g}" if abs(value) < 1e5 else f"{value:.2f}"


def _kept(cell: str) -> str:
    """A cell of the platform's as it was, unless a spreadsheet would run it."""
    return cell if KEPT.fullmatch(cell) else harmless(cell)
