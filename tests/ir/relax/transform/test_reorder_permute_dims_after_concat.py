"""ReorderPermuteDimsAfterConcat: one transpose behind a concatenation instead of one for each part."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .structure import operators


def test_reorder_permute_dims_after_concat(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(a: R.Tensor((3, 4), "float32"), b: R.Tensor((5, 4), "float32")) -> R.Tensor(
            (4, 8), "float32"
        ):
            with R.dataflow():
                lv = R.permute_dims(a)
                lv1 = R.permute_dims(b)
                gv = R.concat((lv, lv1), axis=1)
                R.output(gv)
            return gv

    after = transform.ReorderPermuteDimsAfterConcat()(Before)
    assert operators(after) == ["relax.concat", "relax.permute_dims"]
    same_numbers(Before, after, [(3, 4), (5, 4)])
