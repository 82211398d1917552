"""What a postprocessor is: a last step on a materialized schedule, which may refuse it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any

from ir.target import Target

from ..error import ScheduleError
from ..schedule import Schedule


class Postproc(ABC):
    """A step applied to every candidate that is to be measured.

    Contract: ``apply`` returns whether the candidate is valid; it changes the schedule through its methods, so that the trace
    has the postprocessing in it.
    """

    def initialize(self, target: Target) -> None:
        """Learn the target before the first ``apply``."""
        self.target = target

    def initialize_with_tune_context(self, context: Any) -> None:
        """Learn the target of a tuning context."""
        self.initialize(context.target)

    @staticmethod
    def create(kind: str) -> list[Postproc]:
        """The default postprocessors for a kind of target: "llvm" (or "cpu"), "cuda", "cuda-tensorcore", or "hexagon"."""
        from . import KINDS

        if kind not in KINDS:
            raise ScheduleError(f"there are no postprocessors for {kind!r}; there are for {', '.join(KINDS)}")
        return KINDS[kind]()

    def clone(self) -> Postproc:
        """An independent copy."""
        return copy.copy(self)

    @abstractmethod
    def apply(self, sch: Schedule) -> bool:
        """Postprocess; False refuses the candidate."""


class PyPostproc(Postproc):
    """Base for postprocessors written by users: override ``apply`` (and ``_initialize_with_tune_context`` if wanted)."""

    def initialize_with_tune_context(self, context: Any) -> None:
        super().initialize_with_tune_context(context)
        self._initialize_with_tune_context(context)

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Called with the tuning context before the search."""
