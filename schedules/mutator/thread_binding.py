"""MutateThreadBinding: another number of threads."""

from __future__ import annotations

from ..trace import Trace
from .base import ChoiceMutator


class MutateThreadBinding(ChoiceMutator):
    """Replace the sampled factor of a loop that is bound to a thread axis by another of its candidates."""

    def numbers(self, trace: Trace) -> set[int]:
        bound = {id(inst.inputs[0]) for inst in trace.insts if inst.kind.name == "Bind"}
        return {
            id(factor)
            for inst in trace.insts
            if inst.kind.name == "Split" and any(id(loop) in bound for loop in inst.outputs)
            for factor in inst.inputs[1:]
        }
