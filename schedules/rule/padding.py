"""Padded extents for tiling: where an extent has no divisor that makes a good register tile, a slightly larger one has.

A loop of 197 rows cannot be tiled for registers, one of 198 can: 18 tiles of 11, of which the last has 10. The iterations past the
end are cut off by a predicate, and lowering gives the last tile code of its own, so that they cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from ir import tir
from ir.tir import IterVar

from ..affine import polynomial, split_by
from ..block_facts import loop_position, node_of, operand_loads, operand_vars, own_loop_position
from ..random_variable import BlockRV, LoopRV
from ..schedule import Schedule
from ..tree import BlockNode

_MAX_COLUMNS = 8
"""Vectors side by side in a register tile at most, as far as this estimate looks."""
_LATENCY = 4
"""Cycles until the sum of a multiply-add can be added to again."""


@dataclass(frozen=True)
class RegisterFile:
    """What register tiles go by of a target: elements of a vector, and vector registers."""

    lanes: int
    registers: int
    per_column: int = 1
    """Registers beside the accumulators for each vector of a row: the vector,"""
    others: int = 1
    """and others: a broadcast."""

    def fits(self, rows: Any, columns: Any) -> Any:
        """Whether the accumulators and what is beside them have registers, or LLVM spills in the inner loop; of arrays, too."""
        return rows * columns + self.per_column * columns + self.others <= self.registers

    def cycles(self, rows: int, columns: int) -> float:
        """Of one step of the reduction: two multiply-adds and two loads per cycle, where vectors come from the second cache."""
        return max(rows * columns, rows + 2 * columns, 2 * _LATENCY) / 2 if rows and columns else 0.0


@dataclass(frozen=True)
class Tiling:
    """A register tile over padded extents, with what one step of the reduction costs over all of the output."""

    cost: float
    waste: int
    extents: tuple[tuple[Any, int], ...] = ()
    """(variable, padded extent) of what is padded."""


def choose_padding(
    node: BlockNode, vector_var: Any, machine: RegisterFile, max_padding: float
) -> tuple[dict[Any, int], float]:
    """Padded extents by block variable (empty where nothing is gained), and by which factor they are better.

    At most the vector axis and one other axis are padded, the others by a share of at most ``max_padding``; a vector axis that is no
    multiple of the vector width may be padded to the next one in any case. An axis of one element stays as it is: the loop of its
    only iteration binds nothing.
    """
    extents = _extents(node)
    if vector_var not in extents or max_padding <= 0 or not is_affine_in(node, vector_var):
        return {}, 1.0
    rows = [var for var in _row_vars(node, vector_var) if extents[var] > 1]
    plain = min(_plain(extents, rows, vector_var, machine), key=lambda item: item.cost)
    padded = min(
        _padded(node, extents, rows, vector_var, machine, max_padding),
        key=lambda item: (round(item.cost / plain.cost, 2), item.waste),
        default=plain,
    )
    return dict(padded.extents), plain.cost / padded.cost


def pad_loops(sch: Schedule, block: BlockRV, extents: dict[Any, int]) -> None:
    """Replace the loops of some block variables by loops with the given larger extents, cut by a predicate."""
    for var, extent in extents.items():
        position = own_loop_position(node_of(sch, block), var)
        assert position is not None
        pad_loop(sch, sch.get_loops(block)[position], extent)


def pad_loop(sch: Schedule, loop: LoopRV, extent: int) -> LoopRV:
    """A loop with a larger extent, cut by a predicate."""
    once, padded = sch.split(loop, [1, extent], preserve_unit_iters=False)
    return sch.fuse(once, padded)


def padded_extent(extent: int, size: int, most: int) -> int:
    """The extent, or the least larger one, that is a number of pieces of a size which has a divisor from half of ``most`` on, up to it."""
    count = -(-extent // size)
    while all(count % part for part in range(-(-most // 2), most + 1)):
        count += 1
    return count * size


def _extents(node: BlockNode) -> dict[Any, int]:
    """Constant extents of data-parallel variables that have a loop of their own."""
    return {
        item.var: item.dom.extent.value
        for item in node.iter_vars
        if item.iter_type == IterVar.DataPar
        and isinstance(item.dom.extent, tir.IntImm)
        and loop_position(node, item.var) is not None
    }


def is_affine_in(node: BlockNode, var: Any) -> bool:
    """Whether the regions of tiles along an axis are boxes also where it is padded (groups of channels are none)."""
    indices = [index for load in operand_loads(node) for index in load.indices]
    return all(split_by(polynomial(index), {var: 1}) is not None for index in indices)


def _row_vars(node: BlockNode, vector_var: Any) -> list[Any]:
    """Axes along which a tile uses the vectors of some operand again."""
    vectors = [used for used in operand_vars(node) if vector_var in used]
    return [
        var for var in _extents(node) if var is not vector_var and any(var not in used for used in vectors)
    ]


def _plain(
    extents: dict[Any, int], rows: Sequence[Any], vector_var: Any, machine: RegisterFile
) -> Iterator[Tiling]:
    """Register tiles of divisors."""
    size = extents[vector_var]
    vectors = size // min(machine.lanes, size & -size)
    total = prod(extents[var] for var in rows)
    columns = [item for item in range(1, _MAX_COLUMNS + 1) if vectors % item == 0]
    tiles = {
        prod(item) for item in product(*[_small_divisors(extents[var], machine.registers) for var in rows])
    }
    for tall, wide in product(tiles, columns):
        if machine.fits(tall, wide):
            yield Tiling(total // tall * (vectors // wide) * machine.cycles(tall, wide), 0)


def _small_divisors(extent: int, limit: int) -> list[int]:
    return [item for item in range(1, min(extent, limit) + 1) if extent % item == 0]


def _padded(
    node: BlockNode,
    extents: dict[Any, int],
    rows: Sequence[Any],
    vector_var: Any,
    machine: RegisterFile,
    max_padding: float,
) -> Iterator[Tiling]:
    """Register tiles of which one axis besides the vector axis has any number of rows."""
    size, lanes = extents[vector_var], machine.lanes
    vectors = -(-size // lanes)
    total = prod(extents[var] for var in rows)
    axes: list[tuple[Any, int, int]] = [(None, 1, 1)]
    for var in (item for item in rows if is_affine_in(node, item)):
        for tall in range(1, machine.registers):
            padded = _round_up(extents[var], tall)
            if tall <= extents[var] and padded <= extents[var] * (1 + max_padding):
                axes.append((var, tall, padded))
    for wide in range(1, min(_MAX_COLUMNS, vectors) + 1):
        width = _round_up(vectors, wide) * lanes if size > 1 else 1
        if width > max(size * (1 + max_padding), vectors * lanes):
            continue
        for var, tall, padded in axes:
            if not machine.fits(tall, wide):
                continue
            height = 1 if var is None else extents[var]
            cost = sum(
                machine.cycles(part_rows, part_columns) * rows_count * columns_count
                for (part_rows, rows_count), (part_columns, columns_count) in product(
                    _parts(height, tall), _parts(vectors, wide)
                )
            )
            changed = [] if var is None or padded == height else [(var, padded)]
            changed += [(vector_var, width)] if width != size else []
            if changed:
                waste = (padded - height) * size + (width - size) * height
                yield Tiling(cost * (total // height), waste, tuple(changed))


def _parts(extent: int, tile: int) -> list[tuple[int, int]]:
    """(size, number) of whole tiles and of what is left."""
    return [(tile, extent // tile), (extent % tile, 1)]


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
