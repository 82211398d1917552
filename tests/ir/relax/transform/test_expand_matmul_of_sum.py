"""ExpandMatmulOfSum: a product with a sum becomes a sum of products."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .structure import operators


def test_expand_matmul_of_sum_and_adjust_order(same_numbers):
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
                gv = R.matmul(x, weight)
                R.output(gv)
            return gv

    expanded = transform.ExpandMatmulOfSum()(Before)
    assert sorted(operators(expanded)) == ["relax.add", "relax.matmul", "relax.matmul", "relax.matmul"]
    ordered = transform.AdjustMatmulOrder()(expanded)
    shapes = [
        tuple(int(d.value) for d in b.var.struct_info.shape_values)
        for block in ordered["main"].body.blocks
        for b in block.bindings
    ]
    assert (32, 32) not in shapes  # the product of the two small matrices is never formed
    for after in (expanded, ordered):
        same_numbers(Before, after, [(1, 32), (32, 2), (2, 32), (32, 32)], rtol=1e-3, atol=1e-3)
