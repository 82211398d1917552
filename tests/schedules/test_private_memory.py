"""A buffer is an iteration's own where the iteration fills all that it reads of it, before it reads."""

from __future__ import annotations

import pytest

from ir.script import from_source
from schedules import Schedule
from schedules.dependence import why_iterations_conflict
from schedules.tree import blocks_below, loops_around
from tests.schedules.checks import assert_refused, assert_same_meaning

HEADER = """@T.prim_func
def main(J: T.Buffer((1,), "int32"), A: T.Buffer((4, 4), "int32"), C: T.Buffer((4, 4), "int32")):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((8,), "int32")
    K = T.alloc_buffer((1,), "int32")
"""


def indented(text: str, depth: int = 4) -> str:
    return "\n".join(" " * depth + line for line in text.strip("\n").splitlines()) + "\n"


def block(name: str, *lines: str, k: str = "k", extent: int = 4) -> str:
    """A block of one row, vi, with a column vk."""
    axes = ["vi = T.axis.spatial(4, i)", f"vk = T.axis.spatial({extent}, {k})"]
    return f"with T.block('{name}'):\n" + indented("\n".join([*axes, *lines]))


def columns(*blocks: str, count: int | str = 4) -> str:
    return f"for k in range({count}):\n" + indented("".join(blocks))


def when(condition: str, body: str) -> str:
    return f"if {condition}:\n" + indented(body)


def program(body: str) -> str:
    return HEADER + "    for i in range(4):\n" + indented(body, 8)


def summed(where: str, k: str = "r") -> str:
    lines = [
        "vi, vk = T.axis.remap('SS', [i, k])",
        f"vr = T.axis.reduce(4, {k})",
        f"T.where({where})",
        "with T.init():",
        "    B[vk] = 0",
        "B[vk] = B[vk] + A[vi, vr]",
    ]
    return "for k, r in T.grid(4, 3):\n    with T.block('W'):\n" + indented("\n".join(lines), 8)


W = block("W", "B[vk] = A[vi, vk]")
R = block("R", "C[vi, vk] = B[vk]")
READ_LATER = block("R", "C[vi, vk] = T.if_then_else(vi > 0, B[vk], 0)")
OWN = {
    "filled before": columns(W) + columns(R),
    "under a condition that is around both": when("i % 2 == 0", columns(W) + columns(R)),
    "in the same inner loop": columns(W, R),
    "begun by an init": summed("i < 4") + columns(R),
    "changed by the way": columns(W)
    + columns(block("U", "T.reads(B[vk])", "T.writes(B[vk])", "B[vk] = B[vk] * 2"))
    + columns(R),
    "read by a condition": columns(W) + when("B[1] > 0", columns(block("R", "C[vi, vk] = A[vi, vk]"))),
}
SHARED = {
    "a condition around the writer": when("i % 2 == 0", columns(W)) + columns(R),
    "a predicate of the writer": columns(block("W", "T.where(i % 2 == 0)", "B[vk] = A[vi, vk]")) + columns(R),
    "a later element in the same inner loop": columns(
        block("W", "B[vk] = A[vi, T.min(vk, 3)]", extent=5),
        block("R", "T.where(k < 4)", "C[vi, vk] = T.if_then_else(vi > 0, B[vk + 1], 0)"),
        count=5,
    ),
    "a reader before the writer": columns(READ_LATER) + columns(W),
    "another case": when("i % 2 == 0", columns(W)) + "else:\n" + indented(columns(READ_LATER)),
    "fewer elements": columns(block("W", "B[vk] = A[vi, vk]", extent=3), count=3) + columns(READ_LATER),
    "a low end that is not written": columns(block("W", "B[vk + 4] = A[vi, vk]"))
    + columns(block("R", "T.reads(B[vk:vk + 5])", "C[vi, vk] = T.if_then_else(vi > 0, B[vk], 0) + B[vk + 4]"))
    + columns(block("V", "T.reads(B[vk + 4])", "T.writes(B[vk])", "B[vk] = B[vk + 4]")),
    "an index that changes in between": block("K", "K[0] = vi", k="0")
    + columns(block("W", "B[K[0]] = A[vi, vk]"))
    + block("L", "K[0] = vi + 1", k="0")
    + columns(block("R", "C[vi, vk] = T.if_then_else(vi > 4, B[K[0]], 0)")),
    "a loop without iterations": columns(block("W", "B[0] = A[vi, vk]"), count="J[0]")
    + columns(block("R", "C[vi, vk] = B[0]")),
    "a reduction whose first iteration is left out": summed("i == 0 or r > 0") + columns(R),
    "a reduction that never begins": summed("i < 4", "r + 1") + columns(R),
    "a binding of the writer": columns(W)
    + columns(block("V", "K[0] = vi"), block("R", "C[vi, vk] = B[vk]", k="T.min(k, K[0])")),
}


def conflict(text: str) -> str | None:
    """Why iterations of the loop around R conflict."""
    sch = Schedule(from_source(text))
    loop = loops_around(sch._block(sch.get_block("R")))[0]
    return why_iterations_conflict(loop, blocks_below(loop))


@pytest.mark.parametrize("case", list(OWN))
def test_each_iteration_has_the_buffer_for_itself(case: str) -> None:
    assert conflict(program(OWN[case])) is None


@pytest.mark.parametrize("case", list(SHARED))
def test_what_another_iteration_may_have_written_is_shared(case: str) -> None:
    assert "one iteration of loop 'i' may write to" in str(conflict(program(SHARED[case])))


@pytest.mark.parametrize("primitive", ["parallel", "vectorize"])
@pytest.mark.parametrize("case", ["a condition around the writer", "a later element in the same inner loop"])
def test_loops_that_share_a_buffer_stay_serial(primitive: str, case: str) -> None:
    sch = Schedule(from_source(program(SHARED[case])), error_render_level="none")
    loop = sch.get_loops("R")[0]
    assert_refused(sch, lambda: getattr(sch, primitive)(loop), primitive, "may write to B")


@pytest.mark.parametrize(
    "beside",
    [
        "for j in range(B[0]):\n    with T.block('D'):\n        vj = T.axis.spatial(4, j)\n        K[0] = vj\n",
        "if B[0] > 0:\n    with T.block('D'):\n        K[0] = 1\n",
        "C[0, 0] = B[0]\n",
        "with T.block('D'):\n    vj = T.axis.spatial(8, B[0])\n    K[0] = vj\n",
    ],
)
def test_what_is_read_behind_the_loop_in_any_way_belongs_to_no_iteration(beside: str) -> None:
    """By a bound, a condition, a statement that is in no block, or a binding."""
    assert "may write to B" in str(conflict(program(columns(W) + columns(R)) + indented(beside)))


def test_casts_of_indices_do_not_hide_that_bounds_are_one() -> None:
    """Loops of 64 bits over a buffer that is indexed by 32: the copy of a row is the iteration's own."""
    sch = Schedule(
        from_source("""
@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    for i, j, k in T.grid(T.int64(64), T.int64(64), T.int64(64)):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk]
""")
    )
    i, j, k = sch.get_loops("C")
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(loop, [8, 8]) for loop in (i, j, k))
    sch.reorder(i0, j0, i1, j1, k0, k1)
    sch.bind(sch.fuse(i0, j0), "blockIdx.x")
    sch.bind(sch.fuse(i1, j1), "threadIdx.x")
    sch.cache_read("C", 0, "shared")
    sch.compute_at("A_shared", k0)


def test_padding_of_what_is_read_behind_a_parallel_loop_is_not_stored_in_each_iteration() -> None:
    """Each iteration fills a row, and a block behind the loop reads all rows: the padding of the new layout belongs to nobody."""
    original = from_source("""@T.prim_func
def main(A: T.Buffer((4, 14)), C: T.Buffer((4, 14))):
    T.func_attr({"tir.noalias": True})
    B = T.alloc_buffer((4, 14))
    for i in T.parallel(4):
        for j in range(7):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj * 2:vj * 2 + 2])
                T.writes(B[vi, vj * 2:vj * 2 + 2])
                B[vi, vj * 2] = A[vi, vj * 2]
                B[vi, vj * 2 + 1] = A[vi, vj * 2 + 1]
    for i, j in T.grid(4, 14):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
""")
    sch = Schedule(original, error_render_level="none")
    sch.transform_layout("B", ("write", 0), lambda i, j: [i, j // 4, j % 4], pad_value=7.0)
    assert_same_meaning(original, sch.mod)
