"""Primitives on programs whose indices are data: narrow ones that wrap, ones that a let names, and extents that are loaded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ir.script import from_source
from ir.tir import interpreter
from schedules import Schedule, ScheduleError
from tests.programs.irregular import IRREGULAR
from tests.schedules.checks import assert_refused, assert_replays, main_of, outputs_of

Step = Callable[[Schedule], object]
STEPS: dict[str, Step] = {
    "compute_at": lambda sch: sch.compute_at("B", sch.get_loops("C")[0]),
    "compute_at, of a split": lambda sch: [
        sch.split(sch.get_loops("C")[0], [None, 3]),
        sch.compute_at("B", sch.get_loops("C")[1]),
    ],
    "reverse_compute_at": lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[0]),
    "compute_inline": lambda sch: sch.compute_inline("B"),
    "reverse_compute_inline": lambda sch: sch.reverse_compute_inline("C"),
    "cache_read": lambda sch: sch.cache_read("C", 0, "global"),
    "cache_read and compute_at": lambda sch: [
        sch.split(sch.get_loops("C")[0], [None, 3]),
        sch.cache_read("C", 0, "global"),
        sch.compute_at("B_global", sch.get_loops("C")[1]),
    ],
    "cache_write": lambda sch: sch.cache_write("B", 0, "global"),
    "cache_index": lambda sch: sch.cache_index("C", "global"),
    "reindex": lambda sch: sch.reindex("C", ("read", 0)),
    "read_at": lambda sch: sch.read_at(sch.get_loops("C")[0], "C", 0, "global"),
    "write_at": lambda sch: sch.write_at(sch.get_loops("C")[0], "C", 0, "global"),
    "blockize": lambda sch: sch.blockize(sch.get_loops("C")[0]),
    "loop_partition": lambda sch: sch.loop_partition(sch.get_loops("C")[0], [3, None]),
    "storage_align": lambda sch: sch.storage_align("B", 0, -1, 8, 3),
    "transform_layout, backwards": lambda sch: sch.transform_layout(
        "B", ("write", 0), lambda i: 255 - i, 0.0
    ),
    "transform_layout, tiled": lambda sch: sch.transform_layout(
        "B", ("write", 0), lambda i: [i // 4, i % 4], 0.0
    ),
    "transform_layout, padded": lambda sch: sch.transform_layout("B", ("write", 0), lambda i: i + 500, 0.0),
    "transform_block_layout": lambda sch: sch.transform_block_layout("C", lambda i: [i // 4, i % 4]),
    "set_axis_separator": lambda sch: sch.set_axis_separator("B", ("write", 0), []),
}
GATHERS = [
    "gather by uint8",
    "gather by int8",
    "gather by uint32",
    "scatter by uint8",
    "loops of uint8",
    "gather twice, of seven",
    "let around a gather",
]
MUST_WORK = {
    "compute_at",
    "cache_read",
    "loop_partition",
    "transform_layout, tiled",
    "transform_layout, padded",
}
"""What is legal for every gather."""


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", GATHERS)
def test_a_primitive_keeps_what_indices_of_any_type_mean(name: str, step: str) -> None:
    irregular = IRREGULAR[name]
    func = irregular.func()
    sch = Schedule(func, error_render_level="none")
    try:
        STEPS[step](sch)
    except ScheduleError:
        assert step not in MUST_WORK or name == "scatter by uint8"
        return
    arrays = irregular.arrays()
    for expected, found in zip(outputs_of(func, arrays), outputs_of(main_of(sch), arrays), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert_replays(sch, func)


def gather(axis: str, index: str) -> str:
    return f"""@T.prim_func
def main(A: T.Buffer((T.{axis}(64),)), C: T.Buffer((T.{axis}(64),))):
    B = T.alloc_buffer((T.{axis}(64),))
    for i in range(T.{index}(64)):
        with T.block("B"):
            vi = T.axis.spatial(T.{index}(64), i)
            B[vi] = A[vi] + 1.0
    for i in range(T.{index}(64)):
        with T.block("C"):
            vi = T.axis.spatial(T.{index}(64), i)
            C[vi] = B[T.{index}(63) - vi] + 1.0
"""


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("axis", ["int32", "int64"])
@pytest.mark.parametrize("mapped", [lambda i: 63 - i, lambda i: i + 3, lambda i: [i // 5, i % 5]])
def test_a_layout_is_mapped_whatever_index_numbers_the_program_has(
    axis: str, index: str, mapped: Callable[..., object]
) -> None:
    func = from_source(gather(axis, index))
    sch = Schedule(func, error_render_level="none")
    sch.transform_layout("B", ("write", 0), mapped, 0.0)
    arrays = [np.arange(64, dtype="float32"), np.zeros(64, "float32")]
    np.testing.assert_array_equal(outputs_of(main_of(sch), arrays)[1], outputs_of(func, arrays)[1])


def test_a_layout_of_more_elements_than_int32_counts_has_int64_indices() -> None:
    sch = Schedule(from_source(gather("int32", "int32")), error_render_level="none")
    sch.transform_layout("B", ("write", 0), lambda i: i * (1 << 26), assume_injective_transform=True)
    (buffer,) = [item for item in sch.get(sch.get_block("root")).alloc_buffers if item.name == "B"]
    assert [int(extent) for extent in buffer.shape] == [63 * (1 << 26) + 1]
    (write,) = sch.get(sch.get_block("B")).writes
    assert write.region[0].min.dtype == "int64"


def test_what_a_let_names_is_not_named_outside_of_it() -> None:
    text = """@T.prim_func
def main(A: T.Buffer((16,)), I: T.Buffer((8,), "int32"), C: T.Buffer((8,))):
    for i in range(8):
        with T.LetStmt(I[i]) as x:
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[x] * 2.0
"""
    sch = Schedule(from_source(text), error_render_level="none")
    sch.loop_partition(sch.get_loops("C")[0], [3, None])
    (read,) = [item for item in sch.get(sch.get_block("C_i0_partition")).reads if item.buffer.name == "A"]
    assert [int(part) for part in (read.region[0].min, read.region[0].extent)] == [0, 16]


def test_an_index_table_is_not_read_beyond_its_end_for_a_copy() -> None:
    irregular = IRREGULAR["gather twice, of seven"]
    sch = Schedule(irregular.func(), error_render_level="none")
    sch.split(sch.get_loops("C")[0], [None, 4])
    sch.cache_read("C", 0, "global")
    sch.compute_at("B_global", sch.get_loops("C")[1])
    interpreter.run(main_of(sch), *irregular.arrays())


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("primitive", ["read_at", "write_at"])
def test_the_domain_of_a_copy_names_no_loops_around_it(depth: int, primitive: str) -> None:
    irregular = IRREGULAR["data extent of a loop in a loop"]
    sch = Schedule(irregular.func(), error_render_level="none")
    step = lambda: getattr(sch, primitive)(sch.get_loops("C")[depth], "C", 0, "global")
    if depth == 0:
        assert_refused(sch, step, "may be undefined")
        return
    copy = sch.get(step())
    assert [int(item.dom.extent) for item in copy.iter_vars] == [64]
    arrays = irregular.arrays()
    for expected, found in zip(
        outputs_of(irregular.func(), arrays), outputs_of(main_of(sch), arrays), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_box_may_go_down_where_a_loop_outside_is_a_factor() -> None:
    irregular = IRREGULAR["strided by a loop below zero"]
    sch = Schedule(irregular.func(), error_render_level="none")
    sch.compute_at("B", sch.get_loops("C")[0])
    arrays = irregular.arrays()
    for expected, found in zip(
        outputs_of(irregular.func(), arrays), outputs_of(main_of(sch), arrays), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
