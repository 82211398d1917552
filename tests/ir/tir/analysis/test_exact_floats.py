"""Which float arithmetic decides something."""

from __future__ import annotations

import pytest

from ir.node import post_order_visit
from ir.script import from_source
from ir.tir import Add, Mul
from ir.tir.analysis.exact_floats import exact_floats


def marked(statement: str) -> int:
    """How many sums and products of a statement are exact."""
    func = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), D: T.Buffer((16,), "int32")):
        for i in range(16):
            {statement}"""
    )
    exact = exact_floats(func.body)
    found = []

    def collect(node: object) -> None:
        if isinstance(node, Add | Mul) and node.dtype == "float32":
            found.append(id(node) in exact)

    post_order_visit(func.body, collect)
    return sum(found)


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("A[i] = A[i] * B[i] + B[i]", 0),
        ("A[i] = T.max(A[i] * B[i] + B[i], T.float32(0))", 0),
        ("A[i] = A[T.Cast('int32', A[i] * B[i] + B[i])] * B[i]", 2),
        ("D[i] = T.Cast('int32', T.exp(A[i] * B[i]) + B[i])", 2),
        ("A[i] = T.floor(A[i] * B[i]) * B[i]", 1),
        ("A[i] = T.Select(A[i] * B[i] < T.float32(3), A[i] * B[i] + B[i], B[i])", 1),
        ("A[i] = T.Cast('float32', A[i] * B[i] == B[i]) * B[i]", 1),
        ("if A[i] * B[i] + B[i] > B[i]: A[i] = B[i] * B[i]", 2),
        ("A[i] = T.reinterpret(A[i] * B[i], dtype='float32')", 1),
    ],
)
def test_what_flows_into_decisions(statement: str, count: int) -> None:
    assert marked(statement) == count


def test_a_variable_is_looked_through() -> None:
    assert marked("with T.LetStmt(A[i] * B[i]) as x: D[i] = T.Cast('int32', x + B[i])") == 2
    assert marked("with T.LetStmt(A[i] * B[i]) as x: A[i] = x + B[i]") == 0
