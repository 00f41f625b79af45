"""Inside the jail: system calls that a submission is refused, for good, with all it starts.

They would lead around what bounds it: memory that no process shows as its own (files without a
name, System V's shared memory, shared mappings, a tmpfs of any size in a user namespace of its
own), the grader's keyrings, sockets of all families but local ones, and parts of the kernel that
graded code has no use for.

Source: Linux's Documentation/userspace-api/seccomp_filter.rst and its system call tables.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Callable, Mapping

_NAMES = (
    "mmap",
    "clone",
    "clone3",
    "socket",
    "shmget",
    "semget",
    "msgget",
    "unshare",
    "setns",
    "add_key",
    "request_key",
    "keyctl",
    "memfd_create",
    "memfd_secret",
    "perf_event_open",
    "bpf",
    "userfaultfd",
    "io_uring_setup",
)
_TABLES: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "x86_64": (
        0xC000003E,
        (9, 56, 435, 41, 29, 64, 68, 272, 308, 248, 249, 250, 319, 447, 298, 321, 323, 425),
    ),
    "aarch64": (
        0xC00000B7,
        (222, 220, 435, 198, 194, 190, 186, 97, 268, 217, 218, 219, 279, 447, 241, 280, 282, 425),
    ),
}
"""By machine: its number in a filter's data, and the numbers of the calls of ``_NAMES``."""

_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_OF, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST, _FOURTH = 0, 4, 16, 40
"""Where a filter's data holds the call's number, the machine, and arguments (their lower half)."""

_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NEW_NAMESPACE = 0x7E020000
_SHARED, _ANONYMOUS, _MAPPING = 0x01, 0x20, 0x2F
_OTHER_NUMBERS = 0x40000000
"""x86-64's second set of numbers begins there (x32)."""

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


def program(machine: str) -> bytes | None:
    """The filter for a machine, such as ``"x86_64"``; None for one that is not known."""
    if machine not in _TABLES:
        return None
    number, calls = _TABLES[machine]
    call = dict(zip(_NAMES, calls, strict=True))
    refuse = (_RETURN, 0, 0, _ERROR | errno.EPERM)
    steps = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, number),  # a step says how many to skip where it holds, where not
        refuse,
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _OTHER_NUMBERS),
        refuse,
        (_EQUAL, 0, 4, call.pop("clone")),
        (_LOAD, 0, 0, _FIRST),
        (_ANY_OF, 0, 1, _NEW_NAMESPACE),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 5, call.pop("mmap")),
        (_LOAD, 0, 0, _FOURTH),
        (_AND, 0, 0, _MAPPING),
        (_EQUAL, 0, 1, _SHARED | _ANONYMOUS),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 4, call.pop("socket")),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 1, 0, socket.AF_UNIX),  # what processes of one submission may use among them
        (_RETURN, 0, 0, _ERROR | errno.ENETUNREACH),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 1, call.pop("clone3")),  # its flags lie where no filter sees them
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),  # so C libraries use clone
    ]
    for refused in call.values():
        steps += [(_EQUAL, 0, 1, refused), refuse]
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def refuse(libc: ctypes.CDLL, expect: Callable[[int, str], None]) -> None:
    """Refuse them to this process from now on; nothing where the machine is not known.

    Args:
        libc: with errno.
        expect: told a call's result and name; raises where the kernel knows no filters.
    """
    steps = program(os.uname().machine)
    if steps is None:
        return
    kept = ctypes.create_string_buffer(steps, len(steps))
    head = struct.pack("HP", len(steps) // 8, ctypes.addressof(kept))
    expect(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.c_char_p(head), 0, 0), "seccomp")
