"""separate: a window of several axes is reduced axis by axis, so that neighbouring windows share what they have in common.

The largest of 3 x 3 neighbours is the largest of three in a row of largest ones of three in a column: six comparisons in place of nine,
and the columns are contiguous even where every other window is taken. (Van Herk: "A fast algorithm for local minimum and maximum
filters on rectangular and octagonal kernels", Pattern Recognition Letters 1992, begins so.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.analysis.reducer import Reduction
from ir.tir.stmt_functor import loads_in, substitute, variables_in

from ..affine import are_equal, mentions
from ..analysis import require, require_blocks_only, why_not_reduction
from ..argument import Loop
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..random_variable import BlockRV, LoopRV
from ..region import point_region
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    all_blocks,
    blocks_below,
    fresh_block_name,
    insert_beside,
    loops_around,
    loops_of_its_own,
    replace_node,
    root_of,
    scope_of,
)
from .rfactor import reduction_of


@dataclass
class _Window:
    """A reduction over windows of a tensor."""

    load: tir.BufferLoad
    dim: int
    """The dimension through which the axis moves that is reduced first."""
    place: IterVar
    """The variable that says where the window is in that dimension."""
    along: IterVar
    """The variable of the reduction that moves in it."""


class SeparatePrimitives(PrimitiveFamily):
    """Windows, axis by axis."""

    @primitive("Separate", moves=True, loop=Loop())
    def separate(self, loop: LoopRV) -> BlockRV:
        """Reduce windows over the loop's axis first, once for each place of the tensor: returns the block that does so.

        ``for i, j: for r, s: B[i, j] = max(B[i, j], A[2 * i + r, 2 * j + s])`` by r becomes
        ``for i, v: for r: T[i, v] = max(T[i, v], A[2 * i + r, v])`` and ``for i, j: for s: B[i, j] = max(B[i, j], T[i, 2 * j + s])``.

        Raises:
            ScheduleError: the loop runs no reduction of a block that is alone in a plain nest and reduces over other axes too; what is
                reduced is no element of a tensor at a place that one other variable and the loop's say in one dimension; or the tensor
                is an intermediate result of which something may be missing.
        """
        node = self._loop(loop)
        block = reduction_alone(node, "separate")
        reduction = reduction_of(block, "separate")
        window = _window_of(block, node, reduction)
        scope = scope_of(block)
        assert scope is not None
        shape = list(window.load.buffer.shape)
        shape[window.dim] = window.place.dom.extent
        first = tir.decl_buffer(
            shape, reduction.outputs[0].dtype, f"{reduction.outputs[0].name}_{node.var.name}"
        )
        nest, made = _first_nest(block, node, window, reduction, first)
        _reduce_the_rest(block, node, window, reduction, first)
        insert_beside(loops_around(block)[0], nest, before=True)
        scope.change(alloc_buffers=(*scope.alloc_buffers, first))
        return self._new(made)


def reduction_alone(loop: LoopNode, method: str) -> BlockNode:
    """The reduction block below a loop, alone in a nest whose loops bind its variables one by one.

    Raises:
        ScheduleError: there is none; ``method`` is who asks.
    """
    name = loop.var.name
    blocks = blocks_below(loop)
    require(len(blocks) == 1, method, f"loop {name!r} has {len(blocks)} blocks below it, it needs one")
    (block,) = blocks
    reason = why_not_reduction(block)
    require(reason is None, method, f"block {block.name!r} is not a reduction block: {reason}")
    require_blocks_only(block, method)
    require_no_effects([block], method)
    loops = loops_around(block)
    extents: dict[Any, tir.PrimExpr] = {item.var: item.extent for item in loops}
    bound = list(zip(block.iter_vars, block.iter_values, strict=True))
    plain = (
        loops_of_its_own(block) == loops
        and block.is_unconditional
        and len(loops) == len(block.iter_vars)
        and {item.var for item in loops} == set(block.iter_values)
        and all(
            item.begins_at_zero and not item.annotations and item.thread_binding is None for item in loops
        )
        and all(are_equal(item.dom.extent, extents[value]) for item, value in bound)
    )
    require(
        plain,
        method,
        f"block {block.name!r} is not alone in a nest of plain loops that bind its variables one by one, all their values",
    )
    return block


def _window_of(block: BlockNode, loop: LoopNode, reduction: Reduction) -> _Window:
    method, name = "separate", block.name
    along = next(
        item for item, value in zip(block.iter_vars, block.iter_values, strict=True) if value is loop.var
    )
    sums = [item for item in block.iter_vars if item.iter_type == IterVar.CommReduce]
    require(
        along in sums and len(sums) > 1,
        method,
        f"loop {loop.var.name!r} is not one of several reduction loops of block {name!r}",
    )
    (load,) = reduction.operands if len(reduction.operands) == 1 else (None,)
    is_element = isinstance(load, tir.BufferLoad) and load.buffer not in reduction.outputs
    require(is_element, method, f"what block {name!r} reduces is not one element of a tensor")
    assert isinstance(load, tir.BufferLoad)
    dims = [dim for dim, index in enumerate(load.indices) if mentions(index, {along.var})]
    require(
        len(dims) == 1,
        method,
        f"loop {loop.var.name!r} moves through {len(dims)} dimensions of {load.buffer.name}",
    )
    others = set(variables_in(load.indices[dims[0]])) - {along.var}
    place = next((item for item in block.iter_vars if others == {item.var}), None)
    elsewhere = any(mentions(index, others) for dim, index in enumerate(load.indices) if dim != dims[0])
    is_window = place is not None and place.iter_type == IterVar.DataPar and not elsewhere
    require(
        is_window,
        method,
        f"one variable beside that of loop {loop.var.name!r} must say the place in {load.indices[dims[0]]}, and no other one",
    )
    assert place is not None
    require(
        _is_whole(block, load.buffer),
        method,
        f"{load.buffer.name} is an intermediate result of which something may be missing",
    )
    return _Window(load, dims[0], place, along)


def _is_whole(block: BlockNode, buffer: tir.Buffer) -> bool:
    """Whether every element of a buffer has a value: it is a parameter, or one block computes all of it."""
    writers = [
        item for item in all_blocks(root_of(block)) if any(buffer is region.buffer for region in item.writes)
    ]
    allocated = any(buffer in item.alloc_buffers for item in all_blocks(root_of(block)))
    if not allocated:
        return not writers
    if len(writers) != 1 or not writers[0].is_unconditional or not isinstance(writers[0].body, LeafNode):
        return False
    (writer,) = writers
    domains = {item.var: item.dom for item in writer.iter_vars if item.iter_type == IterVar.DataPar}
    loops = {loop.var: loop.extent for loop in loops_around(writer)}
    bound = dict(zip([item.var for item in writer.iter_vars], writer.iter_values, strict=True))
    region = next(item.region for item in writer.writes if item.buffer is buffer)
    indices = [item.min for item in region]
    whole = {
        var
        for var, value in bound.items()
        if var in domains and isinstance(value, tir.Var) and value in loops
    }
    return len(set(indices)) == len(indices) and all(
        isinstance(index, tir.Var) and index in whole and are_equal(loops[bound[index]], extent)  # type: ignore[index]
        for index, extent in zip(indices, buffer.shape, strict=True)
    )


def _first_nest(
    block: BlockNode, loop: LoopNode, window: _Window, reduction: Reduction, first: tir.Buffer
) -> tuple[LoopNode, BlockNode]:
    """The nest that reduces along the window's axis: its outermost loop, and its block."""
    load, dtype = window.load, window.along.var.dtype
    places = [tir.Var(f"v_{dim}", dtype) for dim in range(len(first.shape))]
    along = tir.Var(window.along.var.name, dtype)
    changed = {
        window.place.var: tir.cast(window.place.var.dtype, places[window.dim]),
        window.along.var: along,
    }
    read = [
        substitute(index, changed) if dim == window.dim else places[dim]
        for dim, index in enumerate(load.indices)
    ]
    value = tir.BufferLoad(load.buffer, read)
    own = tir.BufferLoad(first, places)
    update = tir.BufferStore(first, reduction.combine([own], [value])[0], places)
    init = tir.BufferStore(first, reduction.inits[0].value, places)
    extents = [*(tir.cast(dtype, extent) for extent in first.shape), window.along.dom.extent]
    kinds = [IterVar.DataPar] * len(places) + [IterVar.CommReduce]
    domains = [
        IterVar(tir.Range(0, extent), var, kind)
        for extent, var, kind in zip(extents, [*places, along], kinds, strict=True)
    ]
    names = [*(f"ax{dim}" for dim in range(len(places))), loop.var.name]
    variables = [tir.Var(name, dtype) for name in names]
    made = BlockNode(
        fresh_block_name(root_of(block), f"{block.name}_{loop.var.name}"),
        tuple(domains),
        tuple(variables),
        (point_region(load.buffer, read),),
        (point_region(first, places),),
        LeafNode(update),
        init=init,
    )
    nest: Any = made
    for var, extent in zip(reversed(variables), reversed(extents), strict=True):
        nest = LoopNode(var, extent, nest)
    return nest, made


def _reduce_the_rest(
    block: BlockNode, loop: LoopNode, window: _Window, reduction: Reduction, first: tir.Buffer
) -> None:
    """Let the block reduce the first nest's results along its other axes."""
    load = window.load
    indices = [window.place.var if dim == window.dim else index for dim, index in enumerate(load.indices)]
    own = tir.BufferLoad(reduction.outputs[0], reduction.indices)
    value = reduction.combine([own], [tir.BufferLoad(first, indices)])[0]
    named = {item.buffer for index in indices for item in loads_in(index)}
    kept = [position for position, item in enumerate(block.iter_vars) if item is not window.along]
    replace_node(loop, loop.body)
    block.change(
        iter_vars=tuple(block.iter_vars[position] for position in kept),
        iter_values=tuple(block.iter_values[position] for position in kept),
        reads=(point_region(first, indices), *(region for region in block.reads if region.buffer in named)),
    )
    block.set_body(LeafNode(tir.BufferStore(reduction.outputs[0], value, reduction.indices)))
