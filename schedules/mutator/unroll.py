"""MutateUnroll: unroll further, or less far."""

from __future__ import annotations

from ..annotation import UNROLL, UNROLL_EXPLICIT, UNROLL_IMPLICIT
from ..trace import Trace
from .base import ChoiceMutator, annotated_with


class MutateUnroll(ChoiceMutator):
    """Replace one sampled unroll limit by another of its candidates."""

    def numbers(self, trace: Trace) -> set[int]:
        return set().union(
            *[annotated_with(trace, key) for key in (UNROLL_EXPLICIT, UNROLL_IMPLICIT, UNROLL)]
        )
