"""Random sequences of graph passes on random Relax modules."""

from __future__ import annotations

import argparse

from ir.target import Target

from ..children import judged_alone
from ..kind import KINDS, Kind, count
from ..passes.relax import SameMeaning, pass_sequence
from ..passes.step import judge_sequence
from ..relax.oracle import Meaning, meaning
from ..relax.program import relax_program
from ..relax.reduce import reduced
from ..verdict import Verdict, crash


@KINDS.register("relax-passes")
class RelaxPasses(Kind):
    """random sequences of graph passes: each leaves a well-formed module that means what it meant, and is read as it is printed"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        command.add_argument("--size", type=count, default=8, help="statements in main (default: 8)")
        command.add_argument(
            "--alone", action="store_true", help="one pass, where it belongs, and not several"
        )

    def show(self, seed: int, options: argparse.Namespace) -> str:
        text = relax_program(seed, options.size)
        program = meaning(text, seed)
        passes = pass_sequence(seed, options.alone, program) if isinstance(program, Meaning) else []
        return f"{text}\n# passes: {', '.join(item.info.name for item in passes)}"

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        try:
            text = relax_program(seed, options.size)
        except Exception as error:  # operators' inference, their references, or the generator
            return crash("generate", error)
        return _judged(text, seed, options)

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        def fails(text: str) -> bool:
            found = judged_alone(lambda: _judged(text, seed, options))
            return (found.kind, found.place) == (verdict.kind, verdict.place)

        small = reduced(relax_program(seed, options.size), fails)
        return f"{small}\n# {judged_alone(lambda: _judged(small, seed, options))}"


def _judged(text: str, seed: int, options: argparse.Namespace) -> Verdict:
    program = meaning(text, seed)
    if isinstance(program, Verdict):
        return program
    with Target("llvm"):
        return judge_sequence(program.mod, pass_sequence(seed, options.alone, program), SameMeaning(program))
