"""How far a run of the grader is: a bar for a terminal, a line now and then for a log."""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

LOG_SECONDS = 60


class RateColumn(ProgressColumn):
    """Submissions in a second, or in a minute where they take longer."""

    def render(self, task: Task) -> Text:
        return Text(rate(task.finished_speed or task.speed or 0), style="progress.data.speed")


def rate(speed: float) -> str:
    """A speed in submissions a second, in words."""
    if speed <= 0:
        return ""
    return f"{speed:.1f} a second" if speed >= 1 else f"{60 * speed:.1f} a minute"


@contextlib.contextmanager
def bar(console: Console) -> Iterator[Callable[[int, int], None]]:
    """A bar with the rate and the remaining time; what is yielded takes the number that is new, and of all."""
    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), RateColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, speed_estimate_period=120) as progress:
        task = progress.add_task("grading", total=None)
        yield lambda done, total: progress.update(task, advance=done, total=total)


class LogLines:
    """A line in the log each minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self.clock, self.done = clock, 0
        self.begun = self.said = clock()

    def __call__(self, done: int, total: int) -> None:
        self.done, now = self.done + done, self.clock()
        if now - self.said < LOG_SECONDS or not 0 < self.done < total:
            return
        speed = self.done / (now - self.begun)
        left = (total - self.done) / speed
        print(f"{self.done} of {total} graded, {rate(speed)}, {left / 60:.0f} min left", flush=True)
        self.said = now
