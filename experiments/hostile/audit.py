"""What a reader of bytes must not do: load code, begin a process, unpickle, connect. Python's own audit events tell."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

FORBIDDEN = frozenset(
    "ctypes.dlopen os.exec os.fork os.forkpty os.posix_spawn os.spawn os.system pickle.find_class socket.connect subprocess.Popen".split()
)
"""Events, by Python's names of them."""


class CodeRun(Exception):
    """A reader did what only running something needs."""


_WATCHED = threading.local()
_HOOKED: list[bool] = []


def _look(event: str, args: object) -> None:
    if event in FORBIDDEN and getattr(_WATCHED, "active", False):
        _WATCHED.active = False
        raise CodeRun(f"{event} {args!r:.200}")


@contextmanager
def nothing_run() -> Iterator[None]:
    """Within the block, such an event of this thread raises CodeRun."""
    if not _HOOKED:
        _HOOKED.append(True)
        sys.addaudithook(_look)
    _WATCHED.active = True
    try:
        yield
    finally:
        _WATCHED.active = False
