"""The side that runs student code: a warm parent, a child for each submission, a grandchild for each kernel.

The parent loads NumPy, PyTorch and IPython once and then only forks. It never holds a reference, a case or a seed.
A child runs a notebook's cells. For each kernel it forks a grandchild, which gets the cases and answers with arrays,
so that a kernel that loops or crashes takes nothing else with it.

Run as ``python worker.py CONTROL STEM DIRECTORY``: the number of the control socket, the chapter, and a directory
for the children's files. A byte ``s`` on the control socket starts a child on the socket that comes with it; ``e``
ends it and everything it left running, and is answered with ``STATUS``.
"""

import contextlib
import ctypes
import gc
import importlib
import os
import resource
import shutil
import signal
import socket
import struct
import sys
import tempfile
import traceback
from pathlib import Path

from autograder.grading.wire import Channel, Closed, pack_outcome, unpack_case
from autograder.probing import Fault, Outcome, run_probe

STATUS = struct.Struct(">id")  # wait status of a child, and the CPU seconds that it used itself
START, END = b"s", b"e"
TEXT_LIMIT = 2_000
FILE_LIMIT = 1 << 28
DESCRIPTOR_LIMIT = 256
PR_SET_CHILD_SUBREAPER = 36
PRELOAD = ("torch", "matplotlib.pyplot", "jaxtyping")


def serve(control: socket.socket, stem: str, directory: Path) -> None:
    """Start and end children as the grader asks, until it closes the control socket."""
    shell = warm_up(stem)
    become_subreaper()
    control.sendall(START)
    child = 0
    while True:
        order, descriptors, *_ = socket.recv_fds(control, 1, 1)
        if order == START:
            home = Path(tempfile.mkdtemp(dir=directory))
            child = os.fork()
            if not child:
                control.close()
                _exit_after(run_submission, socket.socket(fileno=descriptors[0]), shell, stem, home)
            os.close(descriptors[0])
        else:
            status = end_all(child)
            for entry in directory.iterdir():
                shutil.rmtree(entry, ignore_errors=True)
            if not order:
                return
            control.sendall(STATUS.pack(*status))


def warm_up(stem: str):
    """Load what notebooks need, and return an IPython shell that shows nothing."""
    for name in (*PRELOAD, f"autograder.probes.{stem}"):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    # Nobody sees a traceback, which takes long to draw. Lines that begin with ! or %pip are for the student's machine.
    for name in ("showtraceback", "showsyntaxerror", "system", "enable_gui"):
        setattr(shell, name, lambda *args, **kwargs: None)
    shell.run_cell("1", store_history=False, silent=True)
    gc.collect()
    gc.freeze()
    return shell


def become_subreaper() -> None:
    """Let processes whose parents have died become children of this one, so that none escapes ``end_all``."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) was refused")


def end_all(child: int) -> tuple[int, float]:
    """Kill and reap every descendant; the wait status and CPU seconds of ``child``."""
    status, seconds = 0, 0.0
    while running := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for process in map(int, running):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            ended, how, usage = os.wait4(process, 0)
            if ended == child:
                status, seconds = how, usage.ru_utime + usage.ru_stime
    return status, seconds


def _exit_after(function, *args) -> None:
    """Call a function in a forked process and leave it, whatever happens."""
    try:
        function(*args)
    except Closed:
        os._exit(0)
    except BaseException:
        os._exit(1)
    os._exit(0)


def run_submission(connection: socket.socket, shell, stem: str, home: Path) -> None:
    """Run the cells of a notebook, then answer for its kernels until the grader closes the connection."""
    channel = Channel(connection)
    job = channel.receive()
    confine(home, job["memory_mb"])
    for number, source in job["cells"]:
        channel.send({"begin": number})
        limit_cpu(job["cpu_seconds"])
        channel.send({"end": number, "error": run_cell(shell, source)})
    channel.send({"kinds": {name: kind_of(shell.user_ns.get(name)) for name in job["kernels"]}})
    while True:
        name = channel.receive()["kernel"]
        _, descriptors, *_ = socket.recv_fds(connection, 1, 1)
        process = os.fork()
        if not process:
            connection.close()
            os.setpgid(0, 0)
            hard_limit_cpu(job["cpu_seconds"])
            _exit_after(answer, socket.socket(fileno=descriptors[0]), stem, name, shell.user_ns.get(name))
        os.close(descriptors[0])
        _, status, usage = os.wait4(process, 0)
        channel.send({"status": status, "seconds": usage.ru_utime + usage.ru_stime})


def confine(home: Path, memory_mb: int) -> None:
    """A session, a directory and limits of its own; no input and no output."""
    os.setsid()
    os.chdir(home)
    os.environ.update(HOME=str(home), TMPDIR=str(home))
    tempfile.tempdir = None
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for limit, value in (
        (resource.RLIMIT_AS, memory_mb << 20),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE_LIMIT),
        (resource.RLIMIT_NOFILE, DESCRIPTOR_LIMIT),
    ):
        resource.setrlimit(limit, (value, value))


def limit_cpu(seconds: int) -> None:
    """End this process when it has computed for ``seconds`` from now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + seconds, hard))


def hard_limit_cpu(seconds: int) -> None:
    """Kill this process, which has just begun, when it has computed for ``seconds``."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def run_cell(shell, source: str) -> dict | None:
    """Run one cell; what stopped it, or None."""
    result = shell.run_cell(source, store_history=False)
    error = result.error_before_exec or result.error_in_exec
    if error is None:
        return None
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<ipython-input")]
    line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return {"name": type(error).__name__, "text": str(text)[:TEXT_LIMIT], "line": line}


def kind_of(kernel) -> str:
    """ "callable", or what a name stands for instead; "" where it stands for nothing."""
    return "" if kernel is None else "callable" if callable(kernel) else type(kernel).__name__[:100]


def answer(connection: socket.socket, stem: str, name: str, kernel) -> None:
    """Answer each case with the outcome of the kernel on it."""
    channel = Channel(connection)
    while True:
        case = unpack_case(channel.receive())
        try:
            outcome = run_probe(stem, name, kernel, case)
        except BaseException as error:  # SystemExit, KeyboardInterrupt and their like
            kind = type(error).__name__
            outcome = Outcome(fault=Fault("raised", f"{kind}: {error}"[:TEXT_LIMIT], kind))
        channel.send(pack_outcome(outcome))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], Path(sys.argv[3]))
