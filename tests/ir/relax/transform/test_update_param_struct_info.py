"""UpdateParamStructInfo: parameters get other types."""

from __future__ import annotations

from ir import relax
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def test_update_param_struct_info():
    def half(var):
        info = var.struct_info
        return relax.TensorStructInfo(info.shape, "float16") if var.name_hint != "n" else None

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv = R.add(x, y)
                gv = R.exp(lv)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float16"), y: R.Tensor((8,), "float16")) -> R.Tensor((8,), "float16"):
            with R.dataflow():
                lv = R.add(x, y)
                gv = R.exp(lv)
                R.output(gv)
            return gv

    verify(transform.UpdateParamStructInfo(half)(Before), Expected)
