"""Passes that change how a Relax module is called, in random sequences with others."""

from __future__ import annotations

import argparse

from ir.target import Target

from ..children import judged_alone
from ..kind import KINDS, Kind, count
from ..passes.interfaces import SameThroughInterface, interface_sequence, with_weights
from ..passes.step import judge_sequence
from ..relax.oracle import meaning
from ..relax.program import relax_program
from ..relax.reduce import reduced
from ..verdict import Verdict, crash


@KINDS.register("interfaces")
class Interfaces(Kind):
    """passes that transform, bundle or fetch weights and hand out results: called as they promise, modules mean what they meant"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        command.add_argument("--size", type=count, default=8, help="statements in main (default: 8)")

    def show(self, seed: int, options: argparse.Namespace) -> str:
        names = ", ".join(item.info.name for item in interface_sequence(seed))
        return f"{relax_program(seed, options.size)}\n# passes: {names}"

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        try:
            text = relax_program(seed, options.size)
        except Exception as error:  # operators' inference, their references, or the generator
            return crash("generate", error)
        return _judged(text, seed)

    def reduced(self, seed: int, options: argparse.Namespace, verdict: Verdict) -> str:
        def fails(text: str) -> bool:
            found = judged_alone(lambda: _judged(text, seed))
            return (found.kind, found.place) == (verdict.kind, verdict.place)

        small = reduced(relax_program(seed, options.size), fails)
        return f"{small}\n# {judged_alone(lambda: _judged(small, seed))}"


def _judged(text: str, seed: int) -> Verdict:
    program = meaning(text, seed)
    if isinstance(program, Verdict):
        return program
    mod = with_weights(program.mod, seed)
    with Target("llvm"):
        return judge_sequence(mod, interface_sequence(seed), SameThroughInterface(program, mod))
