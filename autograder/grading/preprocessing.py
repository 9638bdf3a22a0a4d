"""``nbgrader autograde`` by way of the sandbox: what ``nbgrader_config.py`` puts in the place of nbgrader's own parts.

nbgrader converts each notebook twice: it writes a clean copy, then runs that and takes the marks from its outputs. Here
``SubmissionExporter`` makes the clean copy, ``GradeKernels`` stands for Execute, and ``SaveMarks`` for SaveAutoGrades.
No student code runs in nbgrader's process, nor in a kernel that it starts. Other processes grade ahead of nbgrader,
which takes one submission after the other.
"""

import atexit
import contextlib
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader import api
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Enum, Integer, Unicode

from autograder import catalog
from autograder.grading import gradebook as marks
from autograder.grading.ahead import Ahead
from autograder.grading.autograded import mark_of_cell, restored_notebook, verdict
from autograder.grading.batch import pool
from autograder.grading.confining import RUNGS
from autograder.grading.grade import close_workers, use_one_thread
from autograder.grading.placing import Found, find_of_student
from autograder.grading.records import Results, course_digest, key_of, seed_of
from autograder.grading.sandbox import best
from autograder.grading.session import Limits
from autograder.grading.submission import NotReadable, read_notebook, read_released
from autograder.grading.summary import remarks
from autograder.notebooks import checksum, released

course = functools.cache(course_digest)  # what decides the marks of a chapter, as it was when the run began


class SubmissionExporter(NotebookExporter):
    """Read what was handed in as the grader reads it, be it a notebook or not, and put the marks of the release on it.

    Before anything of a submission is converted, its old marks are taken back.
    """

    directory = Unicode(help="the grading directory, with the seed and the results").tag(config=True)
    cpu_seconds = Integer(Limits.cpu_seconds, help="for a cell or a kernel").tag(config=True)
    wall_seconds = Integer(Limits.wall_seconds, help="the same by the clock").tag(config=True)
    sandbox = Enum(
        (None, *RUNGS), None, help='what shuts student code in (default: the best that works here; "none" is unsafe)'
    ).tag(config=True)

    workers = Integer(None, allow_none=True, help="how many are graded at once (default: one for each core)").tag(
        config=True
    )

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.parent.pre_convert_hook = self.begin
        self.registered: set[str] = set()
        # nbgrader opens the gradebook many times for each submission. An engine remembers its compiled statements.
        api.create_engine = functools.cache(api.create_engine)
        use_one_thread()
        atexit.register(close_workers)

    @property
    def limits(self) -> Limits:
        return Limits(self.cpu_seconds, self.wall_seconds)

    @functools.cached_property
    def seed(self) -> int:
        return seed_of(Path(self.directory))

    @functools.cached_property
    def ahead(self) -> Ahead:
        """The results of the class, which other processes grade."""
        count = self.workers or os.cpu_count() or 1
        executor = pool(count)
        return Ahead(executor, self.to_be_graded(), 4 * count, self.seed, self.limits, self.sandbox or best())

    def to_be_graded(self) -> Iterator[Found]:
        """What nbgrader is about to convert, in its order: all that is new, or everything by force."""
        coursedir, names = self.parent.coursedir, ("(?P<student>.*)", "(?P<assignment>.*)")
        pattern = re.compile(coursedir.format_path(coursedir.submitted_directory, *names, escape=True))
        for path in sorted(self.parent.assignments):
            of = pattern.match(path).groupdict()
            copy = coursedir.format_path(coursedir.autograded_directory, of["student"], of["assignment"])
            stamps = [coursedir.get_existing_timestamp(folder) for folder in (path, copy)]
            is_newer = None not in stamps and stamps[0] > stamps[1]
            if self.parent.force or is_newer or not os.path.exists(copy):
                with contextlib.suppress(Exception):  # it is met again, and reported, when its turn comes
                    yield self.find(of)

    def begin(self, assignment: str, student: str, notebooks: list[str]) -> None:
        """What nbgrader calls before it converts what one student handed in for one assignment."""
        of = self.parent.init_single_notebook_resources(notebooks[0])["nbgrader"]
        found = self.find(of)
        # nbgrader goes on with what is in this list. It would pass over a notebook that bears another name.
        notebooks[:] = [str(self._proper_path(of))]
        try:
            Results(Path(self.directory)).remove(found.student, found.stem)
            with marks.open_gradebook(of["db_url"]) as gradebook:
                if found.stem not in self.registered:
                    marks.register(gradebook, found.stem, released(found.stem))
                    self.registered.add(found.stem)
                marks.take_back(gradebook, [(found.student, found.stem)])
        except Exception as error:
            self.log.error("The old marks of %s in %s are not taken back: %s", found.student, found.stem, error)
            raise
        self.ahead.begin()

    def from_filename(self, filename: str, resources: dict[str, Any] | None = None, **options: Any):
        of = resources["nbgrader"]
        if Path(filename) != self._proper_path(of):  # the clean copy
            return super().from_filename(filename, resources, **options)
        found = self.find(of)
        try:
            cells = read_notebook(found.data or b"")["cells"]
        except NotReadable:
            cells = read_released(found.stem)["cells"]
        return self.from_notebook_node(
            nbformat.from_dict(restored_notebook(cells, released(found.stem))), resources, **options
        )

    def find(self, of: dict[str, str]) -> Found:
        """What nbgrader speaks of, as found by the grader.

        Raises
        ------
        ValueError
            If it is of no chapter of the course.
        """
        path = self._proper_path(of)
        stem = of["assignment"]
        if stem not in catalog.kernels().values():
            raise ValueError(f"{stem} is not a chapter of the course; grade it with an nbgrader_config.py of its own.")
        return next(find_of_student(path.parents[1], [stem]))

    def _proper_path(self, of: dict[str, str]) -> Path:
        """Where a submission lies that bears the right name."""
        coursedir = self.parent.coursedir
        folder = coursedir.format_path(coursedir.submitted_directory, of["student"], of["assignment"])
        return Path(folder, f"{of['assignment']}.ipynb")


class GradeKernels(NbGraderPreprocessor):
    """Grade a submission in the sandbox, and write the verdicts into the check cells of its clean copy."""

    def preprocess(self, nb, resources):
        exporter = self.parent
        found = exporter.find(resources["nbgrader"])
        result = exporter.ahead.result(found)
        for remark in remarks(result):
            self.log.warning("%s: %s", found.student, remark)
        for cell in nb.cells:
            if (mark := mark_of_cell(cell, result)) is not None:
                cell.outputs = [nbformat.from_dict(output) for output in verdict(mark)]
        key = key_of(found, exporter.seed, exporter.limits, course(found.stem))
        resources["autograder"] = {"result": result, "key": key}
        return nb, resources


class SaveMarks(NbGraderPreprocessor):
    """Enter the marks in the gradebook, and then file the result."""

    def preprocess(self, nb, resources):
        of, graded = resources["nbgrader"], resources["autograder"]
        unanswered = {
            cell.metadata.nbgrader.grade_id
            for cell in nb.cells
            if "nbgrader" in cell.metadata and cell.metadata.nbgrader.get("checksum") == checksum(cell)
        }
        with marks.open_gradebook(of["db_url"]) as gradebook:
            marks.record(gradebook, [(of["student"], graded["result"])])
            marks.comment(gradebook, of["student"], of["assignment"], unanswered)
        Results(Path(self.parent.directory)).write(of["student"], graded["key"], graded["result"])
        return nb, resources
