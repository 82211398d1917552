"""Where mixed precision puts its casts."""

from __future__ import annotations

import numpy as np
import pytest

from ir import relax
from ir.error import IRValueError
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from tests.programs.graphs import conv, network

from .conftest import verify

op = relax.op


@I.ir_module
class Before:
    @R.function
    def main(x: R.Tensor((8, 16), "float32"), w: R.Tensor((16, 16), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.add(a, x)
            c = R.nn.softmax(b)
            d = R.matmul(c, w)
            e = R.add(d, R.const(1.0, "float32"))
            f = R.exp(e)
            R.output(f)
        return f


def test_products_are_rounded_at_once_and_what_follows_them_follows():
    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8, 16), "float32"), w: R.Tensor((16, 16), "float32")):
            with R.dataflow():
                lv = R.astype(w, "float16")  # used by products only: cast where the block begins
                lv1 = R.astype(x, "float16")
                lv2 = R.matmul(lv1, lv, out_dtype="float32")
                a = R.astype(lv2, "float16")
                lv3 = R.astype(a, "float32")  # x is in full precision, so that the sum is
                b = R.add(lv3, x)
                c = R.nn.softmax(b)
                lv4 = R.astype(c, "float16")
                lv5 = R.matmul(lv4, lv, out_dtype="float32")
                d = R.astype(lv5, "float16")
                lv6 = R.astype(R.const(1.0, "float32"), "float16")
                e = R.add(d, lv6)
                lv7 = R.exp(e)
                f = R.astype(lv7, "float32")
                R.output(f)
            return f

    verify(transform.ToMixedPrecision()(Before), Expected)


def test_inputs_may_come_in_low_precision():
    after = transform.ToMixedPrecision(fp16_input_names=["x"])(Before)
    bindings = after["main"].body.blocks[0].bindings
    assert after["main"].params[0].struct_info.dtype == "float16"
    assert [b.value.op.name for b in bindings[:4]] == [
        "relax.astype",
        "relax.matmul",
        "relax.astype",
        "relax.add",
    ]
    assert bindings[3].var.struct_info.dtype == "float16"


def test_results_that_leave_the_block_are_not_rounded():
    @I.ir_module
    class Leaving:
        @R.function
        def main(x: R.Tensor((8, 16), "float32"), w: R.Tensor((16, 16), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                R.output(a)
            return a

    bindings = transform.ToMixedPrecision()(Leaving)["main"].body.blocks[0].bindings
    assert [b.value.op.name for b in bindings] == ["relax.astype", "relax.astype", "relax.matmul"]


def test_to_mixed_precision():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")) -> R.Tensor(
            (2, 4, 26, 26), "float32"
        ):
            with R.dataflow():
                gv = R.nn.conv2d(x, w)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")) -> R.Tensor(
            (2, 4, 26, 26), "float32"
        ):
            with R.dataflow():
                lv = R.astype(x, dtype="float16")
                lv1 = R.astype(w, dtype="float16")
                gv = R.nn.conv2d(lv, lv1, out_dtype="float32")
                R.output(gv)
            return gv

    verify(transform.ToMixedPrecision()(Before), Expected)
    low = transform.ToMixedPrecision(out_dtype="float16")(Before)
    assert low["main"].body.blocks[0].bindings[-1].value.op.name == "relax.astype"
    with pytest.raises(IRValueError, match="out_dtype"):
        transform.ToMixedPrecision(out_dtype="int8")(Before)


def test_to_mixed_precision_follows(same_numbers):
    mod = network(
        lambda bb, x: op.nn.softmax(conv(bb, bb.emit(op.nn.relu(conv(bb, x)))), axis=1), (1, 4, 6, 6)
    )
    after = transform.ToMixedPrecision()(mod)
    bindings = {b.value.op.name: b for b in after["main"].body.blocks[0].bindings}
    assert bindings["relax.nn.relu"].var.struct_info.dtype == "float16"
    assert bindings["relax.nn.softmax"].value.args[0].struct_info.dtype == "float32"
    same_numbers(mod, after, [(1, 4, 6, 6)], rtol=0.05, atol=0.01)


def test_to_mixed_precision_inputs():
    mod = network(lambda bb, x, w: op.matmul(x, w), (4, 8), (8, 4))
    after = transform.ToMixedPrecision(fp16_input_names=["x1"])(mod)
    assert [param.struct_info.dtype for param in after["main"].params] == ["float32", "float16"]


def test_inputs_in_low_precision_are_widened_for_what_is_not():
    """Other operators, results and callers see what they saw."""

    @I.ir_module
    class Before:
        @R.function(private=True)
        def layer(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tuple(
            R.Tensor((2, 4), "float32"), R.Tensor((4, 4), "float32")
        ):
            wt = R.permute_dims(w)
            with R.dataflow():
                y = R.matmul(x, wt)
                z = R.exp(w)
                R.output(y, z)
            s = R.add(z, w)
            return (y, s)

        @R.function
        def main(x: R.Tensor((2, 4), "float32"), v: R.Tensor((4, 4), "float32")):
            cls = Before
            pair = cls.layer(x, v)
            first = pair[0]
            second = pair[1]
            return (first, second, v)

    after = transform.ToMixedPrecision(fp16_input_names=["w"])(Before)
    check_well_formed(after)
    assert [param.struct_info.dtype for param in after["layer"].params] == ["float32", "float16"]
    assert [param.struct_info.dtype for param in after["main"].params] == ["float32", "float32"]
    assert after["main"].ret_struct_info == Before["main"].ret_struct_info
    rng = np.random.default_rng(0)
    x, v = (rng.integers(-3, 4, shape).astype("float32") for shape in ((2, 4), (4, 4)))
    for got, wanted in zip(evaluate(after, x, v), evaluate(Before, x, v), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-2)


def test_what_takes_no_other_precision_gets_the_one_that_it_had(same_numbers):
    """Kernels, functions and casts of half floats; results have the dtypes that they had, each its own."""

    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def inc(A: T.Buffer((2, 4), "float16"), B: T.Buffer((2, 4), "float16")):
            for i, j in T.grid(2, 4):
                with T.block("b"):
                    v, u = T.axis.remap("SS", [i, j])
                    B[v, u] = A[v, u] + T.float16(1)

        @R.function(private=True)
        def f(h: R.Tensor((2, 4), "float16"), x: R.Tensor((2, 4), "float32")) -> R.Tuple(
            R.Tensor((2, 4), "float32"), R.Tensor((2, 4), "float16")
        ):
            with R.dataflow():
                e = R.exp(h)
                t = (x, e)
                R.output(t)
            return t

        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), h: R.Tensor((2, 4), "float16")
        ) -> R.Tuple(R.Tensor((2, 4), "float32"), R.Tensor((2, 4), "float16"), R.Tensor((2, 4), "float32")):
            cls = Before
            with R.dataflow():
                a = R.matmul(x, w)
                up = R.call_tir(cls.inc, (h,), out_sinfo=R.Tensor((2, 4), "float16"))
                pair = (a, up)
                first = pair[0]
                same = R.match_cast(first, R.Tensor((2, 4), "float32"))
                both = cls.f(up, same)
                low = both[1]
                gv = (a, low, same)
                R.output(gv)
            return gv

    after = transform.ToMixedPrecision()(Before)
    check_well_formed(after)
    assert str(after["main"].ret_struct_info) == str(Before["main"].ret_struct_info)
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, shape).astype("float32") for shape in ((2, 3), (3, 4)))
    same_numbers(Before, after, [x, w, rng.integers(-1, 2, (2, 4)).astype("float16")])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float64", "bool"])
def test_products_of_other_numbers_stay(dtype):
    """Only float32 has a low form: a product of integers must not become one of floats."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 4), dtype), w: R.Tensor((4, 4), dtype)):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.maximum(a, x)
                R.output(b)
            return b

    verify(transform.ToMixedPrecision()(Before), Before)


def test_a_product_that_is_kept_in_another_dtype_stays():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w, out_dtype="float64")
                b = R.add(a, a)
                R.output(b)
            return b

    verify(transform.ToMixedPrecision()(Before), Before)
