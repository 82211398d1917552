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
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        lock(handle, shared=shared)
        yield
    finally:
        os.close(handle)


def lock(handle: int, *, shared: bool = False) -> None:
    """Wait for a lock on an open file, which ends when that is closed."""
    fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
