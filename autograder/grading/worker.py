"""The side that runs student code: a warm parent, a keeper and a child per submission, a grandchild per kernel.

The parent loads NumPy, PyTorch and IPython once and then only forks. It never holds a reference, a case or a seed.
For each submission it forks a keeper, which forks the child that runs the notebook's cells, watches what that uses,
and ends it with all that it left running. The child then gets the cases of each kernel and answers with arrays. Where
it does not survive that, the grader asks for another child that forks a grandchild for each kernel, so that a kernel
that loops or crashes takes nothing else with it.

Run as ``worker.py CONTROL SETTINGS``: the number of the control socket, and JSON with the chapter, the rung of the
ladder and its paths. An ``ORDER`` that begins with ``s`` starts a submission on the socket that comes with it; ``e``
ends it and everything it left running, and is answered with ``STATUS``.
"""

import contextlib
import gc
import importlib
import itertools
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback

from autograder.grading import confining, linux
from autograder.grading.wire import Channel, Closed, pack_outcome, unpack_case
from autograder.probing import Fault, Outcome, run_probe
from autograder.watching import default_settings, put_back, watching

ORDER = struct.Struct(">cI")  # what to do, and the memory in MB that a submission may use
STATUS = struct.Struct(">idB")  # wait status of a child, its CPU seconds, and the place in EXCESSES of what it overdid
START, END = b"s", b"e"
TEXT_LIMIT = 2_000
WATCH_SECONDS = 0.05
KEEPER_SECONDS = 30  # that a keeper has to end a submission
PRELOAD = ("torch", "matplotlib.pyplot", "jaxtyping")


def serve(control: socket.socket, stem: str, rung: confining.Unconfined) -> None:
    """Start and end submissions as the grader asks, until it closes the control socket."""
    rung.prepare()
    shell = warm_up(stem)
    control.sendall(START)
    keeper = None
    while True:
        message, descriptors, *_ = socket.recv_fds(control, ORDER.size, 1)
        order, memory_mb = ORDER.unpack(message) if message else (END, 0)
        if order == START:
            keeper, theirs = socket.socketpair()
            if not os.fork():
                control.close()
                keeper.close()
                connection = socket.socket(fileno=descriptors[0])
                _exit_after(keep, theirs, connection, rung, memory_mb, shell, stem)
            theirs.close()
            os.close(descriptors[0])
        else:
            status = end(keeper, rung) if keeper else b""
            rung.clear()
            if not message:
                return
            control.sendall(status)


def end(keeper: socket.socket, rung: confining.Unconfined) -> bytes:
    """Let a keeper end its submission, and end the keeper; its STATUS."""
    keeper.settimeout(KEEPER_SECONDS)
    with keeper:
        try:
            keeper.sendall(END)
            status = keeper.recv(STATUS.size, socket.MSG_WAITALL)
        except OSError:
            status = b""
    kill_all(rung)
    return status if len(status) == STATUS.size else STATUS.pack(signal.SIGKILL, 0, 0)


def kill_all(rung: confining.Unconfined, child: int = 0) -> tuple[int, float] | None:
    """Kill and reap every descendant; the wait status and CPU seconds of ``child`` where it was among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            rung.kill()
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            found = reap(child) or found
    return found


def keep(
    orders: socket.socket, connection: socket.socket, rung: confining.Unconfined, memory_mb: int, shell, stem: str
) -> None:
    """Start the child that runs a submission, and watch it until the parent orders its end."""
    home = rung.enter()
    child = os.fork()
    if not child:
        _exit_after(run_submission, connection, rung, home, memory_mb, shell, stem)
    watch, ended, excess = confining.Watch(rung, home, memory_mb), None, ""
    death = os.pidfd_open(child)
    while orders not in select.select([orders] if ended else [orders, death], [], [], WATCH_SECONDS)[0]:
        ended = reap(child) or ended
        if not excess and (excess := watch.excess()):
            ended = kill_all(rung, child) or ended
        if ended:
            # Processes that the child left behind may hold copies of the connection.
            connection.shutdown(socket.SHUT_RDWR)
    ended = kill_all(rung, child) or ended
    orders.sendall(STATUS.pack(*ended, confining.EXCESSES.index(excess)))


def reap(child: int) -> tuple[int, float] | None:
    """Reap what has ended; the wait status and CPU seconds of ``child`` where it was among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            process, status, usage = os.wait4(-1, os.WNOHANG)
            if not process:
                break
            if process == child:
                found = status, usage.ru_utime + usage.ru_stime
    return found


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
    if torch:
        rehearse(torch)
    gc.collect()
    gc.freeze()
    linux.use_huge_pages()
    return shell


def rehearse(torch) -> None:
    """Do once what probes do, on no case of theirs: PyTorch loads a part of itself when it is first used."""
    from autograder.work import count_work

    ones = torch.ones(2, 2, requires_grad=True)
    with put_back(), default_settings(), watching(["torch.softmax"]):
        count_work(lambda: torch.softmax(ones @ ones, -1).sum().backward())


def _exit_after(function, *args) -> None:
    """Call a function in a forked process and leave it, whatever happens."""
    try:
        function(*args)
    except Closed:
        os._exit(0)
    except BaseException:
        os._exit(1)
    os._exit(0)


def run_submission(
    connection: socket.socket, rung: confining.Unconfined, home: str, memory_mb: int, shell, stem: str
) -> None:
    """Run the cells of a notebook, then answer for its kernels until the grader closes the connection."""
    close_all_but(connection.fileno())
    rung.shut_in(home, memory_mb)
    channel = Channel(connection)
    job = channel.receive()
    for number, source in job["cells"]:
        channel.send({"begin": number})
        limit_cpu(job["cpu_seconds"])
        channel.send({"end": number, "error": run_cell(shell, source)})
    confining.make_room()
    channel.send({"kinds": {name: kind_of(shell.user_ns.get(name)) for name in job["kernels"]}})
    while True:
        order = channel.receive()
        name = order["kernel"]
        kernel = shell.user_ns.get(name)
        if "cases" in order:
            limit_cpu(order["cpu_seconds"])
            with put_back():
                answer(channel, stem, name, kernel, order["cases"])
            continue
        _, descriptors, *_ = socket.recv_fds(connection, 1, 1)
        theirs = socket.socket(fileno=descriptors[0])
        process = os.fork()
        if not process:
            connection.close()
            os.setpgid(0, 0)
            hard_limit_cpu(job["cpu_seconds"])
            _exit_after(answer, Channel(theirs), stem, name, kernel)
        _, status, usage = os.wait4(process, 0)
        theirs.shutdown(socket.SHUT_RDWR)  # what the kernel left running may hold copies
        theirs.close()
        channel.send({"status": status, "seconds": usage.ru_utime + usage.ru_stime})


def close_all_but(kept: int) -> None:
    """Close every descriptor but standard input, output, error and one more."""
    os.closerange(3, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


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


def answer(channel: Channel, stem: str, name: str, kernel, count: int | None = None) -> None:
    """Answer each of ``count`` cases, or of those that come until the end, with the outcome of the kernel on it."""
    for _ in itertools.count() if count is None else range(count):
        case = unpack_case(channel.receive())
        try:
            outcome = run_probe(stem, name, kernel, case, sandboxed=True)
        except BaseException as error:  # SystemExit, KeyboardInterrupt and their like
            kind = type(error).__name__
            outcome = Outcome(fault=Fault("raised", f"{kind}: {error}"[:TEXT_LIMIT], kind))
        channel.send(pack_outcome(outcome))


if __name__ == "__main__":
    settings = json.loads(sys.argv[2])
    rung = confining.RUNGS[settings["rung"]](settings["readable"], settings["directory"])
    serve(socket.socket(fileno=int(sys.argv[1])), settings["stem"], rung)
