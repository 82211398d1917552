"""How nests walk through memory: along which loops accesses are contiguous, and which orders operands ask for."""

from __future__ import annotations

from ir import te
from schedules import Schedule
from schedules.block_facts import node_of
from schedules.rule.memory_order import contiguous_loop, transposed_operands, walk_through
from schedules.tree import BlockNode


def block() -> BlockNode:
    """``B[b, i, j, 0]`` of a transposed and a broadcast operand, and of one that ends in a dimension of one."""
    a, c, d = (
        te.placeholder((8, 6), name="A"),
        te.placeholder((6,), name="C"),
        te.placeholder((4, 8, 1), name="D"),
    )
    result = te.compute((4, 6, 8, 1), lambda b, i, j, z: a[j, i] + c[i] + d[b, j, z], name="B")
    sch = Schedule(te.create_prim_func([a, c, d, result]))
    return node_of(sch, sch.get_block("B"))


def test_loops_along_which_accesses_are_contiguous() -> None:
    node = block()
    assert contiguous_loop(node, node.writes[0]) == 2
    found = {region.buffer.name: contiguous_loop(node, region) for region in node.reads}
    assert found == {"A": 1, "C": 1, "D": 2}


def test_operands_that_the_results_axis_moves_through() -> None:
    node = block()
    assert [region.buffer.name for region in transposed_operands(node, 2)] == ["A", "D"]
    assert [region.buffer.name for region in transposed_operands(node, 1)] == ["A", "C"]


def test_an_order_of_loops_is_that_of_an_operand() -> None:
    """Loops that do not move through it are outside."""
    node, natural = block(), [0, 1, 2, 3]
    regions = {region.buffer.name: region for region in (*node.reads, *node.writes)}
    assert walk_through(node, regions["B"], natural) == (0, 1, 2, 3)
    assert walk_through(node, regions["A"], natural) == (0, 3, 2, 1)
    assert walk_through(node, regions["C"], natural) == (0, 2, 3, 1)
