"""Marks in nbgrader's gradebook, so that its formgrader, reports and manual marks go on working."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nbgrader.api import (
    Comment,
    Grade,
    Gradebook,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.utils import is_grade, is_locked, is_solution
from sqlalchemy import select

from autograder.grading.results import SubmissionResult

COURSE = "attention-course"


@contextlib.contextmanager
def open_gradebook(db_url: str) -> Iterator[Gradebook]:
    """nbgrader's gradebook at a database URL, made where it does not exist."""
    before = os.environ.get("PATH", os.defpath)
    # nbgrader calls the program `alembic` by its name, also where this environment is not activated.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{before}"
    try:
        gradebook = Gradebook(db_url, course_id=COURSE)
    finally:
        os.environ["PATH"] = before
    with gradebook:
        yield gradebook


def register(gradebook: Gradebook, stem: str, released: Mapping[str, Any]) -> None:
    """Enter a chapter's assignment and its cells as they stand in the released notebook; cells that are gone go."""
    gradebook.update_or_create_assignment(stem)
    gradebook.update_or_create_notebook(stem, stem)
    graded, solutions = set(), set()
    for cell in released["cells"]:
        nbgrader = cell["metadata"].get("nbgrader", {})
        name = nbgrader.get("grade_id")
        if is_grade(cell):
            graded.add(name)
            gradebook.update_or_create_grade_cell(
                name, stem, stem, max_score=float(nbgrader["points"]), cell_type=cell["cell_type"]
            )
        if is_solution(cell):
            solutions.add(name)
            gradebook.update_or_create_solution_cell(name, stem, stem)
        if is_grade(cell) or is_solution(cell) or is_locked(cell):
            gradebook.update_or_create_source_cell(
                name,
                stem,
                stem,
                cell_type=cell["cell_type"],
                locked=is_locked(cell),
                source=cell["source"],
                checksum=nbgrader.get("checksum"),
            )
    notebook = gradebook.find_notebook(stem, stem)
    for cells, kept in ((notebook.grade_cells, graded), (notebook.solution_cells, solutions)):
        for cell in cells:
            if cell.name not in kept:
                for entry in (*cell.grades, *(cell.comments or ())):
                    gradebook.db.delete(entry)
                gradebook.db.delete(cell)
    gradebook.db.commit()


def recorded(gradebook: Gradebook, stem: str) -> set[str]:
    """The students whose submission of a chapter is in the gradebook."""
    query = select(SubmittedAssignment.student_id).join(SubmittedAssignment.assignment).filter_by(name=stem)
    return set(gradebook.db.scalars(query))


def record(gradebook: Gradebook, results: Iterable[tuple[str, SubmissionResult]]) -> None:
    """Enter the marks of several submissions in one transaction; again, the new ones take the place of the old."""
    for student, result in results:
        submitted = _submitted_notebook(gradebook, student, result.stem)
        grades = {grade.cell_id: grade for grade in submitted.grades}
        scores = {f"check-{mark.kernel}": mark.score for mark in result.kernels}
        for cell in submitted.notebook.grade_cells:
            grade = grades.get(cell.id) or Grade(cell_id=cell.id, notebook=submitted)
            grade.auto_score = scores.get(cell.name)
            # A cell that no kernel's check stands behind was written by hand, and is for a person to mark.
            grade.needs_manual_grade = grade.auto_score is None or grade.manual_score is not None
    gradebook.db.commit()


def _submitted_notebook(gradebook: Gradebook, student: str, stem: str) -> SubmittedNotebook:
    """A student's notebook of a chapter, entered with its student where it is not there."""
    db = gradebook.db
    notebook: Notebook = gradebook.find_notebook(stem, stem)
    query = (
        select(SubmittedNotebook)
        .join(SubmittedNotebook.assignment)
        .where(SubmittedNotebook.notebook_id == notebook.id, SubmittedAssignment.student_id == student)
    )
    if (found := db.scalars(query).first()) is not None:
        return found
    entry = db.get(Student, student) or Student(id=student)
    submission = SubmittedAssignment(assignment=notebook.assignment, student=entry)
    submitted = SubmittedNotebook(notebook=notebook, assignment=submission)
    for cell in notebook.solution_cells:
        Comment(cell_id=cell.id, notebook=submitted)
    db.add(submission)
    db.flush()
    return submitted
