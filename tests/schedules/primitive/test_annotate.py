"""annotate, unannotate; parallel, vectorize, unroll, bind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import tir
from ir.script import tir as T
from schedules import Schedule, ScheduleError
from tests.programs import kernels

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning

rowsum = kernels.row_sum(8, 8)


def test_kinds_of_loops() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
        for i_0 in T.parallel(4):
            for k in T.unroll(8):
                for i_1 in T.vectorized(2):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i_0 * 2 + i_1)
                        vk = T.axis.reduce(8, k)
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

    sch = Schedule(rowsum)
    i, k = sch.get_loops("B")
    i0, i1 = sch.split(i, [None, 2])
    sch.reorder(i0, k, i1)
    sch.parallel(i0)
    sch.unroll(k)
    sch.vectorize(i1)
    assert_program(sch, expected)
    assert_same_meaning(rowsum, sch)
    assert_replays(sch, rowsum)


def test_bind() -> None:
    @T.prim_func
    def expected(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
        for i in T.thread_binding(8, thread="blockIdx.x"):
            for k in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]

    sch = Schedule(rowsum)
    i, k = sch.get_loops("B")
    assert_refused(sch, lambda: sch.bind(k, "blockIdx.x"), "bind", "'k'", "reduction")
    assert_refused(sch, lambda: sch.bind(i, "threadIdx.w"), "threadIdx.w")
    sch.bind(i, "blockIdx.x")
    sch.bind(k, "threadIdx.x")
    assert_program(sch, expected)
    assert_replays(sch, rowsum)


def test_order_of_iterations_is_respected() -> None:
    sch = Schedule(rowsum)
    _, k = sch.get_loops("B")
    assert_refused(sch, lambda: sch.parallel(k), "parallel", "'k'", "'vk'", "'B'")
    assert_refused(sch, lambda: sch.vectorize(k), "vectorize", "'k'")


def test_annotations() -> None:
    sch = Schedule(rowsum)
    block = sch.get_block("B")
    i, _ = sch.get_loops(block)
    choice = sch.sample_categorical([0, 16, 64], [0.0, 1.0, 0.0])
    sch.annotate(block, "unroll", choice)
    sch.annotate(i, "names", ["a", "b"])
    sch.annotate(i, "table", {"x": 1})
    assert sch.get(block).annotations["unroll"] == 16
    assert_replays(sch, rowsum)
    sch.annotate(i, "names", ["c"])
    assert sch.get(i).annotations["names"] == ("a", "b"), "the first one stays"
    sch.unannotate(i, "names")
    assert "names" not in sch.get(i).annotations
    assert_refused(sch, lambda: sch.unannotate(i, "names"), "unannotate", "names", "table")
    assert_replays(sch, rowsum)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"x", np.float32(3), np.arange(3), {"a": [1, object()]}, {1: 2}]
)
def test_values_that_no_trace_stores_are_refused(value: Any) -> None:
    sch = Schedule(rowsum)
    with pytest.raises(ScheduleError, match="annotate: .* cannot be stored: .*; use numbers, strings"):
        sch.annotate(sch.get_block("B"), "note", value)


def test_a_key_is_a_string() -> None:
    sch = Schedule(rowsum)
    with pytest.raises(ScheduleError, match="annotate: the name of an annotation is a string, got 3"):
        sch.annotate(sch.get_loops("B")[0], 3, 4)  # type: ignore[arg-type]


def test_values_that_traces_store() -> None:
    sch = Schedule(rowsum)
    for number, value in enumerate([1, 2.5, "text", None, [1, ["x"]], (1, 2), {"a": {"b": 1}}, tir.const(3)]):
        sch.annotate(sch.get_block("B"), f"note{number}", value)
    assert_replays(sch, rowsum)
