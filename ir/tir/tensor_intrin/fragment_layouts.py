"""How the lanes of a warp hold the matrices of ``mma``: PTX ISA, "Warp Level Matrix Instructions".

A layout is a function of a row and a column, as a matrix lies in memory: the lane that has the element, and its place among what that lane
has. Results are 16 by 16; operands have 16 rows or columns and are ``8 p`` long, where a register holds ``p`` elements. Names are
those of the field: the extents of the matrix in memory, then lanes and elements of a lane.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ... import dtype as dt
from ..expr import PrimExpr
from ..index_map import IndexMap

Layout = Callable[[Any, Any], tuple[Any, Any]]
"""(row, column) to (lane, place)."""
LANES = 32
"""Threads of a warp."""


def packed(dtype: str) -> int:
    """Elements of an operand that a register of 32 bits holds."""
    return max(1, 32 // dt.bits(dtype))


def _left(p: int, row: Any, k: Any) -> tuple[Any, Any]:
    """Of A: registers of both halves of the rows, then those of the second half of the columns."""
    return row % 8 * 4 + k % (4 * p) // p, k // (4 * p) * (2 * p) + row // 8 * p + k % p


def _right(p: int, k: Any, column: Any) -> tuple[Any, Any]:
    """Of B: operands of 8 columns each, one behind the other."""
    return column % 8 * 4 + k % (4 * p) // p, column // 8 * (2 * p) + k // (4 * p) * p + k % p


def operand_layout(side: str, dtype: str, is_transposed: bool = False) -> Layout:
    """Of the left ("a") or the right ("b") operand.

    Args:
        side: "a" or "b".
        dtype: of its elements.
        is_transposed: whether A lies in memory as (k, m), and B as (n, k).
    """
    layout = partial(_left if side == "a" else _right, packed(dtype))
    return (lambda row, column: layout(column, row)) if is_transposed else layout


def sums_layout(row: Any, column: Any) -> tuple[Any, Any]:
    """Of results: of two instructions with 8 columns each, one behind the other."""
    return row % 8 * 4 + column % 8 // 2, column // 8 * 4 + row // 8 * 2 + column % 2


def place_in_memory(
    layout: Layout, extents: tuple[int, int], lane: Any, place: Any
) -> tuple[PrimExpr, PrimExpr]:
    """The other way round: row and column of what a lane has at a place.

    >>> from ir.tir import Var
    >>> [str(index) for index in place_in_memory(sums_layout, (16, 16), Var("lane", "int32"), 5)]
    ['lane // 4', 'lane % 4 * 2 + 9']
    """
    forward = IndexMap.from_func(lambda row, column: list(layout(row, column)), ndim=2, index_dtype="int32")
    row, column = forward.inverse(list(extents)).map_indices([lane, place])
    return row, column


shared_16x16_to_ldmatrix_32x8_layout = operand_layout("a", "float16")
"""Of 16 by 16 elements of 16 bits in A, and of results."""
shared_16x32_to_ldmatrix_32x16_layout = operand_layout("a", "int8")
"""Of 16 by 32 bytes in A."""
shared_32x16_to_ldmatrix_32x16_layout = operand_layout("b", "int8")
"""Of 32 by 16 bytes in B."""
