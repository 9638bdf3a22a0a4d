"""Marks as CSV, safe to open in a spreadsheet."""

import csv
from collections.abc import Sequence
from typing import TextIO

from autograder.grading.gradebook import Marks

FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def write_csv(file: TextIO, marks: Sequence[Marks]) -> None:
    """A row for each student; for each chapter a column for each graded cell and one for their sum."""
    columns = sorted({(entry.stem, cell, maximum) for entry in marks for cell, _, maximum in entry.cells})
    stems = sorted({entry.stem for entry in marks})
    by_student: dict[str, dict[str, Marks]] = {}
    for entry in marks:
        by_student.setdefault(entry.student, {})[entry.stem] = entry
    writer = csv.writer(file, quoting=csv.QUOTE_MINIMAL)
    header = ["student"]
    for stem in stems:
        own = [(cell, maximum) for of, cell, maximum in columns if of == stem]
        header += [f"{stem}: {cell} (of {maximum:g})" for cell, maximum in own]
        header.append(f"{stem}: total (of {sum(maximum for _, maximum in own):g})")
    writer.writerow([harmless(title) for title in header])
    for student in sorted(by_student):
        row = [harmless(student)]
        for stem in stems:
            entry = by_student[student].get(stem)
            scores = {cell: score for cell, score, _ in entry.cells} if entry else {}
            row += ["" if cell not in scores else f"{scores[cell]:g}" for of, cell, _ in columns if of == stem]
            row.append(f"{sum(scores.values()):g}" if entry else "")
        writer.writerow(row)


def harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula: a leading apostrophe where it would, no control characters."""
    shown = "".join(" " if ord(character) < 32 or ord(character) == 127 else character for character in text)
    dangerous = shown != text and not text[:1].isprintable()
    return f"'{shown}" if dangerous or shown.lstrip().startswith(FORMULA) else shown
