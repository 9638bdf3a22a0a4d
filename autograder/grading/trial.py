"""Try a rung of the ladder: shut a process in as a submission is, and see that it is.

Exit code 0 where it is; else 1, and the last line of standard error says what was not as it should be.
"""

import contextlib
import json
import os
import socket
import sys

from autograder.grading import confining

MEMORY_MB = 4_000


def attempt(rung: confining.Unconfined) -> None:
    """Go the way of a submission to its end; raises ``OSError`` where the machine refuses a step."""
    home = rung.enter()
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    rung.shut_in(home, MEMORY_MB)
    os.close(os.open(os.path.join(home, "file"), os.O_CREAT | os.O_WRONLY))
    if seen := open_doors():
        raise OSError(f"student code could still {' and '.join(seen)}")


def open_doors() -> list[str]:
    """What this process can do and student code must not."""
    doors = []
    with contextlib.suppress(OSError), open("/etc/passwd"):
        doors.append("read /etc/passwd")
    with contextlib.suppress(OSError):
        os.listdir("/home")
        doors.append("list /home")
    with contextlib.suppress(OSError), open("/proc/1/status"):
        doors.append("read /proc")
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM):
        doors.append("open a network socket")
    return doors


def main(rung: confining.Unconfined) -> int:
    rung.prepare()
    log = os.dup(2)
    if not os.fork():
        code = 1
        try:
            attempt(rung)
            code = 0
        except BaseException as error:
            os.write(log, f"{error}\n".encode())
        os._exit(code)
    codes = []
    with contextlib.suppress(ChildProcessError):
        while True:  # the keeper that the forked process leaves behind becomes a child of this one
            codes.append(os.waitstatus_to_exitcode(os.wait()[1]))
    return 1 if any(codes) else 0


if __name__ == "__main__":
    settings = json.loads(sys.argv[2])
    sys.exit(main(confining.RUNGS[settings["rung"]](settings["readable"], settings["directory"])))
