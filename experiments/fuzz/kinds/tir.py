"""Random TIR programs: the interpreter against native code for several vector widths."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import ClassVar

from ir.script import from_source

from ..blame import first_wrong_pass
from ..children import judged_alone
from ..kind import KINDS, Kind, add_targets, count, targets_of
from ..oracle import Meaning, judge_natives, judge_text, meaning
from ..reduce import reduced
from ..tir_programs import TirProgram, tir_program
from ..verdict import Verdict


@KINDS.register("tir")
class Tir(Kind):
    """random TIR programs: native code computes what the interpreter does"""

    batch: ClassVar[int] = 32
    seconds: ClassVar[int] = 240

    def add_options(self, command: argparse.ArgumentParser) -> None:
        add_targets(command)
        command.add_argument(
            "--wrap", action="store_true", help="let integers leave the range of their dtype in every program"
        )
        command.add_argument(
            "--size", type=count, default=6, help="statements in each at the top (default: 6)"
        )

    def show(self, seed: int, options: argparse.Namespace) -> str:
        return self._program(seed, options).text

    def _program(self, seed: int, options: argparse.Namespace) -> TirProgram:
        return tir_program(seed, options.wrap, options.size)

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        program = self._program(seed, options)
        return judge_text(program.text, program.arguments, targets_of(seed, options))

    def judge_together(self, seeds: Sequence[int], options: argparse.Namespace) -> list[Verdict]:
        """Interprets each program, and compiles all of them in one module for each target."""
        verdicts: dict[int, Verdict] = {}
        by_target: dict[str, dict[int, Meaning]] = {}
        for seed in seeds:
            program = self._program(seed, options)
            found = meaning(program.text, program.arguments)
            verdicts[seed] = found if isinstance(found, Verdict) else Verdict("ok")
            if isinstance(found, Meaning):
                for target in targets_of(seed, options):
                    by_target.setdefault(target, {})[seed] = found
        for target, group in by_target.items():
            for seed, verdict in zip(group, judge_natives(list(group.values()), target), strict=True):
                if not verdicts[seed].failed:
                    verdicts[seed] = verdict
        return [verdicts[seed] for seed in seeds]

    def blame(self, seed: int, options: argparse.Namespace) -> str:
        program = self._program(seed, options)
        return _blame(program.text, program, targets_of(seed, options))

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        program, targets = self._program(seed, options), targets_of(seed, options)

        def fails(text: str) -> bool:
            found = judged_alone(lambda: judge_text(text, program.arguments, targets))
            return (found.kind, found.place) == (verdict.kind, verdict.place)

        small = reduced(program.text, fails)
        blamed = judged_alone(lambda: Verdict(_blame(small, program, targets)))
        return f"{small}\n# {blamed.kind}"


def _blame(text: str, program: TirProgram, targets: Sequence[str]) -> str:
    """Which pass is the first to break a program, for the first target that shows it."""
    func = from_source(text)
    for target in targets:
        found = first_wrong_pass(func, program.arguments, target)
        if found is not None:
            return f"first wrong after {found}, for {target}"
    return "no pass of the lowering is wrong: it is the code generator or LLVM"
