"""Steps that change what runs inside of a loop whose iterations already run at once: tried on a copy of the schedule first.

A primitive that moves a block, or copies what it touches, is legal by the serial order; whether the iterations of a parallel or
vectorized loop around it still leave each other alone is seen best in the program that the step makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ir.tir import ForKind

from .analysis import require
from .dependence import why_iterations_conflict
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
    for var, reason in _conflicts(trial).items():
        require(reason is None or before.get(var) == reason, primitive, f"{reason}")


def _is_concurrent(node: TreeNode) -> bool:
    return isinstance(node, LoopNode) and node.kind in (ForKind.PARALLEL, ForKind.VECTORIZED)


def _conflicts(sch: ScheduleState) -> dict[Any, str | None]:
    """Why the iterations of each loop that runs at once may conflict, by its variable; None where they do not."""
    return {
        node.var: why_iterations_conflict(node, blocks_below(node))
        for root in sch._roots.values()
        for node in walk(root)
        if isinstance(node, LoopNode) and _is_concurrent(node)
    }
