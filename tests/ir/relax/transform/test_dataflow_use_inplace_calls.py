"""DataflowUseInplaceCalls: operands that nobody needs any more are overwritten."""

from __future__ import annotations

import numpy as np
import pytest

from ir.relax import transform
from ir.relax.testing import evaluate
from ir.script import from_source
from ir.script import ir as I
from ir.script import relax as R


def test_dataflow_use_inplace_calls(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tuple(
            R.Tensor((8,), "float32"), R.Tensor((8,), "float32")
        ):
            with R.dataflow():
                lv = R.add(x, y)
                lv1 = R.nn.relu(lv)
                lv2 = R.multiply(lv1, x)
                gv = R.exp(x)
                R.output(lv2, gv)
            return (lv2, gv)

    after = transform.DataflowUseInplaceCalls()(Before)
    ops = [b.value.op.name for b in after["main"].body.blocks[0].bindings]
    assert ops == ["relax.add", "relax.call_tir_inplace", "relax.call_tir_inplace", "relax.exp"]
    same_numbers(Before, after, [(8,), (8,)])


def test_the_last_operand_that_is_free_is_overwritten():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            with R.dataflow():
                s = R.split(x, 2, axis=1)
                a = s[0]
                b = R.nn.relu(a)
                c = R.exp(x)
                d = R.multiply(c, c)
                e = R.add(d, d)
                f = R.exp(d)
                g = R.subtract(e, f)
                h = R.sin(g)
                R.output(b, h)
            return (b, h)

    after = transform.DataflowUseInplaceCalls()(Before)
    calls = {
        binding.var.name_hint: [int(index) for index in binding.value.attrs["inplace_indices"]]
        for binding in after["main"].body.blocks[0].bindings
        if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_tir_inplace"
    }
    assert calls == {"b": [0], "d": [1], "g": [1]}  # e's operand is read later; sine computes elsewhere


def test_parameters_and_captured_memory_of_local_functions_are_kept(same_numbers):
    """A local function is called more than once, and what it captures belongs to the function around it."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
            with R.dataflow():
                own = R.exp(y)

                @R.function
                def local(z: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
                    with R.dataflow():
                        p = R.nn.relu(z)
                        q = R.add(own, p)
                        r = R.nn.relu(own)
                        w = R.add(q, r)
                        R.output(w)
                    return w

                a = local(x)
                b = R.exp(a)
                c = local(x)
                d = R.add(b, c)
                e = R.nn.relu(d)
                R.output(a, c, e)
            return (a, c, e, x)

    after = transform.DataflowUseInplaceCalls()(Before)
    outer = after["main"].body.blocks[0].bindings
    inner = outer[1].value.body.blocks[0].bindings

    def written(bindings):
        return {
            binding.var.name_hint: [int(index) for index in binding.value.attrs["inplace_indices"]]
            for binding in bindings
            if getattr(getattr(binding.value, "op", None), "name", "") == "relax.call_tir_inplace"
        }

    assert written(inner) == {"q": [1], "w": [1]}
    assert set(written(outer)) == {"d", "e"}
    lifted = transform.LambdaLift()
    same_numbers(lifted(Before), lifted(after), [(8,), (8,)])


@pytest.mark.meaning("relax-inplace")
@pytest.mark.parametrize("captured", ["outer", "weight"])
def test_what_a_local_function_captures_is_not_its_own(captured):
    """By another name it was taken for memory of the local function, and overwritten: here even what it returns."""
    mod = from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), weight: R.Tensor((4,), "float32")):
        outer = R.exp(weight)
        @R.function
        def local(p: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                other = {captured}
                sum = R.add(other, p)
                R.output(sum)
            return sum
        y = local(x)
        z = local(x)
        return (y, z, outer)
""")
    after = transform.DataflowUseInplaceCalls()(mod)
    x, weight = np.arange(4, dtype="float32"), np.ones(4, "float32")
    for found, expected in zip(evaluate(after, x, weight), evaluate(mod, x, weight), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert "inplace" not in after.script()


def test_values_of_a_local_function_are_overwritten_when_nobody_needs_them():
    """And not before: the first sum is used by two others."""
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def local(p: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                first = R.exp(p)
                second = R.add(first, p)
                third = R.multiply(first, second)
                R.output(third)
            return third
        y = local(x)
        return y
""")
    after = transform.DataflowUseInplaceCalls()(mod)
    x = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(evaluate(after, x), evaluate(mod, x))
    text = after.script()
    assert (
        "R.call_tir_inplace" in text and 'second: R.Tensor((4,), dtype="float32") = R.add(first, p)' in text
    )


@pytest.mark.meaning("noalias")
def test_what_another_argument_may_be_a_view_of_is_not_overwritten(same_numbers):
    """The kernel says that its parameters are different memory; twice the same variable is told apart."""
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.exp(x)
            flat = R.reshape(a, R.shape([16]))
            b = R.reshape(flat, R.shape([4, 4]))
            y = R.add(a, b)
            gv = R.add(y, y)
            R.output(gv)
        return gv
""")
    after = transform.DataflowUseInplaceCalls()(mod)
    names = [binding.value.op.name for binding in after["main"].body.blocks[0].bindings]
    assert names == ["relax.exp", "relax.reshape", "relax.reshape", "relax.add", "relax.call_tir_inplace"]
    same_numbers(mod, after, [(4, 4)])
