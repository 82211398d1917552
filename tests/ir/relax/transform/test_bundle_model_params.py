"""BundleModelParams: weights come as one tuple."""

from __future__ import annotations

import numpy as np

from ir.relax import transform
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def test_bundle_model_params():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32"), b: R.Tensor((4,), "float32")
        ) -> R.Tensor((2, 4), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                lv = R.matmul(x, w)
                gv = R.add(lv, b)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor((2, 4), "float32"),
            model_params: R.Tuple(R.Tensor((4, 4), "float32"), R.Tensor((4,), "float32")),
        ) -> R.Tensor((2, 4), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                w = model_params[0]
                lv = R.matmul(x, w)
                b = model_params[1]
                gv = R.add(lv, b)
                R.output(gv)
            return gv

    after = transform.BundleModelParams()(Before)
    verify(after, Expected)
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype("float32") for shape in ((2, 4), (4, 4), (4,)))
    np.testing.assert_array_equal(evaluate(after, x, (w, b)), evaluate(Before, x, w, b))
