"""Submissions that are graded by other processes before somebody asks for their results, who asks one at a time."""

from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Executor, Future
from itertools import islice

from autograder.grading.grade import grade_found
from autograder.grading.placing import Found
from autograder.grading.results import SubmissionResult
from autograder.grading.session import Limits


class Ahead:
    """Grade submissions in the order in which they will be asked for, some of them ahead.

    Parameters
    ----------
    executor
        What grades them.
    submissions
        What will probably be asked for; each is read when its turn to be graded comes.
    window
        How many are graded, or lie there graded, at once: memory does not grow with the size of the class.
    seed, limits, rung
        As of ``grade_found``.
    """

    def __init__(
        self, executor: Executor, submissions: Iterable[Found], window: int, seed: int, limits: Limits, rung: str
    ):
        self.executor, self.coming, self.window = executor, iter(submissions), window
        self.context = seed, limits, rung
        self.begun: dict[tuple[str, str], tuple[Found, Callable[[], SubmissionResult]]] = {}

    def result(self, found: Found) -> SubmissionResult:
        """The result of a submission; it is graded now where that was not begun, or where it has changed since.

        With the last of those that were coming the executor ends; what else is asked for is graded in this process.
        """
        place = found.student, found.stem
        if place in self.begun:
            while next(iter(self.begun)) != place:  # nobody asked for those before it
                self.begun.pop(next(iter(self.begun)))
        ahead, result = self.begun.pop(place, (None, None))
        if ahead != found:
            result = self._submit(found)
        self.begin()
        if not self.begun:
            self.executor.shutdown(wait=False)  # it ends when it has done what it was given
        return result()

    def begin(self) -> None:
        """Hand to the executor what has room in the window."""
        for found in islice(self.coming, self.window - len(self.begun)):
            self.begun[found.student, found.stem] = found, self._submit(found)

    def _submit(self, found: Found) -> Callable[[], SubmissionResult]:
        """Hand a submission to the executor; what waits for its result, and grades here where the executor is lost."""
        try:
            future: Future = self.executor.submit(grade_found, found, *self.context)
        except (RuntimeError, OSError):  # it has ended, or lost a process
            return lambda: grade_found(found, *self.context)

        def result() -> SubmissionResult:
            try:
                return future.result()
            except BrokenExecutor:
                return grade_found(found, *self.context)

        return result
