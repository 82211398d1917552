"""Products of narrow numbers in the registers of a matrix unit (Intel's AMX), sixteen groups and columns and up to sixteen rows each.

    for k0: for k1 in 16: for i: for j (vector): for g in 4: C[i, j] += int32(A[i, 64 * k0 + 4 * k1 + g]) * int32(B[16 * k0 + k1, j, g])

The operands lie as for dot-product instructions (:mod:`.dot_product`); lowering makes instructions of the matrix unit of the four inner
loops (:mod:`ir.tir.transform.inject_matrix_tiles`), and keeps the sums in its registers while ``k0`` runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ir.codegen.llvm.compile import options_of
from ir.codegen.llvm.matrix import has_matrix_unit
from ir.target import Target
from ir.tir.intrinsic.matrix_registers import (
    MATRIX_COLUMNS,
    MATRIX_PRODUCTS,
    MATRIX_ROWS,
    registers_of_rows,
    registers_suffice,
)
from ir.tir.kernel_attributes import MATRIX_TILE

from ..affine import coefficient_of, mentions
from ..block_facts import constant_extents, operand_loads, spatial_vars
from ..random_variable import ExprRV
from ..schedule import Schedule
from ..tree import BlockNode
from .dot_product import DotProduct
from .register_tile import TiledLoops, keep_cores_busy

_FEWEST_ROWS = 5
"""With fewer, most of a matrix unit's work is for nothing."""


def in_matrix_tiles(node: BlockNode, vector_var: Any, dot: DotProduct, target: Target) -> DotProduct | None:
    """The groups of a block for the registers of a matrix unit; None where there is no such unit, or too little for it to do."""
    (other,) = [load for load in operand_loads(node) if load.buffer is not dot.panels]
    kinds = (other.buffer.dtype, dot.panels.dtype, node.writes[0].buffer.dtype)
    extents = constant_extents(node)
    groups, rest = divmod(extents.get(node.iter_vars[dot.axis].var, 0), dot.size)
    rows = row_vars(node, dot)
    lanes = target.vector_bits // 32  # loops of narrower vectors would divide the columns of a register
    if (
        kinds not in MATRIX_PRODUCTS
        or rest
        or not groups
        or groups % MATRIX_ROWS
        or extents.get(vector_var, 1) % MATRIX_COLUMNS
        or max((extents.get(var, 0) for var in rows), default=0) < _FEWEST_ROWS
        or any(coefficient_of(index, var) is None for index in other.indices for var in rows)
        or lanes != MATRIX_COLUMNS
        or not has_matrix_unit(options_of(target))
    ):
        return None
    return replace(dot, in_tiles=True, has_corrections=False)


def row_vars(node: BlockNode, dot: DotProduct) -> list[Any]:
    """The spatial variables of the operand that is no panel, and of it alone."""
    loads = operand_loads(node)
    panels = [load for load in loads if load.buffer is dot.panels]
    others = [load for load in loads if load.buffer is not dot.panels]
    return [
        var
        for var in spatial_vars(node)
        if any(mentions(load, {var}) for load in others) and not any(mentions(load, {var}) for load in panels)
    ]


def matrix_padding(node: BlockNode, dot: DotProduct) -> dict[Any, int]:
    """Padded extents by variable: whole registers of rows where these have no shares of a good size."""
    extents, padding = constant_extents(node), {}
    rows = [var for var in row_vars(node, dot) if extents.get(var, 0) > MATRIX_ROWS]
    if rows and all(extents[rows[-1]] % share for share in range(MATRIX_ROWS // 2, MATRIX_ROWS + 1)):
        padding[rows[-1]] = -(-extents[rows[-1]] // MATRIX_ROWS) * MATRIX_ROWS
    return padding


def keep_within_matrix_unit(
    sch: Schedule, node: BlockNode, tiled: TiledLoops, dot: DotProduct, cores: int
) -> None:
    """Build the registers of a matrix unit, and the cores, into the tables of a sketch; ``node``'s reduction runs over groups."""
    if tiled.vector is None:
        return
    group_axis, rows, vector = _group_axis(node, dot), row_vars(node, dot), tiled.vector.factor
    inner: list[ExprRV] = []
    for var, (_, factors) in tiled.split.items():
        if factors[-1] is vector:
            sch.restrict_tile(factors, lambda table: table[:, -1] % MATRIX_COLUMNS == 0)
        elif any(var is item for item in rows):
            inner.append(factors[-1])
        else:
            size = MATRIX_ROWS if var is group_axis else 1
            sch.restrict_tile(factors, partial(_ends_with, size))

    def fits(columns: np.ndarray, *rows: np.ndarray) -> np.ndarray:
        tall, are_shares = _registers_of_rows(rows)
        fitting: np.ndarray = are_shares & registers_suffice(tall, columns // MATRIX_COLUMNS)
        return fitting

    sch.constrain([vector, *inner], fits)
    keep_cores_busy(sch, tiled, cores)


def mark_matrix_tile(sch: Schedule, node: BlockNode, tiled: TiledLoops, dot: DotProduct) -> None:
    """Mark the loop over the groups of a register."""
    loops, _ = tiled.split[_group_axis(node, dot)]
    sch.annotate(loops[-1], MATRIX_TILE, 1)


def _group_axis(node: BlockNode, dot: DotProduct) -> Any:
    """The variable that runs over groups."""
    return node.iter_vars[dot.axis].var


def _ends_with(size: int, table: np.ndarray) -> np.ndarray:
    found: np.ndarray = table[:, -1] == size
    return found


def _registers_of_rows(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """How many registers hold a tile's rows, and whether these are equal shares of the innermost loop that has several iterations."""
    count, ok, is_outside = np.ones(1), np.ones(1, dtype=bool), np.zeros(1, dtype=bool)
    for value in reversed(values):
        shares = registers_of_rows(value)
        ok = ok & (is_outside | (value % shares == 0))
        count = count * np.where(is_outside, value, shares)
        is_outside = is_outside | (value > 1)
    return count, ok
