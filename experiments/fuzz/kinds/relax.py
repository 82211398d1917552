"""Random Relax modules: the reference evaluator against native code for several vector widths."""

from __future__ import annotations

import argparse

from ..children import judged_alone
from ..kind import KINDS, Kind, add_targets, count, targets_of
from ..relax.blame import first_wrong_pass
from ..relax.oracle import judge_text
from ..relax.program import relax_program
from ..relax.reduce import reduced
from ..verdict import Verdict, crash


@KINDS.register("relax")
class Relax(Kind):
    """random Relax modules: what relax.build makes of them computes what the reference evaluator does"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        add_targets(command)
        command.add_argument("--size", type=count, default=10, help="statements in main (default: 10)")

    def show(self, seed: int, options: argparse.Namespace) -> str:
        return relax_program(seed, options.size)

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        try:
            text = relax_program(seed, options.size)
        except Exception as error:  # operators' inference, their references, or the generator
            return crash("generate", error)
        return judge_text(text, seed, targets_of(seed, options))

    def blame(self, seed: int, options: argparse.Namespace) -> str:
        (target, *_) = targets_of(seed, options)
        return first_wrong_pass(relax_program(seed, options.size), seed, target)

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        targets = targets_of(seed, options)

        def fails(text: str) -> bool:
            found = judged_alone(lambda: judge_text(text, seed, targets))
            return (found.kind, found.place) == (verdict.kind, verdict.place)

        small = reduced(relax_program(seed, options.size), fails)
        blamed = judged_alone(lambda: Verdict(first_wrong_pass(small, seed, targets[0])))
        return f"{small}\n# {blamed.kind or 'no pass is wrong: it is the code, or its runtime'}"
