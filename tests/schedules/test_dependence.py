"""Which loops may run in any order: proved from what their iterations touch, refused otherwise."""

from __future__ import annotations

import pytest

from ir.script import from_source
from ir.tir import ForKind
from schedules import Schedule, ScheduleError


def schedule(body: str, buffers: str = "") -> Schedule:
    """A function over A and B of (8, 6), C of (8, 6) and I of (8,), with blocks as given."""
    lines = ["    " + line for line in (buffers + body).strip("\n").splitlines()]
    header = "A: T.Buffer((8, 6)), B: T.Buffer((8, 6)), C: T.Buffer((8, 6)), I: T.Buffer((8,), 'int32')"
    text = "\n".join(
        ["@T.prim_func", f"def main({header}):", "    T.func_attr({'tir.noalias': True})", *lines]
    )
    return Schedule(from_source(text + "\n"), error_render_level="none")


def stored(place: str, value: str = "A[vi, vj]") -> str:
    """One block that stores to B."""
    return f"""
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[{place}] = {value}
"""


def run(sch: Schedule, block: str, position: int, primitive: str) -> None:
    loop = sch.get_loops(block)[position]
    getattr(sch, primitive)(loop)
    kind = {"parallel": ForKind.PARALLEL, "vectorize": ForKind.VECTORIZED}[primitive]
    assert sch.get(loop).kind == kind


both = pytest.mark.parametrize("primitive", ["parallel", "vectorize"])


@both
@pytest.mark.parametrize(
    ("place", "loop"),
    [("vi, vj", 0), ("vi, vj", 1), ("7 - vi, vj", 0), ("vi, 5 - vj", 1), ("vi // 2 * 2 + vi % 2, vj", 0)],
)
def test_iterations_that_write_elements_of_their_own(primitive: str, place: str, loop: int) -> None:
    run(schedule(stored(place)), "B", loop, primitive)


@both
@pytest.mark.parametrize(
    ("place", "loop"), [("vi // 2, vj", 0), ("0, vj", 0), ("vi % 4, vj", 0), ("vi, vj // 2", 1), ("vi, 0", 1)]
)
def test_iterations_that_write_one_element(primitive: str, place: str, loop: int) -> None:
    sch = schedule(stored(place))
    with pytest.raises(ScheduleError, match=r"one iteration of loop '[ij]' may write to B"):
        run(sch, "B", loop, primitive)
    run(sch, "B", 1 - loop, primitive)


@both
def test_stores_at_places_that_data_says(primitive: str) -> None:
    sch = schedule(
        """
for i, j in T.grid(8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.reads(I[vi], A[vi, vj])
        T.writes(B[0:8, vj])
        B[I[vi], vj] = A[vi, vj]
"""
    )
    with pytest.raises(ScheduleError, match="may write to B"):
        run(sch, "B", 0, primitive)
    run(sch, "B", 1, primitive)


TWO = """
for i in range(8):
    for j in range(6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for j in range(6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[ROW, vj]
"""


@both
@pytest.mark.parametrize("row", ["7 - vi", "T.max(vi - 1, 0)", "0", "(vi + 1) % 8"])
def test_a_block_that_reads_what_other_iterations_write(primitive: str, row: str) -> None:
    with pytest.raises(ScheduleError, match="what block 'C' reads in another"):
        run(schedule(TWO.replace("ROW", row)), "C", 0, primitive)


@both
def test_a_block_that_reads_what_its_iteration_writes(primitive: str) -> None:
    run(schedule(TWO.replace("ROW", "vi")), "C", 0, primitive)


@both
def test_a_buffer_that_every_iteration_fills_is_its_own(primitive: str) -> None:
    """Neighbouring rows overlap; each iteration computes all three that it reads."""
    sch = schedule(
        """
for i, j in T.grid(10, 6):
    with T.block("P"):
        vi, vj = T.axis.remap("SS", [i, j])
        P[vi, vj] = T.if_then_else(1 <= vi and vi < 9, A[vi - 1, vj], 0.0)
for i, j in T.grid(8, 6):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = P[vi, vj] + P[vi + 1, vj] + P[vi + 2, vj]
""",
        "P = T.alloc_buffer((10, 6))\n",
    )
    loop = sch.get_loops("C")[0]
    sch.compute_at("P", loop)
    run(sch, "C", 0, primitive)


@both
def test_blocks_without_variables_count_as_well(primitive: str) -> None:
    text = """
for i, j in T.grid(8, 6):
    with T.block("B"):
        T.reads(A[i, j])
        T.writes(B[PLACE])
        B[PLACE] = A[i, j]
"""
    run(schedule(text.replace("PLACE", "i, j")), "B", 0, primitive)
    with pytest.raises(ScheduleError, match="may write to B"):
        run(schedule(text.replace("PLACE", "i // 2, j")), "B", 0, primitive)


@both
def test_stores_beside_blocks(primitive: str) -> None:
    sch = schedule(
        """
for i in range(8):
    C[0, 0] = A[i, 0]
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi, 0] = A[vi, 0]
"""
    )
    with pytest.raises(ScheduleError, match="stores that are in no block"):
        run(sch, "B", 0, primitive)


def test_a_loop_that_repeats_a_block() -> None:
    sch = schedule(
        """
for r, i, j in T.grid(3, 8, 6):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
"""
    )
    with pytest.raises(ScheduleError, match="may write to B"):
        sch.parallel(sch.get_loops("B")[0])


def test_a_loop_with_a_fused_split() -> None:
    sch = schedule(stored("vi, vj"))
    fused = sch.fuse(*sch.get_loops("B"))
    outer, inner = sch.split(fused, [None, 7])
    sch.parallel(outer)
    sch.vectorize(inner)


def test_thread_blocks_may_not_conflict() -> None:
    sch = schedule(stored("vi // 2, vj"))
    with pytest.raises(ScheduleError, match="bind: one iteration of loop 'i' may write to B"):
        sch.bind(sch.get_loops("B")[0], "blockIdx.x")
