"""MutateUnroll: unroll further, or less far."""

from __future__ import annotations

from ..annotation import UNROLL, UNROLL_EXPLICIT, UNROLL_IMPLICIT
from ..population.sketch import Sketch
from ..trace import Trace
from .base import Mutator, annotated_with, other_category, sampled

_KEYS = (UNROLL_EXPLICIT, UNROLL_IMPLICIT, UNROLL)


class MutateUnroll(Mutator):
    """Replace one sampled unroll limit by another of its candidates."""

    def columns(self, sketch: Sketch) -> list[int]:
        used = _limits(sketch.trace)
        return sketch.columns_of([inst for inst in sketch.trace.insts if used & set(map(id, inst.outputs))])

    def apply(self, trace: Trace) -> Trace | None:
        used = _limits(trace)
        found = sampled(
            trace, "SampleCategorical", lambda inst: id(inst.outputs[0]) in used and len(inst.attrs[0]) > 1
        )
        if not found:
            return None
        inst = self._pick(found)
        return self._changed(trace, inst, other_category(inst, trace.get_decision(inst), self._generator))


def _limits(trace: Trace) -> set[int]:
    """Ids of the random variables that say how far to unroll."""
    return set().union(*[annotated_with(trace, key) for key in _KEYS])
