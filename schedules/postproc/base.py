"""What a postprocessor is: a last step on a materialized schedule, which may refuse it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ir.target import Target

from ..schedule import Schedule


class Postproc(ABC):
    """A step applied to every candidate that is to be measured.

    Contract: ``apply`` returns whether the candidate is valid; it changes the schedule through its methods, so that the trace
    has the postprocessing in it.
    """

    def initialize(self, target: Target) -> None:
        """Learn the target before the first ``apply``."""
        self.target = target

    @abstractmethod
    def apply(self, sch: Schedule) -> bool:
        """Postprocess; False refuses the candidate."""
