"""A function of many items on all processors, in processes that are forked for it.

What takes Python long, such as scheduling or lowering a kernel, does not get faster by threads. Forked children inherit the items, what the
function refers to and all that is warm; only results travel.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from .error import KilledProcessError

Item = TypeVar("Item")
Result = TypeVar("Result")

_MIN_PARALLEL = 4
"""Items below which starting processes costs more than it saves."""
_WORK: tuple[Callable[[Any], Any], Sequence[Any]] | None = None
"""What forked children do: inherited memory, so that neither functions nor items need to be serialized."""


def forked_map(
    function: Callable[[Item], Result], items: Sequence[Item], named: Callable[[Item], str] = str
) -> list[Result]:
    """The results of a function for all items, in their order; items that take long should come first.

    What the function changes in memory is lost where children call it. A process that has other threads, or must not have children, calls
    it by itself: a child that was forked while another thread held a lock would wait for it forever.

    Args:
        function: of one item; its results and exceptions can be pickled.
        items: what it is called with.
        named: what an item is called in a message.

    Raises:
        Exception: whatever the function raises.
        KilledProcessError: a child was killed, for instance because memory ran out.

    >>> forked_map(len, ["a", "bc", "def", "", "g"])
    [1, 2, 3, 0, 1]
    """
    global _WORK
    workers = min(len(os.sched_getaffinity(0)), len(items) - 1)
    if len(items) < _MIN_PARALLEL or workers < 2 or not _may_fork():
        return [function(item) for item in items]
    first = function(items[0])  # children inherit what this has imported and compiled
    _WORK = function, items
    try:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
            futures = [pool.submit(_call, index) for index in range(1, len(items))]
            try:
                return [first, *(future.result() for future in futures)]
            except BrokenProcessPool as error:
                lost = [item for item, future in zip(items[1:], futures) if _is_lost(future)]
                # they begin in order: the first ones without an answer were being computed
                suspects = ", ".join(map(named, lost[:workers]))
                raise KilledProcessError(
                    f"a process was killed that computed one of: {suspects}; is there memory enough for {workers} at once? "
                    "`taskset -c 0` in front of the command has them computed one after the other"
                ) from error
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        _WORK = None


def _is_lost(future: Future[Any]) -> bool:
    return isinstance(future.exception(), BrokenProcessPool)


def _may_fork() -> bool:
    is_child = _WORK is not None or multiprocessing.current_process().daemon
    return threading.active_count() == 1 and not is_child


def _call(index: int) -> Any:
    assert _WORK is not None
    function, items = _WORK
    return function(items[index])
