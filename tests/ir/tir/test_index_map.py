"""Arrays in other layouts: every element is where the map sends it, whether axes are split, exchanged or mixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import tir
from ir.arith import IterMapError
from ir.tir import IndexMap, Range, Var
from ir.tir.evaluate import evaluate

MAPS: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "identity": ((4, 6), lambda i, j: [i, j]),
    "transposed": ((4, 6), lambda i, j: [j, i]),
    "panels": ((8, 12), lambda i, j: [j // 4, i, j % 4]),
    "two levels": ((8, 12), lambda i, j: [j // 6, i // 2, j // 2 % 3, i % 2, j % 2]),
    "an axis of one": ((3, 1, 4), lambda i, j, k: [k, j, i]),
    "an axis left out": ((3, 1, 4), lambda i, j, k: [k // 2, i, k % 2]),
    "a new axis": ((3, 4), lambda i, j: [i, 0, j]),
    "fused": ((3, 4), lambda i, j: [j * 3 + i]),
    "fused and split": ((4, 6), lambda i, j: [(i * 6 + j) // 3, (i * 6 + j) % 3]),
    "rotated": ((5, 2), lambda i, j: [(i + 2) % 5, j]),
}


@pytest.mark.parametrize(("shape", "function"), MAPS.values(), ids=MAPS.keys())
def test_every_element_is_where_the_map_sends_it(
    shape: tuple[int, ...], function: Callable[..., Any]
) -> None:
    array = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    mapped = IndexMap.from_func(function)
    found = mapped.map_ndarray(array)
    assert found.flags.c_contiguous
    for index in np.ndindex(shape):
        assert found[tuple(int(item) for item in function(*index))] == array[index]
    out = np.zeros_like(found)
    assert mapped.map_ndarray(array, out) is out
    np.testing.assert_array_equal(out, found)


def test_a_large_weight_takes_one_copy() -> None:
    # An index per element would be sixteen times the memory of the weight itself.
    panels = IndexMap.from_func(lambda i, j: [j // 16, i, j % 16])
    array = np.broadcast_to(np.float32(1), (1 << 14, 1 << 10))
    assert panels._axis_splits(array.shape) == ([1 << 14, 64, 16], [1, 0, 2])


def test_inverse_takes_ranges_and_keeps_unit_axes() -> None:
    blocked = IndexMap.from_func(lambda n, c, h: [n, c // 4, h, c % 4])
    inverse = blocked.inverse([Range(0, 1), Range(0, 8), Range(0, 4)])
    assert [str(item) for item in inverse.final_indices] == ["n", "axis1 * T.int64(4) + axis3", "h"]
    assert inverse.is_equivalent_to(blocked.inverse([1, 8, 4]))


def test_inverse_of_a_reversal_and_of_a_stride() -> None:
    reversed_map = IndexMap.from_func(lambda i: [15 - i], index_dtype="int32")
    assert [str(item) for item in reversed_map.inverse([16]).final_indices] == ["15 - axis0"]
    with pytest.raises(IterMapError, match="values of index i \\* 2 are 2 apart"):
        IndexMap.from_func(lambda i: [i * 2], index_dtype="int32").non_surjective_inverse([16])


def test_what_lies_before_the_first_element_is_padding() -> None:
    inverse, padding = IndexMap.from_func(lambda i: [i + 2], 1, index_dtype="int32").non_surjective_inverse(
        [4]
    )
    (index,) = inverse.initial_indices
    assert [place for place in range(6) if int(evaluate(padding, {index: place}))] == [0, 1]
    assert [int(value) for value in inverse.map_indices([5])] == [3]


def test_shapes_without_elements_have_none_afterwards() -> None:
    index_map = IndexMap.from_func(lambda i, j, k: [i // 4, j, i % 4, k * 2])
    assert index_map.map_shape([0, 8, 3]) == [0, 8, 0, 5]
    assert index_map.map_shape([8, 0, 3]) == [2, 0, 4, 5]
    assert [int(extent) for extent in index_map.map_shape([8, 3, 0])] == [2, 3, 4, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "int32", "int64"])
def test_indices_of_all_integer_types_are_mapped_as_index_numbers(dtype: str) -> None:
    index_map = IndexMap.from_func(lambda i: [255 - i, (i + 500) // 4], index_dtype="int32")
    given = Var("i", dtype)
    found = index_map.map_indices([given])
    wide = "int64" if dtype in ("uint32", "int64") else "int32"
    assert [item.dtype for item in found] == [wide, wide]
    assert [int(evaluate(item, {given: 100})) for item in found] == [155, 150]


def test_regions_are_stated_in_index_numbers() -> None:
    table, index = tir.decl_buffer((256,)), Var("i", "uint8")
    region = tir.BufferRegion(table, [tir.Range.from_min_extent(index, tir.const(255, "uint8"))])
    assert [part.dtype for part in (region.region[0].min, region.region[0].extent)] == ["int32", "int32"]


def test_indices_are_widened_to_the_type_of_a_map_and_never_narrowed() -> None:
    narrow, wide = Var("i", "int32"), Var("i", "int64")
    doubled = {
        dtype: IndexMap.from_func(lambda i: [i * 2], index_dtype=dtype) for dtype in ("int32", "int64")
    }
    (widened,) = doubled["int64"].substituted([narrow])
    (kept,) = doubled["int32"].substituted([wide])
    assert str(widened) == 'T.Cast("int64", i) * T.int64(2)' and str(kept) == "i * T.int64(2)"
