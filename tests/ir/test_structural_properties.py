"""Structural equality and hashing of random programs that share objects and variables, against a comparison of their unfolded text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import ir
from ir import tir
from ir.tir import Evaluate, For, ForKind, LetStmt, SeqStmt, Var

VARS = [Var(name) for name in "abcd"]
FRESH = [Var(name) for name in "pq"]
Step = tuple[str, int, int, int]
"""What to make: a kind, the number of a variable, and two earlier steps."""

Steps = st.lists(
    st.tuples(
        st.sampled_from(["sum", "let", "evaluate", "loop", "loop", "bind", "both"]),
        st.integers(0, len(VARS) - 1),
        st.integers(0, 99),
        st.integers(0, 99),
    ),
    min_size=1,
    max_size=9,
)


def node_of(kind: str, var: Var, expr: Any, other: Any, stmt: Any, second: Any) -> Any:
    """A node of a kind over a variable."""
    match kind:
        case "sum":
            return expr + other * var
        case "let":
            return tir.Let(var, other, expr)
        case "evaluate":
            return Evaluate(expr)
        case "loop":
            return For(var, 0, 4, ForKind.SERIAL, stmt)
        case "bind":
            return LetStmt(var, expr, stmt)
        case _:
            return SeqStmt([stmt, second, stmt])


class Program:
    """What steps make, with variables of one's own.

    Args:
        steps: the recipe.
        variables: for each number.
        taken: what another program has made, by the number of the step: taken as it is.
        shares: whether what two steps use is one object.
    """

    def __init__(
        self,
        steps: list[Step],
        variables: list[Var],
        taken: dict[int, Any] | None = None,
        shares: bool = True,
    ) -> None:
        self.steps, self.variables, self.shares = steps, variables, shares
        self.made: dict[int, Any] = dict(taken or {})

    def root(self) -> Any:
        """All statements in a row."""
        return SeqStmt([Evaluate(0), *(self.stmt(number) for number in range(len(self.steps)))])

    def make(self, number: int) -> Any:
        """The node of a step."""
        if number in self.made and self.shares:
            return self.made[number]
        kind, var, first, second = self.steps[number]
        variable = self.variables[var]
        result = node_of(
            kind,
            variable,
            self.operand(number, first, False, variable),
            self.operand(number, second, False, variable),
            self.operand(number, first, True, variable),
            self.operand(number, second, True, variable),
        )
        self.made[number] = result
        return result

    def stmt(self, number: int) -> Any:
        """A step as a statement."""
        found = self.make(number)
        return Evaluate(found) if isinstance(found, ir.PrimExpr) else found

    def operand(self, number: int, wanted: int, stmt: bool, variable: Var) -> Any:
        """An earlier step of the right kind, or a leaf."""
        earlier = [k for k in range(number) if (self.steps[k][0] in ("sum", "let")) != stmt]
        if earlier:
            return self.make(earlier[wanted % len(earlier)])
        leaf = variable if wanted % 2 else self.variables[wanted % len(self.variables)]
        return Evaluate(leaf) if stmt else leaf + 1


def unfolded(value: Any, defining: bool = False) -> Iterator[tuple[Any, bool]]:
    """The words of a program as a tree; with each variable, whether it is defined there."""
    if isinstance(value, Var):
        yield value, defining
    elif isinstance(value, SeqStmt):
        yield "seq", False
        for item in value.seq:
            yield from unfolded(item)
        yield "end", False
    elif isinstance(value, For):
        yield "for", False
        yield from unfolded(value.loop_var, True)
        yield from unfolded(value.body)
    elif isinstance(value, LetStmt | tir.Let):
        yield type(value).__name__, False
        yield from unfolded(value.var, True)
        yield from unfolded(value.value)
        yield from unfolded(value.body)
    elif isinstance(value, Evaluate):
        yield from unfolded(value.value)
    elif isinstance(value, tir.Add | tir.Mul):
        yield type(value).__name__, False
        yield from unfolded(value.a)
        yield from unfolded(value.b)
    else:
        yield value.value, False


def equal(left: Any, right: Any) -> bool:
    """Whether one renaming of the variables that are defined before they are used turns one program into the other."""
    there: dict[Var, Var] = {}
    back: dict[Var, Var] = {}
    one, other = list(unfolded(left)), list(unfolded(right))
    if len(one) != len(other):
        return False
    for (a, defined), (b, also) in zip(one, other, strict=True):
        if defined != also or isinstance(a, Var) != isinstance(b, Var):
            return False
        if not isinstance(a, Var):
            if a != b:
                return False
        elif a in there or b in back:
            if there.get(a) is not b or back.get(b) is not a:
                return False
        elif a is b or defined:
            there[a], back[b] = b, a
        else:
            return False
    return True


@settings(max_examples=400)
@given(
    Steps,
    st.lists(st.sampled_from([*VARS, *FRESH]), min_size=len(VARS), max_size=len(VARS)),
    st.sets(st.integers(0, 8)),
)
def test_equality_is_a_renaming_whatever_is_shared(
    steps: list[Step], variables: list[Var], taken: set[int]
) -> None:
    first = Program(steps, VARS)
    root = first.root()
    second = Program(steps, variables, {k: first.make(k) for k in taken if k < len(steps)}).root()
    expected = equal(root, second)
    assert ir.structural_equal(root, second) == ir.structural_equal(second, root) == expected
    if expected:
        assert ir.structural_hash(root) == ir.structural_hash(second)


@given(Steps)
def test_sharing_changes_nothing(steps: list[Step]) -> None:
    shared, tree = Program(steps, VARS).root(), Program(steps, VARS, shares=False).root()
    assert ir.structural_equal(shared, tree) and ir.structural_equal(tree, shared)
    assert ir.structural_hash(shared) == ir.structural_hash(tree)


@given(Steps, st.permutations(VARS))
def test_all_variables_may_be_renamed_where_free_ones_are_mapped(
    steps: list[Step], variables: list[Var]
) -> None:
    first, second = Program(steps, VARS).root(), Program(steps, variables).root()
    assert ir.structural_equal(first, second, map_free_vars=True)
    assert ir.structural_hash(first) == ir.structural_hash(second)
