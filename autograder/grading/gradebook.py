"""Marks in nbgrader's gradebook, so that its formgrader, reports and manual marks go on working."""

import contextlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader.api import (
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)
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
        role = cell["metadata"].get("nbgrader", {})
        name = role.get("grade_id")
        if role.get("grade"):
            graded.add(name)
            points, kind = float(role["points"]), cell["cell_type"]
            gradebook.update_or_create_grade_cell(name, stem, stem, max_score=points, cell_type=kind)
        if role.get("solution"):
            solutions.add(name)
            gradebook.update_or_create_solution_cell(name, stem, stem)
        if name is not None:
            gradebook.update_or_create_source_cell(
                name,
                stem,
                stem,
                cell_type=cell["cell_type"],
                locked=bool(role.get("locked")),
                source="".join(cell["source"]),
                checksum=role.get("checksum"),
            )
    notebook = gradebook.find_notebook(stem, stem)
    gone = [cell for cell in notebook.grade_cells if cell.name not in graded]
    gone += [cell for cell in notebook.solution_cells if cell.name not in solutions]
    for cell in gone:
        for entry in (*cell.grades, *(cell.comments or ()), cell):
            gradebook.db.delete(entry)
    gradebook.db.commit()


def record(gradebook: Gradebook, results: Iterable[tuple[str, SubmissionResult]]) -> None:
    """Enter the marks of several submissions in one transaction; again, the new ones take the place of the old."""
    for student, result in results:
        scores = {f"check-{mark.kernel}": mark.score for mark in result.kernels}
        for cell, grade in _grades(gradebook, student, result.stem):
            grade.auto_score = scores.get(cell.name)
            # A cell that no kernel's check stands behind was written by hand, and is for a person to mark.
            grade.needs_manual_grade = grade.auto_score is None or grade.manual_score is not None
    gradebook.db.commit()


def comment(gradebook: Gradebook, student: str, stem: str, unanswered: Collection[str]) -> None:
    """Say of the cells for answers that were not touched that there is no response, as nbgrader does."""
    for entry in _submitted_notebook(gradebook, student, stem).comments:
        entry.auto_comment = "No response." if entry.name in unanswered else None
    gradebook.db.commit()


def take_back(gradebook: Gradebook, submissions: Iterable[tuple[str, str]]) -> None:
    """Take back the automatic marks of submissions that are to be graded, given by student and chapter.

    Until the new marks come, formgrader shows that they need a person: where grading fails, no old mark stands as new.
    Manual marks stay.
    """
    for student, stem in submissions:
        for _, grade in _grades(gradebook, student, stem):
            grade.auto_score, grade.needs_manual_grade = None, True
    gradebook.db.commit()


def _grades(gradebook: Gradebook, student: str, stem: str) -> Iterator[tuple[GradeCell, Grade]]:
    """Each graded cell of a chapter with its grade for a student, entered where it is not there."""
    submitted = _submitted_notebook(gradebook, student, stem)
    grades = {grade.cell_id: grade for grade in submitted.grades}
    for cell in gradebook.find_notebook(stem, stem).grade_cells:
        if (grade := grades.get(cell.id)) is None:
            grade = Grade(cell_id=cell.id, notebook_id=submitted.id)
            gradebook.db.add(grade)
        yield cell, grade


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
    if db.get(Student, student) is None:
        db.add(Student(id=student))
    submission = SubmittedAssignment(assignment_id=notebook.assignment_id, student_id=student)
    db.add(submission)
    db.flush()
    submitted = SubmittedNotebook(notebook_id=notebook.id, assignment_id=submission.id)
    db.add(submitted)
    db.flush()
    db.add_all(Comment(cell_id=cell.id, notebook_id=submitted.id) for cell in notebook.solution_cells)
    return submitted


@dataclass(frozen=True)
class Marks:
    """A student's marks in one chapter, manual ones included: name, score and maximum of each graded cell."""

    student: str
    stem: str
    cells: tuple[tuple[str, float, float], ...]


def marks_of_all(gradebook: Gradebook) -> list[Marks]:
    """Everybody's marks in all chapters."""
    found = []
    for submission in gradebook.db.scalars(select(SubmittedAssignment)):
        cells = tuple(
            (grade.cell.name.removeprefix("check-"), grade.score, grade.cell.max_score)
            for notebook in submission.notebooks
            for grade in notebook.grades
        )
        found.append(Marks(submission.student_id, submission.name, cells))
    return found
