"""Gradient, and what becomes of its result, on random differentiable functions."""

from __future__ import annotations

import argparse
import random

from ir.relax import transform as T
from ir.target import Target
from ir.transform import Pass

from ..children import judged_alone
from ..kind import KINDS, Kind, count
from ..passes.gradients import SameSlope
from ..passes.step import judge_sequence
from ..relax.differentiable import Differentiable, differentiable
from ..verdict import Verdict, crash

_BEHIND = (
    "CanonicalizeBindings",
    "DeadCodeElimination",
    "EliminateCommonSubexpr",
    "FoldConstant",
    "LegalizeOps",
    "TopologicalSort",
)


@KINDS.register("gradients")
class Gradients(Kind):
    """functions of float64 tensors: what Gradient adds, alone and behind other passes, agrees with differences of the function"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        command.add_argument("--size", type=count, default=9, help="statements (default: 9)")

    def show(self, seed: int, options: argparse.Namespace) -> str:
        program = differentiable(seed, options.size)
        names = ", ".join(item.info.name for item in _passes(seed, program))
        return f"{program.mod.script(show_meta=True)}\n# passes: {names}, by {program.wanted}"

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        return _judged(seed, options.size)

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        """The same with fewer statements: the first that fails alike."""
        for size in range(1, options.size):
            found = judged_alone(lambda size=size: _judged(seed, size))  # type: ignore[misc]
            if (found.kind, found.place) == (verdict.kind, verdict.place):
                return f"{differentiable(seed, size).mod.script(show_meta=True)}\n# --size {size}: {found}"
        return self.show(seed, options)


def _passes(seed: int, program: Differentiable) -> list[Pass]:
    generator = random.Random(seed)
    params = program.mod["main"].params  # type: ignore[attr-defined]
    before = [T.DecomposeOpsForTraining()] if generator.random() < 0.3 else []
    behind = generator.sample(_BEHIND, generator.choice([0, 1, 2]))
    gradient = T.Gradient("main", [params[number] for number in program.wanted])
    return [gradient, *before, *(getattr(T, name)() for name in behind)]


def _judged(seed: int, size: int) -> Verdict:
    try:
        program = differentiable(seed, size)
    except Exception as error:  # operators' inference, their references, or the generator
        return crash("generate", error)
    with Target("llvm"):
        return judge_sequence(program.mod, _passes(seed, program), SameSlope(program, seed))
