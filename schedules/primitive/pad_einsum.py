"""The primitive that rounds the extents of an einsum up: pad_einsum."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ir import tir
from ir.dtype import is_float
from ir.tir import IterVar

from ..access import state_around
from ..affine import constant_difference, mentions, without_casts
from ..analysis import require, require_blocks_only, require_complete_or_reduction, written_buffers
from ..argument import Block, Integers
from ..coverage import why_not_unconditional
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    TreeNode,
    blocks_below,
    insert_beside,
    loops_around,
    scope_of,
)
from .block_domains import is_constant
from .caching import replace_buffer
from .layout import allocating_scope


class PadEinsumPrimitives(PrimitiveFamily):
    """Extents that have the divisors that a schedule wants."""

    @primitive("PadEinsum", moves=True, block=Block(), padding=Integers())
    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int]) -> None:
        """Round the extents of an einsum up to multiples of ``padding``, one per iteration variable.

        A matmul of 127 by padding 16 runs over 128, on inputs ``A_pad``, ``B_pad`` filled up with zeros, and its result
        ``C_pad`` is cut to ``C`` afterwards.

        Raises:
            ScheduleError: the block is no einsum over its loops, or the padding is not one positive number per variable.
        """
        _pad_einsum(self._block(block), padding)


def _pad_einsum(block: BlockNode, padding: Sequence[int]) -> None:
    primitive = "pad_einsum"
    scope = scope_of(block)
    require(scope is not None, primitive, f"block {block.name!r} is a root block")
    assert scope is not None
    require_complete_or_reduction(block, primitive)
    require_no_effects([block], primitive)
    require_blocks_only(block, primitive)
    require(
        len(padding) == len(block.iter_vars),
        primitive,
        f"got {len(padding)} paddings, block {block.name!r} has {len(block.iter_vars)} iteration variables",
    )
    require(
        all(int(item) >= 1 for item in padding),
        primitive,
        f"paddings must be at least 1, got {list(padding)}",
    )
    loops: dict[Any, LoopNode] = {loop.var: loop for loop in loops_around(block)}
    sizes: dict[Any, Any] = {}
    loop_vars = [without_casts(value) for value in block.iter_values]
    for item, value, var, factor in zip(block.iter_vars, block.iter_values, loop_vars, padding, strict=True):
        require(
            var in loops,
            primitive,
            f"variable {item.var.name!r} of block {block.name!r} is bound to {value}, not to a loop",
        )
        sizes[item.var] = _rounded_up(item.dom.extent, int(factor))
    _require_einsum(block, sizes, primitive)
    padded = {
        region.buffer: shape
        for region in (*block.reads, *block.writes)
        if (shape := _padded_shape(region, sizes)) is not None
    }
    top: TreeNode = block
    while isinstance(top.parent, LoopNode):
        top = top.parent
    _require_whole_buffers(block, padded, primitive)
    writes = {region.buffer for region in block.writes}
    for buffer, shape in padded.items():
        new = tir.decl_buffer(
            shape,
            buffer.dtype,
            f"{buffer.name}_pad",
            scope="" if buffer.scope() == "global" else buffer.scope(),
        )
        is_write = buffer in writes
        nest = _copy_out(new, buffer) if is_write else _copy_in(buffer, new)
        replace_buffer(block, buffer, new)
        (copy,) = blocks_below(nest)
        insert_beside(top, nest, before=not is_write)
        state_around(copy)
        scope.change(alloc_buffers=(*scope.alloc_buffers, new))
    for var, item in zip(loop_vars, block.iter_vars, strict=True):
        loop = loops[var]
        loop.extent = tir.cast(var.dtype, sizes[item.var])
        loop.touch()
    block.change(
        iter_vars=tuple(
            IterVar(
                tir.Range.from_min_extent(item.dom.min, sizes[item.var]),
                item.var,
                item.iter_type,
            )
            for item in block.iter_vars
        )
    )


def _require_whole_buffers(
    block: BlockNode, padded: Mapping[tir.Buffer, Sequence[Any]], primitive: str
) -> None:
    """Whole buffers are copied, so that the block must write all of what is copied back, and read all of what is not given."""
    for region in (*block.reads, *block.writes):
        buffer = region.buffer
        if buffer not in padded or (region not in block.writes and _is_given(block, buffer)):
            continue
        domains: dict[Any, tir.Range] = {item.var: item.dom for item in block.iter_vars}
        for item, dim in zip(region.region, buffer.shape, strict=True):
            dom = domains.pop(
                item.min, None
            )  # a variable that indexes two dimensions runs along their diagonal
            is_whole = is_constant(dim, 1) or (
                dom is not None
                and constant_difference(dom.min, 0) == 0
                and constant_difference(dom.extent, dim) == 0
            )
            require(
                is_whole,
                primitive,
                f"block {block.name!r} touches {buffer.name} at {item.min}, a part of its dimension of {dim}; whole buffers are padded",
            )


def _is_given(block: BlockNode, buffer: tir.Buffer) -> bool:
    """Whether all of a buffer may be read where a block is: of a parameter, unless a part of it may be written beside that meanwhile."""
    if allocating_scope(block, buffer) is not None:
        return False
    around = [block]
    while (scope := scope_of(around[-1])) is not None:
        around.append(scope)
    if any(view.buffer is buffer for scope in around for view in scope.match_buffers):
        return False
    return len(around) == 2 or not any(buffer in written_buffers(item) for item in around[1:])


def _rounded_up(extent: Any, factor: int) -> Any:
    """The least multiple of a factor that is not below an extent."""
    if isinstance(extent, tir.IntImm):
        return tir.const(-(-extent.value // factor) * factor, extent.dtype)
    return extent if factor == 1 else tir.floordiv(extent + (factor - 1), factor) * factor


def _require_einsum(block: BlockNode, sizes: dict[Any, Any], primitive: str) -> None:
    """Plain variables or constants as indices; and zeros in the inputs must leave the result alone."""
    for region in (*block.reads, *block.writes):
        for item in region.region:
            plain = (
                isinstance(item.min, tir.Var | tir.IntImm)
                and isinstance(item.extent, tir.IntImm)
                and item.extent.value == 1
            )
            require(
                plain,
                primitive,
                f"block {block.name!r} accesses {region.buffer.name} at {item.min}; an einsum has plain variables",
            )
    around = loops_around(block)
    require(
        block.is_unconditional and all(is_constant(item.min, 0) for item in around),
        primitive,
        f"block {block.name!r} has a predicate, or loops that do not start at 0",
    )
    bound = dict(zip(map(without_casts, block.iter_values), block.iter_vars, strict=True))
    require(
        all(
            item.var in bound and constant_difference(item.extent, bound[item.var].dom.extent) == 0
            for item in around
        ),
        primitive,
        f"the loops around block {block.name!r} are not those of its variables over all their values",
    )
    require(around, primitive, f"block {block.name!r} has no loops around it")
    for loop in around:
        require(
            not is_constant(loop.extent, 0),
            primitive,
            f"loop {loop.var.name!r} has no iterations, so that block {block.name!r} writes nothing",
        )
    if any(loop.body is not node for loop, node in zip(around, [*around[1:], block], strict=True)):
        raise ScheduleError(
            f"{primitive}: the loops around block {block.name!r} hold other statements as well"
        )
    reductions = {item.var for item in block.iter_vars if item.iter_type == IterVar.CommReduce}
    grown: dict[Any, tir.Range] = {
        item.var: item.dom
        for item in block.iter_vars
        if constant_difference(item.dom.extent, sizes[item.var]) != 0
    }
    require(isinstance(block.body, LeafNode), primitive, f"block {block.name!r} has loops or blocks inside")
    for region in block.writes:
        reason = why_not_unconditional(block, region.buffer)
        require(reason is None, primitive, f"{reason}; the copy would write back elements that nobody wrote")
    for region in (*block.reads, *block.writes):
        for item, dim in zip(region.region, region.buffer.shape, strict=True):
            require(
                item.min not in grown or constant_difference(grown[item.min].extent, dim) == 0,
                primitive,
                f"block {block.name!r} touches a part of {region.buffer.name} only: its dimension of {dim} up to"
                f" {grown[item.min].extent if item.min in grown else dim}, behind which there would be no padding",
            )
    for region in block.writes:
        for var in grown.keys() - reductions:
            require(
                any(item.min is var for item in region.region),
                primitive,
                f"{var.name!r} does not index {region.buffer.name}: what block {block.name!r} makes of the padding would overwrite it",
            )
    if grown:
        _require_total(block, grown, primitive)
    if not reductions & grown.keys():
        return
    store = block.body.leaf if isinstance(block.body, LeafNode) else None
    fits = False
    if (
        isinstance(store, tir.BufferStore)
        and isinstance(store.value, tir.Add)
        and isinstance(store.value.a, tir.BufferLoad)
        and store.value.a.buffer is store.buffer
    ):
        fits = all(_vanishes(store.value.b, var) for var in reductions & grown.keys())
    require(
        fits,
        primitive,
        f"the update of block {block.name!r} is no sum of products in which every padded reduction variable indexes a factor, and all"
        " factors of floats, of which another might be infinite",
    )


def _vanishes(product: tir.PrimExpr, var: tir.Var) -> bool:
    """Whether a product is zero where the loads that a variable indexes are: zero times infinity is not."""
    factors = _factors(product)
    padded = [isinstance(_uncast(item), tir.BufferLoad) and mentions(item, {var}) for item in factors]
    if not is_float(product.dtype):
        return any(padded)
    numbers = [item for item, is_padded in zip(factors, padded, strict=True) if not is_padded]
    if not any(padded) or not all(isinstance(_uncast(item), tir.IntImm | tir.FloatImm) for item in numbers):
        return False
    value = _at_zeros(product)
    return isinstance(value, tir.FloatImm) and value.value == 0


def _at_zeros(product: tir.PrimExpr) -> tir.PrimExpr:
    """What a product of loads and constants comes to where the loads are zero, rounded as its types round."""
    if isinstance(product, tir.BufferLoad):
        return tir.const(0, product.dtype)
    if isinstance(product, tir.Cast):
        return tir.cast(product.dtype, _at_zeros(product.value))
    return _at_zeros(product.a) * _at_zeros(product.b) if isinstance(product, tir.Mul) else product


def _require_total(block: BlockNode, grown: Collection[Any], primitive: str) -> None:
    """Zeros, and values of variables behind their domains, may not make the body undefined: it also runs in the padding, where nobody
    wants its result.
    """

    def visit(node: Any) -> None:
        if isinstance(node, tir.Div | tir.Mod | tir.FloorDiv | tir.FloorMod) and not is_float(node.dtype):
            require(
                isinstance(node.b, tir.IntImm) and node.b.value != 0,
                primitive,
                f"block {block.name!r} divides by {node.b}, which would be zero in the padding",
            )
        elif (
            isinstance(node, tir.Call)
            and getattr(node.op, "name", "") in _LIMITED
            and not is_float(node.dtype)
        ):
            number = node.args[1]
            require(
                _is_harmless(number) or not mentions(node, grown),
                primitive,
                f"block {block.name!r} computes {node}, which may have no value in the padding",
            )

    if isinstance(block.body, LeafNode):
        tir.post_order_visit(block.body.leaf, visit)


_LIMITED = frozenset({"tir.shift_left", "tir.shift_right", "tir.pow"})
"""Calls that have no value for some of the numbers of a type."""


def _is_harmless(number: tir.PrimExpr) -> bool:
    """Whether an amount, or an exponent, is a number that the program has, or 0, as what is loaded is in the padding."""
    if isinstance(number, tir.IntImm):
        return number.value >= 0
    return isinstance(number, tir.BufferLoad)


def _uncast(expr: Any) -> Any:
    return _uncast(expr.value) if isinstance(expr, tir.Cast) else expr


def _factors(expr: Any) -> list[Any]:
    return _factors(expr.a) + _factors(expr.b) if isinstance(expr, tir.Mul) else [expr]


def _padded_shape(region: tir.BufferRegion, sizes: dict[Any, Any]) -> list[Any] | None:
    shape, changed = [], False
    for item, dim in zip(region.region, region.buffer.shape, strict=True):
        size = sizes.get(item.min)
        if size is None or (difference := constant_difference(size, dim)) == 0:
            shape.append(dim)
            continue
        larger = difference is None or difference > 0
        shape.append(size if larger else dim)
        changed = changed or larger
    return shape if changed else None


def _copy_in(source: tir.Buffer, padded: tir.Buffer) -> TreeNode:
    """Copy into a larger buffer, zeros outside."""

    def value(point: list[Any]) -> Any:
        condition: Any = None
        for var, dim, size in zip(point, source.shape, padded.shape, strict=True):
            if constant_difference(size, dim) != 0:
                inside = var < tir.cast(var.dtype, dim)
                condition = inside if condition is None else tir.operators.logical_and(condition, inside)
        return tir.if_then_else(condition, tir.BufferLoad(source, point), tir.const(0, source.dtype))

    return _pointwise(padded, value, f"{source.name}_pad", source)


def _copy_out(padded: tir.Buffer, target: tir.Buffer) -> TreeNode:
    """Copy the inside of a padded buffer back."""
    return _pointwise(target, lambda point: tir.BufferLoad(padded, point), f"{target.name}_pad", padded)


def _pointwise(target: tir.Buffer, value: Any, name: str, source: tir.Buffer) -> TreeNode:
    loops = [tir.Var(f"i{n}", dim.dtype) for n, dim in enumerate(target.shape)]
    point = [tir.Var(f"v{n}", dim.dtype) for n, dim in enumerate(target.shape)]
    region = [tir.Range.from_min_extent(var, tir.const(1, var.dtype)) for var in point]
    node: TreeNode = BlockNode(
        name,
        tuple(
            IterVar(tir.Range.from_min_extent(tir.const(0, dim.dtype), dim), var, IterVar.DataPar)
            for var, dim in zip(point, target.shape, strict=True)
        ),
        tuple(loops),
        (tir.BufferRegion(source, region),),
        (tir.BufferRegion(target, region),),
        LeafNode(tir.BufferStore(target, value(point), point)),
    )
    for var, dim in zip(reversed(loops), reversed(target.shape), strict=True):
        node = LoopNode(var, dim, node)
    return node
