"""Loops, maps and memory whose numbers the dtype of a loop variable does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import tir
from ir.codegen.build import build
from ir.script import from_source
from ir.tir.interpreter import run
from schedules import Schedule, ScheduleError

SUMS = """@T.prim_func
def main(A: T.Buffer((ROWS, COLUMNS), "int32"), S: T.Buffer((ROWS,), "int32")):
    T.func_attr({"tir.noalias": True})
    for i in range(T.DTYPE(ROWS)):
        for j in range(T.OTHER(COLUMNS)):
            with T.block("S"):
                vi = T.axis.spatial(ROWS, T.Cast("int32", i))
                vj = T.axis.reduce(COLUMNS, T.Cast("int32", j))
                with T.init():
                    S[vi] = 0
                S[vi] = S[vi] + A[vi, vj]
"""


def sums(rows: int, columns: int, dtype: str, other: str | None = None) -> Schedule:
    text = SUMS.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    return Schedule(
        from_source(text.replace("DTYPE", dtype).replace("OTHER", other or dtype)), error_render_level="none"
    )


@pytest.mark.parametrize(
    ("rows", "columns", "dtypes", "step"),
    [
        (20, 20, ("uint8",), lambda sch: sch.fuse(*sch.get_loops("S"))),
        (200, 200, ("int16",), lambda sch: sch.fuse(*sch.get_loops("S"))),
        (4, 6, ("int32", "int64"), lambda sch: sch.fuse(*sch.get_loops("S"))),
        (4, 6, ("int64", "int32"), lambda sch: sch.fuse(*sch.get_loops("S"))),
        (2, 250, ("uint8",), lambda sch: sch.split(sch.get_loops("S")[1], [None, 100])),
        (3, 120, ("int8",), lambda sch: sch.split(sch.get_loops("S")[1], [None, 100])),
    ],
)
def test_joined_and_padded_loops_count_in_a_type_that_holds_them(
    rows: int, columns: int, dtypes: tuple[str, ...], step: Callable[[Schedule], Any]
) -> None:
    sch = sums(rows, columns, *dtypes)
    step(sch)
    a = np.random.default_rng(0).integers(-5, 5, (rows, columns)).astype("int32")
    for call in (lambda *args: run(sch.mod["main"], *args), build(sch.mod, "cpu")["main"]):
        result = np.full(rows, -1, "int32")
        call(a, result)
        np.testing.assert_array_equal(result, a.sum(1))


LARGE = """@T.prim_func
def main(A: T.Buffer((50000, 50000), "int8"), C: T.Buffer((50000, 50000), "int8")):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(50000, 50000):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.int8(1)
"""


def large() -> Schedule:
    return Schedule(from_source(LARGE), error_render_level="none")


def test_a_fused_loop_of_more_iterations_than_int32_counts() -> None:
    sch = large()
    loop = sch.get(sch.fuse(*sch.get_loops("C")))
    assert loop.extent.value == 50000**2 and loop.loop_var.dtype == loop.extent.dtype == "int64"


def test_a_block_is_not_mapped_to_more_iterations_than_its_variables_count() -> None:
    with pytest.raises(ScheduleError, match="2500000000 iterations, which int32 does not count"):
        large().transform_block_layout("C", lambda i, j: [i * 50000 + j])


@pytest.mark.meaning("index-flat")
@pytest.mark.parametrize("primitive", ["reindex_cache_read", "reindex_cache_write"])
def test_a_flat_copy_is_indexed_in_int64(primitive: str) -> None:
    sch = large()
    getattr(sch, primitive)("C", 0, "global", lambda i, j: [i * 50000 + j])
    flat: list[Any] = []
    tir.post_order_visit(
        sch.mod["main"].body,
        lambda node: (
            flat.append(node.indices[0])
            if isinstance(node, tir.BufferLoad | tir.BufferStore) and len(node.indices) == 1
            else None
        ),
    )
    assert len(flat) == 2 and all(index.dtype == "int64" for index in flat)


PRIVATE = """@T.prim_func
def main(A: T.Buffer((9, 8), "int32"), C: T.Buffer((9, 8), "int32")):
    T.func_attr({"tir.noalias": True})
    W = T.alloc_buffer((8,), "int32")
    for i in T.parallel(9):
        for j in range(8):
            with T.block("W"):
                vi, vj = T.axis.remap("SS", [i, j])
                W[vj] = A[vi, vj] + 1
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * 2
"""


@pytest.mark.parametrize(
    "step",
    [
        lambda sch: sch.reindex("W", ("write", 0)),
        lambda sch: sch.reindex_cache_write("W", 0, "global", lambda i, j: [j]),
    ],
)
def test_a_copy_of_memory_that_iterations_have_each_for_itself_is_not_shared(
    step: Callable[[Schedule], Any],
) -> None:
    with pytest.raises(ScheduleError, match="one iteration of loop 'i' may write"):
        step(Schedule(from_source(PRIVATE), error_render_level="none"))


REMAINDERS = """@T.prim_func
def main(a: T.handle, y: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    Y = T.match_buffer(y, (6,), "int32")
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            Y[vi] = A[vi % n]
"""


def _copied_inside(sch: Schedule) -> None:
    copy = sch.cache_read("B", 0, "local")
    sch.compute_at(copy, sch.split(sch.get_loops("B")[0], [None, 3])[0])


@pytest.mark.parametrize(
    "step",
    [
        lambda sch: sch.blockize(sch.get_loops("B")[0]),
        _copied_inside,
        lambda sch: sch.read_at(sch.split(sch.get_loops("B")[0], [None, 3])[0], "B", 0, "local"),
        lambda sch: sch.loop_partition(sch.get_loops("B")[0], [2, None]),
    ],
)
def test_a_remainder_by_an_unknown_number_reaches_all_of_a_buffer(step: Callable[[Schedule], Any]) -> None:
    """Its constant bounds are further apart than int32 counts."""
    sch = Schedule(from_source(REMAINDERS), error_render_level="none")
    step(sch)
    a = np.arange(4, dtype="int32")
    for call in (lambda *args: run(sch.mod["main"], *args), build(sch.mod, "cpu")["main"]):
        result = np.zeros(6, "int32")
        call(a, result)
        np.testing.assert_array_equal(result, np.arange(6) % 4)


ELEMENTS = """@T.prim_func
def main(a: T.handle, c: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m), "int32")
    C = T.match_buffer(c, (n, m), "int32")
    for i, j in T.grid(n, m):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[PLACE] = A[vi, vj] + 1
"""


@pytest.mark.parametrize("step", [Schedule.parallel, lambda sch, loop: sch.bind(loop, "blockIdx.x")])
def test_a_fused_loop_of_symbolic_extents_may_run_in_any_order(step: Callable[..., Any]) -> None:
    sch = Schedule(from_source(ELEMENTS.replace("PLACE", "vi, vj")), error_render_level="none")
    step(sch, sch.fuse(*sch.get_loops("C")))
    a = np.arange(15, dtype="int32").reshape(3, 5)
    result = np.zeros((3, 5), "int32")
    run(sch.mod["main"], a, result)
    np.testing.assert_array_equal(result, a + 1)


@pytest.mark.parametrize("place", ["0, vj", "vi, vj % 2", "vi // 2, vj"])
def test_one_that_writes_elements_twice_may_not(place: str) -> None:
    sch = Schedule(from_source(ELEMENTS.replace("PLACE", place)), error_render_level="none")
    with pytest.raises(ScheduleError, match="may write"):
        sch.parallel(sch.fuse(*sch.get_loops("C")))


@pytest.mark.parametrize("factors", [[None, 65536, 65536], [65536, 65536], [65536, 1, 65536]])
def test_factors_whose_product_int32_does_not_hold_cover_a_loop(factors: list[int | None]) -> None:
    sch = sums(3, 40, "int32")
    sch.split(sch.get_loops("S")[0], factors)
    extents = [sch.get(loop).extent.value for loop in sch.get_loops("S")[:-1]]
    assert extents == [item or 1 for item in factors]


def _in_parallel_and_vectors(sch: Schedule) -> None:
    *outer, inner = sch.split(sch.fuse(*sch.get_loops("C")), [None, 2, 4])
    sch.parallel(outer[0])
    sch.vectorize(inner)


def test_parts_of_a_fused_loop_of_symbolic_extents_may_run_in_any_order() -> None:
    sch = Schedule(from_source(ELEMENTS.replace("PLACE", "vi, vj")), error_render_level="none")
    _in_parallel_and_vectors(sch)
    a = np.arange(15, dtype="int32").reshape(3, 5)
    for call in (lambda *args: run(sch.mod["main"], *args), build(sch.mod, "cpu")["main"]):
        result = np.zeros((3, 5), "int32")
        call(a, result)
        np.testing.assert_array_equal(result, a + 1)


@pytest.mark.parametrize("place", ["0, vj", "vi, 0", "vi, vj % 2", "vi // 2, vj"])
def test_parts_of_one_that_writes_elements_twice_may_not(place: str) -> None:
    sch = Schedule(from_source(ELEMENTS.replace("PLACE", place)), error_render_level="none")
    with pytest.raises(ScheduleError, match="may write"):
        _in_parallel_and_vectors(sch)
