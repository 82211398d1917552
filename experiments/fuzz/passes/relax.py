"""Sequences of graph passes, and of the passes that bring a module down to the machine's calls.

The passes of a module of operators may come in any order; behind ``LegalizeOps`` those of a module of kernels, and then the lowering,
whose order matters, up to a random step. A pass with options gets random ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from ir.module import IRModule
from ir.relax import transform as T
from ir.relax.analysis import check_well_formed, tir_vars_in_struct_info
from ir.relax.dpl import is_op, wildcard
from ir.relax.expr import Var
from ir.relax.function import Function
from ir.relax.pipeline import lowering_passes, weight_passes
from ir.transform import Pass, PassContext, module_pass

from ..relax.arguments import symbol_value
from ..relax.oracle import Meaning, Outcome, evaluated, flattened
from .outside import alter_kernels, decompose_for_training, rewrite_cuda_graph, run_codegen, update_vdevice

Maker = Callable[[random.Random, Meaning], Pass]
"""From a source of randomness and the program to a pass."""

_APPROXIMATE = ("ToMixedPrecision", "FastMathTransform")
"""Passes that change numbers: what they leave is held to shapes, dtypes and the order of effects."""


def _plain(*names: str) -> list[Maker]:
    return [lambda generator, program, name=name: getattr(T, name)() for name in names]  # type: ignore[misc]


def _params(mod: IRModule) -> tuple[Var, ...]:
    main = mod["main"]
    assert isinstance(main, Function)
    return main.params


def _bind_params(generator: random.Random, program: Meaning) -> Pass:
    """Some of the arguments become constants."""
    pairs = zip(_params(program.mod), program.given, strict=True)
    found = {param.name_hint: value for param, value in pairs if generator.random() < 0.4}

    def bind(
        mod: IRModule, ctx: PassContext
    ) -> IRModule:  # another pass of the sequence may have bound some of them
        left = {param.name_hint for param in _params(mod)}
        return T.BindParams("main", {name: value for name, value in found.items() if name in left})(mod, ctx)

    return module_pass(bind, opt_level=0, name="BindParams")


def _bind_symbols(generator: random.Random, program: Meaning) -> Pass:
    """Some of the symbolic extents become the numbers that they are."""
    names = {var.name for param in _params(program.mod) for var in tir_vars_in_struct_info(param.struct_info)}
    found = {name: symbol_value(name) for name in sorted(names) if generator.random() < 0.6}

    def bind(mod: IRModule, ctx: PassContext) -> IRModule:
        left = {var.name for param in _params(mod) for var in tir_vars_in_struct_info(param.struct_info)}
        return T.BindSymbolicVars({name: found[name] for name in found if name in left}, "main")(mod, ctx)

    return module_pass(bind, opt_level=0, name="BindSymbolicVars")


def _by_pattern(generator: random.Random, program: Meaning) -> Pass:
    """Products and sums with what follows them become functions of their own."""
    follower = generator.choice(["relax.add", "relax.nn.relu", "relax.multiply"])
    first = is_op(generator.choice(["relax.matmul", "relax.add", "relax.multiply"]))(wildcard(), wildcard())
    pattern = is_op(follower)(first) if follower == "relax.nn.relu" else is_op(follower)(first, wildcard())
    return T.FuseOpsByPattern([("fuzz.pair", pattern)], bind_constants=generator.random() < 0.5)


ON_OPERATORS: list[Maker] = [
    *_plain(
        "AdjustMatmulOrder", "CanonicalizeBindings", "ChooseLayout", "CombineParallelMatmul", "ConvertToDataflow",
        "DataflowUseInplaceCalls", "DeadCodeElimination", "DecomposeOpsForInference", "DecomposeTrainingBatchNorm",
        "EliminateCommonSubexpr", "ExpandMatmulOfSum", "ExpandTupleArguments", "FoldBatchnormToConv2D", "FoldConstant",
        "FuseTransposeMatmul", "InlinePrivateFunctions", "LambdaLift", "Normalize", "NormalizeGlobalVar", "OptimizeLayoutTransform",
        "RealizeVDevice", "RemoveRedundantReshape", "RemoveUnusedOutputs", "RemoveUnusedParameters", "ReorderPermuteDimsAfterConcat",
        "ReorderTakeAfterMatmul", "LegalizeOps", "MergeCompositeFunctions", "ToMixedPrecision", "FastMathTransform",
    ),
    lambda generator, program: T.TopologicalSort(
        generator.choice(["depth-first", "breadth-first"]), generator.choice(["from-inputs", "from-outputs"])
    ),
    lambda generator, program: T.EliminateCommonSubexpr(call_only=True),
    lambda generator, program: T.ConvertToDataflow(min_size=generator.choice([1, 3])),
    lambda generator, program: T.ConvertLayout({"relax.nn.conv2d": ["NHWC", generator.choice(["OHWI", "HWIO"])]}),
    _bind_params,
    _bind_symbols,
    _by_pattern,
    lambda generator, program: run_codegen(generator),
    lambda generator, program: update_vdevice(),
    lambda generator, program: decompose_for_training(),
]  # fmt: skip
"""Passes over operators."""

ON_KERNELS: list[Maker] = [
    *_plain(
        "AllocateWorkspace", "AnnotateTIROpPattern", "AttachAttrLayoutFreeBuffers", "CanonicalizeBindings", "DataflowUseInplaceCalls",
        "DeadCodeElimination", "EliminateCommonSubexpr", "FoldConstant", "FuseTIR", "LambdaLift", "Normalize", "RemoveUnusedOutputs",
        "RemoveUnusedParameters", "RewriteDataflowReshape", "SplitLayoutRewritePreproc", "TopologicalSort", "ExpandTupleArguments",
        "InlinePrivateFunctions",
    ),
    lambda generator, program: T.FuseOps(generator.choice([-1, 0, 1, 2])),
    lambda generator, program: alter_kernels(),
]  # fmt: skip
"""Passes over calls of kernels."""


def pass_sequence(seed: int, alone: bool, program: Meaning) -> list[Pass]:
    """The passes of a seed.

    Args:
        seed: says everything, together with the others.
        program: what they are applied to.
        alone: one pass over operators, or what it takes to bring one over kernels, or one of the lowering, to where it belongs.
    """
    generator = random.Random(seed)
    stage = generator.random()
    graph = [] if alone and stage >= 0.5 else _drawn(generator, program, ON_OPERATORS, 1 if alone else 5)
    if stage < 0.5:
        return graph
    kernels = [] if alone and stage >= 0.75 else _drawn(generator, program, ON_KERNELS, 1 if alone else 4)
    sequence = [*graph, T.LambdaLift(), T.LegalizeOps(), T.AnnotateTIROpPattern(), *kernels]
    if stage < 0.75:
        return sequence
    down = [*(weight_passes() if generator.random() < 0.5 else []), *_lowering(generator)]
    return [*sequence, *down[: generator.randint(1, len(down))]]


def _drawn(generator: random.Random, program: Meaning, makers: list[Maker], most: int) -> list[Pass]:
    return [generator.choice(makers)(generator, program) for _ in range(generator.randint(1, most))]


def _lowering(generator: random.Random) -> list[Pass]:
    """The lowering, where memory is planned in one of the ways there are, or not at all."""
    planned: Pass = T.StaticPlanBlockMemory()
    plans: list[list[Pass]] = [
        [], [planned], [T.StaticPlanBlockMemory(arena=True)], [planned, rewrite_cuda_graph()]
    ]  # fmt: skip
    plan = generator.choice(plans)
    passes: list[Pass] = []
    for item in lowering_passes():
        passes += plan if item.info.name == "StaticPlanBlockMemory" else [item]
    return passes


class SameMeaning:
    """A check that modules are well-formed and do what a program means, by the evaluator."""

    def __init__(self, program: Meaning) -> None:
        self._program = program
        params = _params(program.mod)
        self._given = {param.name_hint: value for param, value in zip(params, program.given, strict=True)}
        self._exact = True

    def __call__(self, mod: IRModule, name: str) -> str:
        """What is wrong with a module that a pass left; empty where nothing is."""
        check_well_formed(mod)
        self._exact &= name not in _APPROXIMATE
        names = [param.name_hint for param in _params(mod)]
        given = (
            [self._given[name] for name in names] if set(names) < set(self._given) else self._program.given
        )
        found = evaluated(mod, given)
        if len(given) != len(
            self._given
        ):  # arguments that became constants: those that are left must be as they were
            count = len(flattened(given))
            before, after = flattened(given), found.arrays[len(found.arrays) - count :]
            if any(one.tobytes() != other.tobytes() for one, other in zip(before, after, strict=True)):
                return "it writes to its arguments"
            results = found.arrays[: len(found.arrays) - count]
            found = Outcome([*results, *flattened(self._program.given)], found.labels)
        if self._exact:
            return self._program.difference(found)
        expected = self._program.expected
        same = [(array.shape, array.dtype) for array in found.arrays] == [
            (array.shape, array.dtype) for array in expected.arrays
        ]
        return "" if same and found.labels == expected.labels else "other shapes, dtypes or effects"
