"""compute_inline and reverse_compute_inline."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import te, tir
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run
from schedules import Schedule
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning

chain = kernels.chain(8, 8)


@T.prim_func
def inlined(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)


@T.prim_func
def affine(A: T.Buffer((16, 16), "float32"), C: T.Buffer((8, 4, 8), "float32")):
    B = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j, k in T.grid(8, 4, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            C[vi, vj, vk] = B[((vi * 4 + vj) * 8 + vk) // 16, ((vi * 4 + vj) * 8 + vk) % 16] + T.float32(1)


smaller_consumer = kernels.chain(8, 8, 7, 7)


def test_compute_inline() -> None:
    sch = Schedule(chain)
    sch.compute_inline(sch.get_block("B"))
    assert_program(sch, inlined)
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)


def test_compute_inline_into_several_loads() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), C: T.Buffer((4,), "float32"), D: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * T.float32(2)
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = B[vi] + B[7 - vi]
        for i in range(8):
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = B[vi]

    sch = Schedule(before)
    sch.compute_inline("B")
    assert_same_meaning(before, sch)
    assert len(sch.get_child_blocks(sch.get_block("root"))) == 2


def test_reverse_compute_inline() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)

    sch = Schedule(chain)
    sch.reverse_compute_inline(sch.get_block("C"))
    assert_program(sch, expected)
    assert_same_meaning(chain, sch)
    assert_replays(sch, chain)


def test_reverse_compute_inline_inverts_affine_reads() -> None:
    sch = Schedule(affine)
    sch.reverse_compute_inline("C")
    assert_same_meaning(affine, sch)
    assert_replays(sch, affine)


def test_reverse_compute_inline_guards_what_the_consumer_leaves_out() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32"), C: T.Buffer((7, 7), "float32")):
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                if vi < 7 and vj < 7:
                    C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)

    sch = Schedule(smaller_consumer)
    sch.reverse_compute_inline("C")
    assert_program(sch, expected)
    assert_same_meaning(smaller_consumer, sch)


@T.prim_func
def opaque_use(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(B[0:8, 0:8])
            T.writes(C[0:8, 0:8])
            T.evaluate(T.call_extern("int32", "f", B.data, C.data))


@T.prim_func
def reduction(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vj]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + T.float32(1)


def test_inline_refusals() -> None:
    sch = Schedule(chain)
    assert_refused(sch, lambda: sch.compute_inline("C"), "compute_inline", "'C'", "output")
    assert_refused(
        sch, lambda: sch.reverse_compute_inline("B"), "reverse_compute_inline", "'B'", "0 producers"
    )
    pointer = Schedule(opaque_use)
    assert_refused(pointer, lambda: pointer.compute_inline("B"), "pointer")
    reduce = Schedule(reduction)
    assert_refused(reduce, lambda: reduce.compute_inline("B"), "'B'")
    assert_refused(reduce, lambda: reduce.reverse_compute_inline("C"), "'B'", "not complete")


@settings(max_examples=20)
@given(st.data())
def test_random_inlining_keeps_the_meaning(data: st.DataObject) -> None:
    program = data.draw(st.sampled_from([chain, affine, smaller_consumer]))
    sch = Schedule(program)
    for name in data.draw(st.permutations(["B", "C"])):
        loops = sch.get_loops(name)
        if data.draw(st.booleans()):
            sch.split(loops[0], [None, data.draw(st.integers(1, 4))])
    if data.draw(st.booleans()):
        sch.compute_inline("B")
    else:
        from schedules import ScheduleError

        before = sch.mod.script()
        try:
            sch.reverse_compute_inline("C")
        except ScheduleError:
            assert sch.mod.script() == before
    assert_same_meaning(program, sch)
    assert_replays(sch, program)


def test_a_consumer_that_pads_is_not_merged_into_what_it_pads() -> None:
    sch = Schedule(kernels.padded())
    assert_refused(sch, lambda: sch.reverse_compute_inline("C"), "beside it for some iterations")
    sch.compute_inline("B")
    assert_same_meaning(kernels.padded(), sch)


def strided(step: int, first: int) -> object:
    """A consumer that reads every ``step``-th row, from ``first`` on."""

    @T.prim_func
    def func(A: T.Buffer((17, 8), "int32"), C: T.Buffer((5, 6), "int32")):
        B = T.alloc_buffer((17, 8), "int32")
        for i, j in T.grid(17, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2
        for i, j in T.grid(5, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi * step + first, vj + 2]

    return func


@pytest.mark.parametrize(("step", "first"), [(1, 0), (2, 0), (3, 0), (3, 2)])
def test_a_consumer_that_skips_elements_is_not_run_for_them(step: int, first: int) -> None:
    func = strided(step, first)
    sch = Schedule(func)
    sch.reverse_compute_inline(sch.get_block("C"))
    assert_same_meaning(func, sch)
    assert_replays(sch, func)


def test_inlining_into_a_block_that_stores_through_a_view() -> None:
    """What the block says that it writes is what the view is of."""

    @T.prim_func
    def program(A: T.Buffer((2, 6), "float32"), C: T.Buffer((2, 6), "float32")):
        B = T.alloc_buffer((2, 6), "float32")
        for i, j in T.grid(2, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for i in range(2):
            with T.block("C"):
                vi = T.axis.spatial(2, i)
                T.reads(B[vi, 0:6])
                T.writes(C[vi, 0:6])
                row = T.match_buffer(C[vi, 0:6], (6,), "float32", offset_factor=0)
                for j in range(6):
                    row[j] = B[vi, 5 - j]

    sch = Schedule(program)
    sch.compute_inline("B")
    (written,) = sch.get(sch.get_block("C")).writes
    assert written.buffer.name == "C" and [item.extent for item in written.region] == [1, 6]
    assert_same_meaning(program, sch)
    assert_refused(sch, lambda: sch.cache_write("C", 0, "global"), "row, a view of it")


def test_inlining_what_no_index_of_the_result_says() -> None:
    """A variable of one value may be left out of the indices; its value is what the consumer gets."""

    @T.prim_func
    def program(A: T.Buffer((1, 6), "float32"), C: T.Buffer((6,), "float32")):
        B = T.alloc_buffer((6,), "float32")
        for i, j in T.grid(1, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj] = A[vi, vj] + T.Cast("float32", vi)
        for j in range(6):
            with T.block("C"):
                vj = T.axis.spatial(6, j)
                C[vj] = B[vj]

    sch = Schedule(program)
    sch.compute_inline("B")
    assert_same_meaning(program, sch)
    assert_replays(sch, program)


@pytest.mark.parametrize("use", ["T.if_then_else(B[vi] < 0, 1, 2)", "A[T.max(B[vi] // 1000000000, 0)]"])
def test_what_wraps_in_a_buffer_wraps_inlined(use: str) -> None:
    """As an index or in a condition the stored expression would be one of numbers that do not wrap."""
    program = from_source(f"""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = vi * 1000000000
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = {use}
""")
    for step in (lambda sch: sch.compute_inline("B"), lambda sch: sch.reverse_compute_inline("C")):
        sch = Schedule(program)
        step(sch)
        assert_same_meaning(program, sch)


def test_an_index_that_cannot_wrap_is_inlined_as_it_is() -> None:
    program = from_source("""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = vi * 2
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[B[vi] + 1]
""")
    sch = Schedule(program)
    sch.compute_inline("B")
    assert "A[vi * 2 + 1]" in sch.mod.script()


def test_loads_of_some_lanes_are_not_inlined() -> None:
    program = from_source("""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + 1
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B.vload([vi], predicate=A[vi] > 0)
""")
    sch = Schedule(program)
    assert_refused(sch, lambda: sch.compute_inline("B"), "lanes of buffer B")


def test_a_block_that_uses_the_loops_around_it_is_not_inlined() -> None:
    program = from_source("""
@T.prim_func
def main(A: T.Buffer((3,), "int32"), C: T.Buffer((3,), "int32")):
    B = T.alloc_buffer((1,), "int32")
    for j in range(3):
        with T.block("B"):
            B[0] = A[j]
    for j in range(3):
        with T.block("C"):
            C[j] = B[0]
""")
    sch = Schedule(program)
    assert_refused(sch, lambda: sch.compute_inline("B"), "'B' uses loop 'j'")
    assert_refused(sch, lambda: sch.reverse_compute_inline("C"), "'C' uses loop 'j'")


def test_all_that_a_consumer_evaluates_is_inlined() -> None:
    """Bounds of loops and predicates of blocks in it load as well."""
    program = from_source("""
@T.prim_func
def main(I: T.Buffer((8,), "int32"), A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    M = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("M"):
            vi = T.axis.spatial(8, i)
            M[vi] = T.max(I[vi], 0) % 2
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = 0
            for k in range(M[vi] + 1):
                C[vi] = C[vi] + A[k]
""")
    sch = Schedule(program)
    sch.compute_inline("M")
    assert_same_meaning(program, sch)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_narrow_index_is_inlined_as_the_data_that_it_is(dtype: str) -> None:
    program = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "{dtype}"), D: T.Buffer((256,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "{dtype}")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.bitwise_and(A[vi], T.{dtype}(7)) * T.{dtype}(9)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = D[B[vi]]
""")
    for step in (lambda sch: sch.compute_inline("B"), lambda sch: sch.reverse_compute_inline("C")):
        sch = Schedule(program)
        step(sch)
        assert_same_meaning(program, sch)


_PRODUCERS = {
    "vectorized": ("for i in T.vectorized(16):", "16", "B[vi] = A[vi] + 1"),
    "backwards": ("for i in range(16):", "16", "B[15 - vi] = A[vi] + 1"),
    "vectors": (
        "for i in range(4):",
        "4",
        "B[T.Ramp(vi * 4, 1, 4)] = A[T.Ramp(vi * 4, 1, 4)] + T.Broadcast(1, 4)",
    ),
}


@pytest.mark.parametrize("producer", _PRODUCERS)
@pytest.mark.parametrize("index", ["vi", "vi // 2", "0"])
def test_a_consumer_runs_in_the_order_of_its_producer(producer: str, index: str) -> None:
    """Where several instances store to one element the last one counts, and none may where they run beside each other."""
    loop, extent, store = _PRODUCERS[producer]
    program = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    {loop}
        with T.block("B"):
            vi = T.axis.spatial({extent}, i)
            {store}
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[{index}] = B[vi] * 2
"""
    )
    sch = Schedule(program)
    if producer == "vectors":
        assert_refused(sch, lambda: sch.reverse_compute_inline("C"), "single elements")
    elif index == "vi":
        sch.reverse_compute_inline("C")
        assert_same_meaning(program, sch)
    else:
        assert_refused(sch, lambda: sch.reverse_compute_inline("C"), "to one element of C")


def test_a_load_that_is_data_and_index_at_once() -> None:
    """One object stands in both places: what wraps as data is marked where it is an index (rule ``[index-atom]``)."""
    a, d = te.placeholder((4,), "int32", "A"), te.placeholder((8,), "int32", "D")
    b = te.compute((4,), lambda i: a[i] * a[i], "B")

    def value(i: tir.Var) -> tir.PrimExpr:
        x = b[i]
        return x + d[tir.floormod(x, 7)]

    sch = Schedule(te.create_prim_func([a, d, te.compute((4,), value, "C")]))
    sch.compute_inline("B")
    arrays, found = (
        [np.array([3, 70000, -65537, 46341], "int32"), np.arange(8, dtype="int32") * 10],
        np.zeros(4, "int32"),
    )
    run(sch.mod["main"], *arrays, found)
    square = arrays[0] * arrays[0]
    np.testing.assert_array_equal(found, square + arrays[1][square % 7])


def test_a_producer_that_stores_at_a_widened_variable_is_inlined() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
        B = T.alloc_buffer((T.int64(8), T.int64(4)))
        for i, j in T.grid(8, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[T.Cast("int64", vi), T.Cast("int64", vj)] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(T.int64(8), T.int64(4)):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    sch = Schedule(before)
    sch.compute_inline("B")
    assert "B[" not in sch.mod.script()
    assert_same_meaning(before, sch)
    assert_replays(sch, before)


def test_a_producer_that_stores_at_a_narrowed_variable_is_not_inlined() -> None:
    """Several values of the variable would be one element."""

    @T.prim_func
    def before(A: T.Buffer((T.int64(8),), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(T.int64(8)):
            with T.block("B"):
                vi = T.axis.spatial(T.int64(8), i)
                B[T.Cast("int32", vi)] = A[vi] * T.float32(2)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi] + T.float32(1)

    sch = Schedule(before)
    assert_refused(sch, lambda: sch.compute_inline("B"), "inlining needs distinct iteration variables")
