"""One measurement at a time on a machine, undisturbed by builds, across all processes and users.

Builds share the machine, a measurement has it alone: one build beside it, on a machine of two cores, made a kernel of two
threads 1.6 times slower, so that overlapping the two would save time and spoil the times. The lock belongs to the worker
process that holds it, so that the system releases it when the worker is killed.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _open(name: str) -> int:
    path = Path(os.environ.get("LOOPSMITH_LOCK_FOLDER", tempfile.gettempdir())) / name
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.fchmod(handle, 0o666)  # another user's tuner must be able to lock it too
    except PermissionError:  # that other user made it, with the same rights
        pass
    return handle


@contextmanager
def machine(*, alone: bool) -> Iterator[None]:
    """Use the machine: ``alone`` for a measurement, together with others for a build.

    Who wants it alone waits at the turnstile, which keeps new builds from starting, so that a stream of builds cannot
    keep a measurement waiting for ever.
    """
    turnstile, lock = _open("loopsmith-turnstile.lock"), _open("loopsmith-machine.lock")
    try:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        yield
    finally:
        os.close(lock)
        os.close(turnstile)
