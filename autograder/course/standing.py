"""What the gradebook holds of everybody, asked without nbgrader, which takes seconds to load."""

from dataclasses import dataclass

from sqlalchemy import create_engine, inspect, text

QUERY = text(
    """
    SELECT submitted_assignment.student_id, assignment.name, base_cell.name, grade.auto_score, grade.manual_score,
           grade.extra_credit, grade.needs_manual_grade, grade_cells.max_score
    FROM grade
    JOIN submitted_notebook ON submitted_notebook.id = grade.notebook_id
    JOIN submitted_assignment ON submitted_assignment.id = submitted_notebook.assignment_id
    JOIN assignment ON assignment.id = submitted_assignment.assignment_id
    JOIN base_cell ON base_cell.id = grade.cell_id
    JOIN grade_cells ON grade_cells.id = grade.cell_id
    ORDER BY assignment.name, submitted_assignment.student_id, base_cell.name
    """
)


@dataclass(frozen=True)
class Standing:
    """A student's marks in one chapter, manual ones included.

    Parameters
    ----------
    cells
        Name, score and maximum of each graded cell; None where there is no mark.
    waiting
        The cells that a person should mark or look at.
    unmarked
        Those among them that have no mark at all.
    """

    student: str
    stem: str
    cells: tuple[tuple[str, float | None, float], ...]
    waiting: tuple[str, ...] = ()
    unmarked: tuple[str, ...] = ()


def standings(db_url: str) -> list[Standing]:
    """Everybody's marks in all chapters, in order of chapter and student."""
    engine = create_engine(db_url)
    try:
        if not inspect(engine).has_table("grade"):
            return []
        with engine.connect() as connection:
            rows = connection.execute(QUERY).all()
    finally:
        engine.dispose()
    found: dict[tuple[str, str], list] = {}
    for student, stem, *cell in rows:
        found.setdefault((student, stem), []).append(cell)
    return [_standing(student, stem, cells) for (student, stem), cells in found.items()]


def _standing(student: str, stem: str, rows: list) -> Standing:
    cells, waiting, unmarked = [], [], []
    for name, auto, manual, extra, needs_person, most in rows:
        shown = name.removeprefix("check-")
        mark = auto if manual is None else manual
        cells.append((shown, None if mark is None else mark + (extra or 0.0), most))
        waiting += [shown] if needs_person else []
        unmarked += [shown] if mark is None else []
    return Standing(student, stem, tuple(cells), tuple(waiting), tuple(unmarked))
