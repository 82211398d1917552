"""What an analyzer knows and remembers has one list, and what a scope gave ends with it."""

from __future__ import annotations

from typing import Any

import pytest

from ir import IRModule, Range, tir
from ir.arith import Analyzer
from ir.arith.iter_affine_map import Iterators
from ir.node import Node
from ir.script import from_source
from ir.tir.stmt import seq
from ir.tir.transform import Simplify

X = tir.Var("x")
LASTING = {("IndexArithmetic", "_data"), ("IndexArithmetic", "_memo"),
           ("RewriteSimplifier", "loading"), ("DataSimplifier", "loading")}  # fmt: skip
"""What follows from expressions alone, and which variables lets have bound to data."""


def called() -> tir.PrimExpr:
    """A call with effects."""
    func = from_source('@T.prim_func\ndef main():\n    T.evaluate(T.call_packed("f", dtype="int32"))')
    assert isinstance(func, tir.PrimFunc) and isinstance(func.body, tir.Evaluate)
    return func.body.value


def parts_of(analyzer: Analyzer) -> list[Any]:
    """The analyzer and the objects that it is made of."""
    found: list[Any] = []
    pending: list[Any] = [analyzer]
    while pending:
        part = pending.pop()
        if type(part).__module__.startswith("ir.arith.") and not isinstance(part, Node):
            if all(part is not other for other in found) and hasattr(part, "__dict__"):
                found.append(part)
                pending += vars(part).values()
    return found


def test_every_container_of_an_analyzer_is_listed() -> None:
    """A memory that nobody lists would keep what a scope gave."""
    analyzer = Analyzer()
    knowledge = analyzer._knowledge
    listed = {(id(part), name) for part, name in (*knowledge.known, *knowledge.memories)}
    containers = {
        (type(part).__name__, name)
        for part in parts_of(analyzer)
        for name, value in vars(part).items()
        if isinstance(value, dict | list | set) and (id(part), name) not in listed
    }
    assert len(listed) == len(knowledge.known) + len(knowledge.memories)
    assert containers == LASTING


@pytest.mark.parametrize("value", [tir.if_then_else(X < 5, 1, 0), tir.min(X, 5), X % 8])
def test_facts_end_with_their_scope(value: tir.PrimExpr) -> None:
    """Also where a call with effects stands beside."""
    for expr in (value + 0, called() + value, tir.Select(called() > 0, value, tir.const(0))):
        analyzer = Analyzer()
        before = Analyzer().simplify(expr)
        with analyzer.constraint_scope(tir.And(X < 5, X >= 0)):
            inside = analyzer.simplify(expr)
        assert analyzer.simplify(expr).script() == before.script()
        assert inside.script() != before.script()
        with Iterators(analyzer, {X: Range(0, 5)}):
            assert analyzer.simplify(expr).script() == inside.script()
        assert analyzer.simplify(expr).script() == before.script()


def test_a_shared_expression_is_simplified_for_each_place() -> None:
    func = from_source("""@T.prim_func
def main(A: T.Buffer((2,), "int32"), x: T.int32):
    A[0] = T.call_packed("f", dtype="int32") + T.if_then_else(x < 5, 1, 0)""")
    assert isinstance(func, tir.PrimFunc) and isinstance(func.body, tir.BufferStore)
    store = func.body
    first, second = (tir.BufferStore(store.buffer, store.value, [index]) for index in (0, 1))
    shared = func.replace(body=seq(tir.IfThenElse(func.params[1] < 5, first), second))
    found = Simplify()(IRModule({"main": shared}))["main"].script()
    assert 'A[1] = T.call_packed("f") + T.if_then_else(x < 5, 1, 0)' in found
    assert 'A[0] = T.call_packed("f") + 1' in found
