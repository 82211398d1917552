"""MutateComputeLocation: compute a block somewhere else."""

from __future__ import annotations

from typing import Any

from ..instruction import Instruction
from ..primitive.sampling import compute_locations
from ..schedule import Schedule
from ..trace import Trace
from .base import Mutator, sampled


class MutateComputeLocation(Mutator):
    """Replace one sampled compute location by another that is possible there.

    Needs the workload, to see which places there are: from the tuning context, or from ``mod``.
    """

    def __init__(self, mod: Any = None, seed: int = 0) -> None:
        super().__init__(seed)
        self.mod = mod

    def initialize_with_tune_context(self, context: Any) -> None:
        super().initialize_with_tune_context(context)
        self.mod = context.mod

    def apply(self, trace: Trace) -> Trace | None:
        found = sampled(trace, "SampleComputeLocation")
        if not found or self.mod is None:
            return None
        inst = self._pick(found)
        choices = [item for item in self._choices(trace, inst) if item != trace.get_decision(inst)]
        if not choices:
            return None
        return self._changed(trace, inst, choices[int(self._generator.integers(len(choices)))])

    def _choices(self, trace: Trace, inst: Instruction) -> list[int]:
        """The decisions that are possible at an instruction, found by replaying what comes before it."""
        position = next(i for i, item in enumerate(trace.insts) if item is inst)
        sch = Schedule(self.mod, error_render_level="none")
        table = Trace(trace.insts[:position], trace.decisions).apply_to_schedule(sch, remove_postproc=True)
        return list(compute_locations(sch._block(table[inst.inputs[0]])))
