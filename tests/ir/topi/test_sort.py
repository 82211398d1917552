"""Sorting, positions that sort, and the first elements, of every dtype and in all the ways in which rows are sorted."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np
import pytest

from ir import IRModule, build, te, topi
from ir.dtype import to_numpy
from ir.tir.interpreter import Interpreter
from ir.topi.row_algorithms import MOST_MERGED as _MOST_MERGED
from ir.topi.sort_keys import key_of

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn")
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
COLUMNS = (0, 1, 2, 7, 64, _MOST_MERGED + 1)
SIZES = [(dtype, columns) for dtype in ("float32", "float64") for columns in COLUMNS] + [
    (dtype, columns)
    for dtype in (*FLOATS, *INTEGERS, "bool")
    for columns in (7, _MOST_MERGED + 1)
    if dtype not in ("float32", "float64")
]


def numbers(dtype: str, rows: int, columns: int) -> np.ndarray[Any, Any]:
    """Random ones with ties; of floats also what is special about them."""
    rng = np.random.default_rng(columns)
    kind = to_numpy(dtype)
    if dtype == "bool":
        return rng.random((rows, columns)) < 0.5
    if dtype in INTEGERS:
        info = np.iinfo(kind)
        found = rng.integers(info.min, info.max, (rows, columns), dtype=kind, endpoint=True)
        found[:, : columns // 3] = found[:, columns // 3 : 2 * (columns // 3)]
        return found
    found = (rng.standard_normal((rows, columns)) * 3).astype(kind)
    if columns > 4:
        for special in (np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, 1.0):
            found[:, rng.integers(columns)] = special
    return found


def order(row: np.ndarray[Any, Any], ascending: bool) -> list[int]:
    """Positions in order: NaN is greater than every number, equal elements stay as they were."""
    values = row.astype("float64").tolist() if row.dtype.kind not in "iu" else row.tolist()

    def compare(a: int, b: int) -> int:
        one, other = values[a], values[b]
        if one != one or other != other:
            found = int(one != one) - int(other != other)
        else:
            found = int(one > other) - int(one < other)
        return found if ascending else -found

    return sorted(range(len(values)), key=cmp_to_key(compare))


def results(
    function: Any, data: np.ndarray[Any, Any], dtype: str, native: bool = True
) -> list[np.ndarray[Any, Any]]:
    """What an operator makes of data, in native code or by the interpreter."""
    source = te.placeholder(data.shape, dtype, name="A")
    made = function(source)
    outs = made if isinstance(made, list) else [made]
    func = te.create_prim_func([source, *outs])
    arrays = [np.empty([int(dim) for dim in out.shape], to_numpy(out.dtype)) for out in outs]
    if native:
        build(func, target="cpu")["main"](data, *arrays)
    else:
        Interpreter(IRModule({"main": func})).call(func, [data, *arrays])
    return arrays


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize(("dtype", "columns"), SIZES)
def test_all_of_a_row(dtype: str, columns: int, ascending: bool) -> None:
    data = numbers(dtype, 2, columns)
    expected = np.array([order(row, ascending) for row in data], "int64").reshape(2, columns)
    (positions,) = results(lambda a: topi.argsort(a, axis=1, is_ascend=ascending, dtype="int64"), data, dtype)
    np.testing.assert_array_equal(positions, expected)
    (values,) = results(lambda a: topi.sort(a, 1, ascending), data, dtype)
    assert values.tobytes() == np.take_along_axis(data, expected, 1).tobytes(), "signs of zeros and NaN too"


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize(
    ("dtype", "k"), [(dtype, 5) for dtype in (*FLOATS, *INTEGERS)] + [("float32", 1), ("int64", 40)]
)
def test_the_first_of_a_row(dtype: str, k: int, ascending: bool) -> None:
    """Few of many are selected, of the others the whole row is sorted."""
    columns = 300
    data = numbers(dtype, 3, columns)
    data[2] = data[2][order(data[2], not ascending)]  # each one is before all that were seen
    expected = np.array([order(row, ascending)[:k] for row in data], "int64")
    for native in (True, False):
        values, positions = results(
            lambda a: topi.topk(a, k, 1, "both", ascending, "int64"), data, dtype, native
        )
        np.testing.assert_array_equal(positions, expected)
        assert values.tobytes() == np.take_along_axis(data, expected, 1).tobytes()


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 0.0])
@pytest.mark.parametrize("ascending", [True, False])
def test_rows_of_one_number_keep_their_order(special: float, ascending: bool) -> None:
    data = np.full((1, 500), special, "float32")
    data[0, 123] = 1.0
    (found,) = results(lambda a: topi.topk(a, 3, 1, "indices", ascending, "int32"), data, "float32")
    assert found.tolist() == [order(data[0], ascending)[:3]]


@pytest.mark.parametrize(
    ("dtype", "ascending", "last"),
    [
        ("float32", True, np.nan),
        ("float64", True, np.nan),
        ("int64", True, np.iinfo("int64").max),
        ("int64", False, np.iinfo("int64").min),
        ("uint64", True, np.iinfo("uint64").max),
        ("uint64", False, 0),
        ("int32", False, np.iinfo("int32").min),
    ],
)
def test_what_stands_behind_all_others_fills_up(dtype: str, ascending: bool, last: Any) -> None:
    data = np.full((1, 300), last, dtype)
    data[0, [7, 250]] = 5
    (found,) = results(lambda a: topi.topk(a, 9, 1, "indices", ascending, "int64"), data, dtype)
    assert found.tolist() == [order(data[0], ascending)[:9]]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_along_any_axis(axis: int) -> None:
    data = numbers("float32", 5, 24).reshape(5, 6, 4)
    (found,) = results(lambda a: topi.sort(a, axis), data, "float32")
    np.testing.assert_array_equal(found, np.sort(data, axis))


def test_keys_are_in_the_order_of_the_numbers() -> None:
    for dtype in FLOATS:
        kind = to_numpy(dtype)
        every = np.arange(256, dtype="uint8").view(kind) if kind.itemsize == 1 else numbers(dtype, 1, 300)[0]
        source = te.placeholder(every.shape, dtype, name="A")
        made = te.compute(every.shape, lambda i: key_of(source[i]), name="keys")
        keys = np.empty(every.shape, to_numpy(made.dtype))
        build(te.create_prim_func([source, made]), target="cpu")["main"](every, keys)
        ranks = keys[order(every, True)].tolist()
        assert ranks == sorted(ranks)
        wide = every.astype("float64")
        for a, b in zip(range(0, len(wide) - 1), range(1, len(wide))):
            assert (keys[a] == keys[b]) == (wide[a] == wide[b] or (wide[a] != wide[a] and wide[b] != wide[b]))


@pytest.mark.parametrize(("columns", "k", "selects"), [(1000, 10, True), (1000, 300, False), (16, 2, False)])
def test_candidates_are_selected_from_long_rows(columns: int, k: int, selects: bool) -> None:
    source = te.placeholder((2, columns), "float32", name="A")
    text = te.create_prim_func([source, topi.topk(source, k, 1, "indices")]).script()
    assert ("bound" in text) == selects
    assert ("counts" in text) == (k == 300), "whole rows by digits"
