"""The unscheduled program with the loops of its reductions in an order that is fast, for reference outputs.

Plain loops of a large matrix product take seconds: they stride through its weights on one core. Here the loops of such a
block are tiled, exchanged and run in parallel by one fixed rule that knows nothing of schedules, so that a defect of those
cannot hide. Every output element is still summed in the order of the program's reduction loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ir import IRModule
from ir.error import IRError
from ir.node import Mutator, post_order_visit
from ir.structural import structural_equal
from ir.tir import BufferLoad, BufferStore, IntImm, IterVar, PrimFunc, Var
from ir.tir.evaluate import evaluate
from ir.tir.stmt import Block, BlockRealize, Evaluate, For, ForKind

_MIN_ITERATIONS = 1 << 18
"""Blocks with fewer iterations than this take a millisecond or less as they are."""
_LONG, _SHORT = 64, 8
"""Extents of a tile: along the contiguous axis (four wide vectors), and along one that uses the same operand again."""


def in_fast_order(mod: Any, min_iterations: int = _MIN_ITERATIONS) -> Any:
    """A module that computes the same, its large reductions in a faster order; other blocks stay as they are."""
    functions = {
        var.name_hint: func.replace(body=_Reorder(min_iterations).visit(func.body))
        if isinstance(func, PrimFunc)
        else func
        for var, func in mod.functions.items()
    }
    return IRModule(functions, attrs=mod.attrs)


@dataclass(slots=True)
class _Loop:
    """A loop of a nest with the axis of the block that it runs."""

    var: Var
    extent: int
    axis: Var
    spatial: bool


class _Reorder(Mutator):
    """Rewrites each nest of loops around one reduction block."""

    def __init__(self, min_iterations: int) -> None:
        super().__init__()
        self._min_iterations = min_iterations

    def visit_For(self, node: For) -> Any:
        nest = _nest_of(node)
        if nest is None:
            return self.generic_visit(node)
        loops, realize = nest
        if math.prod(loop.extent for loop in loops) < self._min_iterations:
            return node
        return _reordered(loops, realize) if _elements_are_independent(loops, realize.block) else node


def _nest_of(loop: For) -> tuple[list[_Loop], BlockRealize] | None:
    """The loops around a block that run one axis each, from outermost; None for anything else."""
    extents: dict[Var, int] = {}
    body: Any = loop
    while isinstance(body, For):
        if body.kind is not ForKind.SERIAL or body.annotations or not isinstance(body.extent, IntImm):
            return None
        if not isinstance(body.min, IntImm) or body.min.value != 0:
            return None
        extents[body.loop_var] = body.extent.value
        body = body.body
    if not isinstance(body, BlockRealize) or body.block.alloc_buffers or body.block.match_buffers:
        return None
    if not isinstance(body.predicate, IntImm) or not body.predicate.value:
        return None
    axes: dict[Any, IterVar] = dict(zip(body.iter_values, body.block.iter_vars))
    if len(axes) != len(body.iter_values) or set(axes) != set(extents):
        return None
    if any(axis.iter_type not in (IterVar.DataPar, IterVar.CommReduce) for axis in axes.values()):
        return None
    loops = [
        _Loop(var, extent, axes[var].var, axes[var].iter_type == IterVar.DataPar)
        for var, extent in extents.items()
    ]
    return loops, body


def _nodes(block: Block, kind: type | tuple[type, ...]) -> list[Any]:
    found: list[Any] = []
    for part in (block.init, block.body):
        if part is not None:
            post_order_visit(part, lambda node: found.append(node) if isinstance(node, kind) else None)
    return found


def _elements_are_independent(loops: Sequence[_Loop], block: Block) -> bool:
    """Whether iterations of different spatial axes touch different elements, which the kinds of axes only promise."""
    stores = _nodes(block, BufferStore)
    if not stores or _nodes(block, (Block, Evaluate)) or all(loop.spatial for loop in loops):
        return False
    spatial = {loop.axis for loop in loops if loop.spatial and loop.extent > 1}
    written = {store.buffer.data: store.indices for store in stores}
    accesses = [*stores, *(load for load in _nodes(block, BufferLoad) if load.buffer.data in written)]
    return all(
        spatial <= {index for index in access.indices if isinstance(index, Var)}
        and all(map(structural_equal, access.indices, written[access.buffer.data]))
        for access in accesses
    )


def _stride(access: Any, axis: Var, axes: Sequence[Var]) -> int | None:
    """Elements between the accesses of two iterations of an axis; None where the address is not computable."""
    begin = dict.fromkeys(axes, 0)
    stride, total = 1, 0
    for index, extent in zip(reversed(access.indices), reversed(access.buffer.shape)):
        try:
            total += stride * (evaluate(index, {**begin, axis: 1}) - evaluate(index, begin))
        except IRError:
            return None
        stride *= extent.value if isinstance(extent, IntImm) else 1
    return total


def _reordered(loops: list[_Loop], realize: BlockRealize) -> Any:
    block = realize.block
    axes = [item.var for item in block.iter_vars]
    spatial = [loop for loop in loops if loop.spatial]
    reduction = [loop for loop in loops if not loop.spatial]
    store = _nodes(block, BufferStore)[-1]
    loads = [load for load in _nodes(block, BufferLoad) if load.buffer.data is not store.buffer.data]

    def strided(loop: _Loop) -> int:
        return sum(_stride(load, loop.axis, axes) not in (0, 1) for load in loads)

    def reuse(loop: _Loop) -> int:
        return sum(_stride(load, loop.axis, axes) == 0 for load in loads)

    wide = [loop for loop in spatial if loop.extent > 1]
    contiguous = next((loop for loop in reversed(wide) if _stride(store, loop.axis, axes) == 1), None)
    others = [loop for loop in wide if loop is not contiguous]
    tiles: dict[Var, int] = {}
    if contiguous is not None:
        tiles[contiguous.var] = _divisor(contiguous.extent, _LONG)
    if others:
        again = max(reversed(others), key=reuse)
        tiles[again.var] = _divisor(again.extent, _SHORT)
    outer: list[tuple[Var, int]] = []
    inner: list[tuple[Var, int]] = []
    values: dict[Any, Any] = {}
    for loop in spatial:
        size = tiles.get(loop.var, 1)
        dtype = loop.var.dtype
        one, two = Var(f"{loop.var.name}_0", dtype), Var(f"{loop.var.name}_1", dtype)
        outer.append((one, loop.extent // size))
        inner += [(two, size)] if size > 1 else []
        values[loop.var] = one * IntImm(dtype, size) + two if size > 1 else one
    sums = [(loop.var, loop.extent) for loop in reduction]
    outside = contiguous is not None and strided(contiguous) <= strided(reduction[-1])
    outer.sort(key=lambda pair: -pair[1])
    order = [*outer, *sums, *inner] if outside else [*outer, *inner, *sums]
    body: Any = realize.replace(iter_values=[values.get(value, value) for value in realize.iter_values])
    for depth, (var, extent) in reversed(list(enumerate(order))):
        kind = ForKind.PARALLEL if outer and depth == 0 and extent > 1 else ForKind.SERIAL
        body = For(var, IntImm(var.dtype, 0), IntImm(var.dtype, extent), kind, body)
    return body


def _divisor(extent: int, limit: int) -> int:
    """The largest divisor up to a limit; all of a short or indivisible extent."""
    if extent <= limit:
        return extent
    found = next(size for size in range(limit, 0, -1) if extent % size == 0)
    return found if found > 1 else extent
