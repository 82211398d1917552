"""EliminateCommonSubexpr: equal values are computed once, where that is known."""

from __future__ import annotations

import numpy as np
import pytest

from ir import dtype as dt
from ir import relax, tir
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from runners import VirtualMachine

from .conftest import verify


def test_eliminate_common_subexpr():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            with R.dataflow():
                lv0 = R.add(x, y)
                lv1 = R.add(x, y)
                lv2 = R.add(y, x)
                lv3 = R.multiply(lv0, lv1)
                gv = R.subtract(lv3, lv2)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            with R.dataflow():
                lv0 = R.add(x, y)
                lv1 = lv0
                lv2 = R.add(y, x)
                lv3 = R.multiply(lv0, lv0)
                gv = R.subtract(lv3, lv2)
                R.output(gv)
            return gv

    verify(transform.EliminateCommonSubexpr()(Before), Expected)


def test_what_is_overwritten_between_two_equal_calls_is_not_one():
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def increment(A: T.Buffer((4, 6), "float32")):
            for i, j in T.grid(4, 6):
                with T.block("increment"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = A[vi, vj] + T.float32(1)

        @R.function
        def main(x: R.Tensor((4, 6), "float32")):
            cls = Before
            a = R.exp(x)
            b = R.call_tir_inplace(
                cls.increment, (a,), inplace_indices=[0], out_sinfo=R.Tensor((4, 6), "float32")
            )
            c = R.exp(x)
            d = R.exp(x)
            return R.add(b, R.multiply(c, d))

    after = transform.EliminateCommonSubexpr()(Before)
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(4, 6)
    expected = np.exp(x) + 1 + np.exp(x) ** 2
    np.testing.assert_allclose(evaluate(after, x), expected, rtol=1e-6)
    vm = VirtualMachine(relax.build(Before, "llvm"))
    np.testing.assert_allclose(vm["main"](x).numpy(), expected, rtol=1e-6)


def test_common_subexpr_of_a_branch_is_not_known_behind_it():
    @I.ir_module
    class Before:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            if c:
                a = R.exp(x)
                r = R.add(a, a)
            else:
                r = x
            b = R.exp(x)
            z = R.add(r, b)
            return z

    after = transform.EliminateCommonSubexpr()(Before)
    verify(after, Before)


@pytest.mark.meaning("relax-zero")
def test_zeros_of_two_signs_are_two(same_numbers):
    """In numbers, attributes and constants; also for LegalizeOps, which remembers the kernels of equal calls."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))

    def filled(value):
        return relax.op.full((2,), relax.PrimValue(tir.FloatImm("float32", value)), "float32")

    with builder.function("main", [x]):
        with builder.dataflow():
            pairs = [
                [builder.emit(make(zero)) for zero in (0.0, -0.0)]
                for make in (
                    filled,
                    lambda zero: relax.op.nn.leakyrelu(x, zero),
                    lambda zero: relax.op.nn.pad(x, [1, 1], "constant", zero),
                    lambda zero: relax.op.add(x, relax.const(np.float32(zero))),
                )
            ]
            out = builder.emit_output(relax.Tuple([item for pair in pairs for item in pair]))
        builder.emit_func_output(out)
    before = builder.finalize()
    given = np.float32([-0.0, -1.0])
    expected = [item.tobytes() for item in evaluate(before, given)]
    for step in (transform.EliminateCommonSubexpr(), transform.LegalizeOps(), relax.get_pipeline("zero")):
        after = step(before)
        assert [item.tobytes() for item in evaluate(after, given)] == expected
        same_numbers(before, after, [given])


@pytest.mark.meaning("relax-zero")
@pytest.mark.parametrize("one, other", [("int4", "uint4"), ("float8_e4m3fn", "float8_e4m3fnuz")])
def test_constants_of_equal_bytes_and_different_narrow_dtypes_are_two(one, other):
    """Also for LegalizeOps, and for LiftTransformParams, which merges by the same keys."""
    raw = np.array([0x0A, 0x05], "uint8")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2,), "bool"))
    expected = []
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = []
            for dtype in (one, other):
                data = raw.view(dt.to_numpy(dtype))
                parts.append(builder.emit(relax.op.astype(relax.const(data, dtype), "float32")))
                small = builder.emit(
                    relax.op.where(x, relax.const(data[0], dtype), relax.const(data[1], dtype))
                )
                parts.append(builder.emit(relax.op.astype(small, "float32")))
                expected += [data.astype("float32")] * 2
            out = builder.emit_output(relax.Tuple(parts))
        builder.emit_func_output(out)
    before = builder.finalize()
    for step in (transform.EliminateCommonSubexpr(), transform.LegalizeOps(), relax.get_pipeline("zero")):
        found = VirtualMachine(relax.build(step(before), "llvm"))["main"](np.array([True, False]))
        for item, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(item.numpy(), wanted)


def test_an_output_that_equals_a_variable_of_its_block_keeps_its_name(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                lv = R.exp(x)
                twice = R.add(lv, lv)
                gv = R.exp(x)
                R.output(gv, twice)
            y = R.multiply(gv, twice)
            return y

    after = transform.EliminateCommonSubexpr()(Before)
    check_well_formed(after)
    assert after.script().count("R.exp") == 1
    same_numbers(Before, after, [(4,)])
