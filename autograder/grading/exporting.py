"""Marks as CSV, safe to open in a spreadsheet."""

import csv
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:  # loads nbgrader, which takes seconds
    from autograder.grading.gradebook import Marks

INCOMPLETE = "incomplete"  # in the place of a sum, as long as one of its marks is missing
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def write_csv(
    file: TextIO,
    marks: "Sequence[Marks]",
    totals: Mapping[tuple[str, str], Any] | None = None,
    due: Collection[str] = (),
    percent: Mapping[str, float | None] | None = None,
) -> None:
    """A row for each student; for each chapter a column for each graded cell and one for their sum.

    A cell without a mark is empty, and the sums that it is part of are ``incomplete``.

    Parameters
    ----------
    totals
        Sums with lateness counted, by student and chapter.
    due
        The chapters that can be late: each has two columns more, the days late and the sum after the penalty.
    percent
        What each student has of the whole course; the last column, where it is known.
    """
    columns = sorted({(entry.stem, cell, maximum) for entry in marks for cell, _, maximum in entry.cells})
    stems = sorted({entry.stem for entry in marks})
    by_student: dict[str, dict[str, "Marks"]] = {}
    for entry in marks:
        by_student.setdefault(entry.student, {})[entry.stem] = entry
    has_percent = any(value is not None for value in (percent or {}).values())
    writer = csv.writer(file, quoting=csv.QUOTE_MINIMAL)
    header = ["student"]
    for stem in stems:
        own = [(cell, maximum) for of, cell, maximum in columns if of == stem]
        header += [f"{stem}: {cell} (of {maximum:g})" for cell, maximum in own]
        header.append(f"{stem}: total (of {sum(maximum for _, maximum in own):g})")
        header += [f"{stem}: days late", f"{stem}: after penalty"] if stem in due else []
    writer.writerow([harmless(title) for title in [*header, *(["course: percent"] if has_percent else [])]])
    for student in sorted(by_student):
        row = [harmless(student)]
        for stem in stems:
            entry = by_student[student].get(stem)
            scores = {cell: score for cell, score, _ in entry.cells} if entry else {}
            own = [scores.get(cell) for of, cell, _ in columns if of == stem]
            row += ["" if score is None else f"{score:g}" for score in own]
            row.append(shown(None if None in scores.values() else sum(scores.values())) if entry else "")
            if stem in due:
                total = totals[student, stem] if entry else None
                row += [f"{total.days_late}{'?' * total.is_guess}", shown(total.after_penalty)] if total else ["", ""]
        writer.writerow([*row, *([shown(percent[student], ".1f")] if has_percent else [])])


def shown(value: float | None, form: str = "g") -> str:
    """A sum, or that it is incomplete."""
    return INCOMPLETE if value is None else format(value, form)


def harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula: a leading apostrophe where it would, no control characters."""
    shown = "".join(" " if ord(character) < 32 or ord(character) == 127 else character for character in text)
    dangerous = shown != text and not text[:1].isprintable()
    return f"'{shown}" if dangerous or shown.lstrip().startswith(FORMULA) else shown
