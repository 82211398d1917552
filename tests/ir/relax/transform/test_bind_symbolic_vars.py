"""BindSymbolicVars: symbolic extents become numbers, in all functions or in one."""

from __future__ import annotations

import pytest

from ir.error import IRValueError
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .conftest import verify


@I.ir_module
class Before:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n * m",), "float32"):
        n, m = T.int64(), T.int64()
        y = R.reshape(x, (n * m,))
        return y

    @R.function
    def other(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        y = R.exp(x)
        return y


def test_extents_become_numbers(same_numbers):
    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, "m"), "float32")) -> R.Tensor(("m * 2",), "float32"):
            m = T.int64()
            y = R.reshape(x, (m * 2,))
            return y

        @R.function
        def other(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = R.exp(x)
            return y

    after = transform.BindSymbolicVars({"n": 2})(Before)
    verify(after, Expected)
    same_numbers(Before, after, [(2, 3)])


def test_one_function_is_bound_alone():
    after = transform.BindSymbolicVars({"n": 2}, "other")(Before)
    assert after["main"] is Before["main"]
    assert [int(dim) for dim in after["other"].params[0].struct_info.shape_values] == [2]


def test_unknown_variables_are_refused():
    with pytest.raises(IRValueError, match="no function has the symbolic variable k"):
        transform.BindSymbolicVars({"k": 2})(Before)
