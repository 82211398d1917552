"""BindParams: parameters become constants."""

from __future__ import annotations

import numpy as np
import pytest

from ir.error import IRValueError
from ir.relax import transform
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T


def test_a_weight_and_its_extents_are_bound():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32")) -> R.Tensor(
            ("n", "m"), "float32"
        ):
            n, m = T.int64(), T.int64()
            with R.dataflow():
                gv = R.matmul(x, w)
                R.output(gv)
            return gv

    weight = np.ones((4, 3), "float32")
    bound = transform.BindParams("main", {"w": weight})(Module)
    assert len(bound["main"].params) == 1
    assert str(bound["main"].ret_struct_info) == 'R.Tensor((n, 3), dtype="float32")'
    x = np.arange(8, dtype="float32").reshape(2, 4)
    np.testing.assert_array_equal(evaluate(bound, x), evaluate(Module, x, weight))
    with pytest.raises(IRValueError, match="'v'"):
        transform.BindParams("main", {"v": weight})(Module)
