"""RulesOfTarget: the rules that a target has, for lists of rules that are made before the target is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ir.target import Target

from ..random_variable import BlockRV
from ..schedule import Schedule
from .base import ScheduleRule


class RulesOfTarget(ScheduleRule):
    """Offer what some rules offer one after the other, of which the target says which there are.

    Args:
        make: from the target to the rules.
    """

    def __init__(self, make: Callable[[Target], Sequence[ScheduleRule]]) -> None:
        self._make = make
        self._rules: list[ScheduleRule] = []

    def initialize(self, target: Target) -> None:
        super().initialize(target)
        self._rules = list(self._make(target))
        for rule in self._rules:
            rule.initialize(target)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        offered = [sch]
        for rule in self._rules:
            offered = [found for item in offered for found in rule.applied(item, block)]
        return offered
