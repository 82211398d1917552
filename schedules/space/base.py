"""What a design space is: the structures (sketches) and random schedules of a program."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any

from ir import IRModule
from ir.target import Target
from ir.tir import PrimFunc

from ..error import ScheduleError
from ..population.sketch import Sketch
from ..schedule import Schedule


class SpaceGenerator(ABC):
    """Generates a design space.

    Contract: at least one sketch and one schedule for every program; the same program and target give the same space.
    """

    def initialize_with_tune_context(self, context: Any) -> None:
        """Learn the target of a tuning context."""
        self.target: Target = context.target

    @abstractmethod
    def generate_design_space(self, mod: PrimFunc | IRModule, target: Target | None = None) -> list[Schedule]:
        """Random schedules of the space, one per structure."""

    @abstractmethod
    def generate_sketches(self, mod: PrimFunc | IRModule, target: Target) -> list[Sketch]:
        """The structures of the space with open decisions."""

    def clone(self) -> SpaceGenerator:
        """An independent copy."""
        return copy.copy(self)

    @staticmethod
    def create(kind: str = "post-order-apply", *args: Any, **kwargs: Any) -> SpaceGenerator:
        """A generator by name: "post-order-apply", "union", or a function that schedules."""
        from . import PostOrderApply, ScheduleFn, SpaceGeneratorUnion

        if callable(kind):
            return ScheduleFn(kind, *args, **kwargs)
        kinds = {"post-order-apply": PostOrderApply, "schedule-fn": ScheduleFn, "union": SpaceGeneratorUnion}
        if kind not in kinds:
            raise ScheduleError(f"unknown space generator {kind!r}; there are {', '.join(sorted(kinds))}")
        made: SpaceGenerator = kinds[kind](*args, **kwargs)
        return made
