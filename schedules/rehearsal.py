"""Steps that change what runs inside of a loop whose iterations already run at once: tried on a copy of the schedule first.

A primitive that moves a block, or copies what it touches, is legal by the serial order; whether the iterations of a parallel,
vectorized or thread-bound loop around it still leave each other alone is seen best in the program that the step makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ir.tir import ForKind

from .dependence import conflicts_of_iterations
from .error import ScheduleError
from .state import ScheduleState
from .tree import LoopNode, TreeNode, blocks_below, loops_around, walk

State = TypeVar("State", bound=ScheduleState)


def require_no_new_conflict(
    sch: State, places: Iterable[TreeNode], step: Callable[[State], Any], primitive: str
) -> None:
    """Refuse a step after which iterations that run at once would conflict.

    Args:
        sch: the schedule, which stays as it is.
        places: the blocks and loops that the step concerns; where none of the loops around them runs at once, nothing is tried.
        step: takes the step on a copy.
        primitive: its name, for the error.

    Raises:
        ScheduleError: two iterations may touch the same element, one of them writing it, and did not before; or the step is
            refused by itself.
    """
    if not any(_is_concurrent(loop) for place in places for loop in (*loops_around(place), place)):
        return
    trial = sch.copy()
    before = _conflicts(trial)
    step(trial)
    for var, reasons in _conflicts(trial).items():
        for reason in reasons - before.get(var, Counter()):
            raise ScheduleError(f"{primitive}: {reason}")


def _is_concurrent(node: TreeNode) -> bool:
    return isinstance(node, LoopNode) and node.kind in _CONCURRENT


_CONCURRENT = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)


def _conflicts(sch: ScheduleState) -> dict[Any, Counter[str]]:
    """Why the iterations of each loop that runs at once may conflict, by its variable: how often for each reason."""
    return {
        node.var: Counter(
            conflicts_of_iterations(node, blocks_below(node), as_threads=_are_threads_of_one_block(node))
        )
        for root in sch._roots.values()
        for node in walk(root)
        if isinstance(node, LoopNode) and _is_concurrent(node)
    }


def _are_threads_of_one_block(loop: LoopNode) -> bool:
    return loop.thread_binding is not None and not loop.thread_binding.thread_tag.startswith("blockIdx")
