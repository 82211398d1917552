"""What a schedule rule is: a function from a schedule and a block to the schedules that the rule offers."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from ir.kinds import Kinds
from ir.target import Target

from ..error import ScheduleError
from ..random_variable import BlockRV
from ..schedule import Schedule


class ScheduleRule(ABC):
    """A rule of a design space.

    Rules run on schedules with open decisions (sketches) and on ordinary ones alike; they only use a schedule's methods.
    Contract: ``apply`` may change and return the schedule that it is given, returns at least one schedule, and returns the
    schedule unchanged where the rule does not fit the block.
    """

    defaults: ClassVar[Kinds[Callable[[], list[ScheduleRule]]]] = Kinds(
        "kind of target with schedule rules", ScheduleError, __package__
    )
    """What makes the rules of each kind of target, in :mod:`schedules.rule.default`."""

    def initialize(self, target: Target) -> None:
        """Learn the target before the first ``apply``."""
        self.target = target

    @abstractmethod
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedules that the rule offers for a block."""

    def initialize_with_tune_context(self, context: Any) -> None:
        """Learn the target of a tuning context."""
        self.initialize(context.target)

    @staticmethod
    def create(kind: str) -> list[ScheduleRule]:
        """The default rules for a kind of target: "llvm" (or "cpu"), "cuda", or "hexagon"."""
        return ScheduleRule.defaults[kind]()

    def clone(self) -> ScheduleRule:
        """An independent copy."""
        return copy.copy(self)


class PyScheduleRule(ScheduleRule):
    """Base for rules written by users: override ``apply`` (and ``_initialize_with_tune_context`` if wanted)."""

    def initialize_with_tune_context(self, context: Any) -> None:
        super().initialize_with_tune_context(context)
        self._initialize_with_tune_context(context)

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Called with the tuning context before the search."""
