"""Landlock: a process gives up all files but a few, for itself and all that it starts."""

import ctypes
import os
import struct
from collections.abc import Iterable

from autograder.grading import linux

CREATE, ADD, RESTRICT = 444, 445, 446  # the same numbers on every machine
GET_VERSION, PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEV = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = EXECUTE | READ_FILE | READ_DIR
ALL_NET = 3  # bind and connect of TCP
ALL_SCOPES = 3  # abstract Unix sockets and signals, to processes outside
NET_VERSION, SCOPE_VERSION = 4, 6
O_PATH = 0o10000000


def version() -> int:
    """The version of Landlock that the kernel offers; raises ``OSError`` where it offers none."""
    return linux.syscall(CREATE, 0, 0, GET_VERSION)


def all_rights(offered: int) -> int:
    """Every right to files that a version knows."""
    count = {1: 13, 2: 14, 3: 15, 4: 15}.get(offered, 16)
    return (1 << count) - 1


def restrict(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Leave to this process the reading of some paths and all rights below others, for good."""
    offered = version()
    rights = all_rights(offered)
    fields = [rights]
    fields += [ALL_NET] if offered >= NET_VERSION else []
    fields += [ALL_SCOPES] if offered >= SCOPE_VERSION else []
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    ruleset = linux.syscall(CREATE, ctypes.c_char_p(attributes), len(attributes), 0)
    try:
        for paths, wanted in ((readable, READ), (writable, rights)):
            for path in paths:
                _allow(ruleset, path, wanted & rights)
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        linux.syscall(RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            rights &= FILE_RIGHTS
        rule = struct.pack("=Qi", rights, descriptor)
        linux.syscall(ADD, ruleset, PATH_BENEATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(descriptor)
