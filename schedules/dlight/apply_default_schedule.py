"""ApplyDefaultSchedule: ready-made schedules for all functions of a module that have none."""

from __future__ import annotations

from collections.abc import Iterable

from ir import IRModule
from ir.target import Target
from ir.tir import PrimFunc
from ir.transform import ModulePass, PassContext

from ..error import RuleError, ScheduleError
from ..schedule import Schedule
from ..scheduled import IS_SCHEDULED, in_place_of
from .base import ScheduleRule


class ApplyDefaultSchedule(ModulePass):
    """Give each PrimFunc that is not scheduled the schedule of the first rule that knows it.

    Functions that no rule knows stay as they are; those that get one have the attribute ``tir.is_scheduled``. The target is the one in
    force, or a function's own::

        with Target("nvidia/nvidia-a100"):
            mod = ApplyDefaultSchedule(gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.Fallback())(mod)

    Args:
        rules: tried in this order.
    """

    def __init__(self, *rules: ScheduleRule) -> None:
        wrong = [rule for rule in rules if not isinstance(rule, ScheduleRule)]
        if wrong:
            raise RuleError(
                f"ApplyDefaultSchedule takes instances of dlight.ScheduleRule, got {wrong[0]!r}; was a rule not called?"
            )
        self.rules = rules

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with scheduled functions.

        Raises:
            ScheduleError: there is no target.
        """
        functions = dict(mod.functions)
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc) or func.attrs.get(IS_SCHEDULED):
                continue
            sch = first_schedule(self.rules, func, target_of(func, "ApplyDefaultSchedule"))
            if sch is not None:
                functions[var] = in_place_of(func, only_function(sch.mod))
        return mod.replace(functions=functions)


def first_schedule(
    rules: Iterable[ScheduleRule], func: PrimFunc, target: Target, tunable: bool = False
) -> Schedule | None:
    """The schedule of the first rule that knows a function, or None."""
    for rule in rules:
        sch = rule.apply(func, target, tunable)
        if sch is not None:
            return sch
    return None


def target_of(func: PrimFunc, name: str) -> Target:
    """A function's own target, or the one in force.

    Raises:
        ScheduleError: there is none; ``name`` is the pass that needs it.
    """
    target = func.attrs.get("target") or Target.current(allow_none=True)
    if target is None:
        raise ScheduleError(f"{name} needs a target; apply it within `with Target(...):`")
    return target


def only_function(mod: IRModule) -> PrimFunc:
    """The PrimFunc of a module that has one."""
    (func,) = [item for item in mod.functions.values() if isinstance(item, PrimFunc)]
    return func
