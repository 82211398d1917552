"""Which pass of the way down first changes what a Relax module computes."""

from __future__ import annotations

from collections.abc import Iterator

from ir import relax as rx
from ir.relax.analysis import check_well_formed
from ir.relax.pipeline import graph_passes, lowering_passes, scheduling_passes, weight_passes
from ir.target import Target
from ir.transform import Pass

from ..oracle import TARGETS
from ..verdict import Verdict
from .oracle import evaluated, meaning


def pipeline() -> Iterator[Pass]:
    """The passes of ``relax.build``, and those that run before it."""
    yield rx.transform.LambdaLift()
    yield from graph_passes()
    yield from scheduling_passes()
    yield from weight_passes()
    yield from lowering_passes()


def first_wrong_pass(text: str, seed: int, target: str) -> str:
    """The pass that raises, leaves an ill-formed module, or one that the evaluator finds to compute something else.

    Empty when the module is right to the end: what is wrong comes behind it, or the module does not mean anything.
    """
    program = meaning(text, seed)
    if isinstance(program, Verdict):
        return ""
    mod = program.mod
    with Target(TARGETS[target]):
        for item in pipeline():
            name = item.info.name
            try:
                mod = item(mod)
                check_well_formed(mod)
            except Exception as error:  # however a pass fails, it is the one that is looked for
                return f"{name} raises {type(error).__name__}"
            try:
                difference = program.difference(evaluated(mod, program.given))
            except Exception as error:
                return f"what {name} leaves cannot be evaluated: {type(error).__name__}"
            if difference:
                return f"wrong after {name}"
    return ""
