"""Structural equality and hashing: up to the names of defined variables, with the path to the first difference."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import ir
from ir import IRModule, Range, tir
from ir.tir import For, ForKind, Var, decl_buffer

from .samples import SAMPLES, A, nothing, store, x, y


def loop(name: str, extent: int = 4, step: int = 1) -> tir.PrimFunc:
    """A function that stores in a loop whose variable has this name."""
    buffer, i = decl_buffer((16,), "float32", name + "_buffer"), Var(name)
    return tir.PrimFunc(
        [buffer], For(i, 0, extent, ForKind.SERIAL, tir.BufferStore(buffer, tir.const(1.0), [i * step]))
    )


def test_defined_variables_may_have_other_names() -> None:
    assert ir.structural_equal(loop("i"), loop("j"))
    assert ir.structural_hash(loop("i")) == ir.structural_hash(loop("j"))


def test_free_variables_are_themselves_unless_mapped() -> None:
    assert not ir.structural_equal(x + y, y + x)
    assert ir.structural_equal(x + y, y + x, map_free_vars=True)
    assert not ir.structural_equal(x + x, x + y, map_free_vars=True)
    assert ir.structural_hash(x + y) == ir.structural_hash(y + x)


def test_operands_that_are_variables_define_nothing() -> None:
    first, second = Var("p", "bool"), Var("q", "bool")
    chosen = [tir.Select(flag, x, y) for flag in (first, second)]
    assert not ir.structural_equal(*chosen) and ir.structural_equal(chosen[0], tir.Select(first, x, y))
    assert ir.structural_equal(*chosen, map_free_vars=True)


def test_mapping_is_one_to_one() -> None:
    i, j = Var("i"), Var("j")
    two = For(i, 0, 4, ForKind.SERIAL, For(j, 0, 4, ForKind.SERIAL, tir.Evaluate(i + j)))
    one = For(i, 0, 4, ForKind.SERIAL, For(j, 0, 4, ForKind.SERIAL, tir.Evaluate(j + j)))
    assert not ir.structural_equal(two, one)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (loop("i", 4), loop("i", 5)),
        (loop("i", step=2), loop("i", step=3)),
        (tir.const(1, "int32"), tir.const(1, "int64")),
        (tir.const(0.0), tir.const(-1.0)),
        (tir.const(0.0), tir.const(-0.0)),
        ({"epsilon": 1}, {"epsilon": 1.0}),
        (x + 1, x - 1),
        (A[x, y], A[y, x]),
        ((1, 2), (1, 2, 3)),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        (True, 1),
        (np.zeros(3), np.zeros(4)),
        (np.zeros(3), np.ones(3)),
    ],
)
def test_differences_are_seen(a: Any, b: Any) -> None:
    assert not ir.structural_equal(a, b)
    assert ir.structural_equal(a, a) and ir.structural_equal(b, b)


def test_hashes_of_different_programs_differ() -> None:
    hashes = {ir.structural_hash(loop("i", extent, step)) for extent in range(1, 20) for step in range(1, 20)}
    assert len(hashes) == 19 * 19


@pytest.mark.parametrize("name", SAMPLES)
def test_every_kind_equals_itself_and_no_other_kind(name: str) -> None:
    assert ir.structural_equal(SAMPLES[name], SAMPLES[name])
    others = [other for other in SAMPLES if type(SAMPLES[other]) is not type(SAMPLES[name])]
    assert not any(ir.structural_equal(SAMPLES[name], SAMPLES[other]) for other in others)


def test_the_path_leads_to_the_difference() -> None:
    path, a, b = ir.get_first_structural_mismatch(loop("i", step=2), loop("i", step=3)) or ("", 0, 0)
    assert path == "<root>.body.body.indices[0].b.value" and (a, b) == (2, 3)
    assert ir.get_first_structural_mismatch(loop("i"), loop("j")) is None
    with pytest.raises(ir.IRValueError, match=r"structural mismatch at <root>.body.extent.value"):
        ir.assert_structural_equal(loop("i", 4), loop("i", 5))


def test_modules_are_compared_by_function_name() -> None:
    one = IRModule({"f": loop("i"), "g": loop("i", 7)})
    other = IRModule({"g": loop("k", 7), "f": loop("j")})
    assert ir.structural_equal(one, other) and ir.structural_hash(one) == ir.structural_hash(other)
    assert not ir.structural_equal(one, IRModule({"f": loop("i")}))
    assert not ir.structural_equal(one, one.with_attr("key", 1))


def test_names_and_spans_do_not_matter() -> None:
    span = ir.Span(ir.SourceName("file"), 3)
    assert ir.structural_equal(tir.Add(x, y), tir.Add(x, y, span))
    region = tir.Block([], [], [], "one", nothing)
    assert ir.structural_equal(region, region.replace(name_hint="two"))
    assert ir.structural_equal(Range(0, 4), Range.from_min_extent(0, 4))


def test_hashes_are_the_same_in_every_process() -> None:
    code = (
        "import ir; from ir import tir; x = tir.Var('x');"
        "print(ir.structural_hash(tir.For(x, 0, 4, 0, tir.Evaluate(x * 2 + 1))))"
    )
    i = Var("other")
    here = ir.structural_hash(For(i, 0, 4, ForKind.SERIAL, tir.Evaluate(i * 2 + 1)))
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) == here


def test_shared_and_repeated_statements_are_equal() -> None:
    again = tir.BufferStore(A, store.value, store.indices)
    assert ir.structural_equal(tir.SeqStmt([store, store]), tir.SeqStmt([store, again]))
    assert ir.structural_hash(tir.SeqStmt([store, store])) == ir.structural_hash(tir.SeqStmt([store, again]))


def test_free_buffers_in_other_memory_differ() -> None:
    """Loads of two arrays are two values, however alike the arrays are."""
    one, two = decl_buffer((4,), "float32", "one"), decl_buffer((4,), "float32", "two")
    assert not ir.structural_equal(one[x], two[x])
    assert not ir.structural_equal(one[x] + two[x], one[x] + one[x])
    assert ir.structural_equal(one[x] + two[x], two[x] + one[x], map_free_vars=True)
    assert not ir.structural_equal(one[x] + two[x], one[x] + one[x], map_free_vars=True)
    assert not ir.structural_equal(one[x], decl_buffer((5,), "float32", "one")[x], map_free_vars=True)


def test_buffers_declared_by_use_compare_by_content() -> None:
    """Buffers that nothing defines are equal when they say the same of one memory."""
    one = decl_buffer((4,), "float32", "one")
    same, other = one.replace(name="same"), one.replace(dtype="int32")
    assert ir.structural_equal(one[x], same[x])
    assert not ir.structural_equal(one[x], other[x])
    allocations = []
    for buffer in (one, decl_buffer((4,), "float32", "two")):
        use = tir.BufferStore(buffer, 0.0, [0])
        allocations.append(tir.Allocate(buffer.data, "float32", [4], tir.const(True, "bool"), use))
    assert ir.structural_equal(*allocations)


def _squares(levels: int, shared: bool) -> tir.PrimExpr:
    """``x * x + x``, nested; as a graph whose size is the number of levels, or unfolded to a tree of three to that power."""

    def unfolded(level: int) -> tir.PrimExpr:
        if not level:
            return tir.BufferLoad(A, [x])
        return unfolded(level - 1) * unfolded(level - 1) + unfolded(level - 1)

    if not shared:
        return unfolded(levels)
    value: tir.PrimExpr = tir.BufferLoad(A, [x])
    for _ in range(levels):
        value = value * value + value
    return value


def test_sharing_makes_no_difference() -> None:
    graph, tree = _squares(5, True), _squares(5, False)
    assert ir.structural_equal(graph, tree) and ir.structural_equal(tree, graph)
    assert ir.structural_hash(graph) == ir.structural_hash(tree)
    assert ir.structural_hash(graph) != ir.structural_hash(_squares(4, True))
    assert not ir.structural_equal(graph, graph.replace(b=tir.BufferLoad(A, [y])))


def test_shared_parts_are_looked_at_once() -> None:
    """Unfolded, a hundred levels would have more parts than there are atoms."""
    first, second = _squares(100, True), _squares(100, True)
    assert ir.structural_equal(first, second)
    assert ir.structural_hash(first) == ir.structural_hash(second)


def test_one_variable_twice_is_not_two_variables() -> None:
    z = Var("z")
    assert ir.structural_hash(x + x) != ir.structural_hash(x + z)
    assert ir.structural_hash((x + z) * (x + z)) == ir.structural_hash((z + x) * (z + x))
    assert ir.structural_hash((x + z) * (x + z)) != ir.structural_hash((x + z) * (z + x))


def test_hashes_suit_both_ways_of_comparing_free_variables() -> None:
    a, b = tir.Var("a", "int32"), tir.Var("b", "int32")
    assert ir.structural_equal(a + 1, b + 1, map_free_vars=True) and not ir.structural_equal(a + 1, b + 1)
    assert ir.structural_hash(a + 1) == ir.structural_hash(b + 1)
    with pytest.raises(TypeError):
        ir.structural_hash(a + 1, map_free_vars=True)  # type: ignore[call-arg]


def test_hashes_know_the_values_of_attributes() -> None:
    func = tir.PrimFunc([], tir.Evaluate(tir.const(0)))
    hashes = {ir.structural_hash(func.with_attr("unit", value)) for value in ("a", "b", 1, 2, True)}
    assert len(hashes) == 5


def test_a_shared_statement_keeps_its_variables() -> None:
    """What stands once as an object on both sides has defined its loop variable, or read a free one, there too."""
    i, j = Var("i"), Var("j")
    first = For(i, 0, 4, ForKind.SERIAL, tir.Evaluate(i))
    again, other = (For(var, 0, 5, ForKind.SERIAL, tir.Evaluate(var)) for var in (i, j))
    for shared in (first, tir.Evaluate(i), tir.Evaluate(A[i, 0])):
        one, two = tir.SeqStmt([shared, again]), tir.SeqStmt([shared, other])
        assert not ir.structural_equal(one, two) and not ir.structural_equal(two, one)
        assert ir.structural_hash(one) != ir.structural_hash(two)
        assert ir.structural_equal(one, tir.SeqStmt([shared, again.replace(body=tir.Evaluate(i))]))


def test_the_order_of_a_map_over_variables_does_not_matter() -> None:
    p, q = Var("p", "handle"), Var("q", "handle")
    first, second = decl_buffer((4,), "float32"), decl_buffer((8,), "float32")
    body = tir.Evaluate(first[0] + second[0])
    one = tir.PrimFunc([p, q], body, buffer_map={p: first, q: second})
    two = tir.PrimFunc([p, q], body, buffer_map={q: second, p: first})
    assert ir.structural_equal(one, two) and ir.structural_hash(one) == ir.structural_hash(two)
    crossed = tir.PrimFunc([p, q], body, buffer_map={p: second, q: first})
    assert not ir.structural_equal(one, crossed)
    assert ir.structural_hash(one) != ir.structural_hash(crossed)
