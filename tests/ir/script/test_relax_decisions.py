"""What Python would decide of tensors while a script is read is refused; the error names the operator to write."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ir
from ir import relax
from ir.relax.testing import evaluate
from ir.script import from_source


def _source(returned: str, dtype: str) -> str:
    return textwrap.dedent(f"""
        @I.ir_module
        class Module:
            @R.function
            def main(x: R.Tensor((4,), "{dtype}"), y: R.Tensor((4,), "{dtype}")):
                return {returned}
    """)


@pytest.mark.meaning("relax-truth")
@pytest.mark.parametrize(
    ("returned", "advice"),
    [
        ("x and y", "R.logical_and"),
        ("x or y", "R.logical_or"),
        ("not x", "R.logical_not"),
        ("(x and y) or x", "R.logical_and"),
        ("R.logical_or(x, x) and y", "R.logical_and"),
        ("x == y", "R.equal"),
        ("x == x", "R.equal"),
        ("x == 1", "R.equal"),
        ("1 == x", "R.equal"),
        ("R.const(1, 'int32') == 1", "R.equal"),
        ("x != y", "R.not_equal"),
        ("x in (x, y)", "R.equal"),
        ("1 in [x, y]", "R.equal"),
        ("y not in [x]", "R.not_equal"),
        ("(x, y) == (y, x)", "R.equal"),
        ("1 < x < 3", "R.logical_and"),
        ("x < y and x > y", "R.logical_and"),
        ("any([x, y])", "R.sum and R.prod"),
        ("all([x, y])", "R.sum and R.prod"),
        ("bool(x)", "R.logical_and"),
        ("max(x, y)", "R.maximum"),
        ("min(x, 2)", "R.minimum"),
        ("sorted([x, y])[0]", "R.maximum"),
        ("x if y else x", "R.where"),
        ("x if x == y else y", "R.equal"),
        ("[a for a in (x, y) if a < 1][0]", "R.where"),
        ("R.where(x < 2 or x > 3, x, y)", "R.logical_or"),
        ("x & y", "R.bitwise_and"),
        ("1 | y", "R.bitwise_or"),
        ("x ^ y", "R.bitwise_xor"),
        ("~x", "R.bitwise_not"),
        ("x << 1", "R.left_shift"),
        ("x >> 1", "R.right_shift"),
        ("x @ y", "R.matmul"),
        ("abs(x)", "R.abs"),
        ("round(x)", "R.round"),
        ("float(x)", "R.astype"),
        ("int(x)", "R.astype"),
        ("x[0]", "take or strided_slice"),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_python_decides_nothing_of_tensors(returned: str, advice: str, dtype: str) -> None:
    with pytest.raises(ir.DiagnosticError) as caught:
        from_source(_source(returned, dtype))
    assert advice in str(caught.value)
    assert "^" in str(caught.value)


X, Y = np.array([1, 2, 3, 4], "int32"), np.array([4, 2, 0, 4], "int32")


@pytest.mark.meaning("relax-truth")
@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("sum([x, y])", X + Y),
        ("x if None == x else y", Y),
        ("True and x", X),
        ("x if 2 in (1, 2) and not False else y", X),
        ("y if 'x' != 'y' else x", Y),
        ("x if x.struct_info == y.struct_info else y", X),
        ("R.where(R.logical_or(x < 2, R.equal(x, y)), x, 0)", np.where((X < 2) | (X == Y), X, 0)),
    ],
)
def test_what_is_known_while_the_script_is_read_still_decides(returned: str, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(
        np.asarray(evaluate(from_source(_source(returned, "int32")), X, Y)), expected
    )


@pytest.mark.meaning("relax-truth")
@pytest.mark.parametrize(
    "decide",
    [
        lambda x, y: x and y,
        lambda x, y: not x,
        lambda x, y: 1 < x < 3,
        lambda x, y: max(x, y),
        lambda x, y: any([x < y]),
    ],
)
def test_python_decides_nothing_where_a_builder_is_open(decide: Callable[..., Any]) -> None:
    info = relax.TensorStructInfo((4,), "float32")
    x, y = relax.Var("x", info), relax.Var("y", info)
    with pytest.raises(
        ir.IRValueError, match=r"no truth value while the program is written; use R\.logical_and"
    ):
        decide(x, y)


def test_tuples_and_shapes_are_true_by_their_length() -> None:
    assert relax.Tuple([relax.const(1.0)]) and not relax.Tuple([])
    assert relax.ShapeExpr([2]) and not relax.ShapeExpr([])
