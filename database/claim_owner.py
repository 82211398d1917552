"""Who holds a claim: a name that says which process of which machine, so that others there see when that process has ended.

A process is told by its number, by when it started, and by the space of numbers that both belong to: a number that the system has
given to another process since is not taken for the first, and one of another machine, or of another container, is not looked up here.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable
from functools import cache
from pathlib import Path

_ENDED_STATES = "ZX"
"""States in which nothing runs any more, although the parent has not asked for the exit status yet."""


def new_owner() -> str:
    """A name for claims of this process, at most 64 characters, different with each call.

    Where the system does not tell what a process is known by, it is a name only, whose claims end by time.
    """
    name, space, started = uuid.uuid4().hex[:16], _number_space(), _start_of(os.getpid())
    return name if space is None or started is None else f"{name}:{space}:{os.getpid()}:{started[0]}"


def has_ended(owner: str) -> bool:
    """Whether an owner was a process of this machine that runs no more; False for whatever cannot be told."""
    try:
        _, space, number, started = owner.split(":")
        pid = int(number)
    except ValueError:
        return False
    if space != _number_space():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's, which runs
        pass
    found = _start_of(pid)
    return found is not None and (found[0] != started or found[1] in _ENDED_STATES)


def ended_among(owners: Iterable[str]) -> set[str]:
    """The owners that :func:`has_ended`; each is looked up once."""
    return {owner for owner in set(owners) if has_ended(owner)}


@cache
def _space_of(pid: int) -> str | None:
    """See :func:`_number_space`; of a process, since a child may be born into another space."""
    try:
        if os.readlink("/proc/self") != str(pid):  # /proc shows the numbers of another space
            return None
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return hashlib.sha256(f"{boot} {os.readlink('/proc/self/ns/pid')}".encode()).hexdigest()[:16]
    except OSError:
        return None


def _number_space() -> str | None:
    """A text for the space in which process numbers mean something here: one start of one machine, and one container on it."""
    return _space_of(os.getpid())


def _start_of(pid: int) -> tuple[str, str] | None:
    """When a process started, in the system's own unit since the machine did, and its state; None where that cannot be read."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may have blanks and brackets
    return fields[19], fields[0]
