"""scan_threads: kernels against numpy in the emulation and, for races, in the interpreter; refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import te, topi
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules import Schedule
from schedules.postproc import postprocess

from ..checks import assert_refused, assert_replays

TARGET = Target("nvidia/nvidia-a100")


def cumsum(rows: int, columns: int, dtype: str = "int32", axis: int = 1, exclusive: bool = False) -> PrimFunc:
    shape = (rows, columns) if axis else (columns, rows)
    x = te.placeholder(shape, dtype, name="x")
    return te.create_prim_func([x, topi.cumsum(x, axis, exclusive=exclusive)])


def by_threads(func: PrimFunc, threads: int, items: int, name: str = "cumsum_generic_row") -> Schedule:
    sch = Schedule(func)
    (loop,) = sch.get_loops(sch.get_block(name))
    sch.scan_threads(loop, threads, items)
    sch.bind(loop, "blockIdx.x")
    return sch


def computed(sch: Schedule, data: np.ndarray, ways: str = "emulated") -> np.ndarray:
    assert postprocess(sch, TARGET)
    lowered = lower(sch.mod, TARGET)
    run_it: Callable[..., Any] = (
        EmulatedProgram(lowered, generate(lowered))
        if ways == "emulated"
        else lambda *arrays: run(lowered, *arrays)
    )
    found = np.full(data.shape, 77, data.dtype)
    run_it(data, found)
    return found


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize(
    ("columns", "threads", "items"), [(1, 32, 1), (30, 32, 4), (128, 32, 4), (1000, 128, 2), (4096, 256, 4)]
)
@pytest.mark.parametrize("exclusive", [False, True])
def test_rows_of_any_length(dtype: str, columns: int, threads: int, items: int, exclusive: bool) -> None:
    """Whole numbers, of which sums are exact in any order."""
    data = np.random.default_rng(0).integers(-9, 9, (3, columns)).astype(dtype)
    func = cumsum(3, columns, dtype, exclusive=exclusive)
    sch = by_threads(func, threads, items)
    expected = np.cumsum(data, axis=1, dtype=dtype)
    np.testing.assert_array_equal(computed(sch, data), expected - data if exclusive else expected)


@pytest.mark.parametrize("exclusive", [False, True])
def test_threads_do_not_race(exclusive: bool) -> None:
    data = np.arange(2 * 300, dtype="int32").reshape(2, 300)
    sch = by_threads(cumsum(2, 300, exclusive=exclusive), 64, 2)
    assert_replays(sch, cumsum(2, 300, exclusive=exclusive))
    expected = np.cumsum(data, axis=1, dtype="int32")
    np.testing.assert_array_equal(
        computed(sch, data, "interpreted"), expected - data if exclusive else expected
    )


def test_along_another_axis() -> None:
    data = np.arange(5 * 100, dtype="int32").reshape(100, 5)
    np.testing.assert_array_equal(
        computed(by_threads(cumsum(5, 100, axis=0), 32, 2), data), np.cumsum(data, axis=0, dtype="int32")
    )


def test_products_of_integers() -> None:
    x = te.placeholder((2, 50), "int32", name="x")
    func = te.create_prim_func([x, topi.cumprod(x, 1)])
    data = np.random.default_rng(0).integers(1, 3, (2, 50)).astype("int32")
    sch = by_threads(func, 32, 1, "cumprod_generic_row")
    np.testing.assert_array_equal(computed(sch, data), np.cumprod(data, axis=1, dtype="int32"))


def test_narrow_floats_are_added_in_float32() -> None:
    data = np.random.default_rng(0).integers(-9, 9, (2, 200)).astype("float16")
    found = computed(by_threads(cumsum(2, 200, "float16"), 64, 2), data)
    np.testing.assert_array_equal(found, np.cumsum(data.astype("float32"), axis=1).astype("float16"))


@pytest.mark.parametrize(
    ("threads", "items", "words"),
    [
        (33, 1, "a multiple of 32"),
        (2048, 1, "up to 1024"),
        (0, 1, "a multiple of 32"),
        (32, 0, "1 to 64 items"),
    ],
)
def test_refuses_other_numbers(threads: int, items: int, words: str) -> None:
    sch = Schedule(cumsum(3, 100))
    (loop,) = sch.get_loops(sch.get_block("cumsum_generic_row"))
    assert_refused(sch, lambda: sch.scan_threads(loop, threads, items), "scan_threads", words)


def test_refuses_numbers_that_no_thread_shuffles() -> None:
    sch = Schedule(cumsum(3, 100, "int8"))
    (loop,) = sch.get_loops(sch.get_block("cumsum_generic_row"))
    assert_refused(sch, lambda: sch.scan_threads(loop, 32, 1), "threads shuffle numbers of 32 or 64 bits")


def test_refuses_floats_that_have_an_order() -> None:
    x = te.placeholder((2, 50), "float32", name="x")
    sch = Schedule(te.create_prim_func([x, topi.cumprod(x, 1)]))
    (loop,) = sch.get_loops(sch.get_block("cumprod_generic_row"))
    assert_refused(sch, lambda: sch.scan_threads(loop, 32, 1), "does not say that another order is right")
