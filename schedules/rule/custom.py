"""Rules that users write: registered functions named by a block's annotation, and plain Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ir.registry import get_global_func

from ..block_facts import node_of
from ..error import RuleError
from ..random_variable import BlockRV
from ..schedule import Schedule
from .base import ScheduleRule

ANNOTATION = "schedule_rule"
"""On blocks: the name of the registered function that schedules them; "None" asks for no rule at all."""


class ApplyCustomRule(ScheduleRule):
    """Schedule blocks annotated ``schedule_rule`` by the function registered for them.

    For a block annotated ``name`` that is ``meta_schedule.cpu.name`` (by the target's kind and keys), or
    ``meta_schedule.name``; it takes the schedule and the block and returns a schedule or several. A name that nobody registered
    is ignored.
    """

    may_read = True
    is_users = True

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        name = node_of(sch, block).annotations.get(ANNOTATION)
        name = getattr(name, "value", name)
        if not isinstance(name, str) or name == "None":
            return [sch]
        candidates = [f"meta_schedule.{key}.{name}" for key in self._keys()] + [f"meta_schedule.{name}"]
        for candidate in candidates:
            func = get_global_func(candidate, allow_missing=True)
            if func is not None:
                sch.unannotate(block, ANNOTATION)
                return as_schedules(func(sch, block), sch, candidate)
        # The operator library names rules for its blocks; where nobody registered one the other rules take the block.
        return [sch]

    def _keys(self) -> list[str]:
        kind = getattr(self.target.kind, "name", self.target.kind)
        return list(
            dict.fromkeys([str(kind), *[str(key) for key in getattr(self.target, "keys", ())], "cpu"])
        )


class FunctionRule(ScheduleRule):
    """A Python function ``(schedule, block) -> schedule or schedules`` as a rule."""

    may_read = True
    is_users = True

    def __init__(self, function: Callable[[Schedule, BlockRV], Any]) -> None:
        self.function = function

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", "the function"))

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        return as_schedules(self.function(sch, block), sch, self.name)


def as_schedules(result: Any, given: Schedule, name: str) -> list[Schedule]:
    """What a user's function returned as a list; None stands for the schedule that it was given."""
    found = [given] if result is None else list(result) if isinstance(result, list | tuple) else [result]
    if not found or not all(isinstance(item, Schedule) for item in found):
        raise RuleError(f"{name} must return a Schedule, a list of them, or None, got {result!r}")
    return found
