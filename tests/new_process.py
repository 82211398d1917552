"""A process of one thread for what must not have others; pytest's workers have some."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any


def in_a_new_process(function: Callable[[], Any]) -> Any:
    """What a function returns in a forked process, which may have children of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=lambda: theirs.send(function()), daemon=False)
    process.start()
    theirs.close()  # a child that fails is noticed at once
    assert ours.poll(60)
    found = ours.recv()
    process.join()
    return found
