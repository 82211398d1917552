"""What a mutator is: a function from a trace to a near one."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ir.kinds import Kinds

from ..error import ScheduleError
from ..instruction import Instruction
from ..trace import Trace


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


def annotated_with(trace: Trace, key: str) -> set[int]:
    """Ids of the random variables that are values of annotations of this name."""
    return {
        id(inst.inputs[1]) for inst in trace.insts if inst.kind.name == "Annotate" and inst.attrs[0] == key
    }


def other_category(inst: Instruction, decision: int, generator: np.random.Generator) -> int:
    """Another position than ``decision`` among the candidates of a categorical sample."""
    count = len(inst.attrs[0])
    return int((decision + generator.integers(1, count)) % count)
