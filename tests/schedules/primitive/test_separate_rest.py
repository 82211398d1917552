"""separate_rest: structure, replay, numbers, refusals; and what two blocks may do that write parts of one output."""

from __future__ import annotations

import pytest

from ir import te
from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.analysis import why_not_complete
from schedules.block_facts import node_of
from tests.programs.products import dense

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning


@T.prim_func
def sums(A: T.Buffer((10, 4), "int32"), C: T.Buffer((10,), "int32")):
    for i, k in T.grid(10, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func
def separated(A: T.Buffer((10, 4), "int32"), C: T.Buffer((10,), "int32")):
    first = T.alloc_buffer((8,), "int32")
    rest = T.alloc_buffer((2,), "int32")
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                first[vi] = 0
            first[vi] = first[vi] + A[vi, vk]
    for i, k in T.grid(2, 4):
        with T.block("C_rest"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                rest[vi] = 0
            rest[vi] = rest[vi] + A[vi + 8, vk]
    for i in range(8):
        with T.block("C_placed"):
            vi = T.axis.spatial(8, i)
            C[vi] = first[vi]
    for i in range(2):
        with T.block("C_rest_placed"):
            vi = T.axis.spatial(2, i)
            C[vi + 8] = rest[vi]


def test_the_last_iterations_are_a_block_of_their_own() -> None:
    sch = Schedule(sums)
    rest = sch.separate_rest(sch.get_loops("C")[0], 2)
    assert sch.get(rest).name_hint == "C_rest"
    assert_program(sch, separated)
    assert_replays(sch, sums)
    assert_same_meaning(sums, sch)


@pytest.mark.parametrize("position", [0, 1])
def test_any_dimension_of_the_result_may_be_cut(position: int) -> None:
    func = dense((6, 5, 3), "int32", "int32")
    sch = Schedule(func)
    sch.separate_rest(sch.get_loops("z")[position], 4)
    assert_replays(sch, func)
    assert_same_meaning(func, sch)


def test_both_parts_are_scheduled_as_if_they_were_alone() -> None:
    """Although both write the output: tiled, in parts of the sum, with the copies computed where results are."""
    func = dense((12, 6, 8), "int32", "int32")
    sch = Schedule(func)
    rest = sch.separate_rest(sch.get_loops("z")[0], 4)
    (placed,) = sch.get_consumers(rest)
    outer, _ = sch.split(sch.get_loops(rest)[2], [2, None])
    sch.rfactor(outer, 0)
    sch.compute_at(rest, sch.get_loops(placed)[-1])
    copy = sch.cache_write("z", 0, "local")
    sch.reverse_compute_inline("z_placed")
    outer, _ = sch.split(sch.get_loops("z")[0], [None, 4])
    sch.reverse_compute_at(copy, outer)
    sch.bind(sch.get_loops("z")[0], "blockIdx.x")
    sch.bind(sch.get_loops(placed)[0], "blockIdx.x")
    assert_replays(sch, func)
    assert_same_meaning(func, sch)


@T.prim_func
def read_again(A: T.Buffer((10, 4), "int32"), D: T.Buffer((10,), "int32")):
    C = T.alloc_buffer((10,), "int32")
    for i, k in T.grid(10, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
    for i in range(10):
        with T.block("D"):
            vi = T.axis.spatial(10, i)
            D[vi] = C[vi] + 1


def test_of_what_is_read_no_part_stands_for_all() -> None:
    sch = Schedule(read_again)
    sch.separate_rest(sch.get_loops("C")[0], 2)
    assert_same_meaning(read_again, sch)
    assert_refused(sch, lambda: sch.compute_inline("C_placed"), "another block writes")


OVERLAPPING = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((9,), "int32")):
    for i in range(5):
        with T.block("first"):
            vi = T.axis.spatial(5, i)
            B[vi] = A[vi]
    for i in range(4):
        with T.block("second"):
            vi = T.axis.spatial(4, i)
            B[vi + {begin}] = A[vi] + 1
"""


@pytest.mark.parametrize(("begin", "are_apart"), [(5, True), (4, False)])
def test_parts_of_an_output_must_not_overlap(begin: int, are_apart: bool) -> None:
    sch = Schedule(from_source(OVERLAPPING.format(begin=begin)))
    for name in ("first", "second"):
        reason = why_not_complete(node_of(sch, sch.get_block(name)))
        assert reason == (None if are_apart else "another block writes one of its outputs")


@pytest.mark.parametrize("extent", [0, 10, -1])
def test_both_parts_have_iterations(extent: int) -> None:
    sch = Schedule(sums)
    loop = sch.get_loops("C")[0]
    assert_refused(
        sch, lambda: sch.separate_rest(loop, extent), "separate_rest", "between 1 and 9", str(extent)
    )


def test_the_axis_of_the_sum_is_no_part_of_the_result() -> None:
    sch = Schedule(sums)
    loop = sch.get_loops("C")[1]
    assert_refused(sch, lambda: sch.separate_rest(loop, 2), "goes along no dimension of the result")


def diagonal() -> PrimFunc:
    x = te.placeholder((8, 4), "int32", name="x")
    k = te.reduce_axis((0, 4), "k")
    return te.create_prim_func([x, te.compute((8,), lambda i: te.sum(x[i, k], axis=k), name="y")])


@T.prim_func
def on_the_diagonal(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8, 8), "int32")):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi, vi] = 0
            C[vi, vi] = C[vi, vi] + A[vi, vk]


def test_each_dimension_of_the_result_has_its_own_variable() -> None:
    """Parts would be copied whole, with what nobody computed beside the diagonal."""
    sch = Schedule(on_the_diagonal)
    loop = sch.get_loops("C")[0]
    assert_refused(sch, lambda: sch.separate_rest(loop, 3), "each dimension must be at a variable of its own")


@T.prim_func
def counted_from_its_row(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + T.if_then_else(vk < vi % 4, A[7 - vi, vk] * vi, vk)


def test_conditions_and_reads_move_with_the_rows() -> None:
    sch = Schedule(counted_from_its_row)
    sch.separate_rest(sch.get_loops("C")[0], 3)
    assert_replays(sch, counted_from_its_row)
    assert_same_meaning(counted_from_its_row, sch)


def test_a_tiled_nest_is_refused() -> None:
    sch = Schedule(diagonal())
    outer, _ = sch.split(sch.get_loops("y")[0], [None, 4])
    assert_refused(sch, lambda: sch.separate_rest(outer, 1), "bind its variables one by one")
