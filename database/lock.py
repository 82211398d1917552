"""A lock between processes on a file of its own; released by the system when its holder dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(path: str | Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock on ``path`` (made when missing) for the length of the block, waiting for it as long as it takes."""
    handle = _opened(path)
    try:
        lock(handle, shared=shared)
        yield
    finally:
        os.close(handle)


def _opened(path: str | Path) -> int:
    # In a folder where everybody may make files, such as /tmp, another user's file may be opened by who does not ask to make it.
    try:
        return os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)


def lock(handle: int, *, shared: bool = False) -> None:
    """Wait for a lock on an open file, which ends when that is closed."""
    fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
