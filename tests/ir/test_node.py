"""The node mechanism: declared fields, immutability, walks that keep sharing, dispatch by class."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest

import ir
from ir import tir
from ir.node import (
    Mutator,
    Node,
    Visitor,
    children,
    derived,
    field,
    map_children,
    post_order_visit,
    remembered,
)
from ir.tir import Var

from .samples import SAMPLES, A, x, y


class Pair(Node, type_key="test.Pair"):
    """Two nodes, a label, and their number."""

    first: Node
    rest: tuple[Node, ...] = ()
    label: str = field(default="", compare=False)
    size: int = derived("1 + len(rest)")


class Leaf(Node, type_key="test.Leaf"):
    """A value."""

    value: int = field(convert=int)

    def _check(self) -> None:
        if self.value < 0:
            raise ir.IRValueError(f"Leaf needs a value of at least 0, got {self.value}")


# ---- declarations -----------------------------------------------------------------------------------------------


def test_constructor_follows_the_declaration() -> None:
    pair = Pair(Leaf(1), [Leaf("2")], label="p")
    assert isinstance(pair.rest, tuple) and pair.rest[0].value == 2
    assert pair.size == 2 and pair.label == "p"
    assert Pair(Leaf(1)).rest == ()


def test_checks_run() -> None:
    with pytest.raises(ir.IRValueError, match="at least 0, got -1"):
        Leaf(-1)


def test_nodes_are_immutable() -> None:
    leaf = Leaf(1)
    with pytest.raises(ir.IRTypeError, match=r"Leaf is immutable; use .replace\(value=...\)"):
        leaf.value = 2
    with pytest.raises(ir.IRTypeError, match="cannot be deleted"):
        del leaf.value
    with pytest.raises((AttributeError, ir.IRTypeError)):
        leaf.unknown = 2


def test_replace_keeps_what_does_not_change() -> None:
    pair = Pair(Leaf(1), [Leaf(2)])
    assert pair.replace(first=pair.first) is pair
    changed = pair.replace(rest=())
    assert changed.size == 1 and changed.first is pair.first
    with pytest.raises(ir.IRTypeError, match=r"Pair has no field \['second'\]; its fields are"):
        pair.replace(second=1)


def test_copies_are_the_node_itself_and_pickles_are_equal() -> None:
    assert copy.copy(x) is x and copy.deepcopy(x) is x
    loaded = pickle.loads(pickle.dumps(SAMPLES["PrimFunc"]))
    assert ir.structural_equal(loaded, SAMPLES["PrimFunc"])


# ---- walks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_walks_without_changes_return_the_same_object(name: str) -> None:
    node = SAMPLES[name]
    assert map_children(node, lambda child: child) is node
    assert Mutator().visit(node) is node
    assert tir.StmtExprMutator().visit(node) is node


def test_changes_rebuild_only_the_path() -> None:
    shared = x * 2
    expr = (shared + y) - (shared * 3)

    class Swap(Mutator):
        def visit_Var(self, var: Var) -> Any:
            return x if var is y else var

    changed = Swap().visit(expr)
    assert ir.structural_equal(changed, (shared + x) - (shared * 3))
    assert changed.b is expr.b and changed.a.a is shared


def test_children_in_field_order() -> None:
    assert [type(child).__name__ for child in children(SAMPLES["For"])] == [
        "Var",
        "IntImm",
        "SizeVar",
        "BufferStore",
    ]


def test_post_order_visits_each_object_once_children_first() -> None:
    shared = x + y
    order: list[Any] = []
    post_order_visit(shared * shared, order.append)
    assert [type(node).__name__ for node in order] == ["Var", "Var", "Add", "Mul"]


def test_dispatch_takes_the_nearest_base() -> None:
    class Names(Visitor):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def visit_BinaryOpExpr(self, node: Any) -> None:
            self.seen.append("binary")
            self.generic_visit(node)

        def visit_Mul(self, node: Any) -> None:
            self.seen.append("mul")

    visitor = Names()
    visitor.visit((x + y) - x * y)
    assert visitor.seen == ["binary", "binary", "mul"]


def test_a_visitor_refuses_what_is_no_node() -> None:
    with pytest.raises(ir.IRTypeError, match="expected an IR node, got int"):
        Visitor().visit(3)


def test_deep_nesting_is_walked() -> None:
    expr: Any = x
    for _ in range(3000):
        expr = expr + y
    assert Mutator().visit(expr) is expr
    assert ir.structural_equal(expr, expr + 0)


def test_operators_build_folded_nodes_of_one_dtype() -> None:
    assert (x + 0) is x and (x * 1) is x and (tir.const(2) + 3).value == 5
    assert (x + 1).b.dtype == "int32" and (Var("w", "int64") + x).b.dtype == "int64"
    with pytest.raises(ir.IRTypeError, match="needs operands of one dtype"):
        tir.Add(x, Var("w", "int64"))
    with pytest.raises(ir.IRValueError, match="division by zero"):
        x // 0
    with pytest.raises(ir.IRTypeError, match="ambiguous"):
        x / y
    assert A[x, y].dtype == "float32"


# ---- shared expressions -----------------------------------------------------------------------------------------


def _nested(levels: int) -> tir.PrimExpr:
    value: tir.PrimExpr = tir.BufferLoad(A, [x])
    for _ in range(levels):
        value = value * value + value
    return value


class _Replace(Mutator):
    def __init__(self) -> None:
        super().__init__()
        self.loads = 0

    def visit_BufferLoad(self, load: Any) -> Any:
        self.loads += 1
        return tir.BufferLoad(A, [y])


def test_a_mutator_visits_a_shared_part_once_and_keeps_it_shared() -> None:
    replace = _Replace()
    result = replace.visit(_nested(100))
    assert replace.loads == 1
    assert result.a.a is result.a.b is result.b
    replace.visit(_nested(1))
    assert replace.loads == 2  # another expression: nothing is remembered of the first


def test_a_visitor_may_count_every_occurrence_or_each_part_once() -> None:
    class Count(Visitor):
        def __init__(self) -> None:
            super().__init__()
            self.loads = 0

        def visit_BufferLoad(self, load: Any) -> None:
            self.loads += 1

    class Once(Count):
        remembers = True

    every, once = Count(), Once()
    every.visit(_nested(4))
    once.visit(_nested(4))
    assert (every.loads, once.loads) == (3**4, 1)


def test_what_stands_under_another_condition_is_visited_again() -> None:
    class UnderSelect(_Replace):
        inside = False

        def visit_Select(self, select: Any) -> Any:
            self.inside = True
            with self.forgetting():
                value = self.visit(select.true_value)
            self.inside = False
            return select.replace(true_value=value, false_value=self.visit(select.false_value))

        def visit_BufferLoad(self, load: Any) -> Any:
            return super().visit_BufferLoad(load) if self.inside else load

    load = tir.BufferLoad(A, [x])
    result = UnderSelect().visit(load + tir.Select(x > 0, load, load))
    assert result.a is load and result.b.false_value is load
    assert result.b.true_value.indices[0] is y


def test_what_is_remembered_of_a_node_is_asked_once_in_its_life() -> None:
    asked: list[str] = []

    @remembered
    def answer(node: Node) -> None:
        """None is an answer too."""
        asked.append(node.label)

    first, second = Pair(Leaf(1), (), "first"), Pair(Leaf(1), (), "second")
    assert [answer(first), answer(second), answer(first)] == [None] * 3
    assert asked == ["first", "second"] and answer.__doc__ == "None is an answer too."
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
