"""Marks with lateness counted: what was earned, how late it was, and what is left by the course's rule."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autograder.course.handed_in import Ledger, graded
from autograder.course.settings import Settings
from autograder.course.standing import Standing


@dataclass(frozen=True)
class Total:
    """A student's sum in one chapter.

    Parameters
    ----------
    earned, points
        The points earned, None as long as a cell has no mark, and those that can be.
    days_late
        Days begun after the deadline; 0 in time.
    is_guess
        Whether it was late by a time that nobody knows, which counts as one day.
    after_penalty
        What the rule for lateness leaves of ``earned``, or None.
    """

    earned: float | None
    points: float
    days_late: int
    is_guess: bool
    after_penalty: float | None


Totals = Mapping[tuple[str, str], Total]


def totals(entries: Iterable[Standing], ledger: Ledger, settings: Settings) -> dict[tuple[str, str], Total]:
    """The sums of all students in all chapters, by student and chapter."""
    found = {}
    for entry in entries:
        handed_in = graded(ledger, entry.student, entry.stem)
        days = handed_in.days_late(settings) if handed_in else 0
        scores = [score for _, score, _ in entry.cells]
        earned = None if None in scores else sum(scores)
        found[entry.student, entry.stem] = Total(
            earned=earned,
            points=sum(points for _, _, points in entry.cells),
            days_late=days,
            is_guess=bool(days and handed_in.lateness_is_guessed),
            after_penalty=None if earned is None else settings.late.after_penalty(earned, days),
        )
    return found


def course_percent(student: str, sums: Totals, settings: Settings) -> float | None:
    """What a student has of the whole course, in percent: the assigned chapters by weight, a missing one counts 0.

    None where no chapter has a weight, and as long as a mark is missing in one that was handed in.
    """
    weights = {stem: assignment.weight for stem, assignment in settings.chapters.items() if assignment.weight}
    if not weights:
        return None
    own = {stem: sums.get((student, stem)) for stem in weights}
    if any(total and total.after_penalty is None for total in own.values()):
        return None
    parts = {stem: total.after_penalty / total.points if total and total.points else 0.0 for stem, total in own.items()}
    return 100 * sum(weights[stem] * parts[stem] for stem in weights) / sum(weights.values())
