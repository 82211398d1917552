"""reverse_compute_at: structure, what one iteration produces, order, refusals, meaning."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.script import tir as T
from schedules import Schedule, ScheduleError
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning

chain = kernels.chain()
stencil = kernels.stencil(16)
matmul_relu = kernels.matmul_relu(8, 8, 6)


@T.prim_func
def divided(X: T.Buffer((4, 4), "float32"), Y: T.Buffer((16,), "float32")):
    temp = T.alloc_buffer((4, 4))
    for i, j in T.grid(4, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            temp[vi, vj] = X[vj, vi] + T.float32(1)
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            Y[vi] = temp[vi // 4, vi % 4]


def test_reverse_compute_at_solves_divisions() -> None:
    @T.prim_func
    def expected(X: T.Buffer((4, 4), "float32"), Y: T.Buffer((16,), "float32")):
        temp = T.alloc_buffer((4, 4))
        for i in range(4):
            for j in range(4):
                with T.block("A"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    temp[vi, vj] = X[vj, vi] + T.float32(1)
            for ax0 in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(16, i * 4 + ax0)
                    Y[vi] = temp[vi // 4, vi % 4]

    sch = Schedule(divided)
    sch.reverse_compute_at("B", sch.get_loops("A")[0])
    assert_program(sch, expected)
    assert_same_meaning(divided, sch)
    assert_replays(sch, divided)


def test_reverse_compute_at_behind_a_tile() -> None:
    @T.prim_func
    def expected(
        A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 8), "float32"), D: T.Buffer((8, 8), "float32")
    ):
        C = T.alloc_buffer((8, 8))
        for i_0, j_0 in T.grid(2, 2):
            for i_1, j_1, k in T.grid(4, 4, 6):
                with T.block("C"):
                    vi = T.axis.spatial(8, i_0 * 4 + i_1)
                    vj = T.axis.spatial(8, j_0 * 4 + j_1)
                    vk = T.axis.reduce(6, k)
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
            for ax0, ax1 in T.grid(4, 4):
                with T.block("D"):
                    vi = T.axis.spatial(8, i_0 * 4 + ax0)
                    vj = T.axis.spatial(8, j_0 * 4 + ax1)
                    D[vi, vj] = T.max(C[vi, vj], T.float32(0))

    sch = Schedule(matmul_relu)
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, j1, k)
    sch.reverse_compute_at("D", j0)
    assert_program(sch, expected)
    assert_same_meaning(matmul_relu, sch)
    assert_replays(sch, matmul_relu)


def test_reverse_compute_at_refusals() -> None:
    reduce_first = Schedule(matmul_relu)
    loops = reduce_first.get_loops("C")
    reduce_first.reorder(loops[2], loops[0], loops[1])
    assert_refused(
        reduce_first, lambda: reduce_first.reverse_compute_at("D", loops[0]), "'vk'", "not finished"
    )
    halo = Schedule(stencil)
    assert_refused(halo, lambda: halo.reverse_compute_at("C", halo.get_loops("B")[0]), "only", "produced")


def test_reverse_compute_at_waits_for_every_column_that_is_read() -> None:
    @T.prim_func
    def program(A: T.Buffer((8, 2), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8, 2))
        for i, j in T.grid(8, 2):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi, 0] - B[vi, 1]

    sch = Schedule(program)
    rows, columns = sch.get_loops("B")
    assert_refused(sch, lambda: sch.reverse_compute_at("C", columns), "only [j, j + 1) is produced")
    sch.reverse_compute_at("C", rows)
    assert_same_meaning(program, sch)


def test_reverse_compute_at_keeps_reductions_whole() -> None:
    """Under a loop of the rows a sum over all rows would begin again, or go on before its init, with every row."""

    @T.prim_func
    def program(A: T.Buffer((16, 4), "int32"), C: T.Buffer((4,), "int32")):
        B = T.alloc_buffer((16, 4), "int32")
        for i, j in T.grid(16, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2
        for j, i in T.grid(4, 16):
            with T.block("C"):
                vj, vi = T.axis.remap("SR", [j, i])
                with T.init():
                    C[vj] = 0
                C[vj] = C[vj] + B[vi, vj]

    sch = Schedule(program)
    assert_refused(sch, lambda: sch.reverse_compute_at("C", sch.get_loops("B")[0]), "'C'", "reduces over")


def test_reverse_compute_at_of_a_block_without_producers() -> None:
    sch = Schedule(chain)
    sch.reverse_compute_at("B", sch.get_loops("C")[0])
    assert [sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_loops("C")[0])] == ["B", "C"]
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)


def test_fused_producers_finish_what_a_consumer_reads_by_digits() -> None:
    @T.prim_func
    def flat(A: T.Buffer((32,), "float32"), C: T.Buffer((4, 8), "float32")):
        B = T.alloc_buffer((32,))
        for i in range(32):
            with T.block("B"):
                vi = T.axis.spatial(32, i)
                B[vi] = A[vi] + T.float32(1)
        for i, j in T.grid(4, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi * 8 + vj] * T.float32(2)

    for factor, extents in ((16, [2, 2, 8]), (4, [8, 4]), (1, [32])):
        sch = Schedule(flat)
        outer, _ = sch.split(sch.get_loops("B")[0], [None, factor])
        sch.reverse_compute_at("C", outer)
        assert [sch.get(loop).extent.value for loop in sch.get_loops("C")] == extents
        assert_same_meaning(flat, sch)
        assert_replays(sch, flat)


def test_iterations_that_read_nothing_of_the_producer_are_not_lost() -> None:
    sch = Schedule(kernels.padded())
    refused = "reads nothing of what its producers write"
    assert_refused(sch, lambda: sch.reverse_compute_at("C", sch.get_loops("B")[0]), refused)


def test_iterations_that_produce_nothing_have_no_consumer() -> None:
    """What they would read was produced by another one, and may lie in memory that begins with every iteration."""
    program = kernels.chain(1, 3)
    sch = Schedule(program)
    outer, _ = sch.split(sch.get_loops("B")[0], [2, None])
    sch.reverse_compute_at("C", outer)
    assert "T.where(i_0 < 1)" in sch.mod.script()[sch.mod.script().index('T.block("C")') :]
    assert_same_meaning(program, sch)


ROWS = """@T.prim_func
def main(A: T.Buffer((3, 4), "int32"), D: T.Buffer((3, 4), "int32")):
    B = T.alloc_buffer((3, 4), "int32")
    C = T.alloc_buffer((4,), "int32")
    K = T.alloc_buffer((1,), "int32")
    for i in range(3):
        for j in range(4):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
{}
    for i, j in T.grid(3, 4):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vj] + B[vi, vj]
"""
WRITERS = {
    "each row": """
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vj] = A[vi, vj]
""",
    "each row, of what another block changes": """
        with T.block("K"):
            vi = T.axis.spatial(3, i)
            K[0] = A[vi, 0]
        for j in range(4):
            with T.block("C"):
                vj = T.axis.spatial(4, j)
                C[vj] = K[0]
""",
    "two blocks": """
        for j in range(4):
            with T.block("C"):
                vj = T.axis.spatial(4, j)
                C[vj] = A[0, vj]
        with T.block("C2"):
            vi = T.axis.spatial(3, i)
            C[vi] = A[2, vi]
""",
    "the last row": """
        if i == 2:
            for j in range(4):
                with T.block("C"):
                    vj = T.axis.spatial(4, j)
                    C[vj] = A[0, vj]
""",
}


@pytest.mark.parametrize("writer", list(WRITERS))
def test_a_consumer_reads_what_the_last_iteration_leaves(writer: str) -> None:
    """That of the first ones is overwritten later, or not there yet."""
    sch = Schedule(from_source(ROWS.format(WRITERS[writer])), error_render_level="none")
    place = sch.get_loops("S")[0]
    assert_refused(sch, lambda: sch.reverse_compute_at("E", place), "reverse_compute_at", "overwrite")


def test_a_consumer_reads_what_the_last_iteration_leaves_in_the_same_loops() -> None:
    program = from_source(
        """@T.prim_func
def main(A: T.Buffer((3, 4), "int32"), D: T.Buffer((3, 4), "int32")):
    B = T.alloc_buffer((3, 4), "int32")
    C = T.alloc_buffer((4,), "int32")
    for i, j in T.grid(3, 4):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj] = A[vi, vj]
    for i, j in T.grid(3, 4):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vj] + B[vi, vj]
"""
    )
    sch = Schedule(program, error_render_level="none")
    for place in sch.get_loops("S"):
        assert_refused(sch, lambda at=place: sch.reverse_compute_at("E", at), "loop 'i' may overwrite")


def test_a_consumer_need_not_wait_for_the_same_values() -> None:
    writer = """
        for j in range(4):
            with T.block("C"):
                vj = T.axis.spatial(4, j)
                C[vj] = A[0, vj]
"""
    program = from_source(ROWS.format(writer))
    sch = Schedule(program)
    sch.reverse_compute_at("E", sch.get_loops("S")[0])
    assert_same_meaning(program, sch)


FLAT = """
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((24,), "int32")):
    B = T.alloc_buffer((24,), "int32")
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * 6 + vj] = A[vi, vj]
    for k in range(24):
        with T.block("C"):
            vk = T.axis.spatial(24, k)
            C[vk] = B[vk]
"""


@pytest.mark.meaning("unwritten")
@pytest.mark.parametrize("outer", [2, 3])
@pytest.mark.parametrize("at", range(3))
def test_what_an_uneven_split_leaves_to_another_iteration_is_not_consumed(outer: int, at: int) -> None:
    sch = Schedule(from_source(FLAT), error_render_level="none")
    i, j = sch.get_loops("B")
    loops = [*sch.split(i, [None, outer]), *sch.split(j, [None, 4])]
    assert_refused(sch, lambda: sch.reverse_compute_at("C", loops[at]), "runs only where")


@pytest.mark.parametrize("at", [0, 1])
def test_rows_of_a_flat_index_that_are_whole_are_consumed(at: int) -> None:
    program = from_source(FLAT)
    sch = Schedule(program)
    loops = sch.split(sch.get_loops("B")[0], [None, 3])
    sch.reverse_compute_at("C", loops[at])
    assert_same_meaning(program, sch)


HALVES = """
@T.prim_func
def main(A: T.Buffer((6,), "int32"), C: T.Buffer((12,), "int32")):
    B = T.alloc_buffer((12,), "int32")
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[FIRST] = A[vi]
        with T.block("other"):
            vi = T.axis.spatial(6, i)
            B[SECOND] = A[vi] + 1
    for k in range(12):
        with T.block("C"):
            vk = T.axis.spatial(12, k)
            C[vk] = B[vk]
"""


@pytest.mark.meaning("unwritten")
def test_what_is_between_the_boxes_of_two_producers_is_not_consumed() -> None:
    program = from_source(HALVES.replace("FIRST", "vi").replace("SECOND", "vi + 6"))
    sch = Schedule(program, error_render_level="none")
    assert_refused(sch, lambda: sch.reverse_compute_at("C", sch.get_loops("B")[0]), "not known to be one box")


def test_adjacent_boxes_of_two_producers_are_consumed() -> None:
    program = from_source(HALVES.replace("FIRST", "vi * 2").replace("SECOND", "vi * 2 + 1"))
    sch = Schedule(program)
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    assert_same_meaning(program, sch)


ONE_IN_THREE = """@T.prim_func
def main(C: T.Buffer((10,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(4):
        for j in range(1):
            with T.block("P"):
                vi = T.axis.spatial(4, i)
                B[vi * 3] = vi
        for j in range(1):
            with T.block("Q"):
                vi = T.axis.spatial(4, i)
                B[vi * 3 + SECOND] = vi + 10
        for j in range(1):
            with T.block("R"):
                vi = T.axis.spatial(4, i)
                B[vi * 3 + THIRD] = vi + 20
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = B[vi + 2]
"""


@pytest.mark.parametrize(("second", "third", "is_box"), [(1, 2, True), (2, 4, False)])
def test_what_lies_between_the_elements_of_producers_comes_from_other_iterations(
    second: int, third: int, is_box: bool
) -> None:
    text = ONE_IN_THREE.replace("SECOND", str(second)).replace("THIRD", str(third))
    sch = Schedule(from_source(text), error_render_level="none")
    before = sch.mod["main"]
    if is_box:
        sch.reverse_compute_at("C", sch.get_loops("P")[0])
        assert_same_meaning(before, sch)
    else:
        with pytest.raises(ScheduleError, match="is not known to be one box"):
            sch.reverse_compute_at("C", sch.get_loops("P")[0])


@pytest.mark.parametrize("at", [0, 1])
def test_a_guarded_row_of_a_flat_index_does_not_reach_into_the_next_one(at: int) -> None:
    """Beyond the guard lies what another row produces later, whose loop stands still."""
    sch = Schedule(
        from_source("""@T.prim_func
def main(A: T.Buffer((6,), "int32"), C: T.Buffer((6,), "int32")):
    B = T.alloc_buffer((6,), "int32")
    for t, i, j in T.grid(2, 2, 2):
        with T.block("B"):
            vt = T.axis.spatial(2, t)
            vi = T.axis.spatial(3, i * 2 + j)
            T.where(i * 2 + j < 3)
            B[vt * 3 + vi] = A[vt * 3 + vi]
    for k in range(6):
        with T.block("C"):
            vk = T.axis.spatial(6, k)
            C[vk] = B[vk]
"""),
        error_render_level="none",
    )
    with pytest.raises(ScheduleError, match="runs only where"):
        sch.reverse_compute_at("C", sch.get_loops("B")[at])


def test_what_cannot_go_where_its_instances_are_one_stays_where_it_was() -> None:
    """Each iteration of the loops of one element rewrites it for all of D; the refusal came when the block had left its place."""
    sch = Schedule(
        from_source("""@T.prim_func
def main(A: T.Buffer((6,), "int32"), D: T.Buffer((3,), "int32")):
    G = T.alloc_buffer((3,), "int32")
    for i in range(3):
        for j in range(3):
            with T.block("G"):
                vi, vj = T.axis.remap("SS", [i, j])
                G[vj] = A[vi + vj]
        for j in range(3):
            with T.block("D"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    D[vi] = 0
                D[vi] = D[vi] * 2 + G[vj]
""")
    )
    sch.split(sch.get_loops("G")[0], [None, 1])
    loop = sch.get_loops("D")[-1]
    assert_refused(
        sch,
        lambda: sch.reverse_compute_at("G", loop),
        "reverse_compute_at",
        "more values of 'vi' than the loops",
    )


@pytest.mark.meaning("unwritten")
def test_iterations_that_produce_what_lies_before_the_domain_have_no_consumer() -> None:
    """The first half of B is read by nobody: in that iteration the consumer would find the other half unwritten."""
    program = from_source("""@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i, j in T.grid(2, 4):
        with T.block("B"):
            v = T.axis.spatial(8, i * 4 + j)
            B[v] = A[v]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial((4, 8), i + 4)
            C[v] = B[v]
""")
    sch = Schedule(program)
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    assert_same_meaning(program, sch)


def test_a_producer_whose_predicate_leaves_out_iterations_of_its_reduction() -> None:
    @T.prim_func
    def expected(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6,), "float32")):
        B_rf = T.alloc_buffer((6, 4))
        for i in range(6):
            for k_0, k_1 in T.grid(3, 4):
                with T.block("B_rf"):
                    vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
                    T.where(k_0 * 4 + k_1 < 10)
                    with T.init():
                        B_rf[vi, vk_1] = T.float32(0)
                    B_rf[vi, vk_1] = B_rf[vi, vk_1] + A[vi, vk_0 * 4 + vk_1]
            for ax0 in range(4):
                with T.block("B"):
                    vk_1, vi = T.axis.remap("RS", [ax0, i])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + B_rf[vi, vk_1]

    sums = kernels.row_sum(6, 10)
    sch = Schedule(sums)
    _, inner = sch.split(sch.get_loops("B")[-1], [None, 4])
    parts = sch.rfactor(inner, 1)
    sch.reverse_compute_at("B", sch.get_loops(parts)[0])
    assert_program(sch, expected)
    assert_same_meaning(sums, sch)
    assert_replays(sch, sums)


@settings(max_examples=30)
@given(rows=st.integers(1, 5), columns=st.integers(1, 13), width=st.integers(1, 8), data=st.data())
def test_random_parts_of_a_reduction_meet_their_sum(
    rows: int, columns: int, width: int, data: st.DataObject
) -> None:
    sums = kernels.row_sum(rows, columns)
    sch = Schedule(sums)
    if data.draw(st.booleans()):
        sch.split(sch.get_loops("B")[0], [None, data.draw(st.integers(1, 4))])
    outer, inner = sch.split(sch.get_loops("B")[-1], [None, width])
    try:
        parts = sch.rfactor(data.draw(st.sampled_from([outer, inner])), data.draw(st.integers(0, 1)))
        loops = sch.get_loops(parts)
        sch.reverse_compute_at("B", loops[data.draw(st.integers(0, len(loops) - 1))])
    except ScheduleError:
        pass  # parts without a first iteration, or a loop that reduces; what was done before is kept
    assert_same_meaning(sums, sch)
    assert_replays(sch, sums)
