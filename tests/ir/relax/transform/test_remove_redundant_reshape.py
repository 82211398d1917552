"""RemoveRedundantReshape: chains of reshapes become one."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def test_remove_redundant_reshape():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 6), "float32")) -> R.Tensor((2, 6), "float32"):
            with R.dataflow():
                lv = R.reshape(x, (12,))
                lv1 = R.reshape(lv, (3, 4))
                lv2 = R.exp(lv1)
                lv3 = R.reshape(lv2, (12,))
                gv = R.reshape(lv3, (2, 6))
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 6), "float32")) -> R.Tensor((2, 6), "float32"):
            with R.dataflow():
                lv1 = R.reshape(x, (3, 4))
                lv2 = R.exp(lv1)
                gv = R.reshape(lv2, (2, 6))
                R.output(gv)
            return gv

    verify(transform.RemoveRedundantReshape()(Before), Expected)
