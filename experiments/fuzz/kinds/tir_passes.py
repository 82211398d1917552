"""Random sequences of passes on random TIR programs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ir.module import IRModule
from ir.target import Target
from ir.transform import Pass

from ..children import judged_alone
from ..kind import KINDS, Kind, add_targets, count, targets_of
from ..oracle import TARGETS, meaning
from ..passes.step import judge_sequence
from ..passes.tir import pass_sequence, same_meaning
from ..reduce import reduced
from ..tir_programs import TirProgram, tir_program
from ..verdict import Verdict


@KINDS.register("tir-passes")
class TirPasses(Kind):
    """the lowering of random TIR programs with other passes between its steps: the interpreter finds the same numbers behind each"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        add_targets(command)
        command.add_argument(
            "--wrap", action="store_true", help="let integers leave the range of their dtype in every program"
        )
        command.add_argument(
            "--size", type=count, default=5, help="statements in each at the top (default: 5)"
        )
        command.add_argument("--alone", action="store_true", help="one pass, and not several")

    def show(self, seed: int, options: argparse.Namespace) -> str:
        names = ", ".join(
            item.info.name for item in pass_sequence(seed, targets_of(seed, options)[0], options.alone)
        )
        return f"{self._program(seed, options).text}\n# passes: {names}"

    def _program(self, seed: int, options: argparse.Namespace) -> TirProgram:
        return tir_program(seed, options.wrap, options.size)

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        program, target = self._program(seed, options), targets_of(seed, options)[0]
        passes = pass_sequence(seed, target, options.alone)
        return _judged(program.text, program.arguments, passes, target)

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        """With as few passes as fail alike, then of the program as little as does."""
        program, target = self._program(seed, options), targets_of(seed, options)[0]
        passes = pass_sequence(seed, target, options.alone)

        def fails(text: str, some: list[Pass]) -> bool:
            found = judged_alone(lambda: _judged(text, program.arguments, some, target))
            return (found.kind, found.place) == (verdict.kind, verdict.place)

        for position in reversed(range(len(passes))):
            fewer = passes[:position] + passes[position + 1 :]
            passes = fewer if fails(program.text, fewer) else passes
        small = reduced(program.text, lambda text: fails(text, passes))
        return f"{small}\n# passes: {', '.join(item.info.name for item in passes)}"


def _judged(text: str, arguments: Sequence[Any], passes: Sequence[Pass], target: str) -> Verdict:
    found = meaning(text, arguments)
    if isinstance(found, Verdict):
        return found
    with Target(TARGETS[target]):
        return judge_sequence(IRModule({"main": found.func}), passes, same_meaning(found))
