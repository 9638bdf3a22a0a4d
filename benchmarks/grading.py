"""What grading costs: a class beside stock nbgrader, growth to thousands, SIGKILLs, and a machine that is busy.

Run ``python -m benchmarks.grading class`` (or ``growth``, ``chaos``, ``load``). Each measures what it compares in one
run on one machine. Stock nbgrader runs on a part of the class, and on notebooks without their experiments, which the
direct path does not run at all: both are in its favour.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from autograder import notebooks
from autograder.grading import batch, grade, session
from autograder.grading.records import Results
from tests.sample_class import sample_class, without_experiments

STEM = "attention_layer"
STOCK_CONFIG = "c = get_config()\nc.CourseDirectory.course_id = 'attention-course'\n"


@dataclass(frozen=True)
class Cost:
    """What a run took: seconds by the clock, seconds of computing by all its processes, the parent's peak memory."""

    wall: float
    cpu: float
    peak_mb: float = 0.0


def write_class(directory: Path, stem: str, students: int) -> None:
    """A class of submissions, each different, that stock nbgrader can grade too."""
    notebook_of = [next(iter(sample.files.values())) for sample in sample_class(stem) if sample.intact]
    for number in range(students):
        notebook = json.loads(without_experiments(notebook_of[number % len(notebook_of)]))
        notebook["cells"][0]["source"] += f"\n\nHanded in by number {number}."
        path = directory / f"student{number:05}" / stem / f"{stem}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(notebook), encoding="utf-8")


def run(command: list[str], directory: Path, kill_after: float | None = None) -> Cost:
    """Run a command of this environment and measure it with all that it starts."""
    path = f"{Path(sys.executable).parent}:{os.defpath}"
    environment = {"PATH": path, "HOME": str(directory), "PYTHONPATH": str(notebooks.ROOT), "OMP_NUM_THREADS": "1"}
    begun, peak = time.monotonic(), 0
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=directory, env=environment, stdout=log, stderr=log
        )
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            peak = max(peak, _peak_kb(process.pid))
            if kill_after is not None and time.monotonic() - begun > kill_after:
                process.kill()
            time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    if process.returncode and kill_after is None:
        raise RuntimeError(f"{command} ended with {process.returncode}:\n{(directory / 'log').read_text()[-3000:]}")
    return Cost(time.monotonic() - begun, ended[2].ru_utime + ended[2].ru_stime, peak / 1024)


def _peak_kb(process: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{process}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])
    return 0


def direct(directory: Path, stem: str, kill_after: float | None = None) -> Cost:
    """Grade what is in ``directory/submitted`` by ``autograder grade``."""
    command = ["autograder.cli", "grade", "submitted", "--out", ".", "--assignment", stem, "--quiet"]
    return run(command, directory, kill_after)


def stock_nbgrader(directory: Path, stem: str) -> Cost:
    """Grade what is in ``directory/submitted`` by nbgrader as it comes."""
    source = directory / "source" / stem / f"{stem}.ipynb"
    source.parent.mkdir(parents=True)
    shutil.copy(notebooks.ROOT / "solutions" / stem / f"{stem}.ipynb", source)
    (directory / "nbgrader_config.py").write_text(STOCK_CONFIG)
    run(["nbgrader", "generate_assignment", stem], directory)
    return run(["nbgrader", "autograde", stem], directory)


def our_nbgrader(directory: Path, stem: str) -> Cost:
    """Grade what is in ``directory/_build/grading/submitted`` by nbgrader with our configuration."""
    shutil.copy(notebooks.ROOT / "nbgrader_config.py", directory)
    return run(["nbgrader", "autograde", stem], directory)


def marks(gradebook: Path) -> dict[str, tuple[int, float]]:
    """By student the number of marks and their sum."""
    with contextlib.closing(sqlite3.connect(gradebook)) as connection:
        rows = connection.execute(
            "SELECT student_id, COUNT(*), SUM(auto_score) FROM submitted_assignment AS assignment "
            "JOIN submitted_notebook AS notebook ON notebook.assignment_id = assignment.id "
            "JOIN grade ON grade.notebook_id = notebook.id GROUP BY student_id"
        )
        return {student: (count, score) for student, count, score in rows}


def compare_class(directory: Path, stem: str, students: int, sample: int) -> dict[str, tuple[int, Cost, dict]]:
    """Grade one class in three ways: submissions, cost and marks of each; stock nbgrader takes the first ``sample``."""
    ours = directory / "ours"
    places = {
        "stock nbgrader autograde": (directory / "stock", "submitted", sample, stock_nbgrader),
        "nbgrader autograde, our configuration": (
            ours,
            "_build/grading/submitted",
            students,
            our_nbgrader,
        ),
        "autograder grade": (directory / "direct", "submitted", students, direct),
    }
    found = {}
    for name, (place, submitted, count, by) in places.items():
        write_class(place / submitted, stem, count)
        cost = by(place, stem)
        found[name] = (count, cost, marks((place / submitted).parent / "gradebook.db"))
    return found


def report_class(directory: Path, stem: str, students: int, sample: int) -> None:
    print(f"{students} submissions of {stem}; stock nbgrader on {sample} of them, scaled")
    start = run(["nbgrader", "--version"], directory)
    found = compare_class(directory, stem, students, sample)
    scaled = {}
    for name, (count, cost, _) in found.items():
        each = (cost.wall - start.wall) / count
        scaled[name] = start.wall + each * students
        print(
            f"  {name:40}{cost.wall:8.1f} s for {count}: {students / scaled[name]:7.2f} a second, "
            f"{(cost.cpu - start.cpu) / count:6.3f} CPU s each"
        )
    stock = next(iter(scaled.values()))
    for name, seconds in list(scaled.items())[1:]:
        print(f"  {name}: {stock / seconds:.1f} times the throughput of stock nbgrader")
    names = list(found)
    same = found[names[1]][2] == found[names[2]][2]
    print(f"  the two ways through the sandbox give the same marks: {same}")
    least = {student: found[names[2]][2][student] for student in found[names[0]][2]}
    print(f"  stock nbgrader gives the same marks: {least == found[names[0]][2]}")
    own, beyond = overhead(directory / "overhead", stem, min(students, 60))
    print(f"  CPU s of a submission: {own:.3f} in the student's process, {beyond:.3f} beyond")


def overhead(directory: Path, stem: str, students: int) -> tuple[float, float]:
    """CPU seconds of a submission in the student's process, and in all others: grader, sandbox, gradebook."""
    write_class(directory / "submitted", stem, students + 1)
    own = 0.0
    end = session.Worker.end

    def counted(worker: session.Worker) -> tuple[int, float, str]:
        nonlocal own
        status = end(worker)
        own += status[1]
        return status

    grade.use_one_thread()
    url = f"sqlite:///{directory / 'gradebook.db'}"
    last = directory / "submitted" / f"student{students:05}"
    shutil.copytree(last, directory / "first" / last.name)
    shutil.rmtree(last)
    with mock.patch.object(session.Worker, "end", counted), mock.patch.object(batch, "_executor", _Here):
        batch.grade_directory(directory / "first", [stem], url, directory)  # loads all that is loaded once
        own, before = 0.0, _cpu()
        batch.grade_directory(directory / "submitted", [stem], url, directory)
        total = _cpu() - before
    grade.close_workers()
    return own / students, (total - own) / students


class _Here(contextlib.AbstractContextManager):
    """An executor that does the work where it stands."""

    def __init__(self, *arguments):
        pass

    def __exit__(self, *error) -> None:
        pass

    def submit(self, function: Callable, *arguments) -> Future:
        future: Future = Future()
        future.set_result(function(*arguments))
        return future


def _cpu() -> float:
    """CPU seconds of this process and of its warm sandboxes with all that they have ended."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    seconds = own.ru_utime + own.ru_stime
    for worker in grade._workers.values():
        seconds += _tree_cpu(worker.process.pid)
    return seconds


def _tree_cpu(process: int) -> float:
    """CPU seconds of a process, of its children that have ended, and of those that run."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    seconds = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        with contextlib.suppress(OSError):
            seconds += _tree_cpu(int(child))
    return seconds


def growth(directory: Path, stem: str, sizes: list[int]) -> Iterator[tuple[int, Cost]]:
    """The cost of classes of several sizes, one after the other."""
    for size in sizes:
        place = directory / str(size)
        write_class(place / "submitted", stem, size)
        cost = direct(place, stem)
        assert len(marks(place / "gradebook.db")) == size
        shutil.rmtree(place)
        yield size, cost


def report_growth(directory: Path, stem: str, sizes: list[int]) -> None:
    print(f"classes of {stem}")
    for size, cost in growth(directory, stem, sizes):
        print(
            f"  {size:5}: {cost.wall:7.1f} s, {cost.cpu / size:6.3f} CPU s each, parent's peak {cost.peak_mb:5.0f} MB",
            flush=True,
        )


def chaos(directory: Path, stem: str, students: int, kills: int, seed: int = 0) -> tuple[dict, dict, list[int]]:
    """Results of an undisturbed run and of one killed at random moments, and how many were done at each kill."""
    drawn = random.Random(seed)
    undisturbed, disturbed = directory / "undisturbed", directory / "disturbed"
    for place in (undisturbed, disturbed):
        write_class(place / "submitted", stem, students)
    whole = direct(undisturbed, stem).wall
    shutil.copy(undisturbed / "seed", disturbed)
    done = []
    while len(done) < kills:
        direct(disturbed, stem, kill_after=drawn.uniform(0, whole * 0.5))
        done.append(len(list(Results(disturbed).all())))
        if done[-1] == students:  # finished too soon: take half of the results away, and go on
            for path in sorted(disturbed.glob("results/*/*.json"))[::2]:
                path.unlink()
    direct(disturbed, stem)
    states = [(marks(place / "gradebook.db"), dict(Results(place).all())) for place in (undisturbed, disturbed)]
    return states[0], states[1], done


def report_chaos(directory: Path, stem: str, students: int, kills: int, seed: int) -> None:
    undisturbed, disturbed, done = chaos(directory, stem, students, kills, seed)
    print(f"{students} submissions of {stem}, {kills} SIGKILLs (seed {seed}); done at each: {done}")
    print(f"  the gradebook equals the undisturbed one: {undisturbed[0] == disturbed[0]}")
    print(f"  the results equal the undisturbed ones: {undisturbed[1] == disturbed[1]}")


@contextlib.contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keep cores busy, several times over."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for burner in burners:
            burner.send_signal(signal.SIGKILL)
            burner.wait()


def load(directory: Path, stem: str, students: int, burners: int) -> tuple[dict, dict]:
    """The marks of a class on the machine as it is, and with more to do than it can."""
    calm, loaded = directory / "calm", directory / "loaded"
    for place in (calm, loaded):
        write_class(place / "submitted", stem, students)
    direct(calm, stem)
    shutil.copy(calm / "seed", loaded)
    with busy(burners):
        direct(loaded, stem)
    return dict(Results(calm).all()), dict(Results(loaded).all())


def report_load(directory: Path, stem: str, students: int, burners: int) -> None:
    calm, loaded = load(directory, stem, students, burners)
    print(f"{students} submissions of {stem} beside {burners} processes that never rest")
    print(f"  the results are those of a calm machine: {calm == loaded}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("class", "growth", "chaos", "load"))
    parser.add_argument("--stem", default=STEM, help=f"the chapter (default: {STEM})")
    parser.add_argument("--students", type=int, default=200)
    parser.add_argument("--sample", type=int, default=20, help="submissions for stock nbgrader (default: 20)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 500, 1000, 2000])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--burners", type=int, default=2 * (os.cpu_count() or 1))
    given = parser.parse_args()
    reports: dict[str, Callable[[Path], None]] = {
        "class": lambda place: report_class(place, given.stem, given.students, given.sample),
        "growth": lambda place: report_growth(place, given.stem, given.sizes),
        "chaos": lambda place: report_chaos(place, given.stem, given.students, given.kills, given.seed),
        "load": lambda place: report_load(place, given.stem, given.students, given.burners),
    }
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        reports[given.what](Path(name))


if __name__ == "__main__":
    main()
