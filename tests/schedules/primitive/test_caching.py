"""cache_read, cache_write, reindex and its cached forms; random sequences of all that copies."""

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


@T.prim_func
def multi_consumer(B: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
    A = T.alloc_buffer((32,))
    for i in range(8):
        for j in range(4):
            with T.block("A"):
                vi = T.axis.spatial(32, i * 4 + j)
                A[vi] = T.float32(1)
        for j in range(4):
            with T.block("B"):
                vi = T.axis.spatial(32, i * 4 + j)
                B[vi] = A[vi] + T.float32(1)
    for i in range(32):
        with T.block("C"):
            vi = T.axis.spatial(32, i)
            C[vi] = A[vi]


matmul = kernels.matmul(6, 7, 5)


@T.prim_func
def transpose(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * T.float32(2)


def test_cache_read_of_an_input_and_of_an_intermediate() -> None:
    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        B = T.alloc_buffer((16, 16))
        A_global = T.alloc_buffer((16, 16))
        B_local = T.alloc_buffer((16, 16), scope="local")
        for ax0, ax1 in T.grid(16, 16):
            with T.block("A_global"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_global[v0, v1] = A[v0, v1]
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A_global[vi, vj] * T.float32(2)
        for ax0, ax1 in T.grid(16, 16):
            with T.block("B_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B_local[v0, v1] = B[v0, v1]
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B_local[vi, vj] + T.float32(1)

    sch = Schedule(chain)
    copy = sch.cache_read(sch.get_block("B"), 0, "global")
    assert sch.get(copy).name_hint == "A_global"
    assert sch.get(sch.cache_read("C", 0, "local")).name_hint == "B_local"
    assert_program(sch, expected)
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)


def test_cache_read_lies_between_the_writer_and_its_first_reader() -> None:
    @T.prim_func
    def expected(B: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
        A = T.alloc_buffer((32,))
        A_global = T.alloc_buffer((32,))
        for i in range(8):
            for j in range(4):
                with T.block("A"):
                    vi = T.axis.spatial(32, i * 4 + j)
                    A[vi] = T.float32(1)
            for ax0 in range(4):
                with T.block("A_global"):
                    v0 = T.axis.spatial(32, i * 4 + ax0)
                    A_global[v0] = A[v0]
            for j in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(32, i * 4 + j)
                    B[vi] = A_global[vi] + T.float32(1)
        for i in range(32):
            with T.block("C"):
                vi = T.axis.spatial(32, i)
                C[vi] = A_global[vi]

    sch = Schedule(multi_consumer)
    sch.cache_read("B", 0, "global")
    assert_program(sch, expected)
    assert_same_meaning(multi_consumer, sch)
    chosen = Schedule(multi_consumer)
    chosen.cache_read("B", "A", "global", [chosen.get_block("C")])
    (read,) = chosen.get(chosen.get_block("B")).reads
    assert read.buffer.name == "A"  # only the consumer asked for reads the copy
    assert_same_meaning(multi_consumer, chosen)
    assert_replays(chosen, multi_consumer)


def test_cache_write() -> None:
    @T.prim_func
    def expected(
        A: T.Buffer((6, 5), "float32"), B: T.Buffer((5, 7), "float32"), C: T.Buffer((6, 7), "float32")
    ):
        C_local = T.alloc_buffer((6, 7), scope="local")
        for i, j, k in T.grid(6, 7, 5):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C_local[vi, vj] = T.float32(0)
                C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * B[vk, vj]
        for ax0, ax1 in T.grid(6, 7):
            with T.block("C_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                C[v0, v1] = C_local[v0, v1]

    sch = Schedule(matmul)
    sch.cache_write("C", 0, "local")
    assert_program(sch, expected)
    assert_same_meaning(matmul, sch)
    assert_replays(sch, matmul)


def test_cache_refusals() -> None:
    sch = Schedule(chain)
    block = sch.get_block("B")
    assert_refused(sch, lambda: sch.cache_read(block, 1, "local"), "cache_read", "'B'", "no read buffer 1")
    assert_refused(sch, lambda: sch.cache_write(block, 1, "local"), "cache_write", "'B'", "no write buffer 1")
    assert_refused(sch, lambda: sch.cache_read(block, "X", "local"), "'B'", "'X'")
    root = sch.get_block("root")
    assert_refused(sch, lambda: sch.cache_read(root, 0, "local"), "root")
    split = Schedule(matmul)
    split.decompose_reduction("C", split.get_loops("C")[0])
    assert_refused(split, lambda: split.cache_write("C_update", 0, "local"), "2 blocks")


def test_reindex_of_input_and_output() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4, 8), "float32")):
        A_reindex = T.alloc_buffer((4, 8))
        B_reindex = T.alloc_buffer((4, 8))
        for ax0, ax1 in T.grid(4, 8):
            with T.block("A_reindex"):
                vi, vj = T.axis.remap("SS", [ax0, ax1])
                A_reindex[vi, vj] = A[vj, vi]
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_reindex[vi, vj] = A_reindex[vi, vj] * T.float32(2)
        for ax0, ax1 in T.grid(4, 8):
            with T.block("B_reindex"):
                vi, vj = T.axis.remap("SS", [ax0, ax1])
                B[vi, vj] = B_reindex[vi, vj]

    sch = Schedule(transpose)
    sch.reindex("B", ("read", 0))
    sch.reindex("B", ("write", 0))
    assert_program(sch, expected)
    assert_same_meaning(transpose, sch)
    assert_replays(sch, transpose)
    assert_refused(sch, lambda: sch.reindex("B", ("read", 3)), "'B'", "no buffer 3")


def test_reindex_leaves_out_variables_that_do_not_index() -> None:
    sch = Schedule(matmul)
    copy = sch.get(sch.reindex("C", "A"))
    assert copy.name_hint == "A_reindex_reindex"
    assert [item.var.name for item in copy.iter_vars] == ["v0", "v1"]
    assert [int(item.value) for item in copy.writes[0].buffer.shape] == [6, 5]
    assert_same_meaning(matmul, sch)


def test_reindex_cache_read_and_write() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4, 8), "float32")):
        A_shared = T.alloc_buffer((8, 4), scope="shared")
        for ax0, ax1 in T.grid(4, 8):
            with T.block("A_shared"):
                vi, vj = T.axis.remap("SS", [ax0, ax1])
                A_shared[vj, vi] = A[vj, vi]
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A_shared[vj, vi] * T.float32(2)

    sch = Schedule(transpose)
    sch.reindex_cache_read("B", 0, "shared", lambda i, j: (j, i))
    assert_program(sch, expected)
    sch.reindex_cache_write("B", 0, "local", lambda i, j: (i // 2, j, i % 2))
    assert_same_meaning(transpose, sch)
    assert_replays(sch, transpose)
    other = Schedule(matmul)
    assert_refused(
        other,
        lambda: other.reindex_cache_read("C", 0, "local", lambda i, j, k: (i, j)),
        "reindex_cache_read",
        "'C'",
    )
    assert_refused(other, lambda: other.reindex_cache_read("C", 0, "local", lambda i, j: (i, j)), "2 indices")


@T.prim_func
def tiles(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(2, 2):
        with T.block("tile"):
            ti, tj = T.axis.remap("SS", [i, j])
            for x, y in T.grid(4, 4):
                with T.block("B"):
                    vi = T.axis.spatial(8, ti * 4 + x)
                    vj = T.axis.spatial(8, tj * 4 + y)
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for x, y in T.grid(4, 4):
                with T.block("C"):
                    vi = T.axis.spatial(8, ti * 4 + x)
                    vj = T.axis.spatial(8, tj * 4 + y)
                    C[vi, vj] = B[vi, vj] + T.float32(1)


def test_copies_inside_of_a_block_hold_what_the_block_touches() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        B = T.alloc_buffer((8, 8))
        for i, j in T.grid(2, 2):
            with T.block("tile"):
                ti, tj = T.axis.remap("SS", [i, j])
                B_local = T.alloc_buffer((4, 4), scope="local")
                C_shared = T.alloc_buffer((4, 4), scope="shared")
                for x, y in T.grid(4, 4):
                    with T.block("B"):
                        vi = T.axis.spatial(8, ti * 4 + x)
                        vj = T.axis.spatial(8, tj * 4 + y)
                        B[vi, vj] = A[vi, vj] * T.float32(2)
                for x, y in T.grid(4, 4):
                    with T.block("B_local"):
                        v0, v1 = T.axis.remap("SS", [x, y])
                        B_local[v0, v1] = B[ti * 4 + v0, tj * 4 + v1]
                for x, y in T.grid(4, 4):
                    with T.block("C"):
                        vi = T.axis.spatial(8, ti * 4 + x)
                        vj = T.axis.spatial(8, tj * 4 + y)
                        C_shared[vi - ti * 4, vj - tj * 4] = B_local[vi - ti * 4, vj - tj * 4] + T.float32(1)
                for x, y in T.grid(4, 4):
                    with T.block("C_shared"):
                        v0, v1 = T.axis.remap("SS", [x, y])
                        C[ti * 4 + v0, tj * 4 + v1] = C_shared[v0, v1]

    sch = Schedule(tiles)
    sch.cache_read("C", 0, "local")
    sch.cache_write("C", 0, "shared")
    assert_program(sch, expected)
    sch.cache_write("B", 0, "local")
    assert_same_meaning(tiles, sch)
    assert_replays(sch, tiles)


def test_a_block_that_writes_before_it_reads_can_write_to_a_copy() -> None:
    sch = Schedule(tiles)
    sch.cache_write("tile", 0, "global")
    assert_same_meaning(tiles, sch)
    assert_replays(sch, tiles)


def test_storage_scopes_are_known_ones() -> None:
    sch = Schedule(matmul)
    assert sch.get(sch.cache_read("C", 0, "shared.dyn")).writes[0].buffer.name == "A_shared.dyn"
    assert_refused(sch, lambda: sch.cache_read("C", 0, "pocket"), "cache_read", "'pocket'")
    assert_refused(sch, lambda: sch.cache_write("C", 0, "pocket"), "cache_write", "'pocket'")
    assert_refused(sch, lambda: sch.set_scope("A_shared.dyn", 0, "pocket"), "set_scope", "'pocket'")


@settings(max_examples=20)
@given(st.data())
def test_random_caching_keeps_the_meaning(data: st.DataObject) -> None:
    program = data.draw(st.sampled_from([chain, multi_consumer, matmul, transpose]))
    sch = Schedule(program)
    names = [sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_block("root"))]
    for _ in range(data.draw(st.integers(1, 3))):
        block = data.draw(st.sampled_from(names))
        loops = sch.get_loops(block)
        kind = data.draw(st.sampled_from(["read", "write", "split", "reindex", "read_at", "write_at"]))
        before = sch.mod.script()
        try:
            if kind == "read":
                sch.cache_read(block, 0, "global")
            elif kind == "write":
                sch.cache_write(block, 0, "global")
            elif kind == "reindex":
                sch.reindex(block, (data.draw(st.sampled_from(["read", "write"])), 0))
            elif kind == "split":
                sch.split(loops[0], [None, data.draw(st.integers(1, 4))])
            else:
                loop = loops[data.draw(st.integers(0, len(loops) - 1))]
                (sch.read_at if kind == "read_at" else sch.write_at)(loop, block, 0, "global")
        except ScheduleError:
            assert sch.mod.script() == before
    assert_same_meaning(program, sch)


def test_reindex_of_a_triangle_copies_the_loops_that_bound_others() -> None:
    program = kernels.triangle(5)
    sch = Schedule(program)
    sch.reindex_cache_read("B", 0, "global", lambda i, j: (j, i))
    assert_same_meaning(program, sch)


def test_reindex_keeps_the_guard_of_loops_of_which_some_are_gone() -> None:
    program = kernels.copy(2)
    sch = Schedule(program)
    _, unit = sch.split(sch.get_loops("B")[0], [3, None], False)
    sch.split(unit, [None, 3], False)
    sch.reindex_cache_read("B", 0, "global", lambda i: (i,))
    assert_same_meaning(program, sch)


def test_a_result_that_goes_on_with_what_was_there_is_not_reindexed() -> None:
    @T.prim_func
    def update(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = A[vi] + T.float32(1)

    sch = Schedule(update)
    assert_refused(sch, lambda: sch.reindex("A", ("write", 0)), "held before")


def test_copies_say_that_they_read_their_indices() -> None:
    @T.prim_func
    def gather(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), C: T.Buffer((8,), "float32")):
        P = T.alloc_buffer((8,), "int32")
        for i in range(8):
            with T.block("P"):
                vi = T.axis.spatial(8, i)
                P[vi] = I[vi]
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[P[vi]]

    sch = Schedule(gather)
    copy = sch.reindex_cache_read("C", 0, "global", lambda i: (i,))
    assert "P" in {region.buffer.name for region in sch.get(copy).reads}


@pytest.mark.parametrize("is_write", [False, True])
def test_a_window_does_not_use_loops_outside_of_the_block_that_it_is_in(is_write: bool) -> None:
    """Its block, and those that use it, would have to bind them."""
    program = from_source("""
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((5, 8), "int32")):
    for i in range(5):
        with T.block("outer"):
            for j in range(8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi % 4, vj]
""")
    sch = Schedule(program)
    sch.cache_write("C", 0, "global") if is_write else sch.cache_read("C", 0, "global")
    sch.split(sch.get_loops("outer")[0], [None, 5])
    from_source(sch.mod.script())
    assert_same_meaning(program, sch)


@pytest.mark.parametrize("width", [3, 4])
def test_a_copy_of_a_window_that_begins_before_its_buffer_can_be_copied(width: int) -> None:
    """Its guard keeps to the buffer, and no more: where the loops are even, too, of which an analyzer divided one of the two alike by 2."""
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((8, 9), "int32"), C: T.Buffer((8, 10), "int32")):
    B = T.alloc_buffer((8, 9), "int32")
    for i, j in T.grid(8, 9):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for x in range(5):
        for i, j, k in T.grid(8, 2, {width - 1}):
            with T.block("C"):
                vi, vj, vk = T.axis.spatial(8, i), T.axis.spatial(10, x * 2 + j), T.axis.reduce({width - 1}, k)
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + T.if_then_else(
                    2 <= vj + vk and vj + vk < 11, B[vi, vj + vk - 2], 0
                )
""")
    sch = Schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.fuse(*sch.get_loops("B")[1:])
    sch.cache_read("C", 0, "global")
    assert_same_meaning(func, sch)
