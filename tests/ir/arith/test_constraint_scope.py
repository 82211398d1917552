"""How many scopes a question enters for the sides of choices and connectives, and what is known in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ir import Range, tir
from ir.arith import Analyzer
from ir.arith.comparison import Extension
from ir.arith.constraint_scope import ConstraintScope

V = [tir.Var(f"v{number}") for number in range(42)]
X = tir.Var("x")
LOADED = tir.decl_buffer((4,), "int32", "A")[X]
CHOICE = tir.if_then_else(X < 3, LOADED, 0)


@pytest.fixture
def scopes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The scopes that are entered."""
    entered: list[Any] = []
    enter = ConstraintScope.__enter__

    def counted(scope: ConstraintScope) -> None:
        entered.append(scope)
        enter(scope)

    monkeypatch.setattr(ConstraintScope, "__enter__", counted)
    return entered


def shared_choices(depth: int) -> tir.PrimExpr:
    """Choices between what they share, as negative indices of slices of slices are."""
    found: tir.PrimExpr = X
    for bound in V[:depth]:
        found = tir.Select(bound < X, found, found + bound)
    return found


def connective(node: Any, clause: Callable[[int], tir.PrimExpr], depth: int, right: bool) -> tir.PrimExpr:
    """Clauses that are joined from the left or from the right."""
    clauses = [clause(number) for number in range(depth)]
    found = clauses.pop(-1 if right else 0)
    for other in reversed(clauses) if right else clauses:
        found = node(other, found) if right else node(found, other)
    return found


def nested_connectives(depth: int) -> tir.PrimExpr:
    """``v0 < x and (v1 < x or (v2 < x and ...))``."""
    found: tir.PrimExpr = X < 5
    for number in reversed(range(depth)):
        found = (tir.Or if number % 2 else tir.And)(V[number] < X, found)
    return found


def test_sides_that_choices_share_are_not_visited_for_every_way_to_them(scopes: list[Any]) -> None:
    Analyzer().simplify(shared_choices(12))
    assert len(scopes) <= 300


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("node", [tir.And, tir.Or])
@pytest.mark.parametrize(
    "clause",
    [
        lambda k: V[k] < V[k + 1],
        lambda k: V[k] < 5,
        lambda k: V[k] + V[k + 1] < V[k + 2],
        lambda k: tir.Or(V[k] < 3, V[k + 1] > 7),
    ],
)
def test_clauses_are_visited_a_few_times_each(
    scopes: list[Any], clause: Callable[[int], tir.PrimExpr], node: Any, right: bool
) -> None:
    analyzer = Analyzer()
    analyzer.enabled_extensions = Extension.ApplyConstraintsToBooleanBranches
    analyzer.simplify(connective(node, clause, 9, right))
    assert len(scopes) <= 300


def test_connectives_in_connectives(scopes: list[Any]) -> None:
    analyzer = Analyzer()
    analyzer.enabled_extensions = Extension.ApplyConstraintsToBooleanBranches
    analyzer.simplify(nested_connectives(12))
    assert len(scopes) <= 12 * 128


def test_the_last_of_many_choices_knows_what_all_say() -> None:
    found: tir.PrimExpr = tir.Select(X < 25, X, tir.const(-1))
    for bound in reversed(range(24)):
        found = tir.Select(tir.EQ(V[bound], X + bound), tir.const(bound), found)
    inner = tir.Select(X < 25, found, tir.const(0))
    assert "-1" not in Analyzer().simplify(inner).script()


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    ("node", "clauses", "expected"),
    [
        (tir.And, [X < 5, V[0] < 3, X < 7], "x < 5 and v0 < 3"),
        (tir.And, [X < 7, V[0] < 3, X < 5], "v0 < 3 and x < 5"),
        (tir.Or, [X < 5, V[0] < 3, X < 7], "v0 < 3 or x < 7"),
        (tir.And, [X < 5, V[0] < 3, X < 5], "x < 5 and v0 < 3"),
        (tir.And, [X < 5, V[0] < 3, X > 8], "T.bool(False)"),
        (tir.Or, [X < 5, V[0] < 3, X >= 3], "T.bool(True)"),
    ],
)
def test_clauses_know_all_others(node: Any, clauses: list[tir.PrimExpr], expected: str, right: bool) -> None:
    analyzer = Analyzer()
    analyzer.enabled_extensions = Extension.ApplyConstraintsToBooleanBranches
    simplified = analyzer.simplify(connective(node, lambda number: clauses[number], 3, right))
    assert simplified.script() == expected


@pytest.mark.meaning("div-guard")
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    ("node", "clauses", "expected"),
    [
        (tir.And, [X < 4, LOADED > 0, X < 3], "x < 4 and 0 < A[x] and x < 3"),
        (tir.And, [V[0] > 0, X // V[0] > 3, V[0] > 2], "0 < v0 and 3 < x // v0 and 2 < v0"),
        (tir.Or, [X >= 4, LOADED > 0, X >= 3], "4 <= x or 0 < A[x] or 3 <= x"),
        (
            tir.And,
            [V[0] > 0, V[0] > tir.max(X // V[0], 5), X < 3],
            "0 < v0 and x // v0 < v0 and 5 < v0 and x < 3",
        ),
        (tir.And, [CHOICE > 0, X < 3, V[0] < 2], "0 < T.if_then_else(x < 3, A[x], 0) and x < 3 and v0 < 2"),
    ],
)
def test_what_stands_behind_a_clause_that_may_fault_is_not_known_before_it(
    node: Any, clauses: list[tir.PrimExpr], expected: str, right: bool
) -> None:
    analyzer = Analyzer()
    analyzer.enabled_extensions = Extension.ApplyConstraintsToBooleanBranches
    simplified = analyzer.simplify(connective(node, lambda number: clauses[number], 3, right))
    assert simplified.script() == expected


BOUNDED: list[tuple[tir.PrimExpr, Callable[[int], bool]]] = [
    (tir.floordiv(X, 4) < 3, lambda x: x // 4 < 3),
    (tir.floordiv(X, 4) >= -2, lambda x: x // 4 >= -2),
    (tir.floordiv(X + 3, 5) < 2, lambda x: (x + 3) // 5 < 2),
    (X * 4 > 5, lambda x: x * 4 > 5),
    (X * 4 < 6, lambda x: x * 4 < 6),
    (X * 3 >= -7, lambda x: x * 3 >= -7),
    (X * 3 <= -7, lambda x: x * 3 <= -7),
    (X * 2 + 1 < 6, lambda x: x * 2 + 1 < 6),
    (4 - X > 1, lambda x: 4 - x > 1),
]


@pytest.mark.parametrize(
    ("condition", "holds"), BOUNDED, ids=lambda item: str(item) if isinstance(item, tir.PrimExpr) else ""
)
def test_a_condition_bounds_its_variable_by_the_last_number_that_meets_it(
    condition: tir.PrimExpr, holds: Callable[[int], bool]
) -> None:
    values = [x for x in range(-40, 41) if holds(x)]
    analyzer = Analyzer()
    with analyzer.constraint_scope(condition):
        for bound in range(-40, 41):
            assert analyzer.can_prove(bound <= X) == (values[0] > -40 and bound <= values[0]), bound
            assert analyzer.can_prove(bound >= X) == (values[-1] < 40 and bound >= values[-1]), bound


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (tir.floordiv(X, 4) < V[0], lambda x, v: x // 4 < v),
        (V[0] <= tir.floordiv(X, 4), lambda x, v: v <= x // 4),
        (V[0] < X * 4, lambda x, v: v < x * 4),
        (X * 4 < V[0], lambda x, v: x * 4 < v),
        (X + 3 <= V[0], lambda x, v: x + 3 <= v),
        (tir.floordiv(X, 4).equal(V[0]), lambda x, v: x // 4 == v),
    ],
    ids=lambda item: str(item) if isinstance(item, tir.PrimExpr) else "",
)
def test_a_condition_on_another_variable_bounds_by_what_that_may_be(
    condition: tir.PrimExpr, holds: Callable[[int, int], bool]
) -> None:
    """For no value of the other variable is a number within the bounds that does not meet it; nothing that is false is proved."""
    analyzer = Analyzer()
    analyzer.bind(V[0], Range(5, 9))
    values = [x for x in range(-60, 61) if any(holds(x, v) for v in range(5, 9))]
    is_equal = isinstance(condition, tir.EQ)
    with analyzer.constraint_scope(condition):
        for bound in range(-60, 61):
            is_below, is_above = bound <= values[0], bound >= values[-1]
            for proved, is_right, is_known in (
                (analyzer.can_prove(bound <= X), is_below and values[0] > -60, not is_equal),
                (analyzer.can_prove(bound >= X), is_above and values[-1] < 60, not is_equal),
            ):
                assert proved == is_right if is_known else is_right or not proved, bound
