"""ReorderTakeAfterMatmul: columns are picked from the product."""

from __future__ import annotations

import numpy as np

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .structure import operators


def test_reorder_take_after_matmul(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((3, 4), "float32"), w: R.Tensor((4, 9), "float32"), i: R.Tensor((5,), "int64")
        ) -> R.Tensor((3, 5), "float32"):
            with R.dataflow():
                picked = R.take(w, i, axis=1)
                gv = R.matmul(x, picked)
                R.output(gv)
            return gv

    after = transform.ReorderTakeAfterMatmul()(Before)
    assert operators(after) == ["relax.matmul", "relax.take"]
    same_numbers(Before, after, [(3, 4), (4, 9), np.array([8, 0, 3, 3, 1])])


def test_reorder_take_of_a_table(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((3, 2, 4), "float32"), w: R.Tensor((5, 4, 6), "float32"), i: R.Tensor((3,), "int64")
        ) -> R.Tensor((3, 2, 6), "float32"):
            with R.dataflow():
                picked = R.take(w, i, axis=0)
                gv = R.matmul(x, picked)
                R.output(gv)
            return gv

    after = transform.ReorderTakeAfterMatmul()(Before)
    assert operators(after)[-1] == "relax.take"
    same_numbers(Before, after, [(3, 2, 4), (5, 4, 6), np.array([4, 0, 2])])
