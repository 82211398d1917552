"""What a mutator is: a function from a trace to a near one."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ir.kinds import Kinds

from ..error import ScheduleError
from ..instruction import Instruction
from ..population.sketch import Sketch
from ..trace import Trace

_MOST_TRACES = 16
"""Of a generation of rows, so many are mutated as traces."""


class Mutator(ABC):
    """Changes one decision of a trace.

    Contract: ``apply`` returns a new trace that differs in one decision and is without postprocessing, or None when the trace
    has nothing that this mutator changes; the given trace stays as it is. Equal seeds give equal mutations.

    Args:
        seed: of the random choices.
    """

    defaults: ClassVar[Kinds[Callable[[], dict[Mutator, float]]]] = Kinds(
        "kind of target with mutators", ScheduleError, __package__
    )
    """What makes the mutators of each kind of target, in :mod:`schedules.mutator.default`."""

    def __init__(self, seed: int = 0) -> None:
        self._generator = np.random.default_rng(seed)

    def initialize_with_tune_context(self, context: Any) -> None:
        """Learn the workload and the random seed of a tuning context."""
        self._generator = np.random.default_rng(getattr(context, "seed", 0))

    @abstractmethod
    def apply(self, trace: Trace) -> Trace | None:
        """The mutated trace, or None."""

    def mutate_rows(self, sketch: Sketch, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Rows of a sketch, int64 [N, n_columns], each mutated; those that have nothing to mutate as they were.

        Mutators that say which decisions they change work on the whole matrix; others are given one trace after the other, as many
        as ``_MOST_TRACES``. What is no candidate of the same structure does not count.

        Raises:
            ScheduleError: ``apply`` returns something else than a trace.
        """
        columns = self.columns(sketch)
        if columns is not None:
            return changed_columns(sketch, rows, columns, generator)
        result = rows.copy()
        for place in generator.permutation(len(rows))[:_MOST_TRACES]:
            trace = self.apply(sketch.trace_of(rows[place]))
            if not isinstance(trace, Trace | None):
                raise ScheduleError(
                    f"mutator {type(self).__name__}: apply returns a trace or None, got {type(trace).__name__}"
                )
            row = None if trace is None else sketch.row_of(trace)
            if row is not None:
                result[place] = row
        return result

    def columns(self, sketch: Sketch) -> list[int] | None:
        """The columns of a sketch of which it replaces one by a near choice; None for mutators that only know traces."""
        return None

    def clone(self) -> Mutator:
        """An independent copy in the same state."""
        return copy.deepcopy(self)

    @staticmethod
    def create(kind: str) -> dict[Mutator, float]:
        """The mutators for a kind of target ("llvm", "cpu", "hexagon", "cuda", "cuda-tensorcore") with their probabilities."""
        return Mutator.defaults[kind]()

    def _changed(self, trace: Trace, inst: Instruction, decision: Any) -> Trace:
        return trace.with_decision(inst, decision, remove_postproc=True)

    def _pick(self, items: list[Instruction]) -> Instruction:
        return items[int(self._generator.integers(len(items)))]


def changed_columns(
    sketch: Sketch, rows: np.ndarray, columns: Sequence[int], generator: np.random.Generator
) -> np.ndarray:
    """Each row with a near choice in one of some columns: int64 [N, n_columns]."""
    result = rows.copy()
    if columns:
        picks = np.asarray(columns)[generator.integers(len(columns), size=len(rows))]
        for column in columns:
            own = np.flatnonzero(picks == column)
            result[own, column] = sketch.decisions[column].neighbours(rows[own, column], generator)
    return result


class ChoiceMutator(Mutator):
    """Replaces one sampled number of some by another of its candidates."""

    @abstractmethod
    def numbers(self, trace: Trace) -> set[int]:
        """Ids of the random variables whose numbers it changes."""

    def columns(self, sketch: Sketch) -> list[int]:
        used = self.numbers(sketch.trace)
        return sketch.columns_of(
            [
                inst
                for inst in sketch.trace.insts
                if inst.kind.name == "SampleCategorical" and id(inst.outputs[0]) in used
            ]
        )

    def apply(self, trace: Trace) -> Trace | None:
        found = sampled_choices(trace, self.numbers(trace))
        if not found:
            return None
        inst = self._pick(found)
        return self._changed(trace, inst, other_category(inst, trace.get_decision(inst), self._generator))


class PyMutator(Mutator):
    """Base for mutators written by users: override ``apply``."""


def sampled(
    trace: Trace, kind: str, accept: Callable[[Instruction], bool] | None = None
) -> list[Instruction]:
    """The sampling instructions of a kind that have a decision and more than one choice (as far as ``accept`` says)."""
    return [
        inst
        for inst in trace.simplified(True).insts
        if inst.kind.name == kind
        and trace.get_decision(inst) is not None
        and (accept is None or accept(inst))
    ]


def sampled_choices(trace: Trace, numbers: set[int]) -> list[Instruction]:
    """Those that sampled one of some random variables, given by their ids, from several candidates."""
    return sampled(
        trace, "SampleCategorical", lambda inst: id(inst.outputs[0]) in numbers and len(inst.attrs[0]) > 1
    )


def annotated_with(trace: Trace, key: str) -> set[int]:
    """Ids of the random variables that are values of annotations of this name."""
    return {
        id(inst.inputs[1]) for inst in trace.insts if inst.kind.name == "Annotate" and inst.attrs[0] == key
    }


def other_category(inst: Instruction, decision: int, generator: np.random.Generator) -> int:
    """Another position than ``decision`` among the candidates of a categorical sample."""
    count = len(inst.attrs[0])
    return int((decision + generator.integers(1, count)) % count)
