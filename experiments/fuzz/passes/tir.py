"""Sequences of passes over TIR: the lowering, with other passes between its steps, up to a random one."""

from __future__ import annotations

import random
from collections.abc import Callable

from ir.module import IRModule
from ir.target import Target
from ir.tir import transform as T
from ir.tir.lower import lowering_pipeline
from ir.tir.transform.fresh_copy import fresh_copy
from ir.transform import Pass

from ..oracle import TARGETS, Meaning, interpreted

_ANYWHERE: list[Callable[[random.Random], Pass]] = [
    lambda generator: T.Simplify(),
    lambda generator: T.SimplifyIndices(),
    lambda generator: T.RemoveNoOp(),
    lambda generator: T.ConvertSSA(),
    lambda generator: T.HoistIfThenElse(),
    lambda generator: T.NarrowDataType(generator.choice([32, 64])),
    lambda generator: T.WidenIndices(),
    lambda generator: T.ForceNarrowIndexToInt32(),
    lambda generator: T.RewriteUnsafeSelect(),
    lambda generator: T.RemoveAssume(),
    lambda generator: T.RemoveStoreUndef(),
    lambda generator: T.SkipAssert(),
    lambda generator: T.AnnotateEntryFunc(),
    lambda generator: T.BindTarget(generator.choice(sorted(TARGETS.values()))),
    lambda generator: T.Filter(lambda func: True),
    lambda generator: T.Apply(lambda func: func.replace(body=fresh_copy(func.body))),
    lambda generator: T.RemoveWeightLayoutRewriteBlock(),
    lambda generator: T.LoopPartition(),
    lambda generator: T.RenormalizeSplitPattern(),
    lambda generator: T.UnrollLoop(generator.choice([0, 8, 64]), auto_max_extent=generator.choice([0, 8])),
]
"""Passes that take a program of any stage, each with random options."""


def pass_sequence(seed: int, target: str, alone: bool) -> list[Pass]:
    """The passes of a seed.

    Args:
        seed: says everything, together with the others.
        target: whose lowering it is.
        alone: one pass that takes any program, and nothing else.
    """
    generator = random.Random(seed)
    if alone:
        return [generator.choice(_ANYWHERE)(generator)]
    with Target(TARGETS[target]) as current:
        steps = list(lowering_pipeline(current).passes)
    found: list[Pass] = []
    for step in steps[: generator.randint(0, len(steps))]:
        found += [
            maker(generator) for maker in generator.choices(_ANYWHERE, k=generator.choice([0, 0, 0, 1, 2]))
        ]
        found.append(step)
    return found or [generator.choice(_ANYWHERE)(generator)]


def same_meaning(program: Meaning) -> Callable[[IRModule, str], str]:
    """A check that a module does what a program means, by the interpreter."""

    def check(mod: IRModule, name: str) -> str:
        found = interpreted(mod, program.arguments)
        return "" if found.agrees(program.expected) else "the interpreter finds other numbers"

    return check
