"""What stands for a variable has its type."""

from __future__ import annotations

import pytest

from ir import tir
from ir.tir.evaluate import evaluate
from ir.tir.stmt_functor import substitute


@pytest.mark.parametrize(("of", "given"), [("int32", "int64"), ("int64", "int32")])
def test_an_integer_of_another_type_is_cast_to_that_of_the_variable(of: str, given: str) -> None:
    var, other = tir.Var("v", of), tir.Var("o", given)
    found = substitute(tir.floormod(var, 5) * 4 + var, {var: other * 2})
    assert found.dtype == of
    assert {node.dtype for node in _operands(found)} == {of}
    assert evaluate(found, {other: 9}) == 18 % 5 * 4 + 18


def _operands(expr: tir.PrimExpr) -> list[tir.PrimExpr]:
    """The expressions that arithmetic is done on, down to casts."""
    if isinstance(expr, tir.Cast):
        return [expr]
    parts: list[tir.PrimExpr] = []
    expr._visit_children(parts.append)
    return [expr, *[found for part in parts for found in _operands(part)]]


def test_other_values_are_taken_as_they_are() -> None:
    var, other = tir.Var("v", "int32"), tir.Var("o", "float32")
    assert substitute(var, {var: other}) is other
