"""Every way in which a notebook or a kernel can end, and that none of them reaches the next one."""

import os
import signal
import struct
import time
from pathlib import Path

import pytest

from autograder import catalog, judging
from autograder.grading import sandbox, session, staging
from autograder.grading.confining import processes_below
from autograder.grading.session import Limits, Worker, WorkerLost, run_notebook
from autograder.grading.wire import frame_of
from autograder.judging import draw_cases, judge
from autograder.notebooks import ROOT
from tests.grading.rungs import need

pytestmark = pytest.mark.slow
STEM, NAME = "getting_started", "softmax"
LIMITS = Limits(cpu_seconds=1, wall_seconds=60, memory_mb=4_000)
SETUP = f"import numpy as np\nfrom autograder import begin, check, hint\nbegin('{STEM}', release='0')"
RIGHT = """def softmax(x, axis=-1):
    largest = x.max(axis=axis, keepdims=True)
    e = np.exp(x - np.where(np.isneginf(largest), 0, largest).astype(x.dtype))
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0, 1, total).astype(x.dtype)
"""
FULL = sum(aspect.points for aspect in catalog.check_of(NAME).aspects)


# Without a sandbox only where there is none to be had: a worker is the same program on each rung.
RUNGS = (*sandbox.BEST_FIRST, *([sandbox.UNSAFE] if all(map(sandbox.why_not, sandbox.BEST_FIRST)) else []))


@pytest.fixture(scope="module", params=RUNGS)
def worker(request):
    if request.param != sandbox.UNSAFE:
        need(request.param)
    worker = Worker(STEM, request.param)
    yield worker
    worker.close()


def run(worker, *sources, seed=1, limits=LIMITS):
    """The score of softmax, its first fault, and the run."""
    drawn = draw_cases(NAME, seed)
    came = run_notebook(worker, list(enumerate(sources, 1)), {NAME: [frame_of(case) for _, case in drawn]}, limits)
    if NAME not in came.outcomes:
        return None, None, came
    report = judge(NAME, seed, came.outcomes[NAME])
    return report.score, next((finding.fault for finding in report.findings if finding.fault), None), came


def running_processes(marker):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path] if marker.encode() in path.read_bytes() else []
        except OSError:
            continue
    return found


def test_a_right_kernel_has_full_marks(worker):
    assert run(worker, SETUP, RIGHT)[0] == FULL


def test_the_last_definition_counts(worker):
    assert run(worker, SETUP, "def softmax(x, axis=-1):\n    return x", RIGHT)[0] == FULL


@pytest.mark.parametrize(
    ("cell", "kind", "words"),
    [
        ("1 / 0", "raised", "ZeroDivisionError: division by zero"),
        ("x = (", "raised", "SyntaxError"),
        ("raise SystemExit(3)", "raised", "SystemExit: 3"),
        ("input()", "raised", "EOFError"),
        ("import os; os._exit(0)", "crashed", "exit code 0"),
        ("import os; os.kill(0, 9)", "crashed", "SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "crashed", "SIGSEGV"),
        ("while True: pass", "stopped", "1 s of computing"),
    ],
)
def test_a_cell_that_ends_early_costs_nothing_else(worker, cell, kind, words):
    score, _, came = run(worker, SETUP, cell, RIGHT)
    assert score == FULL
    (problem,) = came.problems
    assert (problem.cell, problem.kind) == (2, kind)
    assert words in problem.text


@pytest.mark.parametrize("waits", ["import time; time.sleep(60)", "import threading; threading.Event().wait()"])
def test_a_cell_or_a_kernel_that_waits_is_stopped_by_the_clock(worker, waits):
    limits = Limits(cpu_seconds=1, wall_seconds=3)
    score, _, came = run(worker, SETUP, waits, RIGHT, limits=limits)
    assert score == FULL
    assert came.problems[0].text == "Stopped after 3 s by the clock."
    score, fault, _ = run(worker, SETUP, f"def softmax(x, axis=-1):\n    {waits}", limits=limits)
    assert score == 0
    assert fault.text == "Stopped after 3 s by the clock."


def test_the_clock_of_a_kernel_goes_on_from_case_to_case(worker):
    limits = Limits(cpu_seconds=1, wall_seconds=2)
    code = "import time\ndef softmax(x, axis=-1):\n    time.sleep(0.3)\n    return x"
    _, fault, _ = run(worker, SETUP, code, limits=limits)
    assert (fault.kind, fault.text) == ("stopped", "Stopped after 2 s by the clock.")


def test_a_notebook_of_many_slow_cells_is_stopped_as_a_whole(worker, monkeypatch):
    monkeypatch.setattr(session, "WHOLE", 1)
    cells = ["import time; time.sleep(0.4)"] * 50
    begun = time.monotonic()
    _, fault, came = run(worker, SETUP, *cells, limits=Limits(cpu_seconds=1, wall_seconds=3))
    assert time.monotonic() - begun < 12
    assert fault.text == came.problems[-1].text == "Stopped after 3 s by the clock, all cells and kernels together."


def test_answers_that_would_fill_the_grader_s_memory_are_refused(worker):
    one, other = (f"def softmax(x, axis=-1):\n    return np.empty({count})" for count in (7_000_000, 100_000))
    _, fault, came = run(worker, SETUP, one)
    assert fault.kind == "crashed"
    assert sum(array.nbytes for o in came.outcomes[NAME] for array in o.arrays.values()) <= session.ANSWERS_LIMIT
    assert run(worker, SETUP, other)[1] is None


def test_no_answer_and_no_seed_is_in_the_memory_of_student_code():
    # Without walls a kernel can read all of its process's memory; what is staged and sent is the same on every rung.
    seed = 6_012_345_678_901_234_567
    exam = judging.exam(NAME, seed)
    needles = {
        "control": exam.drawn[0][1].inputs["x"].tobytes()[:24],
        "answer": exam.target(0)["weights"].tobytes()[:24],
        "next answer": exam.target(1)["weights"].tobytes()[:24],
        "seed": struct.pack("<Q", seed),
        "seed as text": str(seed).encode(),
        "nowhere": b"kept by nobody but by the search",
    }
    # Searched for as escapes, which are compiled to numbers of four bytes: the search itself is not found.
    patterns = {name: b"".join(rb"\x%02x" % byte for byte in needle) for name, needle in needles.items()}
    code = f"""
import re
from pathlib import Path
patterns = {{name: re.compile(pattern) for name, pattern in {patterns!r}.items()}}
def softmax(x, axis=-1):
    if not patterns:
        return x
    found = set()
    areas = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    with open("/proc/self/mem", "rb", 0) as memory:
        for addresses, access, *_ in areas:
            start, end = (int(address, 16) for address in addresses.split("-"))
            if not access.startswith("rw"):
                continue
            memory.seek(start)
            try:
                content = memory.read(end - start)
            except (OSError, OverflowError):
                continue
            found |= {{name for name, pattern in patterns.items() if pattern.search(content)}}
    patterns.clear()
    raise RuntimeError(f"found {{sorted(found)}}")
"""
    worker = Worker(STEM, sandbox.UNSAFE)
    try:
        _, fault, _ = run(worker, SETUP, code, seed=seed, limits=Limits(30, 180))
    finally:
        worker.close()
    assert fault.text == "RuntimeError: found ['control']"


def test_a_notebook_of_nothing_but_crashes_is_given_up(worker):
    score, fault, came = run(worker, *["import os; os._exit(1)"] * 9, RIGHT)
    assert score == 0
    assert fault.kind == "crashed"
    assert len(came.problems) == 5


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("while True: pass", "stopped"),
        ("import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n    while True: pass", "stopped"),
        ("import os; os._exit(0)", "crashed"),
        ("import os; os.kill(0, 9)", "crashed"),
        ("raise SystemExit", "raised"),
        ("raise KeyboardInterrupt", "raised"),
        ("return softmax(x, axis)", "raised"),
        ("return np.ones(10**9)", "raised"),
        ("return np.array([object()])", "unusable"),
    ],
)
def test_a_kernel_that_ends_early_is_told_so(worker, body, kind):
    score, fault, _ = run(worker, SETUP, f"def softmax(x, axis=-1):\n    {body}")
    assert score == 0
    assert fault.kind == kind


def test_a_crash_in_one_case_leaves_the_points_of_the_others(worker):
    crash = "import os\n    if x.dtype == np.float32: os._exit(0)\n    if np.isneginf(x).any(): os._exit(0)"
    code = RIGHT.replace("    largest", f"    {crash}\n    largest", 1)
    score, fault, _ = run(worker, SETUP, code)
    assert 0 < score < FULL
    assert fault.kind == "crashed"


def test_a_kernel_that_kills_its_notebook_leaves_the_next_kernel_alone():
    setup = "import os\nimport torch\n_notebook = os.getpid()"
    killer = "def similarity(query, keys):\n    os.kill(_notebook, 9)\n    os._exit(0)"
    kernel = "def attention_weights(query, key):\n    return torch.softmax(query @ key.transpose(-2, -1), -1)"
    cases = {name: [frame_of(case) for _, case in draw_cases(name, 1)] for name in ("similarity", "attention_weights")}
    worker = Worker("attention_layer", sandbox.best())
    try:
        came = run_notebook(worker, [(1, setup), (2, killer), (3, kernel)], cases, LIMITS)
    finally:
        worker.close()
    assert {outcome.fault.kind for outcome in came.outcomes["similarity"]} == {"crashed"}
    assert [outcome.fault for outcome in came.outcomes["attention_weights"]] == [None] * len(cases["attention_weights"])


def test_kernels_are_probed_together_and_apart_where_one_ends_the_process(monkeypatch):
    started = []
    start = Worker.start
    monkeypatch.setattr(Worker, "start", lambda self, *arguments: started.append(1) or start(self, *arguments))
    setup = "import os\nimport torch"
    first = "def similarity(query, keys):\n    {}\n    return torch.mv(keys, query)"
    second = "def attention_weights(query, key):\n    return torch.softmax(query @ key.mT, -1)"
    cases = {name: [frame_of(case) for _, case in draw_cases(name, 1)] for name in ("similarity", "attention_weights")}
    worker = Worker("attention_layer", sandbox.best())
    found = []
    try:
        for line in ("torch.softmax = None", "os._exit(0)"):
            came = run_notebook(worker, [(1, setup), (2, first.format(line)), (3, second)], cases, LIMITS)
            assert [outcome.fault for outcome in came.outcomes["attention_weights"]] == [None] * len(
                cases["attention_weights"]
            )
            kinds = {outcome.fault and outcome.fault.kind for outcome in came.outcomes["similarity"]}
            found.append((kinds, len(started)))
    finally:
        worker.close()
    assert found[0][1] == 1  # child, and what it replaced was put back for the next kernel
    assert found[1] == ({"crashed"}, 3)  # children: one for both kernels, one for each apart


@pytest.mark.parametrize(("code", "kind"), [("softmax = None", ""), ("softmax = 3", "int"), ("", "")])
def test_a_name_that_is_no_function_is_told(worker, code, kind):
    _, _, came = run(worker, SETUP, code)
    assert came.kinds[NAME] == kind


def test_output_is_dropped_and_costs_nothing(worker):
    noise = "import os, sys, warnings\nwarnings.warn('w')\nprint('x' * 10**7)\nos.write(2, b'y' * 10**6)"
    assert run(worker, SETUP, noise, RIGHT)[0] == FULL


def test_notebook_magics_do_no_harm(worker):
    magics = "%matplotlib inline\n!echo hello\n%pip install nothing\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])"
    score, _, came = run(worker, SETUP, magics, "%%time\nx = 1", RIGHT)
    assert score == FULL
    assert came.problems == ()


def test_checks_and_hints_do_nothing(worker):
    score, _, came = run(worker, SETUP, RIGHT, "check('softmax', None)", "hint('softmax')")
    assert score == FULL
    assert came.problems == ()


@pytest.mark.parametrize(
    "module",
    [
        "autograder.checks",
        "autograder.judging",
        "autograder.catalog",
        "autograder.grading.grade",
        f"autograder.checks.{STEM}",
        f"autograder.reference.{STEM}",
        "autograder.reference.attention_layer",
        "tests.sample_class",
    ],
)
def test_what_holds_answers_cannot_be_imported(worker, module):
    _, _, came = run(worker, SETUP, f"import {module}")
    (problem,) = came.problems
    assert problem.text.startswith("ModuleNotFoundError")


def test_the_environment_is_clean(worker, monkeypatch):
    _, _, came = run(worker, f"import sys\nassert {str(ROOT)!r} not in sys.path\nassert sys.flags.isolated")
    assert came.problems == ()
    monkeypatch.setenv("SECRET_TOKEN", "x")
    other = Worker(STEM, worker.rung)
    try:
        _, _, came = run(
            other, "import os\nassert 'SECRET_TOKEN' not in os.environ\nassert os.environ['HOME'] == os.getcwd()"
        )
    finally:
        other.close()
    assert came.problems == ()


def test_the_limits_are_in_force(worker):
    code = "import os, resource\nassert resource.getrlimit(resource.RLIMIT_AS)[0] == 4_000 << 20\n"
    code += (
        "assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0\nassert os.listdir() == []\nopen('own', 'w').close()"
    )
    for _ in range(2):  # the second submission does not see the first one's file
        assert run(worker, code)[2].problems == ()


def test_nothing_outlives_its_submission(worker):
    marker = f"7{os.getpid()}"
    leftovers = f"""
import os, subprocess, sys
sleep = [sys.executable, "-S", "-c", "import time; time.sleep(60)", "{marker}"]
subprocess.Popen(sleep, start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sleep[0], sleep)
    os._exit(0)
"""
    assert run(worker, SETUP, RIGHT, leftovers)[0] == FULL
    assert running_processes(marker) == []


def test_a_worker_that_is_killed_is_reported_lost(worker):
    other = Worker(STEM, worker.rung)
    try:
        for process in [*processes_below(other.process.pid), other.process.pid]:
            os.kill(process, signal.SIGKILL)
        with pytest.raises(WorkerLost):
            run(other, SETUP, RIGHT)
    finally:
        other.close()


def test_killing_the_parent_process_stops_nothing(worker):
    score = run(worker, SETUP, "import os; os.kill(os.getppid(), 9)", RIGHT)[0]
    assert score == FULL or worker.rung == sandbox.UNSAFE
    assert run(worker, SETUP, RIGHT)[0] == FULL


def test_a_submission_takes_a_tenth_of_a_second(worker):
    run(worker, SETUP, RIGHT)
    before, own = time.perf_counter(), time.process_time()
    for _ in range(10):
        run(worker, SETUP, RIGHT)
    assert time.process_time() - own < 1.0
    assert time.perf_counter() - before < 10


@pytest.mark.parametrize("stem", ["getting_started", "attention_layer"])
def test_the_staged_package_holds_no_answer(tmp_path, stem):
    staging.stage(stem, tmp_path)
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert not any("checks" in name or "judging" in name for name in names)
    assert f"autograder/probes/{stem}.py" in names
    references = {Path(name).stem for name in names if name.startswith("autograder/reference/")} - {"__init__"}
    assert references == set(staging.chapters_before(stem)) & set(catalog.kernels().values())
    assert stem not in references


def test_the_table_of_contents_says_what_comes_before(tmp_path, monkeypatch):
    toc = (
        "format: jb-book\nroot: intro\nparts:\n- caption: A\n  chapters:\n  - file: one\n  - file: two\n    sections:\n"
    )
    toc += "    - file: three\n- caption: B\n  chapters:\n  - file: four\n"
    monkeypatch.setattr(staging, "TOC", None)
    with pytest.raises(FileNotFoundError, match=r"book/_toc\.yml, is missing"):
        staging.chapters_before("four")
    monkeypatch.setattr(staging, "TOC", tmp_path / "_toc.yml")
    (tmp_path / "_toc.yml").write_text(toc)
    assert staging.chapters_before("four") == ["one", "two", "three"]
    assert staging.chapters_before("one") == []
    assert staging.chapters_before("other") == []
