"""FuseTransposeMatmul: a product takes its operand as it lies in memory."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .structure import operators


def test_fuse_transpose_matmul(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 8), "float32"), w: R.Tensor((5, 8), "float32")) -> R.Tensor(
            (2, 3, 5), "float32"
        ):
            with R.dataflow():
                wt = R.permute_dims(w)
                gv = R.matmul(x, wt)
                R.output(gv)
            return gv

    after = transform.FuseTransposeMatmul()(Before)
    assert operators(after) == ["relax.call_tir"] and after.contains("NT_matmul")
    same_numbers(Before, after, [(2, 3, 8), (5, 8)])
