"""Python's operators between values of numpy and Relax values, on either side."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import IRError, relax
from ir.relax.testing.evaluate import evaluate

GIVEN = np.array([[1.5, -2, 3], [4, 5.25, -6]], "float32")
ARRAY = np.array([[2, 3, -4], [1, 1, 7]], "float32")


def _function(combine: Callable[[Any], Any]) -> relax.Function:
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(combine(x)))
    return builder.get()["main"]


@pytest.mark.parametrize("left", [ARRAY, np.float32(2), np.int64(3)], ids=["array", "float32", "int64"])
@pytest.mark.parametrize(
    "operation", ["add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "le", "gt", "ge"]
)
def test_numpy_on_the_left_of_an_operator(operation: str, left: Any) -> None:
    apply = getattr(operator, operation)
    found = evaluate(_function(lambda x: apply(left, x)), GIVEN)
    np.testing.assert_array_equal(found, apply(np.asarray(left, "float32"), GIVEN))


@pytest.mark.parametrize("function", [np.exp, np.logical_and, np.maximum])
def test_functions_of_numpy_are_refused(function: Any) -> None:
    x = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
    with pytest.raises(
        IRError, match=f"numpy.{function.__name__} does not take Relax values; call a function of R"
    ):
        function(*[x] * function.nin)
