"""MutateParallel: more or fewer jobs for the cores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir.target.target import Target

from ..annotation import PARALLEL
from ..instruction import Instruction
from ..population.decision import TileDecision
from ..population.sketch import Sketch
from ..prime_factors import prime_factors
from ..trace import Trace
from .base import Mutator, annotated_with, changed_columns, other_category, sampled, sampled_choices


class MutateParallel(Mutator):
    """Change what decides the number of parallel jobs: a sampled limit, or the outer factor of a tile that runs in parallel.

    Args:
        max_jobs_per_core: a tile's outer factor grows to that many jobs for each core of the target at most.
        seed: of the random choices.
    """

    def __init__(self, max_jobs_per_core: int = 64, seed: int = 0) -> None:
        super().__init__(seed)
        self.max_jobs_per_core = max_jobs_per_core
        self._cores = Target("cpu").num_cores

    def initialize_with_tune_context(self, context: Any) -> None:
        """Learn the workload, the random seed and the number of cores of a tuning context."""
        super().initialize_with_tune_context(context)
        self._cores = context.target.num_cores

    def mutate_rows(self, sketch: Sketch, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        limits, outer = annotated_with(sketch.trace, PARALLEL), _outer_factors(sketch.trace)
        columns = sketch.columns_of(
            [inst for inst in sketch.trace.insts if {*map(id, inst.outputs)} & (limits | outer)]
        )
        result = changed_columns(sketch, rows, columns, generator)
        for column in columns:
            decision = sketch.decisions[column]
            changed = np.flatnonzero(result[:, column] != rows[:, column])
            if isinstance(decision, TileDecision):
                result[changed, column] = [
                    self._other_outer(decision.table, int(number), generator)
                    for number in rows[changed, column]
                ]
        return result

    def _other_outer(self, table: np.ndarray, number: int, generator: np.random.Generator) -> int:
        """Another tile that differs in the outermost factor and the next; the same where there is none."""
        enough = max(self.max_jobs_per_core * self._cores, int(table[number, 0]))
        others = (table[:, 2:] == table[number, 2:]).all(axis=1) & (table[:, 0] <= enough)
        others[number] = False
        choices = np.flatnonzero(others)
        return int(generator.choice(choices)) if len(choices) else number

    def apply(self, trace: Trace) -> Trace | None:
        outer = _outer_factors(trace)
        tiles = sampled(
            trace, "SamplePerfectTile", lambda inst: id(inst.outputs[0]) in outer and inst.attrs[0] > 1
        )
        found = sampled_choices(trace, annotated_with(trace, PARALLEL))
        found += [inst for inst in tiles if self._moves(trace.get_decision(inst))]
        if not found:
            return None
        inst = self._pick(found)
        if inst.kind.name == "SampleCategorical":
            return self._changed(trace, inst, other_category(inst, trace.get_decision(inst), self._generator))
        moves = self._moves(trace.get_decision(inst))
        return self._changed(trace, inst, moves[int(self._generator.integers(len(moves)))])

    def _moves(self, decision: Any) -> list[list[int]]:
        """The neighbours of a tile that do not make more jobs than there may be."""
        enough = self.max_jobs_per_core * self._cores
        return [tile for tile in _moves(decision) if tile[0] <= max(enough, int(decision[0]))]


def _outer_factors(trace: Trace) -> set[int]:
    """Ids of the first factors of splits whose outermost loop is marked parallel."""
    parallel = {
        id(inst.inputs[0])
        for inst in trace.insts
        if inst.kind.name == "Annotate" and inst.attrs[0] == PARALLEL
    }
    return {id(inst.inputs[1]) for inst in trace.insts if _splits_parallel(inst, parallel)}


def _splits_parallel(inst: Instruction, parallel: set[int]) -> bool:
    return inst.kind.name == "Split" and bool(inst.outputs) and id(inst.outputs[0]) in parallel


def _moves(decision: Any) -> list[list[int]]:
    """Tiles with a prime factor moved between the outermost factor and the next."""
    factors = [int(item) for item in decision]
    result = []
    for source, target in ((0, 1), (1, 0)):
        for prime in prime_factors(factors[source]):
            moved = list(factors)
            moved[source] //= prime
            moved[target] *= prime
            result.append(moved)
    if len(factors) == 2:
        return [item for item in result if item[0] < factors[0] or item[1] < factors[1]]
    return result
