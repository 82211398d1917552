"""FuseTransposeMatmul: a product takes its operand as it lies in memory."""

from __future__ import annotations

import numpy as np

from ir.relax import transform
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

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


def test_two_products_share_one_transposition(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"), y: R.Tensor((4, 3), "float32"), w: R.Tensor((5, 3), "float32")
        ):
            with R.dataflow():
                wt = R.permute_dims(w)
                a = R.matmul(x, wt)
                b = R.matmul(y, wt)
                c = R.add(wt, wt)
                R.output(a, b, c)
            return (a, b, c)

    after = transform.FuseTransposeMatmul()(Before)
    assert operators(after).count("relax.matmul") == 0 and operators(after).count("relax.permute_dims") == 1
    same_numbers(Before, after, [(2, 3), (4, 3), (5, 3)])


def test_a_transposed_copy_of_what_is_overwritten_is_read_as_it_was(same_numbers):
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def clear(a: T.Buffer((5, 3), "float32")):
            for i, j in T.grid(5, 3):
                with T.block("clear"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    a[vi, vj] = T.float32(0)

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((5, 3), "float32")):
            cls = Before
            own = R.negative(w)
            wt = R.permute_dims(own)
            cleared = R.call_tir_inplace(
                cls.clear, (own,), out_sinfo=R.Tensor((5, 3), "float32"), inplace_indices=[0]
            )
            y = R.matmul(x, wt)
            return (y, cleared)

    same_numbers(Before, transform.FuseTransposeMatmul()(Before), [(2, 3), (5, 3)])


def test_sums_of_half_floats_are_made_in_float32():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 4096), "float16"), w: R.Tensor((1, 4096), "float16")):
            wt = R.permute_dims(w)
            y = R.matmul(x, wt)
            return y

    after = transform.FuseTransposeMatmul()(Before)
    ones = np.ones((1, 4096), "float16")
    assert evaluate(after, ones, ones) == 4096  # float16 sums end at 2048
