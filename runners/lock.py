"""One measurement at a time on a machine, undisturbed by builds, across all processes and users.

Builds share the machine, a measurement has it alone: one build beside it, on a machine of two cores, made a kernel of two
threads 1.6 times slower, so that overlapping the two would save time and spoil the times. The lock belongs to the worker
process that holds it, so that the system releases it when the worker is killed.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .error import RunnerError

_SHARED = Path("/tmp")  # where all users of a machine find one file, whatever TMPDIR says to each
_FOR_ALL = 0o666
_PAUSE = 1e-3
"""Seconds between two looks at devices that are all in use: nobody can wait for several locks at once."""


_TURNSTILE, _MACHINE = "loopsmith-turnstile.lock", "loopsmith-machine.lock"


def folder() -> Path:
    """Where the locks are; ``LOOPSMITH_LOCK_FOLDER`` names another place."""
    named = os.environ.get("LOOPSMITH_LOCK_FOLDER")
    if named:
        return Path(named)
    return _SHARED if os.access(_SHARED, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def paths() -> list[Path]:
    """The files of the machine's locks, and those of its devices that there are."""
    where = folder()
    return [where / _TURNSTILE, where / _MACHINE, *where.glob(_of_device("*"))]


def _of_device(name: str) -> str:
    return f"loopsmith-device-{name}.lock"


def prepare(devices: Sequence[str] = ()) -> None:
    """Make the locks of the machine and of some devices, for processes that may open files and make none; they are marked as used, so that
    who tidies up lets them be.

    Raises:
        RunnerError: they cannot be made.
    """
    for name in (_TURNSTILE, _MACHINE, *map(_of_device, devices)):
        handle = _open(name)
        with suppress(PermissionError):  # another user's
            os.utime(handle)
        os.close(handle)


def _open(name: str) -> int:
    path = folder() / name
    try:
        while (handle := _opened(path)) is None and (handle := _made(path)) is None:
            pass  # another process made it in between
        return handle
    except OSError as error:
        raise RunnerError(
            f"the lock {str(path)!r}, by which measurements leave each other alone, cannot be opened: {error.strerror}; remove the file, or"
            " name a folder that all who measure on this machine can write, by LOOPSMITH_LOCK_FOLDER"
        ) from error


def _opened(path: Path) -> int | None:
    """The file, if it is there. Another user's in /tmp may be opened by who does not ask to make it (proc(5), protected_regular)."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def _made(path: Path) -> int | None:
    """The file, made so that other users can lock it, too; None where another process was first."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FOR_ALL)
    except FileExistsError:
        return None
    os.fchmod(handle, _FOR_ALL)  # whatever the umask is
    return handle


@contextmanager
def machine(*, alone: bool) -> Iterator[None]:
    """Use the machine: ``alone`` for a measurement, together with others for a build.

    Who wants it alone waits at the turnstile, which keeps new builds from starting, so that a stream of builds cannot
    keep a measurement waiting for ever.
    """
    turnstile, lock = _open(_TURNSTILE), _open(_MACHINE)
    try:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        yield
    finally:
        os.close(lock)
        os.close(turnstile)


@contextmanager
def one_device(names: Sequence[str]) -> Iterator[int]:
    """Use one of several devices alone: the first that is free; its place among them.

    Args:
        names: of the devices, the same in all processes.
    """
    handles = [_open(_of_device(name)) for name in names]
    try:
        while (place := _first_free(handles)) is None:
            time.sleep(_PAUSE)
        yield place
    finally:
        for handle in handles:
            os.close(handle)


def _first_free(handles: Sequence[int]) -> int | None:
    """Locks the first file that nobody has locked."""
    for place, handle in enumerate(handles):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return place
    return None
