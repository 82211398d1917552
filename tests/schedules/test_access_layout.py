"""Layouts in which what loops access lies in the order in which they run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ir import tir
from ir.tir import IndexMap
from ir.tir.evaluate import evaluate
from schedules.access_layout import access_digits, suggest_index_map

NOTHING = tir.Evaluate(tir.const(0))


def loops_over(*extents: int, dtype: str = "int32") -> tuple[list[tir.Var], list[tir.For]]:
    """Variables and loops of some extents."""
    variables = [tir.Var(f"i{n}", dtype) for n in range(len(extents))]
    return variables, [
        tir.For(var, tir.const(0, dtype), tir.const(extent, dtype), tir.ForKind.SERIAL, NOTHING)
        for var, extent in zip(variables, extents, strict=True)
    ]


def order_of(
    found: IndexMap, shape: tuple[int, ...], indices: list[tir.PrimExpr], loops: list[tir.For]
) -> list[int]:
    """Where the elements that loops access one after the other lie in a layout."""
    extents = [int(extent) for extent in found.map_shape([tir.const(extent) for extent in shape])]
    places = []
    for values in itertools.product(*[range(int(loop.extent)) for loop in loops]):
        known = dict(zip([loop.loop_var for loop in loops], map(np.asarray, values), strict=True))
        element = [tir.const(int(evaluate(index, known))) for index in indices]
        places.append(int(np.ravel_multi_index([int(item) for item in found.map_indices(element)], extents)))
    return places


def test_digits_of_several_indices_lie_in_the_order_of_the_loops() -> None:
    (i, j), loops = loops_over(32, 64)
    indices = [i // 16 * 4 + j // 16, i % 16 * 16 + j % 16]
    found = suggest_index_map(tir.decl_buffer((8, 256)), indices, loops, tir.const(True))
    expected = IndexMap.from_func(lambda x, y: [x // 4, y // 16, x % 4, y % 16])
    assert found is not None
    for x, y in np.random.default_rng(0).integers(0, (8, 256), (20, 2)):
        point = [tir.const(int(x)), tir.const(int(y))]
        assert [int(item) for item in found.map_indices(point)] == [
            int(item) for item in expected.map_indices(point)
        ]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_elements_lie_as_they_are_read(dtype: str) -> None:
    (a, b, c, d), loops = loops_over(4, 3, 1, 5, dtype=dtype)
    buffer = tir.decl_buffer([tir.const(extent, dtype) for extent in (5, 1, 12)])
    indices = [d, tir.const(0, dtype), b * 4 + a]
    found = suggest_index_map(buffer, indices, loops, tir.const(True))
    assert found is not None
    assert order_of(found, (5, 1, 12), indices, loops) == list(range(60))
    assert c not in found.final_indices


def test_loops_that_leave_out_elements_have_no_layout() -> None:
    (i, j), loops = loops_over(4, 16)
    whole, place = tir.decl_buffer((64,)), i * 16 + j
    assert access_digits(whole, [place], loops, tir.const(True)) == [(16, 4), (1, 16)]
    assert access_digits(tir.decl_buffer((60,)), [place], loops, place < 60) is None
    assert access_digits(tir.decl_buffer((65,)), [place], loops, tir.const(True)) is None
    assert access_digits(tir.decl_buffer((128,)), [place * 2], loops, tir.const(True)) is None


def test_what_is_no_number_of_digits_has_no_layout() -> None:
    (i, j), loops = loops_over(32, 64)
    assert suggest_index_map(tir.decl_buffer((8, 256)), [i * j, j], loops, tir.const(True)) is None
    assert suggest_index_map(tir.decl_buffer((95,)), [i + j], loops, tir.const(True)) is None
