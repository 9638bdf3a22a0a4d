"""How a process of student code is shut in, on each rung of the ladder, from inside the worker.

For each submission the warm parent forks a keeper. The keeper forks the student's process, watches what it and its
descendants use, and ends them all. A rung says what happens between the forks.

``bubblewrap``
    The worker was started in namespaces with nothing but the course and Python in view. The keeper is the first
    process of a further set of namespaces, so that nothing outlives it, and has private file systems in memory.
``landlock``
    The student's process gives up all files but those of the course, Python and a directory of its own.
``none``
    Limits alone.
"""

import contextlib
import os
import platform
import resource
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder.grading import landlock, linux, seccomp

NOBODY = 65534
FILE_LIMIT = 1 << 28
DESCRIPTOR_LIMIT = 256
PROCESS_LIMIT = 32  # processes of a submission; more end it
# What kernels find free, whatever the cells have taken: bytes of addresses, and descriptors.
KERNEL_ROOM, KERNEL_DESCRIPTORS = 256 << 20, 32
TASK_LIMIT = 64  # processes and threads; more cannot be started
# Not below /tmp, where Python or the packages may lie: what is mounted over them would hide them.
PRIVATE = "/private"
PRIVATE_DIRECTORIES = {PRIVATE: "size=256m,nr_inodes=16k,mode=0700", "/dev/shm": "size=64m,nr_inodes=1k,mode=0700"}
TREE_LIMIT = 16_000  # files in a directory that no file system of its own bounds
COUNTS_PER_NAMESPACE = (5, 14)  # since this Linux, processes are counted by user namespace
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Why a keeper ended a submission; the place in this list is what it reports.
EXCESSES = ("", "memory", "processes", "files")


class Unconfined:
    """The rung ``none``: processes of their own, with limits."""

    own_namespaces = False

    def __init__(self, readable: Sequence[str], directory: str):
        self.readable, self.directory = readable, directory

    def prepare(self) -> None:
        """Make the worker itself safe from its children: they cannot read or write its memory."""
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        linux.prctl(linux.PR_SET_DUMPABLE, 0)

    def enter(self) -> str:
        """Make this process a keeper; the directory of the submission."""
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        return tempfile.mkdtemp(dir=self.directory)

    def shut_in(self, home: str, memory_mb: int) -> None:
        """Make this process one that may run student code."""
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        detach(home)
        set_limits(memory_mb)
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # so that the keeper can see what it uses

    def kill(self) -> None:
        """Send SIGKILL to everything that this keeper stands over."""
        for process in processes_below(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def excess_of_files(self, home: str) -> bool:
        """Whether the submission's directory holds more than it may."""
        size = count = 0
        for folder, _, names in os.walk(home):
            for name in names:
                with contextlib.suppress(OSError):
                    size += os.lstat(os.path.join(folder, name)).st_blocks * 512
                count += 1
            count += 1
            if size > FILE_LIMIT or count > TREE_LIMIT:
                return True
        return False

    def clear(self) -> None:
        """Remove what submissions left behind."""
        for entry in Path(self.directory).iterdir():
            shutil.rmtree(entry, ignore_errors=True)


class Landlock(Unconfined):
    """The rung ``landlock``: as an ordinary user, with Landlock and a filter of system calls."""

    def shut_in(self, home: str, memory_mb: int) -> None:
        was_root = os.getuid() == 0
        if was_root:
            os.chown(home, NOBODY, NOBODY)
        detach(home)
        set_limits(memory_mb)
        limit_tasks(TASK_LIMIT + count_tasks(NOBODY if was_root else os.getuid()))
        if was_root:
            linux.prctl(linux.PR_SET_KEEPCAPS, 1)
            become_nobody()
            # Python may lie in root's home. What may be read is for Landlock to say.
            linux.set_capabilities(1 << linux.CAP_DAC_READ_SEARCH)
        else:
            linux.set_capabilities()
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of user, which resets both
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        landlock.restrict([*self.readable, *DEVICES], [home, "/dev/null"])
        seccomp.load(namespaces=False, signals=landlock.version() >= landlock.SCOPE_VERSION)


class Bubblewrap(Unconfined):
    """The rung ``bubblewrap``: namespaces of the worker, further ones for each submission, and a filter."""

    own_namespaces = True

    def prepare(self) -> None:
        if os.getuid() == 0:
            become_nobody()
        linux.prctl(linux.PR_SET_DUMPABLE, 0)

    def enter(self) -> str:
        user, group = os.getuid(), os.getgid()
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # else the maps below belong to root; no student code runs yet
        linux.unshare(seccomp.NEW_NAMESPACES)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        for path, options in PRIVATE_DIRECTORIES.items():
            linux.mount("tmpfs", path, linux.MS_NOSUID | linux.MS_NODEV, options)
        if os.fork():
            os._exit(0)
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        return PRIVATE

    def shut_in(self, home: str, memory_mb: int) -> None:
        linux.unshare(linux.CLONE_NEWNS)
        linux.mount("tmpfs", "/proc", linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV, "size=4k,mode=0555")
        detach(home)
        set_limits(memory_mb)
        if linux_version() >= COUNTS_PER_NAMESPACE:
            limit_tasks(TASK_LIMIT)
        linux.set_capabilities()
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # so that the keeper can see what it uses
        seccomp.load(namespaces=True, signals=True)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # from the first process of a namespace, all others in it

    def excess_of_files(self, home: str) -> bool:
        return False  # its file systems are bounded

    def clear(self) -> None:
        """Nothing is left behind: the file systems went with the namespace."""


RUNGS = {"bubblewrap": Bubblewrap, "landlock": Landlock, "none": Unconfined}


def become_nobody() -> None:
    """Give up being root."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def detach(home: str) -> None:
    """A session and a directory of its own; no input and no output."""
    os.setsid()
    os.chdir(home)
    os.environ.update(HOME=home, TMPDIR=home)
    tempfile.tempdir = None
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def set_limits(memory_mb: int) -> None:
    memory = memory_mb << 20
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory + KERNEL_ROOM))
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, FILE_LIMIT),
    ):
        resource.setrlimit(limit, (value, value))
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTOR_LIMIT, DESCRIPTOR_LIMIT + KERNEL_DESCRIPTORS))


def make_room() -> None:
    """Let this process have the addresses and descriptors that were kept for its kernels."""
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE):
        _, most = resource.getrlimit(limit)
        resource.setrlimit(limit, (most, most))


def limit_tasks(count: int) -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (count, count))


def count_tasks(user: int) -> int:
    """The threads that a user has on this machine."""
    count = 0
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid == user:
                count += len(os.listdir(path / "task"))
    return count


def linux_version() -> tuple[int, int]:
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(character for character in minor if character.isdigit()))


def processes_below(process: int | str) -> Iterator[int]:
    """The descendants of a process, as ``/proc`` numbers them."""
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in path.read_text().split():
                yield int(child)
                yield from processes_below(child)


class Watch:
    """What the processes below this one use, against what they may."""

    def __init__(self, rung: Unconfined, home: str, memory_mb: int):
        self.rung, self.home, self.memory = rung, home, memory_mb << 20

    def excess(self) -> str:
        """What is used beyond its limit; "" where nothing is."""
        processes = list(processes_below("self"))
        if len(processes) > PROCESS_LIMIT:
            return "processes"
        if sum(map(_resident, processes)) > self.memory and sum(map(_proportional, processes)) > self.memory:
            return "memory"
        return "files" if self.rung.excess_of_files(self.home) else ""


def _resident(process: int) -> int:
    """Bytes of memory that a process has in use, shared pages counted in full."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def _proportional(process: int) -> int:
    """The same, each shared page divided by those who share it; in full where the process hides it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return _resident(process)
