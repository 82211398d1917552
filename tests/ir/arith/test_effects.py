"""A call with effects runs as often, and in the order, that a program says: nothing is made of two of them, whatever they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ir
from ir import tir
from ir.arith import Analyzer
from ir.arith.index_simplifier import IndexSimplifier
from ir.codegen.build import build
from ir.tir import BufferStore, Call, For, ForKind, PrimFunc, StringImm, Var, decl_buffer, interpreter

CALLS: list[int] = []


@ir.register_func("tests.next", override=True)
def _next(step: int) -> int:
    CALLS.append(step)
    return len(CALLS)


def following(step: int = 1) -> Call:
    """One more than the time before."""
    return Call("int32", "tir.tvm_call_packed", (StringImm("tests.next"), tir.const(step)))


A = decl_buffer((8,), "int32", "A")
c = following()
x, v = c + 1, Var("v")
PROGRAMS = {
    "one object twice": c * 100 + c,
    "two objects alike": following() * 100 + following(),
    "difference": c - c,
    "shared sum": x * 10 - x,
    "product with nothing": tir.Mul(c + 1, tir.const(0)) + 5,
    "order": following(1) - following(2) * 10 + following(3) * 100,
    "comparison": tir.LT(c, c).astype("int32"),
    "equality": tir.EQ(c, c).astype("int32"),
    "maximum": tir.max(c, c),
    "quotient": (c * 4 + c * 4) // 4,
    "place": A[c] - A[c],
    "choice": tir.if_then_else(c > 0, c, c),
    "let": tir.Let(v, c, v + c),
}


def assert_calls_alike(func: PrimFunc) -> None:
    """Native code and the interpreter store the same, and call as often and in the same order."""
    results = []
    for run in (lambda array: interpreter.run(func, array), build(func)["main"]):
        CALLS.clear()
        array = np.arange(8, dtype="int32")
        run(array)
        results.append((array.tolist(), list(CALLS)))
    assert results[0] == results[1] and len(CALLS) >= 3


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.UNROLLED])
def test_native_code_calls_as_often_as_the_interpreter(name: str, kind: ForKind) -> None:
    i = Var("i")
    func = PrimFunc([A], For(i, 0, 3, kind, BufferStore(A, PROGRAMS[name], [i])))
    assert_calls_alike(func)


@pytest.mark.parametrize(
    "value",
    [
        lambda c, i: c * i + 5,
        lambda c, i: i * c + c,
        lambda c, i: tir.And(tir.GT(c, 2), tir.GT(i, 1)).astype("int32"),
        lambda c, i: tir.FloorMod(c, i + 1),
    ],
)
def test_copies_with_constants_call_as_often(value: Callable[[Any, Any], Any]) -> None:
    """In one copy of an unrolled body the other operand is 0 or 1."""
    i = Var("i")
    call = Call("int32", "tir.tvm_call_packed", (StringImm("tests.next"), i))
    func = PrimFunc([A], For(i, 0, 3, ForKind.UNROLLED, BufferStore(A, value(call, i), [i])))
    assert_calls_alike(func)


SIMPLIFIERS: dict[str, Callable[[Any], Any]] = {
    "rewrite": lambda expr: Analyzer().rewrite_simplify(expr),
    "canonical": lambda expr: Analyzer().canonical_simplify(expr),
    "all": lambda expr: Analyzer().simplify(expr),
    "index": lambda expr: IndexSimplifier().simplify(expr),
}


def calls_in(expr: Any) -> int:
    """How many calls an expression makes: unfolded, not by object."""
    below: list[Any] = []
    expr._visit_children(below.append)
    return isinstance(expr, Call) + sum(map(calls_in, below))


@pytest.mark.parametrize("simplifier", SIMPLIFIERS)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("choice", "let")])
def test_simplifiers_leave_calls_where_they_are(name: str, simplifier: str) -> None:
    expr = PROGRAMS[name]
    assert calls_in(SIMPLIFIERS[simplifier](expr)) == calls_in(expr) > 0


@pytest.mark.parametrize("simplifier", SIMPLIFIERS)
def test_what_stands_beside_a_call_is_simplified(simplifier: str) -> None:
    y, z = Var("y"), Var("z")
    found = SIMPLIFIERS[simplifier](c + (y + z - y))
    assert ir.structural_equal(found, c + z)
    assert SIMPLIFIERS[simplifier](c) is c


def test_nothing_is_proved_or_learnt_of_two_calls() -> None:
    analyzer = Analyzer()
    assert not analyzer.can_prove(tir.EQ(c, c)) and not analyzer.can_prove(c < following() + 1)
    for left, right in ((c, c), (c, following()), (c + 1, c + 1), (c.astype("float32"), c.astype("float32"))):
        assert not analyzer.can_prove_equal(left, right)
    with analyzer.constraint_scope(c < 3):
        assert not analyzer.can_prove(c < 3) and not analyzer.can_prove(following() < 3)
    assert analyzer.can_prove(Var("y") * 0 < 1)


def test_indices_that_hold_a_call_are_sums_of_different_terms() -> None:
    simplifier = IndexSimplifier()
    assert len(simplifier.linear(c + c).terms) == len(simplifier.linear(x - x).terms) == 2
    assert simplifier.truth(tir.EQ(x, x)) is None
    y = Var("y")
    assert simplifier.linear(y + y).terms == {y: 2}
