"""order_rows: every algorithm finds the same elements in the same order, and what is no declared order of rows is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import assert_structural_equal, load_json, save_json, te, topi
from ir.script import from_source
from ir.tir import PrimFunc
from runners.native import build_native
from schedules import Schedule

from ..checks import arrays_for, assert_refused, assert_replays, main_of, outputs_of

ALGORITHMS: list[tuple[str, list[int]]] = [
    ("merge", []),
    ("radix", [8]),
    ("radix", [3]),
    ("buffer", [16]),
    ("buffer", [32]),
    ("threshold", [16, 8]),
    ("threshold", [16, 32]),
    ("threshold", [32, 4]),
]


def topk(
    shape: tuple[int, ...] = (3, 70),
    k: int = 5,
    dtype: str = "float32",
    axis: int = 1,
    ascending: bool = False,
) -> PrimFunc:
    source = te.placeholder(shape, dtype, name="A")
    return te.create_prim_func([source, *topi.topk(source, k, axis, "both", ascending, "int32")])


def by(func: PrimFunc, algorithm: str, numbers: list[int]) -> Schedule:
    sch = Schedule(func)
    sch.order_rows("topk_cpu_row", algorithm, numbers)
    return sch


def first(data: np.ndarray[Any, Any], k: int, axis: int, ascending: bool) -> np.ndarray[Any, Any]:
    """Positions of the first elements; NaN is greater than every number."""
    values = np.where(np.isnan(data), np.inf, data) if data.dtype.kind == "f" else data.astype("int64")
    nan = np.isnan(data).astype("int8") if data.dtype.kind == "f" else np.zeros(data.shape, "int8")
    sign = 1 if ascending else -1
    positions = np.broadcast_to(
        np.arange(data.shape[axis]).reshape([-1 if i == axis else 1 for i in range(data.ndim)]), data.shape
    )
    order = np.lexsort((positions, sign * values, sign * nan), axis=axis)
    return np.take(order, np.arange(k), axis=axis)


def results_of(sch: Schedule, data: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    func = main_of(sch)
    empty = arrays_for(func)[1:]
    return outputs_of(func, [data, *empty])[1:]


def assert_first(sch: Schedule, data: np.ndarray[Any, Any], k: int, axis: int, ascending: bool) -> None:
    values, positions = results_of(sch, data)
    expected = first(data, k, axis, ascending)
    np.testing.assert_array_equal(positions, expected)
    assert values.tobytes() == np.take_along_axis(data, expected, axis).tobytes()


@pytest.mark.parametrize(("algorithm", "numbers"), ALGORITHMS)
def test_another_algorithm_replays_and_finds_the_same(algorithm: str, numbers: list[int]) -> None:
    func = topk()
    sch = by(func, algorithm, numbers)
    assert_replays(sch, func)
    data = np.random.default_rng(0).integers(-9, 9, (3, 70)).astype("float32")
    data[1, 30:50] = np.nan
    data[2] = np.sort(data[2])  # each one is before all that were seen
    assert_first(sch, data, 5, 1, False)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(ALGORITHMS),
    st.sampled_from(["float32", "float64", "float16", "int8", "uint8", "int64"]),
    st.booleans(),
    st.integers(1, 9),
    st.integers(33, 75),
    st.sampled_from([0, 1]),
    st.integers(0, 2**32 - 1),
)
def test_any_rows(
    choice: tuple[str, list[int]], dtype: str, ascending: bool, k: int, extent: int, axis: int, seed: int
) -> None:
    """Few different numbers, so that there are ties; of floats NaN and infinities, in some rows nothing else."""
    rng = np.random.default_rng(seed)
    spread = int(rng.integers(1, 60))
    shape = (2, extent) if axis == 1 else (extent, 2)
    data = rng.integers(0, spread, shape).astype(dtype)
    if dtype.startswith("float"):
        special = rng.choice([np.nan, np.inf, -np.inf, -0.0, 1.5], shape)
        data = np.where(rng.random(shape) < rng.choice([0.0, 0.1, 1.0]), special, data).astype(dtype)
    sch = by(topk(shape, k, dtype, axis, ascending), *choice)
    assert_first(sch, data, k, axis, ascending)


@pytest.mark.parametrize(("algorithm", "numbers"), ALGORITHMS)
@pytest.mark.parametrize("ascending", [False, True])
def test_native_code_does_the_same(algorithm: str, numbers: list[int], ascending: bool) -> None:
    rng = np.random.default_rng(1)
    data = rng.integers(0, 200, (6, 1000)).astype("float32")
    data[1] = 3.0
    data[2, ::3] = np.nan
    data[3] = np.nan
    data[4] = np.sort(data[4])
    data[5] = -np.sort(-data[5])
    func = topk((6, 1000), 7, ascending=ascending)
    values, positions = np.empty((6, 7), "float32"), np.empty((6, 7), "int32")
    build_native(by(func, algorithm, numbers).mod, "llvm")(data, values, positions)
    expected = first(data, 7, 1, ascending)
    np.testing.assert_array_equal(positions, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(data, expected, 1))


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float8_e4m3fn", "uint64"])
@pytest.mark.parametrize("ascending", [False, True])
def test_dtypes_that_numpy_does_not_order(dtype: str, ascending: bool) -> None:
    from ir.dtype import to_numpy

    data = np.random.default_rng(2).integers(0, 2 if dtype == "bool" else 12, (2, 90))
    source = te.placeholder(data.shape, dtype, name="A")
    func = te.create_prim_func([source, topi.topk(source, 4, 1, "indices", ascending, "int32")])
    (found,) = results_of(by(func, "threshold", [16, 8]), data.astype(to_numpy(dtype)))
    np.testing.assert_array_equal(found, first(data, 4, 1, ascending))


@pytest.mark.parametrize(
    ("algorithm", "numbers", "message"),
    [
        ("quick", [], "there is no algorithm 'quick' for rows"),
        ("merge", [3], "'merge' takes 0 numbers, got [3]"),
        ("threshold", [16], "'threshold' takes 2 numbers"),
        ("radix", [12], "digits of 1 to 11 bits, got 12"),
        ("radix", [0], "digits of 1 to 11 bits, got 0"),
        ("buffer", [24], "a power of two larger than the 5 wanted elements"),
        ("buffer", [4], "a power of two larger than the 5 wanted elements"),
        ("threshold", [128, 16], "smaller than the 70 of a row, got 128"),
        ("threshold", [16, 12], "chunks of a power of two of elements, got 12"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(algorithm: str, numbers: list[int], message: str) -> None:
    sch = Schedule(topk())
    assert_refused(
        sch, lambda: sch.order_rows("topk_cpu_row", algorithm, numbers), "order_rows", "topk_cpu_row", message
    )


def test_what_declares_nothing_is_refused() -> None:
    sch = Schedule(topk())
    assert_refused(sch, lambda: sch.order_rows("topk_cpu", "merge"), "does not declare an order of rows")
    sch.order_rows("topk_cpu_row", "merge")
    assert_refused(
        sch, lambda: sch.order_rows("topk_cpu_row", "radix", [8]), "does not declare an order of rows"
    )


def test_what_declares_something_else_than_it_does_is_refused() -> None:
    """The annotation of a program is anybody's; its statements say what it does."""
    wrong = {"axis": 1, "descending": False, "results": ["values", "indices"]}
    for annotation, message in [
        (wrong, "is not what the operator makes of its declaration"),
        ({"axis": 1}, "must tell axis, descending and results"),
        ({**wrong, "axis": 2}, "does not fit A of 2 dimensions and 2 results"),
        ({**wrong, "results": ["values"]}, "does not fit A of 2 dimensions and 2 results"),
        ({**wrong, "results": ["values", "ranks"]}, "must tell axis, descending and results"),
    ]:
        sch = Schedule(topk())
        sch.unannotate(sch.get_block("topk_cpu_row"), "row_order")
        sch.annotate(sch.get_block("topk_cpu_row"), "row_order", annotation)
        assert_refused(sch, partial(sch.order_rows, "topk_cpu_row", "merge"), message)


def test_a_program_that_was_stored_is_recognised() -> None:
    func = topk()
    for again in (from_source(func.script()), load_json(save_json(func))):
        sch = by(again, "merge", [])
        assert_structural_equal(sch.mod, by(func, "merge", []).mod)


def test_rows_of_unknown_extents_are_sorted_by_digits_alone() -> None:
    from ir.tir import Var

    source = te.placeholder((2, Var("n", "int32")), "float32", name="A")
    func = te.create_prim_func([source, topi.topk(source, 3, 1, "indices", False, "int32")])
    sch = Schedule(func)
    for algorithm, numbers in [("merge", []), ("buffer", [16]), ("threshold", [16, 8])]:
        assert_refused(sch, partial(sch.order_rows, "topk_cpu_row", algorithm, numbers), "a known extent")
    sch.order_rows("topk_cpu_row", "radix", [7])
    data = np.random.default_rng(0).standard_normal((2, 50)).astype("float32")
    found = np.empty((2, 3), "int32")
    build_native(sch.mod, "llvm")(data, found)
    np.testing.assert_array_equal(found, first(data, 3, 1, False))


@pytest.mark.parametrize(("algorithm", "numbers"), ALGORITHMS)
@pytest.mark.parametrize(
    ("dtype", "element"), [("int64", np.iinfo("int64").max), ("float64", np.nan), ("float32", 0.0)]
)
def test_rows_of_nothing_but_the_last_element_keep_their_order(
    algorithm: str, numbers: list[int], dtype: str, element: float
) -> None:
    """What stands behind all others is found where there is nothing else; zeros of either sign are equal."""
    func = topk(dtype=dtype, ascending=True)
    data = np.full((3, 70), element, dtype)
    data[:, ::3] *= -1 if element == 0 else 1
    values, positions = np.zeros((3, 5), dtype), np.zeros((3, 5), "int32")
    build_native(by(func, algorithm, numbers).mod, "llvm")(data, values, positions)
    np.testing.assert_array_equal(positions, np.broadcast_to(np.arange(5), (3, 5)))


@pytest.mark.parametrize(("algorithm", "numbers"), [("buffer", [16]), ("threshold", [16, 8])])
def test_as_many_candidates_as_are_wanted_are_too_few(algorithm: str, numbers: list[int]) -> None:
    sch = Schedule(topk(k=16))
    assert_refused(
        sch, lambda: sch.order_rows("topk_cpu_row", algorithm, numbers), "larger than the 16 wanted"
    )
