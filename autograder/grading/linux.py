"""The few system calls that shut student code in and that Python 3.11 does not offer."""

import ctypes
import os
import struct

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_KEEPCAPS = 36, 38, 8
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25
HUGE_PAGE = 1 << 21
CAP_DAC_READ_SEARCH = 2
CAPABILITY_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _check(name: str, result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return result


def prctl(option: int, *arguments) -> None:
    filled = [*arguments, 0, 0, 0, 0][:4]
    numbers = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in filled]
    _check(f"prctl({option})", _libc.prctl(option, *numbers))


def unshare(flags: int) -> None:
    _check("unshare", _libc.unshare(flags))


def mount(kind: str, target: str, flags: int, options: str) -> None:
    """Mount a new file system of a kind."""
    code = _libc.mount(kind.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _check(f"mount {kind} on {target}", code)


def use_huge_pages() -> None:
    """Gather this process's own memory in huge pages, where Linux can (from 6.1 on): a fork copies far less then."""
    with open("/proc/self/maps") as maps:
        areas = [line.split() for line in maps]
    for addresses, access, *_, inode in (area[:5] for area in areas):
        if access == "rw-p" and inode == "0":
            start, end = (int(address, 16) for address in addresses.split("-"))
            start, end = -(-start // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
            if start < end:
                for advice in (MADV_HUGEPAGE, MADV_COLLAPSE):
                    _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice)


def set_capabilities(wanted: int = 0) -> None:
    """Hold these capabilities (a bit mask) and no other."""
    header = struct.pack("Ii", CAPABILITY_VERSION, 0)
    data = struct.pack("6I", wanted & 0xFFFFFFFF, wanted & 0xFFFFFFFF, 0, wanted >> 32, wanted >> 32, 0)
    _check("capset", _libc.capset(header, data))


def syscall(number: int, *arguments) -> int:
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _check(f"system call {number}", _libc.syscall(ctypes.c_long(number), *values))
