# ruff: noqa: E501  scripts have long calls
"""PlanAndUpdateBufferAllocationLocation: buffers move inwards, but not into the reduction that fills them."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from ir import IRModule, tir
from ir.codegen.build import build
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from ir.tir import interpreter
from ir.tir.lower import lower
from tests.programs import kernels

two_stages = kernels.chain_by_rows(4)


@T.prim_func
def inside_reduction(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(4):
        for k in range(8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]


@T.prim_func
def only_in_reduction(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(4):
        for k in range(8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
                C[vi] = B[vi]


def allocations(func):
    """Depth in loops of each allocation."""
    found = {}

    def walk(node, depth):
        if isinstance(node, tir.Block):
            for buffer in node.alloc_buffers:
                found[buffer.name] = depth
        for child in _children(node):
            walk(child, depth + isinstance(node, tir.For))

    def _children(node):
        out = []
        node._visit_children(out.append)
        return out

    walk(func.body, 0)
    return found


def test_allocation_moves_into_the_common_loop(apply):
    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), two_stages)
    assert allocations(two_stages) == {"B": 0}
    assert allocations(after) == {"B": 1}


def test_reduction_buffer_stays_outside_of_the_reduction(apply):
    lowered = apply(tir.transform.LowerInitBlock(), inside_reduction)
    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), lowered)
    assert allocations(after) == {"B": 1}
    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), only_in_reduction)
    assert allocations(after) == {"B": 1}


def test_unused_buffer_disappears(apply):
    @T.prim_func
    def unused(A: T.Buffer((4,), "float32")):
        B = T.alloc_buffer((4,))
        for i in range(4):
            with T.block("A"):
                vi = T.axis.spatial(4, i)
                A[vi] = T.float32(0)

    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), unused)
    assert allocations(after) == {}


def test_a_block_says_nothing_of_buffers_that_moved_into_it(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        B = T.alloc_buffer((2,), "int32")
        for i in range(4):
            with T.block("outer"):
                T.reads(A[i], B[0:2])
                T.writes(B[0:2], C[i])
                for j in range(2):
                    with T.block("inner"):
                        T.reads(A[i], B[j])
                        T.writes(B[j], C[i])
                        B[j] = A[i] + j
                        C[i] = B[j]

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("outer"):
                T.reads(A[i])
                T.writes(C[i])
                for j in range(2):
                    with T.block("inner"):
                        T.reads(A[i])
                        T.writes(C[i])
                        B = T.alloc_buffer((2,), "int32")
                        B[j] = A[i] + j
                        C[i] = B[j]

    check(tir.transform.PlanAndUpdateBufferAllocationLocation(), before, expected)


def test_loops_that_run_once_do_not_blur_regions(check):
    """One access to A has the variable of such a loop in it, the other one does not."""

    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        B = T.alloc_buffer((4,), "int32")
        for i, k in T.grid(4, 1):
            with T.block("fill"):
                v = T.axis.spatial(4, i + k)
                B[v] = A[v]
            with T.block("use"):
                v = T.axis.spatial(4, i)
                C[v] = B[v] + A[v]

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        for i, k in T.grid(4, 1):
            with T.block(""):
                T.reads(A[i])
                T.writes(C[i])
                B = T.alloc_buffer((4,), "int32")
                with T.block("fill"):
                    v = T.axis.spatial(4, i + k)
                    B[v] = A[v]
                with T.block("use"):
                    v = T.axis.spatial(4, i)
                    C[v] = B[v] + A[v]

    check(tir.transform.PlanAndUpdateBufferAllocationLocation(), before, expected)


def test_alignments_follow_the_writes_that_are_left(apply):
    """The block fills B, which nothing reads and which therefore moves into it, beside C, whose rows are aligned."""

    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32"), D: T.Buffer((4, 8), "float32")):
        B = T.alloc_buffer((4, 8))
        C = T.alloc_buffer((4, 8))
        for i, j in T.grid(4, 8):
            with T.block("fill"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"buffer_dim_align": [[0, 0, 16, 4], [1, 0, 32, 8]]})
                B[vi, vj] = A[vi, vj]
                C[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(4, 8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj]

    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), before)
    blocks: list[tir.Block] = []
    tir.stmt_functor.post_order_visit(
        after.body, lambda node: blocks.append(node) if isinstance(node, tir.Block) else None
    )
    (fill,) = [block for block in blocks if block.name_hint == "fill"]
    assert [region.buffer.name for region in fill.writes] == ["C"]
    assert [[int(item) for item in entry] for entry in fill.annotations["buffer_dim_align"]] == [
        [0, 0, 32, 8]
    ]
    lower(before)


def test_regions_follow_the_variables_of_loops_that_run_more_than_once(check):
    @T.prim_func
    def before(A: T.Buffer((2,), "int32"), C: T.Buffer((2,), "int32")):
        B = T.alloc_buffer((2,), "int32")
        for i in range(2):
            with T.block("fill"):
                v = T.axis.spatial(2, i)
                B[v] = A[v]
            with T.block("use"):
                v = T.axis.spatial(2, i)
                C[v] = B[v]

    @T.prim_func
    def expected(A: T.Buffer((2,), "int32"), C: T.Buffer((2,), "int32")):
        for i in range(2):
            with T.block(""):
                T.reads(A[i])
                T.writes(C[i])
                B = T.alloc_buffer((2,), "int32")
                with T.block("fill"):
                    v = T.axis.spatial(2, i)
                    B[v] = A[v]
                with T.block("use"):
                    v = T.axis.spatial(2, i)
                    C[v] = B[v]

    check(tir.transform.PlanAndUpdateBufferAllocationLocation(), before, expected)


def test_a_buffer_stays_outside_of_the_outermost_of_nested_reductions(apply):
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
        B = T.alloc_buffer((4,))
        for i, ko in T.grid(4, 2):
            with T.block("outer"):
                vi, vo = T.axis.remap("SR", [i, ko])
                T.reads(A[vi, vo * 4 : vo * 4 + 4], B[vi])
                T.writes(B[vi], C[vi])
                for ki in range(4):
                    with T.block("inner"):
                        vk = T.axis.reduce(4, ki)
                        T.reads(A[vi, vo * 4 + vk], B[vi])
                        T.writes(B[vi], C[vi])
                        if vo * 4 + vk == 0:
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vo * 4 + vk]
                        C[vi] = B[vi]

    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), before)
    assert allocations(after) == {"B": 1}


def test_a_loop_that_runs_once_says_nothing_of_another_loop_with_its_variable(apply):
    stages = kernels.chain_by_rows(4)
    root = stages.body.block
    loop, buffer = root.body, stages.buffer_map[stages.params[0]]
    zero = tir.BufferStore(buffer, tir.const(0.0, "float32"), [loop.loop_var] * len(buffer.shape))
    once = tir.For(loop.loop_var, 0, 1, tir.ForKind.SERIAL, zero)
    body = stages.body.replace(block=root.replace(body=tir.stmt.seq(once, loop)))
    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), stages.replace(body=body))
    placed = after.body.block.body.seq[1].body.block
    assert placed.alloc_buffers
    assert all(region.region[0].min is loop.loop_var for region in (*placed.reads, *placed.writes))


def test_where_memory_decides_the_one_iteration_it_is_not_asked_again(apply):
    """C changes between the beginning of the loop and the block that allocates B."""

    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), C: T.Buffer((1,), "int32"), D: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((1,), "int32")
        for i in T.serial(C[0], C[0] + 1):
            C[0] = C[0] + 5
            for j in range(8):
                B[0] = A[i]
                D[j] = B[0]

    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), before, same_results=False)
    found = []
    tir.stmt_functor.post_order_visit(
        after.body,
        lambda node: found.append(node) if isinstance(node, tir.Block) and node.alloc_buffers else None,
    )
    assert [str(region) for region in found[0].reads] == ["A[i]"]


def place_of(func, name="B"):
    """The variables of the loops around the allocation of a buffer, the outermost first."""
    found = []

    def look(node, path):
        if isinstance(node, tir.Block) and any(item.name == name for item in node.alloc_buffers):
            found.append(path)
        inside = [*path, node.loop_var.name] if isinstance(node, tir.For) else path
        if isinstance(node, tir.BlockRealize):
            look(node.block, path)
        for child in getattr(node, "seq", ()) or [getattr(node, "body", None)]:
            if child is not None:
                look(child, inside)

    look(func.body, [])
    (place,) = found
    return place


CARRIED = {
    "a sum of what came before": """
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = T.if_then_else(vi > 0, B[vi - 1], T.float32(0)) + A[vi]
                C[vi] = B[vi]
""",
    "the row before": """
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = B[T.max(vi - 1, 0)]
""",
    "a ring": """
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi % 3] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = T.if_then_else(vi > 1, B[(vi + 2) % 3], T.float32(0))
""",
    "what only the first iteration writes": """
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                T.where(i < 1)
                B[0] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = B[0]
""",
    "statements without blocks": """
        for i in range(16):
            B[i] = A[i]
            C[i] = B[i // 2]
""",
    "one side of a choice": """
        for i in range(16):
            if i % 4 == 0:
                B[0] = A[i]
            C[i] = B[0]
""",
    "a loop on one side of a choice": """
        for i in range(16):
            if i % 4 == 0:
                for j in range(2):
                    B[j] = A[i]
            C[i] = B[1]
""",
    "a while loop": """
        B[0] = T.float32(0)
        while B[0] < T.float32(20):
            for i in range(16):
                B[0] = B[0] + T.float32(1)
                C[i] = B[0]
""",
}


@pytest.mark.parametrize("case", CARRIED)
@pytest.mark.meaning("alloc-fresh")
def test_what_an_iteration_leaves_to_later_ones_lives_outside_of_the_loop(apply, case):
    body = CARRIED[case].replace("\n        ", "\n    ")
    before = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    B = T.alloc_buffer((16,))
{body}"""
    )
    assert place_of(apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), before)) == []
    a = np.arange(16, dtype="float32")
    expected, found = np.zeros(16, "float32"), np.zeros(16, "float32")
    interpreter.run(before, a, expected)
    build(before, Target("llvm"))["main"](a, found)
    np.testing.assert_array_equal(found, expected)


WITHIN = {
    "the same element": ("B[vi, vj] = A[vi, vj]", "B[vi, vj]", 8),
    "a window of what was written": ("B[vi, vj] = A[vi, vj]", "B[vi, vj // 2]", 8),
    "fused indices": ("B[(vi * 8 + vj) // 16, (vi * 8 + vj) % 16] = A[vi, vj]", "B[(vi * 8 + vj) // 16, (vi * 8 + vj) % 16]", 8),
}  # fmt: skip


@pytest.mark.parametrize("case", WITHIN)
def test_what_an_iteration_writes_and_reads_lives_in_it(apply, case):
    store, load, extent = WITHIN[case]
    before = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((16, 8), "float32"), C: T.Buffer((16, 8), "float32")):
    B = T.alloc_buffer((16, 16))
    for i in range(16):
        for j in range({extent}):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                {store}
        for j in range({extent}):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = {load}
"""
    )
    assert place_of(apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), before)) == ["i"]


UNSURE = {
    "all between two places but one": """
        for i in range(16):
            if i == 0:
                for k in range(16):
                    B[k] = A[k]
            for k in range(T.max(i, 15 - i) - T.min(i, 15 - i)):
                B[T.min(i, 15 - i) + k] = A[k]
            C[i] = B[15 - i] + B[i]
""",
    "a write that is only stated": """
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                if A[vi] > 0:
                    B[0] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = B[0]
""",
    "a sum that begins once": """
        for i in range(16):
            if i == 0:
                B[0] = 0
            for k in range(2):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    B[0] = B[0] + A[vi]
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = B[0]
""",
    "a sum that begins in the first iteration of both loops": """
        for i in range(16):
            for k in range(2):
                if i == 0 and k == 0:
                    B[0] = 0
                B[0] = B[0] + A[i]
            C[i] = B[0]
""",
    "a loop over nothing": """
        for i in range(16):
            if i == 0:
                B[0] = 7
            for k in range(n):
                B[0] = E[k]
            C[i] = B[0]
""",
    "a loop that ever fewer iterations are left of": """
        for i in range(16):
            for k in range(3 - i):
                B[0] = A[i] + k
            C[i] = B[0]
""",
    "a loop as long as memory says": """
        for i in range(16):
            for k in range(T.max(A[i], 0) % 3):
                B[0] = i + k
            C[i] = B[0]
""",
    "loops as long as memory said at two times": """
        for i in range(16):
            J[0] = T.max(1 - i, 0)
            for k in range(J[0]):
                B[k] = A[i]
            J[0] = 1
            for k in range(J[0]):
                C[i] = B[k]
""",
    "other parts of the same indices": """
        for i in range(16):
            if i == 0:
                for k in range(16):
                    B[k] = k
            for k in range(2):
                B[k * k] = A[k] + i
            for k in range(4):
                C[i] = B[k * k]
""",
    "the predicate of a block around blocks": """
        for i in range(16):
            with T.block("outer"):
                vi = T.axis.spatial(16, i)
                T.where(i % 4 == 0)
                for k in range(2):
                    with T.block("B"):
                        vk = T.axis.spatial(2, k)
                        B[0] = A[vi] + vk
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = B[0]
""",
    "the predicate of a block without variables": """
        for i in range(16):
            with T.block("B"):
                T.where(i % 4 == 0)
                B[0] = A[i]
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = B[0]
""",
    "a predicate that holds in the domain, but not in the buffer": """
        for i in range(4):
            if i == 0:
                for k in range(16):
                    B[k] = k
            for k in range(4):
                with T.block("B"):
                    v = T.axis.spatial(14, i * 4 + k)
                    T.where(i * 4 + k < 14)
                    B[v] = A[v]
            for k in range(4):
                with T.block("C"):
                    v = T.axis.spatial(16, i * 4 + k)
                    C[v] = B[v]
""",
    "an index that changes in memory": """
        for i in range(16):
            J[0] = i
            B[J[0]] = i * 3
            J[0] = T.max(i - 1, 0)
            C[i] = B[J[0]]
""",
    "a condition that changes in memory": """
        for i in range(16):
            if i == 0:
                B[0] = 7
            J[0] = i % 2
            if J[0] > 0:
                B[0] = A[i]
            J[0] = 1
            if J[0] > 0:
                C[i] = B[0]
""",
    "a binding that changes in memory": """
        for i in range(16):
            J[0] = i
            with T.block("B"):
                v = T.axis.spatial(16, J[0])
                B[v] = v * 3
            J[0] = T.max(i - 1, 0)
            with T.block("C"):
                v = T.axis.spatial(16, J[0])
                w = T.axis.spatial(16, i)
                C[w] = B[v]
""",
    "a let that changes in memory": """
        for i in range(16):
            J[0] = i
            with T.LetStmt(J[0]) as x:
                B[x] = i * 3
            J[0] = T.max(i - 1, 0)
            with T.LetStmt(J[0]) as y:
                C[i] = B[y]
""",
    "lanes that are apart": """
        for i in range(16):
            if i == 0:
                for k in range(16):
                    B[k] = k
            B[T.ramp(0, 2, 4)] = T.broadcast(A[i], 4)
            C[i] = B[3]
""",
    "a read in the predicate of a load": """
        for i in range(16):
            if i == 0:
                B[0] = 1
            C[i] = A.vload(i, predicate=B[0] > 0)
            B[0] = A[i]
""",
    "a loop over nothing that says nothing of the index": """
        for i in range(16):
            if i == 0:
                for f in range(16):
                    B[f] = f
            for k, j in T.grid(n, 4):
                B[j] = E[k]
            C[i] = B[3]
""",
    "what the first of some iterations did not know": """
        for i in range(16):
            if i == 0:
                for f in range(16):
                    B[f] = f
            for k in range(2):
                J[0] = k
                with T.LetStmt(J[0]) as x:
                    if k == 0:
                        B[x] = A[i]
                    C[i] = B[x]
""",
    "what the first of some iterations was too short for": """
        for i in range(16):
            if i == 0:
                for f in range(16):
                    B[f] = f
            for k in range(2):
                for j in range(k + 1):
                    if k == 0:
                        B[j] = A[i]
                    C[i] = B[j]
""",
    "the half of a square": """
        for i in range(16):
            if i == 0:
                for f in range(16):
                    B[f] = f
            for k in range(2):
                for j in range(k + 1):
                    B[k * 2 + j] = A[i]
            for k, j in T.grid(2, 2):
                C[i] = B[k + j]
""",
    "lanes that are masked": """
        for i in range(16):
            if i == 0:
                for f in range(16):
                    B[f] = f
            B.vstore([T.ramp(0, 1, 4)], T.broadcast(A[i], 4), predicate=T.ramp(i, 1, 4) < T.broadcast(8, 4))
            C[i] = B[3]
""",
    "a turn of a while loop": """
        J[0] = 0
        while J[0] < 16:
            with T.block("turn"):
                if J[0] == 0:
                    B[0] = 5
                C[J[0]] = B[0]
                B[0] = A[J[0]]
                J[0] = J[0] + 1
""",
    "a declared view": """
        b = T.decl_buffer((4, 4), "int32", data=B.data)
        for i in range(16):
            B[i] = A[i]
            C[i] = b[0, i % 2]
""",
    "a view that nobody declares": """
        b = T.Buffer((4, 4), "int32", data=B.data)
        for i in range(16):
            B[0] = A[i]
            B[i] = A[i]
            C[i] = b[0, i % 4 // 2]
""",
    "a part of a matched region": """
        for i in range(16):
            if i == 0:
                for k in range(16):
                    B[k] = k
            with T.block("B"):
                T.reads(A[i])
                T.writes(B[4:8])
                V = T.match_buffer(B[4:8], (4,), "int32", offset_factor=1)
                V[0] = A[i]
            C[i] = B[5]
""",
}


@pytest.mark.parametrize("case", UNSURE)
@pytest.mark.meaning("alloc-fresh")
def test_what_is_not_surely_written_before_it_is_read_lives_outside_of_the_loop(apply, case):
    body = UNSURE[case].replace("\n        ", "\n    ")
    before = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((16,), "int32"), e: T.handle, J: T.Buffer((1,), "int32"), C: T.Buffer((16,), "int32")):
    T.func_attr({{"tir.noalias": True}})
    n = T.int32()
    E = T.match_buffer(e, (n,), "int32")
    B = T.alloc_buffer((16,), "int32")
{body}"""
    )
    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), before, same_results=False)
    assert place_of(after) == []
    a = np.array([5, -1, -2, 7, -1, -1, -3, 9, *[-1] * 8], "int32")
    results = []
    for run in (partial(interpreter.run, before), partial(interpreter.run, after), build(before)["main"]):
        c = np.zeros(16, "int32")
        run(a, np.zeros(0, "int32"), np.zeros(1, "int32"), c)
        results.append(c)
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


@pytest.mark.parametrize("pointer", ["B.data", "T.address_of(B[1])"])
def test_of_a_pointer_that_is_passed_on_nothing_is_known(pointer):
    before = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((4,), "int32")
    for i in range(16):
        B[1] = A[i]
        T.evaluate(T.call_extern("int32", "look", T.address_of(C[i]), {pointer}))
"""
    )
    after = tir.transform.PlanAndUpdateBufferAllocationLocation()(IRModule({"main": before}))["main"]
    assert place_of(after) == []


SURE = {
    "all between two places": """
        for i in range(16):
            for k in range(T.max(i, 15 - i) - T.min(i, 15 - i) + 1):
                with T.block("B"):
                    v = T.axis.spatial(16, T.min(i, 15 - i) + k)
                    B[v] = A[v]
            C[i] = B[15 - i] + B[i]
""",
    "a sum over the iterations of several loops": """
        for i in range(16):
            for k0, j, k1 in T.grid(2, 4, 2):
                with T.block("B"):
                    vj = T.axis.spatial(4, j)
                    vk = T.axis.reduce(4, k0 * 2 + k1)
                    with T.init():
                        B[vj] = 0
                    B[vj] = B[vj] + A[vk]
            C[i] = B[3]
""",
    "a sum over nothing": """
        for i in range(16):
            for k, j in T.grid(n, 4):
                with T.block("B"):
                    vj = T.axis.spatial(4, j)
                    vk = T.axis.reduce(n, k)
                    with T.init():
                        B[vj] = 0
                    B[vj] = B[vj] + E[vk]
            C[i] = B[3]
""",
    "loops over the same elements, or none": """
        for i in range(16):
            for k in range(n):
                B[k] = E[k]
            for k in range(n):
                C[i] = B[k]
""",
    "a loop over nothing that asks for nothing": """
        for i in range(16):
            for k in range(n):
                B[k] = E[k]
            for k, j in T.grid(n // 4, 4):
                C[i] = B[k * 4 + j]
""",
    "a predicate that holds in all of the buffer": """
        for i in range(6):
            for k in range(3):
                with T.block("B"):
                    v = T.axis.spatial(16, i * 3 + k)
                    T.where(i * 3 + k < 16)
                    B[v] = A[v]
            for k in range(3):
                with T.block("C"):
                    v = T.axis.spatial(16, i * 3 + k)
                    T.where(i * 3 + k < 16)
                    C[v] = B[v]
""",
    "equal predicates": """
        for i in range(6):
            for k in range(3):
                with T.block("B"):
                    v = T.axis.spatial(14, i * 3 + k)
                    T.where(i * 3 + k < 14)
                    B[v] = A[v]
            for k in range(3):
                with T.block("C"):
                    v = T.axis.spatial(14, i * 3 + k)
                    T.where(i * 3 + k < 14)
                    C[v] = B[v]
""",
    "elements that memory chooses of all": """
        for i in range(16):
            for k in range(16):
                B[k] = A[k] + i
            C[i] = B[T.max(A[i], 0)]
""",
    "a matched region": """
        for i in range(16):
            with T.block("B"):
                T.reads(A[i])
                T.writes(B[4:8])
                V = T.match_buffer(B[4:8], (4,), "int32", offset_factor=1)
                for k in range(4):
                    V[k] = A[i] + k
            with T.block("C"):
                T.reads(B[5:7])
                T.writes(C[i])
                V = T.match_buffer(B[5:7], (2,), "int32", offset_factor=1)
                C[i] = V[1]
""",
    "a let of indices": """
        for i in range(16):
            with T.LetStmt(i // 2) as x:
                B[x] = A[i]
            C[i] = B[i // 2]
""",
}


@pytest.mark.parametrize("case", SURE)
def test_what_is_surely_written_before_it_is_read_lives_in_the_loop(apply, case):
    body = SURE[case].replace("\n        ", "\n    ")
    before = from_source(
        f"""@T.prim_func
def main(A: T.Buffer((16,), "int32"), e: T.handle, C: T.Buffer((16,), "int32")):
    T.func_attr({{"tir.noalias": True}})
    n = T.int32()
    E = T.match_buffer(e, (n,), "int32")
    B = T.alloc_buffer((16,), "int32")
{body}"""
    )
    lowered = tir.transform.LowerInitBlock()(IRModule({"main": before}))["main"]
    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), lowered, same_results=False)
    assert place_of(after) == ["i"]
    a = np.array([5, -1, -2, 7, -1, -1, -3, 9, *[-1] * 8], "int32")
    for extent in (0, 7):
        results = []
        for func in (before, after):
            c = np.zeros(16, "int32")
            interpreter.run(func, a, np.arange(extent, dtype="int32"), c)
            results.append(c)
        np.testing.assert_array_equal(results[1], results[0])


@pytest.mark.meaning("parallel-local")
@pytest.mark.parametrize("kind", ["T.parallel", "range"])
def test_iterations_of_a_parallel_loop_have_their_own_whatever_is_around_them(apply, kind):
    """What is read is written before, but by two stores: a serial loop may carry it, one around a parallel loop does not."""
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), D: T.Buffer((8, 8), "int32")):
    C = T.alloc_buffer((8,), "int32")
    for i in range(8):
        for j in {kind}(8):
            for k in range(8):
                with T.block("C"):
                    v = T.axis.spatial(8, k)
                    if v % 2 == 0:
                        C[v] = A[v] * 2
                    if v % 2 == 1:
                        C[v] = A[v] + A[v]
            with T.block("D"):
                u, v = T.axis.remap("SS", [i, j])
                D[u, v] = C[u] + C[v] * 3
""")
    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), func)
    assert isinstance(after.body, tir.BlockRealize)
    assert bool(after.body.block.alloc_buffers) == (kind == "range")
    a, d = np.arange(8, dtype="int32"), np.zeros((8, 8), "int32")
    interpreter.run(lower(func, "cpu"), a, d)  # which looks for races
    assert (d == 2 * a[:, None] + 6 * a).all()


def test_digits_of_a_number_that_ends_where_there_are_no_more_elements(apply):
    """That the quotient has an end says that the number has one, but only the condition says where its digits end."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((3, 4), "int32"), D: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((3, 4), "int32")
    for i in range(8):
        for f, k in T.grid(7, 2):
            with T.block("B"):
                v = T.axis.spatial(3, (f * 2 + k) // 4)
                w = T.axis.spatial(4, (f * 2 + k) % 4)
                T.where(f * 2 + k < 12)
                B[v, w] = A[v, w] * 2
        for v, w in T.grid(3, 4):
            with T.block("D"):
                u, x, y = T.axis.remap("SRR", [i, v, w])
                with T.init():
                    D[u] = 0
                D[u] = D[u] + B[x, y]
""")
    assert place_of(apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), func)) == ["i"]


FRAGMENTS = """@T.prim_func
def main(A: T.Buffer((4, 16, 16), "float16"), B: T.Buffer((4, 256), "float16")):
    with T.block("root"):
        S = T.alloc_buffer((4, 16, 16), "float16", scope="shared")
        W = T.alloc_buffer((4, 32, 8), "float16", scope="warp")
        for k in range(4):
            for i, j in T.grid(16, 16):
                with T.block("S"):
                    S[k, i, j] = A[k, i, j]
            with T.block("load"):
                T.reads(S[k, 0:16, 0:16])
                T.writes(W[k, 0:32, 0:8])
                source = T.match_buffer(S[k, 0:16, 0:16], (16, 16), "float16", strides=("s0", 1), scope="shared", offset_factor=1)
                held = T.match_buffer(W[k, 0:32, 0:8], (32, 8), "float16", scope="warp", offset_factor=1)
                for tx in T.thread_binding(32, thread="threadIdx.x"):
                    T.evaluate(T.ptx_ldmatrix("float16", False, {count}, ".b16", held.data, held.elem_offset + tx * 8, source.data, source.elem_offset + tx * 8))
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                for e in range(8):
                    with T.block("B"):
                        B[k, tx * 8 + e] = W[k, tx, e]
"""


@pytest.mark.parametrize(("count", "inside"), [(4, ["S", "W"]), (2, ["S"])])
def test_what_a_warp_loads_whole_lives_in_the_iteration(count: int, inside: list[str]) -> None:
    """Four matrices are all that lanes hold of a tile; of two, something may be left of an iteration before."""
    func = from_source(FRAGMENTS.format(count=count))
    planned = tir.transform.PlanAndUpdateBufferAllocationLocation()(IRModule({"main": func}))["main"]
    (loop,) = [node for node in all_nodes(planned) if isinstance(node, tir.For) and node.loop_var.name == "k"]
    found = [
        buffer.name
        for node in all_nodes(loop)
        if isinstance(node, tir.Block)
        for buffer in node.alloc_buffers
    ]
    assert sorted(found) == inside


def all_nodes(node: Any) -> list[Any]:
    """A function or statement with all that is in it."""
    found: list[Any] = []
    tir.post_order_visit(getattr(node, "body", node), found.append)
    return [node, *found]


@pytest.mark.parametrize(("other", "inside"), [("C[v]", True), ("C[7 - v]", False)])
def test_what_both_sides_of_a_choice_write_is_written(apply, other: str, inside: bool) -> None:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), D: T.Buffer((8, 8), "int32")):
    C = T.alloc_buffer((8,), "int32")
    for i in range(8):
        for k in range(8):
            with T.block("C"):
                u, v = T.axis.remap("SS", [i, k])
                if u + v < 9:
                    C[v] = A[v] * 2
                else:
                    {other} = A[v] + A[v]
        for k in range(8):
            with T.block("D"):
                u, v = T.axis.remap("SS", [i, k])
                D[u, v] = C[v] * 3
""")
    after = apply(tir.transform.PlanAndUpdateBufferAllocationLocation(), func)
    assert isinstance(after.body, tir.BlockRealize)
    assert bool(after.body.block.alloc_buffers) != inside
