"""Which files and folders a process may open, by Landlock (Linux 5.13; :manpage:`landlock(7)`): what is not allowed is refused, for good.

Later versions of it also refuse connections over TCP, abstract UNIX sockets and signals to processes outside. Needs no privileges.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls, the same on all processors."""
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_REMOVE_FILE, _MAKE_FILE = 1 << 5, 1 << 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_KNOWN_SINCE = ((1, 13), (2, 14), (3, 15), (5, 16))
"""(version, number of rights of the file system that it knows)."""
_TCP_SINCE, _SCOPES_SINCE = 4, 6
_BIND_AND_CONNECT = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11

READ = _READ_FILE | _READ_DIR
"""Files may be read, folders listed."""
EXECUTE = READ | _EXECUTE
WRITE = ~_EXECUTE & ~_IOCTL_DEV & 0xFFFF
"""Files and folders may be read, made, changed and removed, and not executed."""
WRITE_FILES = READ | _WRITE_FILE | _REMOVE_FILE | _MAKE_FILE | _TRUNCATE
"""Files may be read, made, changed and removed; nothing else may be made, such as folders and links."""
USE_DEVICE = _READ_FILE | _WRITE_FILE | _IOCTL_DEV
LOCK = _READ_FILE | _WRITE_FILE


class LandlockUnavailable(OSError):
    """The system does not have it, or has it switched off."""


def version() -> int:
    """Which version of Landlock the system has; 0 for none."""
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def make_ruleset(allowed: Iterable[tuple[str, int]]) -> int:
    """Rules by which :func:`restrict` lets a process go on.

    Args:
        allowed: paths, each with the rights that it and all below it are given; what does not exist is left out.

    Returns:
        A file descriptor that stands for them.

    Raises:
        LandlockUnavailable: there is no Landlock here.
    """
    known = version()
    if not known:
        raise LandlockUnavailable("the system has no Landlock")
    handled = (1 << max(count for since, count in _KNOWN_SINCE if since <= known)) - 1
    attributes = [handled]
    if known >= _TCP_SINCE:
        attributes.append(_BIND_AND_CONNECT)
    if known >= _SCOPES_SINCE:
        attributes.append(_ABSTRACT_SOCKETS_AND_SIGNALS)
    data = struct.pack(f"={len(attributes)}Q", *attributes)
    ruleset = _called(_CREATE_RULESET, data, ctypes.c_size_t(len(data)), 0)
    for path, rights in allowed:
        _allow(ruleset, path, rights & handled)
    return ruleset


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= _OF_FILES
        _called(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
    finally:
        os.close(handle)


def restrict(ruleset: int) -> None:
    """This thread, and what it starts, may from now on do what the rules allow. It needs ``PR_SET_NO_NEW_PRIVS`` before.

    Raises:
        LandlockUnavailable: the system refuses.
    """
    _called(_RESTRICT_SELF, ruleset, 0)


def _called(number: int, *args: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    result = int(library.syscall(number, *args))
    if result < 0:
        code = ctypes.get_errno()
        raise LandlockUnavailable(code, f"Landlock: {os.strerror(code)}")
    return result
