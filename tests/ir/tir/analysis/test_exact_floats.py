"""Which float arithmetic decides something."""

from __future__ import annotations

from typing import Any

import pytest

from ir import IRModule
from ir import dtype as dt
from ir.node import post_order_visit
from ir.script import from_source
from ir.target import Target
from ir.tir import Add, Mul, PrimFunc, Sub
from ir.tir.analysis.exact_floats import exact_floats
from ir.tir.transform import LowerIntrin


def function(statement: str) -> PrimFunc:
    made = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), D: T.Buffer((16,), "int32")):
        for i in range(16):
            {statement}"""
    )
    assert isinstance(made, PrimFunc)
    return made


def found(func: PrimFunc, *kinds: type) -> int:
    """How many operations of these kinds on floats are exact."""
    exact = exact_floats(func.body)
    nodes: list[Any] = []
    post_order_visit(func.body, nodes.append)
    return sum(isinstance(node, kinds) and dt.is_float(node.dtype) and id(node) in exact for node in nodes)


def marked(statement: str) -> int:
    """How many sums and products of a statement are exact."""
    return found(function(statement), Add, Mul)


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("A[i] = A[i] * B[i] + B[i]", 0),
        ("A[i] = T.max(A[i] * B[i] + B[i], T.float32(0))", 0),
        ("A[i] = A[T.Cast('int32', A[i] * B[i] + B[i])] * B[i]", 2),
        ("D[i] = T.Cast('int32', T.exp(A[i] * B[i]) + B[i])", 2),
        ("A[i] = T.floor(A[i] * B[i]) * B[i]", 1),
        ("D[i] = T.reinterpret('int32', A[i] * B[i] + B[i])", 2),
        ("D[i] = T.reinterpret('int32', T.as_data(A[i] * B[i] + B[i]))", 0),
        ("A[i] = T.Select(A[i] * B[i] < T.float32(3), A[i] * B[i] + B[i], B[i])", 1),
        ("A[i] = T.Cast('float32', A[i] * B[i] == B[i]) * B[i]", 1),
        ("if A[i] * B[i] + B[i] > B[i]: A[i] = B[i] * B[i]", 2),
        ("A[i] = T.reinterpret(A[i] * B[i], dtype='float32')", 1),
    ],
)
def test_what_flows_into_decisions(statement: str, count: int) -> None:
    assert marked(statement) == count


_EXPONENT = "A[i] * B[i] - B[i]"


@pytest.mark.parametrize("is_lowered", [False, True])
@pytest.mark.parametrize(
    ("statement", "count"),
    [
        (f"A[i] = T.exp({_EXPONENT})", 1),
        (f"A[i] = T.exp2(({_EXPONENT}) * T.float32(1.5))", 1),
        (f"A[i] = T.Cast('float32', T.exp10(T.Cast('float64', {_EXPONENT})))", 1),
        (f"with T.LetStmt({_EXPONENT}) as x: A[i] = T.exp(x)", 1),
        (f"A[i] = T.expm1({_EXPONENT})", 1),
        (f"A[i] = T.tanh({_EXPONENT})", 0),
        ("A[i] = T.exp(A[i]) - A[i] * B[i]", 0),
        ("A[i] = T.exp(A[i] * B[i] + (A[i] - B[i]))", 1),
        ("A[i] = T.exp(T.float32(0) - B[i] + A[i] * B[i])", 1),
        (f"A[i] = T.exp(({_EXPONENT}) / B[i])", 1),
        (f"A[i] = T.exp(T.max({_EXPONENT}, T.float32(-9)))", 1),
        (f"A[i] = T.exp(T.min({_EXPONENT}, T.float32(9)))", 1),
        (f"A[i] = T.exp(T.Select(i < 3, {_EXPONENT}, T.float32(0)))", 1),
        (f"A[i] = T.exp(T.Select(i < 3, B[i], {_EXPONENT}))", 1),
    ],
)
def test_differences_that_exponentials_are_taken_of(statement: str, count: int, is_lowered: bool) -> None:
    """What flows into them may contract: it does where the maximum of it is taken, too."""
    func = function(statement)
    if is_lowered:
        with Target("llvm"):
            func = LowerIntrin()(IRModule({"main": func}))["main"]
    assert found(func, Sub, Add) == count and found(func, Mul) == 0


def test_a_variable_is_looked_through() -> None:
    assert marked("with T.LetStmt(A[i] * B[i]) as x: D[i] = T.Cast('int32', x + B[i])") == 2
    assert marked("with T.LetStmt(A[i] * B[i]) as x: A[i] = x + B[i]") == 0
