"""blockize: which values the two parts of a variable take, where they do not simply count from 0."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from ir import IRModule
from ir.script import from_source
from ir.tir.interpreter import Interpreter
from schedules import Schedule, ScheduleError

from ..checks import assert_same_meaning


def copy_at(value: str, size: int, extent: int) -> Schedule:
    """``B[vi] = A[vi] + 1`` of which the variable is bound to an expression of two loops, of 2 and of ``extent`` iterations."""
    return Schedule(
        from_source(
            f"""
@T.prim_func
def main(A: T.Buffer((2, {size}), "int32"), B: T.Buffer((2, {size}), "int32")):
    for j in range(2):
        for i in range({extent}):
            with T.block("B"):
                vj = T.axis.spatial(2, j)
                vi = T.axis.spatial({size}, {value})
                B[vj, vi] = A[vj, vi] + 1
"""
        )
    )


@pytest.mark.parametrize("preserves", [True, False])
@pytest.mark.parametrize("depth", [0, 1])
def test_a_loop_of_one_iteration_keeps_the_offset(depth: int, preserves: bool) -> None:
    sch = copy_at("i + 2", 4, 1)
    before = sch.mod["main"]
    sch.blockize(sch.get_loops("B")[depth], preserves)
    assert_same_meaning(before, sch)


@pytest.mark.parametrize(
    ("value", "begin", "extent"), [("i * 3", 0, 13), ("i * 3 + 2", 2, 13), ("14 - i * 3", 2, 13)]
)
def test_a_strided_variable_runs_from_its_least_to_its_greatest_value(
    value: str, begin: int, extent: int
) -> None:
    sch = copy_at(value, 16, 5)
    before = sch.mod["main"]
    outer = sch.get(sch.blockize(sch.get_loops("B")[1]))
    assert_same_meaning(before, sch)
    for region in (*outer.reads, *outer.writes):
        assert (region.region[1].min.value, region.region[1].extent.value) == (begin, extent)


def test_a_symbolic_offset_stands_beside_the_variable() -> None:
    func = from_source(
        """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (64,), "int32")
    B = T.match_buffer(b, (64,), "int32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(64, i * 3 + n)
            B[vi] = A[vi] + 1
"""
    )
    sch = Schedule(func)
    sch.blockize(sch.get_loops("B")[0])
    results = []
    for program in (func, sch.mod["main"]):
        arrays = [np.arange(64, dtype="int32"), np.zeros(64, "int32")]
        Interpreter(IRModule({"main": program})).call(program, [*arrays, 5])
        results.append(arrays[1])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("order", list(permutations(range(4)))[::3])
def test_blocks_of_a_partition_name_the_loops_outside_of_it(order: tuple[int, ...]) -> None:
    """What stands outside of the block without variables that ``loop_partition`` makes is added to the parts."""
    blocks = 0
    for position in range(4):
        for depth in range(4):
            sch = Schedule(
                from_source(
                    """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
"""
                )
            )
            before = sch.mod["main"]
            loops = [part for loop in sch.get_loops("B") for part in sch.split(loop, [2, 4])]
            sch.reorder(*[loops[item] for item in order])
            loop = sch.get_loops("B")[position]
            name = f"B_{sch.get(loop).loop_var.name}0"
            sch.loop_partition(loop, [1])
            inner = sch.get_loops(name)
            if depth >= len(inner):
                continue
            try:
                sch.blockize(inner[depth])
            except ScheduleError as error:
                assert "cannot be divided" in str(error)
                continue
            blocks += 1
            assert_same_meaning(before, sch)
    assert blocks >= 3


def test_what_bounds_of_loops_load_is_read_inside_of_the_block() -> None:
    program = from_source(
        """
@T.prim_func
def main(N: T.Buffer((1,), "int32"), A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(T.min(T.max(N[0], 0), 8)):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + 1
"""
    )
    sch = Schedule(program)
    outer = sch.blockize(sch.get_loops("B")[0])
    assert [region.buffer.name for region in sch.get(outer).reads] == ["A", "N"]
    assert_same_meaning(program, sch)


def test_blocks_in_different_cases_are_not_one() -> None:
    sch = Schedule(
        from_source(
            """
@T.prim_func
def main(N: T.Buffer((1,), "int32"), A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    if N[0] > 0:
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 1
    else:
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 2
"""
        )
    )
    with pytest.raises(ScheduleError, match="different cases of a condition"):
        sch.blockize([sch.get_block("B"), sch.get_block("C")])


def of_rows(extents: str, height: str) -> Schedule:
    """Elements of rows, of which there may be none; ``n`` and ``m`` are parameters."""
    return Schedule(
        from_source(
            f"""
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), n: T.int32, m: T.int32):
    for i, j in T.grid({extents}):
        with T.block("A"):
            vi = T.axis.spatial({height}, i)
            vj = T.axis.spatial(m, j)
            A[vi, vj] = vi + vj
"""
        )
    )


@pytest.mark.parametrize(("extents", "height"), [("2, 0", "0"), ("4, m", "n")])
def test_a_variable_stays_inside_where_the_new_block_holds_no_instance(extents: str, height: str) -> None:
    """Rule ``[block]``: the domains were written for the instances that run."""
    sch = of_rows(extents, height)
    with pytest.raises(ScheduleError, match="may have no instance in the new block"):
        sch.blockize(sch.get_loops("A")[1])


@pytest.mark.parametrize(("extents", "height"), [("n, m", "n"), ("4, m", "8")])
def test_rows_without_elements_are_instances_of_the_new_block(extents: str, height: str) -> None:
    sch = of_rows(extents, height)
    before = sch.mod["main"]
    sch.blockize(sch.get_loops("A")[1])
    for n, m in [(0, 0), (3, 0), (0, 2), (3, 2)]:
        results = []
        for program in (before, sch.mod["main"]):
            array = np.full((8, 8), -1, "int32")
            Interpreter(IRModule({"main": program})).call(program, [array, n, m])
            results.append(array)
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("depth", [0, 1])
def test_what_an_init_reads_is_stated_where_it_reduces_over_nothing(depth: int) -> None:
    """The region of a reduction that has no iterations has no ends; its init runs all the same."""
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((4, 9), "int32"), C: T.Buffer((4,), "int32"), n: T.int32, m: T.int32):
    for i, k in T.grid(4, n):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = A[vi, m]
            C[vi] = C[vi] + A[vi, vk]
"""
    )
    sch = Schedule(func)
    sch.blockize(sch.get_loops("C")[depth])
    rows = np.arange(36, dtype="int32").reshape(4, 9)
    for n, m in [(0, 3), (0, 8), (2, 0), (2, 5), (9, 4)]:
        found = np.full(4, -1, "int32")
        Interpreter(sch.mod).call(sch.mod["main"], [rows, found, n, m])
        np.testing.assert_array_equal(found, rows[:, m] + rows[:, :n].sum(1))


@pytest.mark.parametrize("depth", [0, 1])
def test_rows_that_the_block_around_says_are_instances_of_the_new_block(depth: int) -> None:
    """Without columns there is no instance in it; the rows are in their domain as the variable of the block around is in its own."""
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((8, 9), "int32"), C: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(4):
        with T.block("O"):
            vo = T.axis.spatial(4, i)
            for j, k in T.grid(2, n):
                with T.block("C"):
                    vi = T.axis.spatial(4, vo)
                    vj, vk = T.axis.remap("SR", [j, k])
                    with T.init():
                        C[vi * 2 + vj] = 3
                    C[vi * 2 + vj] = C[vi * 2 + vj] + A[vi * 2 + vj, vk]
"""
    )
    sch = Schedule(func)
    sch.blockize(sch.get_loops("C")[depth])
    array = np.arange(72, dtype="int32").reshape(8, 9)
    for n in (0, 1, 9):
        results = []
        for program in (func, sch.mod["main"]):
            found = np.full(8, -1, "int32")
            Interpreter(IRModule({"main": program})).call(program, [array, found, n])
            results.append(found)
        np.testing.assert_array_equal(*results)


def test_a_clause_that_is_no_bound_of_the_bindings_decides_the_new_block() -> None:
    """Neither of its loops is an axis: all of the tile runs, or nothing of it; the mark keeps lowering from splitting loops by it."""
    sch = Schedule(
        from_source(
            """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    for i0, j0, i1, j1 in T.grid(2, 2, 4, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i0 * 4 + i1)
            vj = T.axis.spatial(8, j0 * 4 + j1)
            T.where(T.ignore_loop_partition(i0 * 4 - j0 * 4 + 3 >= 0))
            B[vi, vj] = A[vi, vj] + 1
"""
        )
    )
    before = sch.mod["main"]
    unit = sch.blockize(sch.get_loops("B")[2])
    assert_same_meaning(before, sch)
    assert "T.where(T.ignore_loop_partition(" in sch.mod.script()
    assert sch.mod.script().count("T.where") == 1
    assert sch.get(unit).name_hint == "B_o"
