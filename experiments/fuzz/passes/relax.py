"""Sequences of graph passes, and of the passes that bring a module down to the machine's calls.

The passes of a module of operators may come in any order; behind ``LegalizeOps`` those of a module of kernels, and then the lowering,
whose order matters, up to a random step. A pass with options gets random ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from ir.module import IRModule
from ir.relax import transform as T
from ir.relax.analysis import check_well_formed
from ir.relax.pipeline import lowering_passes, weight_passes
from ir.transform import Pass

from ..relax.oracle import Meaning, evaluated

Maker = Callable[[random.Random], Pass]


def _plain(*names: str) -> list[Maker]:
    return [lambda generator, name=name: getattr(T, name)() for name in names]  # type: ignore[misc]


ON_OPERATORS: list[Maker] = [
    *_plain(
        "AdjustMatmulOrder", "CanonicalizeBindings", "ChooseLayout", "CombineParallelMatmul", "ConvertToDataflow",
        "DataflowUseInplaceCalls", "DeadCodeElimination", "DecomposeOpsForInference", "DecomposeTrainingBatchNorm",
        "EliminateCommonSubexpr", "ExpandMatmulOfSum", "ExpandTupleArguments", "FoldBatchnormToConv2D", "FoldConstant",
        "FuseTransposeMatmul", "InlinePrivateFunctions", "LambdaLift", "Normalize", "NormalizeGlobalVar", "OptimizeLayoutTransform",
        "RealizeVDevice", "RemoveRedundantReshape", "RemoveUnusedOutputs", "RemoveUnusedParameters", "ReorderPermuteDimsAfterConcat",
        "ReorderTakeAfterMatmul", "LegalizeOps",
    ),
    lambda generator: T.TopologicalSort(
        generator.choice(["depth-first", "breadth-first"]), generator.choice(["from-inputs", "from-outputs"])
    ),
    lambda generator: T.EliminateCommonSubexpr(call_only=True),
    lambda generator: T.ConvertToDataflow(min_size=generator.choice([1, 3])),
    lambda generator: T.ConvertLayout({"relax.nn.conv2d": ["NHWC", generator.choice(["OHWI", "HWIO"])]}),
]  # fmt: skip
"""Passes over operators."""

ON_KERNELS: list[Maker] = [
    *_plain(
        "AllocateWorkspace", "AnnotateTIROpPattern", "AttachAttrLayoutFreeBuffers", "CanonicalizeBindings", "DataflowUseInplaceCalls",
        "DeadCodeElimination", "EliminateCommonSubexpr", "FoldConstant", "FuseTIR", "LambdaLift", "Normalize", "RemoveUnusedOutputs",
        "RemoveUnusedParameters", "RewriteDataflowReshape", "SplitLayoutRewritePreproc", "TopologicalSort", "ExpandTupleArguments",
        "InlinePrivateFunctions",
    ),
    lambda generator: T.FuseOps(generator.choice([-1, 0, 1, 2])),
]  # fmt: skip
"""Passes over calls of kernels."""


def pass_sequence(seed: int, alone: bool) -> list[Pass]:
    """The passes of a seed.

    Args:
        seed: says everything.
        alone: one pass over operators, or what it takes to bring one over kernels, or one of the lowering, to where it belongs.
    """
    generator = random.Random(seed)
    stage = generator.random()
    graph = [] if alone and stage >= 0.5 else _drawn(generator, ON_OPERATORS, 1 if alone else 5)
    if stage < 0.5:
        return graph
    kernels = [] if alone and stage >= 0.75 else _drawn(generator, ON_KERNELS, 1 if alone else 4)
    sequence = [*graph, T.LambdaLift(), T.LegalizeOps(), T.AnnotateTIROpPattern(), *kernels]
    if stage < 0.75:
        return sequence
    down = [*(weight_passes() if generator.random() < 0.5 else []), *_lowering(generator)]
    return [*sequence, *down[: generator.randint(1, len(down))]]


def _drawn(generator: random.Random, makers: list[Maker], most: int) -> list[Pass]:
    return [generator.choice(makers)(generator) for _ in range(generator.randint(1, most))]


def _lowering(generator: random.Random) -> list[Pass]:
    """The lowering, where memory is planned in one of the ways there are, or not at all."""
    plan = generator.choice([[], [T.StaticPlanBlockMemory()], [T.StaticPlanBlockMemory(arena=True)]])
    passes: list[Pass] = []
    for item in lowering_passes():
        passes += plan if item.info.name == "StaticPlanBlockMemory" else [item]
    return passes


def same_meaning(program: Meaning) -> Callable[[IRModule, str], str]:
    """A check that a module is well-formed and does what a program means, by the evaluator."""

    def check(mod: IRModule, name: str) -> str:
        check_well_formed(mod)
        return program.difference(evaluated(mod, program.given))

    return check
