"""The grader's end of a worker: run a notebook's cells and probe its kernels, through every way they can end."""

import contextlib
import math
import os
import signal
import socket
import struct
import tempfile
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import telling
from autograder.grading import sandbox, staging
from autograder.grading.confining import EXCESSES, FILE_LIMIT, PROCESS_LIMIT
from autograder.grading.wire import Channel, Closed, TimedOut, WireError, channels, unpack_outcome
from autograder.grading.worker import END, ORDER, START, STATUS
from autograder.probing import Fault, Outcome

START_SECONDS = 120
LEAST_SECONDS = 0.1
AHEAD_BYTES = 50_000  # of cases that are sent before the one ahead of them is answered
# For a kernel in the notebook's own process; one that takes longer gets a process and all of its limits to itself.
TOGETHER_CPU_SECONDS, TOGETHER_WALL_SECONDS = 3, 20
FATAL_LIMIT = 5  # cells that may end the process before the notebook is given up
WHOLE = 10  # times the limit by the clock that a notebook has in all, however often it runs
ANSWERS_LIMIT = 1 << 26  # bytes of a kernel's arrays, all cases together; right ones take a twentieth of it
EXCESS_TEXTS = {
    "memory": "Stopped: all processes together used more than {} MB of memory.",
    "processes": f"Stopped: more than {PROCESS_LIMIT} processes ran at once.",
    "files": f"Stopped: the files that were written take more than {FILE_LIMIT >> 20} MB.",
}
STOP_SIGNALS = (signal.SIGXCPU, signal.SIGKILL)


@dataclass(frozen=True)
class Limits:
    """What a submission may use.

    Parameters
    ----------
    cpu_seconds
        For each cell, and for all cases of one kernel together.
    wall_seconds
        The same by the clock, for code that waits instead of computing. Generous: a loaded machine is no fault. The
        whole notebook has ``WHOLE`` times as many.
    memory_mb
        Address space, some 800 MB of which the preloaded libraries take.
    """

    cpu_seconds: int = 30
    wall_seconds: int = 180
    memory_mb: int = 6_000


@dataclass(frozen=True)
class CellProblem:
    """Why a cell did not run to its end. ``kind`` is "raised", "stopped" or "crashed"."""

    cell: int
    kind: str
    text: str
    line: int | None = None


@dataclass(frozen=True)
class Run:
    """What came of a notebook.

    Parameters
    ----------
    problems
        Why cells did not run to their end.
    kinds
        What each kernel's name stands for: "callable", the name of another type, or "" where it is not defined.
    outcomes
        One for each case of each kernel that is callable.
    """

    problems: tuple[CellProblem, ...]
    kinds: Mapping[str, str]
    outcomes: Mapping[str, tuple[Outcome, ...]]


class WorkerLost(Exception):
    """The warm parent itself is gone."""


class Ended(Exception):
    """The process that ran a submission is gone; ``text`` says why, ``kind`` is that of a fault."""

    def __init__(self, kind: str, text: str):
        super().__init__(text)
        self.kind, self.text = kind, text


class Worker:
    """A warm parent process for one chapter, started once and used for one submission after the other.

    Parameters
    ----------
    stem
        The chapter.
    rung
        The rung of the ladder that shuts student code in: "bubblewrap", "landlock" or "none".
    """

    def __init__(self, stem: str, rung: str):
        self.rung = rung
        self.directory = tempfile.TemporaryDirectory(prefix="autograder-", ignore_cleanup_errors=True)
        stage, home = (Path(self.directory.name) / name for name in ("stage", "home"))
        staging.stage(stem, stage)
        home.mkdir()
        self.control, theirs = socket.socketpair()
        with theirs:
            self.process = sandbox.launch(
                "autograder.grading.worker", {"stem": stem}, stage, home, rung, theirs.fileno()
            )
        self.control.settimeout(START_SECONDS)
        if self.control.recv(1) != START:
            raise RuntimeError(f"The worker did not start:\n{(home / 'log').read_text(errors='replace')[-4000:]}")

    def start(self, memory_mb: int) -> Channel:
        """Fork a child for a submission; the channel to it."""
        channel, theirs = channels()
        with theirs:
            try:
                socket.send_fds(self.control, [ORDER.pack(START, memory_mb)], [theirs.fileno()])
            except OSError as error:
                raise WorkerLost(f"The worker ended: {error}") from None
        return channel

    def end(self) -> tuple[int, float, str]:
        """End the child and all that it left running; its wait status, its CPU seconds, what it used too much of."""
        try:
            self.control.sendall(ORDER.pack(END, 0))
            status, seconds, excess = STATUS.unpack(self.control.recv(STATUS.size, socket.MSG_WAITALL))
            return status, seconds, EXCESSES[excess]
        except (OSError, struct.error) as error:
            raise WorkerLost(f"The worker ended: {error}") from None

    def close(self) -> None:
        self.control.close()
        with contextlib.suppress(Exception):
            self.process.wait(10)
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()


class Session:
    """One child: it runs a notebook's cells, then stands ready to answer for its kernels.

    Parameters
    ----------
    worker
        What forks it.
    limits
        What the notebook may use.
    deadline
        When the time of the whole notebook is over, by ``time.monotonic``.
    """

    def __init__(self, worker: Worker, limits: Limits, deadline: float):
        self.worker, self.limits, self.deadline = worker, limits, deadline
        self.channel = worker.start(limits.memory_mb)
        self.running: int | None = None  # the number of the cell that runs
        self.problems: list[CellProblem] = []
        self.kinds: dict[str, str] = {}

    def run_cells(self, cells: Sequence[tuple[int, str]], kernels: Collection[str]) -> None:
        """Run the cells, going on after an error. Raises ``Ended`` where the child does not survive one."""
        job = {"cells": [list(cell) for cell in cells], "kernels": list(kernels)}
        job |= {"cpu_seconds": self.limits.cpu_seconds}
        try:
            self._send(job)
            for number, _ in cells:
                self._expect({"begin": number})
                self.running = number
                match self._receive():
                    case {"end": ended, "error": error} if ended == number:
                        self.problems += [] if error is None else [_cell_problem(number, error)]
                    case _:
                        raise WireError("Something else came than the end of a cell.")
                self.running = None
            match self._receive():
                case {"kinds": dict(kinds)}:
                    self.kinds = {name: telling.one_line(str(kinds.get(name, ""))[:100]) for name in kernels}
                case _:
                    raise WireError("Something else came than what the kernels' names stand for.")
        except WireError as error:
            raise self._ended(error) from None

    def probe_together(self, name: str, cases: Sequence[bytes]) -> list[Outcome]:
        """The outcome of a kernel on each case, in the notebook's own process. Raises ``Ended`` where that ends."""
        outcomes: list[Outcome] = []
        cpu_seconds = min(TOGETHER_CPU_SECONDS, self.limits.cpu_seconds)
        try:
            self._send({"kernel": name, "cases": len(cases), "cpu_seconds": cpu_seconds})
            self._exchange(self.channel, cases, outcomes, TOGETHER_WALL_SECONDS)
        except WireError as error:
            raise self._ended(error) from None
        return outcomes

    def probe(self, name: str, cases: Sequence[bytes], outcomes: list[Outcome]) -> None:
        """Append the outcome of a kernel on each case. Raises ``Ended`` where the child does not survive it."""
        while len(outcomes) < len(cases):
            fault = self._probe_once(name, cases, outcomes)
            if fault is not None:
                # After a crash the cases that are left run in a new process; after a time-out the time is used up.
                left = len(cases) - len(outcomes) if fault.kind == "stopped" else 1
                outcomes += [Outcome(fault=fault)] * left

    def _probe_once(self, name: str, cases: Sequence[bytes], outcomes: list[Outcome]) -> Fault | None:
        """Let one grandchild answer the cases that have no outcome; the fault that ended it before it was done."""
        ours, theirs = channels()
        try:
            with theirs:
                self._send({"kernel": name})
                socket.send_fds(self.channel.connection, [START], [theirs.fileno()])
            with ours, contextlib.suppress(Closed):
                self._exchange(ours, cases[len(outcomes) :], outcomes, self.limits.wall_seconds)
            how = self._receive()
        except (WireError, OSError) as error:
            raise self._ended(error) from None
        if len(outcomes) == len(cases):
            return None
        match how:
            case {"status": int(status), "seconds": int() | float() as seconds}:
                return Fault(*_cause(status, seconds, self.limits))
        raise self._ended(WireError("Something else came than how the kernel's process ended."))

    def _exchange(self, channel: Channel, cases: Sequence[bytes], outcomes: list[Outcome], seconds: float) -> None:
        """Send cases and append what comes back, all of it within ``seconds``.

        A few small cases go ahead, which saves the waiting for each other. What is on its way fits the socket's buffer,
        so that no side waits to send while the other does.
        """
        end, room = time.monotonic() + self._allowed(seconds), ANSWERS_LIMIT
        frames = iter(cases)
        frame, ahead = next(frames, None), deque()
        while frame or ahead:
            while frame and (not ahead or sum(ahead) + len(frame) <= AHEAD_BYTES):
                with contextlib.suppress(Closed):  # what was answered before the end is still to be received
                    channel.send_frame(frame, self._allowed(seconds))
                ahead.append(len(frame))
                frame = next(frames, None)
            outcome = _outcome(channel.receive(end - time.monotonic(), room))
            room -= sum(array.nbytes for array in outcome.arrays.values())
            outcomes.append(outcome)
            ahead.popleft()

    def _send(self, message: Any) -> None:
        self.channel.send(message, self._allowed())

    def _receive(self) -> Any:
        return self.channel.receive(self._allowed())

    def _allowed(self, seconds: float = math.inf) -> float:
        """The seconds by the clock that something may take which would have ``seconds`` by itself."""
        left = max(self.deadline - time.monotonic(), LEAST_SECONDS)
        return min(seconds, self.limits.wall_seconds, left)

    def _expect(self, message: Any) -> None:
        if self._receive() != message:
            raise WireError(f"Something else came than {message}.")

    def _ended(self, error: Exception) -> Ended:
        """End the child because of an error on a channel, and say what it died of."""
        status, seconds, excess = self.end()
        if excess:
            return Ended("stopped", EXCESS_TEXTS[excess].format(self.limits.memory_mb))
        if isinstance(error, TimedOut):
            seconds, what = self.limits.wall_seconds, ""
            if time.monotonic() >= self.deadline:
                seconds, what = WHOLE * seconds, ", all cells and kernels together"
            return Ended("stopped", f"Stopped after {seconds} s by the clock{what}.")
        if isinstance(error, WireError) and not isinstance(error, Closed):
            # What exactly came is not told: it was made by code that may have seen hidden inputs.
            return Ended("crashed", "The process did not keep to its part: what came from it is no message of ours.")
        return Ended(*_cause(status, seconds, self.limits))

    def end(self) -> tuple[int, float, str]:
        """End the child; its wait status, its CPU seconds, and what it used too much of."""
        self.channel.close()
        return self.worker.end()


def _outcome(message: Any) -> Outcome:
    """The outcome in a message of a grandchild; one that is malformed counts as unusable."""
    try:
        return unpack_outcome(message)
    except WireError as error:
        return Outcome(fault=Fault("unusable", f"What came back cannot be compared: {error}"))


def _cell_problem(number: int, error: Any) -> CellProblem:
    match error:
        case {"name": str(name), "text": str(text), "line": int() | None as line}:
            return CellProblem(number, "raised", telling.one_line(f"{name}: {text}" if text else name), line)
    return CellProblem(number, "raised", "an error that cannot be told")


def _cause(status: int, seconds: float, limits: Limits) -> tuple[str, str]:
    """The kind of fault and the words for the way in which a process ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number in STOP_SIGNALS and seconds >= limits.cpu_seconds - 0.5:
            return "stopped", f"Stopped after {limits.cpu_seconds} s of computing. Is there a loop that never ends?"
        if number == signal.SIGSYS:
            return "crashed", "The process was ended because it asked for a system call that is forbidden (SIGSYS)."
        known = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return "crashed", f"The process died ({known})."
    return "crashed", f"The process was ended from inside, with exit code {os.waitstatus_to_exitcode(status)}."


def run_notebook(
    worker: Worker, cells: Sequence[tuple[int, str]], cases: Mapping[str, Sequence[bytes]], limits: Limits
) -> Run:
    """Run the cells of a notebook and probe its kernels.

    A cell that ends or outstays its process is left out, and the others run again. The kernels are probed in the
    process that ran the cells; where that does not survive it, the cells run again and each kernel is probed in a
    process of its own. A kernel that takes that process's parent with it costs its own points alone: the cells run
    again for the kernels after it.

    Parameters
    ----------
    worker
        The worker of the notebook's chapter.
    cells
        Number and source of each cell to run, in order.
    cases
        The cases of each kernel, as frames (``wire.frame_of``): they are the same for the whole class.
    limits
        What the notebook may use.

    Raises
    ------
    WorkerLost
        If the warm parent is gone, so that another must be started.
    """
    deadline = time.monotonic() + WHOLE * limits.wall_seconds
    fatal: dict[int, CellProblem] = {}
    outcomes: dict[str, list[Outcome]] = {}
    together = True
    while True:
        session = Session(worker, limits, deadline)
        try:
            session.run_cells([cell for cell in cells if cell[0] not in fatal], cases)
        except Ended as end:
            if session.running is not None and len(fatal) < FATAL_LIMIT:
                fatal[session.running] = CellProblem(session.running, end.kind, end.text)
                continue
            session.kinds = dict.fromkeys(cases, "callable")
            for name in cases:
                _fill(outcomes.setdefault(name, []), cases[name], end)
            break
        name = ""
        try:
            for name in cases:
                if name in outcomes or session.kinds[name] != "callable":
                    continue
                if together:
                    outcomes[name] = session.probe_together(name, cases[name])
                else:
                    session.probe(name, cases[name], outcomes.setdefault(name, []))
        except Ended as end:
            if together:
                together, outcomes = False, {}
            else:
                _fill(outcomes[name], cases[name], end)
            continue
        session.end()
        break
    problems = sorted((*session.problems, *fatal.values()), key=lambda problem: problem.cell)
    return Run(tuple(problems), session.kinds, {name: tuple(found) for name, found in outcomes.items()})


def _fill(outcomes: list[Outcome], cases: Sequence[bytes], end: Ended) -> None:
    """Give the cases that have no outcome the fault that ended their process."""
    outcomes += [Outcome(fault=Fault(end.kind, end.text))] * (len(cases) - len(outcomes))
