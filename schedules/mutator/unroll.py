"""MutateUnroll: unroll further, or less far."""

from __future__ import annotations

from ..trace import Trace
from .base import Mutator, annotated_with, other_category, sampled

_KEYS = ("meta_schedule.unroll_explicit", "meta_schedule.unroll_implicit", "meta_schedule.unroll")


class MutateUnroll(Mutator):
    """Replace one sampled unroll limit by another of its candidates."""

    def apply(self, trace: Trace) -> Trace | None:
        used = set().union(*[annotated_with(trace, key) for key in _KEYS])
        found = sampled(
            trace, "SampleCategorical", lambda inst: id(inst.outputs[0]) in used and len(inst.attrs[0]) > 1
        )
        if not found:
            return None
        inst = self._pick(found)
        return self._changed(trace, inst, other_category(inst, trace.get_decision(inst), self._generator))
