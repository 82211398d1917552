"""Random sequences of passes on random TIR programs."""

from __future__ import annotations

import argparse

from ir.module import IRModule
from ir.target import Target

from ..kind import KINDS, Kind, add_targets, targets_of
from ..oracle import TARGETS, meaning
from ..passes.step import judge_sequence
from ..passes.tir import pass_sequence, same_meaning
from ..tir_programs import TirProgram, tir_program
from ..verdict import Verdict


@KINDS.register("tir-passes")
class TirPasses(Kind):
    """the lowering of random TIR programs with other passes between its steps: the interpreter finds the same numbers behind each"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        add_targets(command)
        command.add_argument(
            "--wrap", action="store_true", help="let integers leave the range of their dtype"
        )
        command.add_argument("--size", type=int, default=5, help="statements in each at the top (default: 5)")
        command.add_argument("--alone", action="store_true", help="one pass, and not several")

    def show(self, seed: int, options: argparse.Namespace) -> str:
        names = ", ".join(
            item.info.name for item in pass_sequence(seed, targets_of(seed, options)[0], options.alone)
        )
        return f"{self._program(seed, options).text}\n# passes: {names}"

    def _program(self, seed: int, options: argparse.Namespace) -> TirProgram:
        return tir_program(seed, options.wrap, options.size)

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        program = self._program(seed, options)
        found = meaning(program.text, program.arguments)
        if isinstance(found, Verdict):
            return found
        (target, *_) = targets_of(seed, options)
        with Target(TARGETS[target]):
            return judge_sequence(
                IRModule({"main": found.func}),
                pass_sequence(seed, target, options.alone),
                same_meaning(found),
            )
