"""PlanAndUpdateBufferAllocationLocation: buffers move inwards, but not into the reduction that fills them."""

import numpy as np
import pytest

from ir import tir
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
