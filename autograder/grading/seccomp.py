"""A filter of system calls, as a program for the kernel's BPF machine.

What no notebook has a use for ends the process (SIGSYS, so that the attempt is seen); what a library may try in good
faith is refused with an error. Namespaces and Landlock hide what there is to see; this takes away the calls that have
broken such walls before, and sockets.
"""

import ctypes
import errno
import platform
import socket
import struct
from collections.abc import Collection, Iterator

from autograder.grading import linux

# Numbers for x86_64 and aarch64; None where the machine does not have the call.
NUMBERS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "syslog": (103, 116),
    "fanotify_init": (300, 262),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "clone3": (435, 435),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "prlimit64": (302, 261),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
LAST_KNOWN = 462  # mseal; later calls are refused, and so are those of x32
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of NUMBERS, and the kernel's AUDIT_ARCH

FATAL = [
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "kcmp",
    "pidfd_getfd",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "unshare",
    "setns",
    "bpf",
    "keyctl",
    "add_key",
    "request_key",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "open_by_handle_at",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
]
REFUSED = [
    "name_to_handle_at",
    "quotactl",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "userfaultfd",
    "perf_event_open",
    "memfd_create",
    "memfd_secret",
    "shmget",
    "shmat",
    "msgget",
    "semget",
    "mq_open",
    "syslog",
    "fanotify_init",
]
# Where there are no namespaces, these reach the files and processes of the same user, whatever Landlock allows.
REFUSED_WITHOUT_NAMESPACES = [
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "fchown",
    "lchown",
    "fchownat",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "setpriority",
    "ioprio_set",
    "sched_setscheduler",
    "sched_setparam",
    "sched_setattr",
    "sched_setaffinity",
    "migrate_pages",
    "move_pages",
]
SIGNALS = ["kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"]

KILL, ALLOW, ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
LOAD, EQUAL, GREATER, ANY_BIT, RETURN = 0x20, 0x15, 0x25, 0x45, 0x06  # 32-bit loads, jumps by a constant
NUMBER_AT, MACHINE_AT, FIRST_ARGUMENT_AT = 0, 4, 16
MODE_FILTER = 2
NEW_NAMESPACES = (
    linux.CLONE_NEWNS
    | linux.CLONE_NEWCGROUP
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUSER
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
)


def program(machine: str, *, namespaces: bool, signals: bool) -> bytes:
    """The filter's instructions for a machine.

    Parameters
    ----------
    machine
        "x86_64" or "aarch64".
    namespaces
        Whether student code has namespaces of its own, so that Unix sockets and its own files are harmless.
    signals
        Whether it may send signals; without a wall they would reach every process of the same user.

    Raises
    ------
    OSError
        If the machine is another one.
    """
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"The filter of system calls is known for {', '.join(MACHINES)}, not {machine}")
    column, code = MACHINES[machine]
    number = {name: numbers[column] for name, numbers in NUMBERS.items() if numbers[column] is not None}
    refused = REFUSED + ([] if namespaces else REFUSED_WITHOUT_NAMESPACES) + ([] if signals else SIGNALS)
    refuse, absent = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS
    instructions = [
        _step(LOAD, MACHINE_AT),
        *_if(EQUAL, code, otherwise=KILL),
        _step(LOAD, NUMBER_AT),
        *_if(GREATER, LAST_KNOWN, then=absent),
        *(step for name in FATAL for step in _if(EQUAL, number[name], then=KILL)),
        *(step for name in _known(refused, number) for step in _if(EQUAL, number[name], then=refuse)),
        *_if(EQUAL, number["clone3"], then=absent),  # its flags cannot be seen; libraries fall back to clone
        *_if_argument(number["clone"], ANY_BIT, NEW_NAMESPACES, then=KILL),
        *_if_argument(number["socketpair"], EQUAL, socket.AF_UNIX, then=ALLOW, otherwise=refuse),
    ]
    if namespaces:
        instructions += _if_argument(number["socket"], EQUAL, socket.AF_UNIX, then=ALLOW, otherwise=refuse)
    else:
        instructions += _if(EQUAL, number["socket"], then=refuse)
        instructions += _if_argument(number["prlimit64"], EQUAL, 0, then=ALLOW, otherwise=refuse)
    return b"".join([*instructions, _step(RETURN, ALLOW)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _known(names: Collection[str], numbers: Collection[str]) -> Iterator[str]:
    return (name for name in names if name in numbers)


def _if(code: int, value: int, *, then: int | None = None, otherwise: int | None = None) -> list[bytes]:
    """Return ``then`` where the loaded value fits, or ``otherwise`` where it does not; else go on."""
    if otherwise is None:
        return [_step(code, value, 0, 1), _step(RETURN, then)]
    if then is None:
        return [_step(code, value, 1, 0), _step(RETURN, otherwise)]
    return [_step(code, value, 0, 1), _step(RETURN, then), _step(RETURN, otherwise)]


def _if_argument(number: int, code: int, value: int, *, then: int, otherwise: int = ALLOW) -> list[bytes]:
    """For one system call, decide by its first argument."""
    body = [_step(LOAD, FIRST_ARGUMENT_AT), *_if(code, value, then=then, otherwise=otherwise)]
    return [_step(EQUAL, number, 0, len(body)), *body]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def load(*, namespaces: bool, signals: bool) -> None:
    """Put this process and all that it starts under the filter, for good."""
    instructions = program(platform.machine(), namespaces=namespaces, signals=signals)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    filter_program = _Program(len(instructions) // 8, instructions)
    linux.prctl(linux.PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(filter_program))
