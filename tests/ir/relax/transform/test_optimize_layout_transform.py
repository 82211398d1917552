"""OptimizeLayoutTransform: changes of layout that undo each other go."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .structure import operators


def test_optimize_layout_transform(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
            with R.dataflow():
                lv = R.layout_transform(x, index_map=lambda i: (i // 4, i % 4))
                lv1 = R.layout_transform(lv, index_map=lambda i, j: (i * 4 + j,))
                gv = R.exp(lv1)
                R.output(gv)
            return gv

    after = transform.OptimizeLayoutTransform()(Before)
    assert operators(after) == ["relax.exp"]
    same_numbers(Before, after, [(16,)])
