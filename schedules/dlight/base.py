"""What a ready-made schedule is: a rule that knows one kind of program, and schedules a whole function of that kind."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ir.target import Target
from ir.tir import PrimFunc

from ..schedule import Schedule


class ScheduleRule(ABC):
    """A schedule for the functions that have a certain structure.

    >>> from ir import te
    >>> class Nothing(ScheduleRule):
    ...     def apply(self, func, target, tunable=False):
    ...         return Schedule(func)
    >>> A = te.placeholder((8,), name="A")
    >>> func = te.create_prim_func([A, te.compute((8,), lambda i: A[i] + 1.0)])
    >>> isinstance(Nothing().apply(func, Target("cpu")), Schedule)
    True
    """

    @abstractmethod
    def apply(self, func: PrimFunc, target: Target, tunable: bool = False) -> Schedule | None:
        """The function's schedule, or None where it is not what the rule knows.

        Args:
            func: not scheduled yet; its shapes may be symbolic.
            target: what the schedule is for.
            tunable: leave numbers such as threads to sampling steps of the trace, each with the rule's own number as its decision, so that
                mutators can change them; otherwise they are constants of the trace.
        """
