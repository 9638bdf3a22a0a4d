"""Where student code is shut in."""

import os
import subprocess
import sys
from pathlib import Path

# What ``autograder grade`` says before it runs student code.
WARNING = (
    "Student code is not confined yet: it runs in processes of its own with limits on time and memory, "
    "but it can read your files and reach the network."
)


def launch(script: Path, control: int, stem: str, home: Path) -> subprocess.Popen:
    """Start a worker that imports the staged package instead of the installed one.

    This is NOT a security boundary yet. The worker has a clean environment, does not see the checkout on its import
    path (``-S`` reads no ``.pth`` file, so an editable install is not found), and its children get limits. But student
    code runs as the same user: it can open any file by its absolute path and any network connection. Bubblewrap, and
    the rungs below it, belong in this function and nowhere else.

    Parameters
    ----------
    script
        The worker in its staged directory.
    control
        The file descriptor of the worker's control socket.
    stem
        The chapter.
    home
        A directory for the worker's own files, its ``log`` among them, and for those of student code.
    """
    own, submissions = home / "worker", home / "submissions"
    for directory in (own, submissions):
        directory.mkdir()
    stage = script.parents[2]
    installed = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    start = f"import sys, runpy; sys.path[:0] = {[str(stage)]!r}; sys.path += {installed!r}; "
    start += f"sys.argv = {[str(script), str(control), stem, str(submissions)]!r}; "
    start += "runpy.run_module('autograder.grading.worker', run_name='__main__')"
    with (home / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", start],
            env=environment(own),
            cwd=own,
            pass_fds=[control],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )


def environment(home: Path) -> dict[str, str]:
    """The whole environment of student code."""
    return {
        "PATH": os.defpath,
        "HOME": str(home),
        "TMPDIR": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "MPLCONFIGDIR": str(home / "matplotlib"),
        "MPLBACKEND": "agg",
        "LANG": "C.UTF-8",
        "AUTOGRADER_GRADING": "1",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }
