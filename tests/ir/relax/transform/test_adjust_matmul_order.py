"""AdjustMatmulOrder: chains of products are computed in the order that needs least work."""

from __future__ import annotations

import pytest

from ir import relax
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


ROW, SQUARE = (1, 32), (32, 32)


@pytest.mark.parametrize(
    ("shapes", "rows"), [([ROW, SQUARE, SQUARE, SQUARE], 0), ([SQUARE, SQUARE, SQUARE, ROW[::-1]], -1)]
)
def test_a_product_of_two_products_is_tried_from_both_sides(same_numbers, shapes, rows):
    """(a b) (c d) is a chain to the left and one to the right, and here one of them is dear."""
    params = [
        relax.Var(name, relax.TensorStructInfo(shape, "float32")) for name, shape in zip("abcd", shapes)
    ]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            left = bb.emit(relax.op.matmul(params[0], params[1]))
            right = bb.emit(relax.op.matmul(params[2], params[3]))
            out = bb.emit_output(relax.op.matmul(left, right))
        bb.emit_func_output(out)
    before = bb.get()
    after = transform.AdjustMatmulOrder()(before)
    products = [b.var.struct_info.shape_values for block in after["main"].body.blocks for b in block.bindings]
    assert [int(shape[rows].value) for shape in products] == [1, 1, 1]
    same_numbers(before, after, shapes, rtol=1e-3, atol=1e-3)
