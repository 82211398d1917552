"""What a postprocessor is: a last step on a materialized schedule, which may refuse it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ir.kinds import Kinds
from ir.target import Target

from ..error import RuleError, ScheduleError
from ..schedule import Schedule


class Postproc(ABC):
    """A step applied to every candidate that is to be measured.

    Contract: ``apply`` returns whether the candidate is valid; it changes the schedule through its methods, so that the trace
    has the postprocessing in it.
    """

    defaults: ClassVar[Kinds[Callable[[], list[Postproc]]]] = Kinds(
        "kind of target with postprocessors", ScheduleError, __package__
    )
    """What makes the postprocessors of each kind of target, in :mod:`schedules.postproc.default`."""

    def initialize(self, target: Target) -> None:
        """Learn the target before the first ``apply``."""
        self.target = target

    def initialize_with_tune_context(self, context: Any) -> None:
        """Learn the target of a tuning context."""
        self.initialize(context.target)

    @staticmethod
    def create(kind: str) -> list[Postproc]:
        """The default postprocessors for a kind of target: "llvm" (or "cpu"), "cuda", "cuda-tensorcore", or "hexagon"."""
        return Postproc.defaults[kind]()

    def clone(self) -> Postproc:
        """An independent copy."""
        return copy.copy(self)

    @abstractmethod
    def apply(self, sch: Schedule) -> bool:
        """Postprocess; False refuses the candidate."""

    def accepts(self, sch: Schedule) -> bool:
        """What ``apply`` says of a candidate.

        Raises:
            RuleError: it says something else than True or False.
        """
        answer = self.apply(sch)
        if not isinstance(answer, bool | np.bool_):
            raise RuleError(
                f"postprocessor {type(self).__name__}: apply returns whether the candidate is valid, got {answer!r};"
                " end it with `return True`"
            )
        return bool(answer)


class PyPostproc(Postproc):
    """Base for postprocessors written by users: override ``apply`` (and ``_initialize_with_tune_context`` if wanted)."""

    def initialize_with_tune_context(self, context: Any) -> None:
        super().initialize_with_tune_context(context)
        self._initialize_with_tune_context(context)

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Called with the tuning context before the search."""
