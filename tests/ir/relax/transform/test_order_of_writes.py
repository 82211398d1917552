"""Passes that move, group or share computations leave those alone that an in-place call comes between.

Every pass of this file is called on programs whose values are overwritten after they were read; the fixture of this folder compares
what the programs compute.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import IRModule, relax
from ir.relax import transform
from ir.relax.dpl import is_op, rewrite_call, wildcard
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .structure import kernels


@I.ir_module
class Overwriting:
    """What is read of ``own`` is used behind the call that overwrites it."""

    @T.prim_func(private=True)
    def clear(a: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                a[vi, vj] = T.float32(0)

    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), i: R.Tensor((4,), "int64")):
        R.func_attr({"num_input": 1})
        cls = Overwriting
        with R.dataflow():
            own = R.negative(w)
            exponential = R.exp(own)
            product = R.matmul(own, w)
            turned = R.permute_dims(own)
            total = R.add(own, own)
            picked = R.take(own, i, axis=1)
            square = R.multiply(own, own)
            cleared = R.call_tir_inplace(
                cls.clear, (own,), out_sinfo=R.Tensor((4, 4), "float32"), inplace_indices=[0]
            )
            first = R.add(exponential, cleared)
            second = R.matmul(x, turned)
            third = R.matmul(x, total)
            fourth = R.matmul(x, picked)
            fifth = R.matmul(product, x)
            sixth = R.nn.relu(square)
            R.output(first, second, third, fourth, fifth, sixth)
        return (first, second, third, fourth, fifth, sixth)


PASSES: list[Any] = [
    transform.AdjustMatmulOrder(),
    transform.CanonicalizeBindings(),
    transform.ChooseLayout(),
    transform.CombineParallelMatmul(),
    transform.ConvertToDataflow(),
    transform.DataflowUseInplaceCalls(),
    transform.DeadCodeElimination(),
    transform.EliminateCommonSubexpr(),
    transform.ExpandMatmulOfSum(),
    transform.FoldConstant(),
    transform.FuseTransposeMatmul(),
    transform.LiftTransformParams(),
    transform.RemoveRedundantReshape(),
    transform.ReorderTakeAfterMatmul(),
    transform.ToMixedPrecision(),
    transform.ToNonDataflow(),
    *[
        transform.TopologicalSort(order, direction)
        for order in ("depth-first", "breadth-first")
        for direction in ("from-inputs", "from-outputs")
    ],
    relax.get_pipeline("zero"),
    relax.get_pipeline("default_build"),
    relax.get_pipeline("default"),
]


@pytest.mark.parametrize("step", PASSES, ids=lambda step: step.info.name)
def test_what_is_overwritten_is_read_before(step: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((4, 4)).astype("float32") for _ in range(2))
    args = (x, w, np.array([3, 0, 0, 1]))
    expected = evaluate(Overwriting, *args)
    after = step(Overwriting)
    if after.contains("main_transform_params"):
        args = (x, *evaluate(after, args[1:], name="main_transform_params"))
    tolerance = 5e-2 if isinstance(step, transform.ToMixedPrecision) else 1e-4
    for mod in (after, transform.LegalizeOps()(after)):
        for got, wanted in zip(evaluate(mod, *args), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def lowered() -> IRModule:
    return transform.AnnotateTIROpPattern()(transform.LegalizeOps()(Overwriting))


def test_kernels_do_not_move_behind_the_write() -> None:
    after = transform.FuseTIR()(transform.FuseOps()(lowered()))
    assert not [name for name in kernels(after) if name.startswith("fused_exp")]


def test_matches_do_not_reach_over_the_write() -> None:
    product, summed = wildcard(), is_op("relax.multiply")(wildcard(), wildcard())
    pattern = is_op("relax.nn.relu")(summed)
    assert transform.FuseOpsByPattern([("mine.relu", pattern)])(Overwriting) is Overwriting
    rewritten = rewrite_call(
        is_op("relax.nn.relu")(is_op("relax.multiply")(product, product)),
        lambda expr, found: relax.op.multiply(found[product], found[product]),
        Overwriting["main"],
    )
    assert rewritten is Overwriting["main"]


def overwriting(build: Any) -> IRModule:
    """``main(x)`` of a 4 by 4 matrix: ``build(builder, x, clear)``, where ``clear(value)`` is a call that overwrites."""
    kernels_only = {var: func for var, func in Overwriting.functions.items() if var.name_hint == "clear"}
    builder = relax.BlockBuilder(IRModule(kernels_only))
    info = relax.TensorStructInfo((4, 4), "float32")
    x = relax.Var("x", info)
    kernel = builder.get().get_global_var("clear")

    def clear(value: Any) -> Any:
        return builder.emit(relax.op.call_tir_inplace(kernel, [value], 0, info))

    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.Tuple(build(builder, x, clear))))
    return builder.finalize()


def moved_twice(builder: Any, value: Any) -> Any:
    once = builder.emit(relax.op.layout_transform(value, lambda i, j: (j, i)))
    return builder.emit(relax.op.layout_transform(once, lambda i, j: (j, i)))


def of_the_source(builder: Any, x: Any, clear: Any) -> list[Any]:
    own = builder.emit(relax.op.negative(x))
    once = builder.emit(relax.op.layout_transform(own, lambda i, j: (j, i)))
    cleared = clear(own)
    return [cleared, builder.emit(relax.op.layout_transform(once, lambda i, j: (j, i)))]


def of_the_copy(builder: Any, x: Any, clear: Any) -> list[Any]:
    return [clear(moved_twice(builder, x)), x]


def of_what_is_concatenated(builder: Any, x: Any, clear: Any) -> list[Any]:
    own = builder.emit(relax.op.negative(x))
    parts = [builder.emit(relax.op.permute_dims(item)) for item in (own, x)]
    cleared = clear(own)
    return [cleared, builder.emit(relax.op.concat(parts, axis=0))]


def of_what_is_normalized(builder: Any, x: Any, clear: Any) -> list[Any]:
    own = builder.emit(relax.op.negative(x))
    image = builder.emit(relax.op.reshape(own, (1, 1, 4, 4)))
    weight = relax.const(np.full((2, 1, 1, 1), 3, "float32"))
    conv = builder.emit(relax.op.nn.conv2d(image, weight))
    statistics = [relax.const(np.float32([1, 2])) for _ in range(4)]
    cleared = clear(own)
    normalized = builder.emit(relax.op.nn.batch_norm(conv, *statistics, axis=1, training=False))
    return [cleared, builder.emit(relax.TupleGetItem(normalized, 0))]


@pytest.mark.parametrize(
    "step, build",
    [
        (transform.OptimizeLayoutTransform(), of_the_source),
        (transform.OptimizeLayoutTransform(), of_the_copy),
        (transform.ReorderPermuteDimsAfterConcat(), of_what_is_concatenated),
        (transform.FoldBatchnormToConv2D(), of_what_is_normalized),
    ],
    ids=lambda item: getattr(item, "__name__", type(item).__name__),
)
def test_what_is_looked_through_is_not_overwritten(step: Any, build: Any) -> None:
    before = overwriting(build)
    x = np.random.default_rng(0).standard_normal((4, 4)).astype("float32")
    given = x.copy()
    expected = evaluate(before, x.copy())
    found = evaluate(step(before), given)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    np.testing.assert_array_equal(given, x)
