"""DataflowUseInplaceCalls: operands that nobody needs any more are overwritten."""

from __future__ import annotations

from ir.relax import transform
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
