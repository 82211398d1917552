"""Locks that a child process must find free: a fork waits until no other thread holds them.

A child has the thread that forked and no other; what another one held would never be released there, and the child would wait for ever
when it loads or compiles code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def hold_at_fork(acquire: Callable[[], Any], release: Callable[[], Any]) -> None:
    """Holds a lock while this process forks. Of two locks that are held together, the inner one must be given here first."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=acquire, after_in_parent=release, after_in_child=release)
