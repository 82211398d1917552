"""MutateThreadBinding: another number of threads."""

from __future__ import annotations

from ..population.sketch import Sketch
from ..trace import Trace
from .base import Mutator, other_category, sampled


class MutateThreadBinding(Mutator):
    """Replace the sampled factor of a loop that is bound to a thread axis by another of its candidates."""

    def columns(self, sketch: Sketch) -> list[int]:
        factors = _bound_factors(sketch.trace)
        choices = [inst for inst in sketch.trace.insts if inst.kind.name == "SampleCategorical"]
        return sketch.columns_of([inst for inst in choices if id(inst.outputs[0]) in factors])

    def apply(self, trace: Trace) -> Trace | None:
        factors = _bound_factors(trace)
        found = sampled(
            trace, "SampleCategorical", lambda inst: id(inst.outputs[0]) in factors and len(inst.attrs[0]) > 1
        )
        if not found:
            return None
        inst = self._pick(found)
        return self._changed(trace, inst, other_category(inst, trace.get_decision(inst), self._generator))


def _bound_factors(trace: Trace) -> set[int]:
    """Ids of the factors of splits of which a loop is bound to a thread axis."""
    bound = {id(inst.inputs[0]) for inst in trace.insts if inst.kind.name == "Bind"}
    return {
        id(factor)
        for inst in trace.insts
        if inst.kind.name == "Split" and any(id(loop) in bound for loop in inst.outputs)
        for factor in inst.inputs[1:]
    }
