"""ReorderTakeAfterMatmul: columns are picked from the product."""

from __future__ import annotations

import numpy as np
import pytest

from ir import relax as rx
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
    same_numbers(Before, after, [(3, 2, 4), (5, 4, 6), np.array([0, -1, -5])])


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
@pytest.mark.parametrize("mode", ["fast", "clip", "wrap"])
def test_indices_of_a_table_mean_what_they_meant(same_numbers, dtype, mode):
    """The product holds all tables in a row: an index is brought into its own before it is counted from the begin of the row."""
    x = rx.Var("x", rx.TensorStructInfo((3, 2, 4), "float32"))
    w = rx.Var("w", rx.TensorStructInfo((130, 4, 6), "float32"))
    i = rx.Var("i", rx.TensorStructInfo((3,), dtype))
    builder = rx.BlockBuilder()
    with builder.function("main", [x, w, i]):
        with builder.dataflow():
            picked = builder.emit(rx.op.take(w, i, axis=0, mode=mode))
            out = builder.emit_output(rx.op.matmul(x, picked))
        builder.emit_func_output(out)
    before = builder.finalize()
    after = transform.ReorderTakeAfterMatmul()(before)
    assert operators(after)[-1] == "relax.take"
    indices = [0, 127, 3] if dtype == "uint8" else [0, -1, -128]
    same_numbers(before, after, [(3, 2, 4), (130, 4, 6), np.array(indices, dtype)])
