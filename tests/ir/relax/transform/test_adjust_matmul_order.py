"""AdjustMatmulOrder: chains of products are computed in the order that needs least work."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R


def test_expand_and_adjust_behind_a_transpose(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((1, 32), "float32"),
            a: R.Tensor((32, 2), "float32"),
            b: R.Tensor((2, 32), "float32"),
            base: R.Tensor((32, 32), "float32"),
        ) -> R.Tensor((1, 32), "float32"):
            with R.dataflow():
                lora = R.matmul(a, b)
                weight = R.add(base, lora)
                turned = R.permute_dims(weight)
                gv = R.matmul(x, turned)
                R.output(gv)
            return gv

    after = transform.AdjustMatmulOrder()(transform.ExpandMatmulOfSum()(Before))
    products = [
        b.var.struct_info.shape_values
        for block in after["main"].body.blocks
        for b in block.bindings
        if b.value.op.name == "relax.matmul"
    ]
    assert all(int(shape[0].value) == 1 for shape in products)
    same_numbers(Before, after, [(1, 32), (32, 2), (2, 32), (32, 32)], rtol=1e-3, atol=1e-3)
