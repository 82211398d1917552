"""Primitives that change how data lies in memory: transform_layout, transform_block_layout, storage_align, set_scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir import tir
from ir.arith import Analyzer
from ir.error import IRError
from ir.tir import IndexMap, IterVar
from ir.tir.stmt_functor import StmtExprMutator, substitute

from ..access import access_regions
from ..affine import constant_difference, polynomial, simplify_polynomial
from ..analysis import require, require_complete_or_reduction, written_buffers
from ..error import ScheduleError
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    TreeNode,
    all_blocks,
    child_blocks,
    loops_around,
    replace_node,
    scope_of,
    walk,
)
from .caching import cache_name, replace_buffer, require_storage_scope
from .layout_padding import (
    Padding,
    assume_padding,
    choose_padding,
    element_loops,
    iterate_new_layout,
    store_padding,
)


def buffer_of(block: BlockNode, buffer_index: int, is_write: bool, primitive: str) -> tir.Buffer:
    """The buffer that a block reads or writes at a position."""
    regions = block.writes if is_write else block.reads
    require(
        0 <= buffer_index < len(regions),
        primitive,
        f"block {block.name!r} {'writes' if is_write else 'reads'} {len(regions)} buffers; there is no buffer {buffer_index}",
    )
    return regions[buffer_index].buffer


class _MapAccesses(StmtExprMutator):
    """Accesses of a buffer become accesses of its relaid-out twin; indices simplify under ``simplify``."""

    def __init__(
        self, old: tir.Buffer, new: tir.Buffer, index_map: IndexMap, simplify: Callable[[Any], Any] | None
    ) -> None:
        super().__init__()
        self._old, self._new, self._map, self._simplify = old, new, index_map, simplify

    def indices(self, indices: Any) -> list[tir.PrimExpr]:
        """The indices in the new layout."""
        mapped = map_indices(self._map, indices)
        return mapped if self._simplify is None else [self._simplify(item) for item in mapped]

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        mapped = self.generic_visit(load)
        return tir.BufferLoad(self._new, self.indices(mapped.indices)) if load.buffer is self._old else mapped

    def visit_BufferStore(self, store: tir.BufferStore) -> Any:
        mapped = self.generic_visit(store)
        if store.buffer is not self._old:
            return mapped
        return tir.BufferStore(self._new, mapped.value, self.indices(mapped.indices))

    def region(self, region: tir.BufferRegion) -> tir.BufferRegion:
        """The box of the mapped region: exact for points, else the whole buffer."""
        if region.buffer is not self._old:
            ranges = [self.visit(item) for item in region.region]
            same = all(a is b for a, b in zip(ranges, region.region, strict=True))
            return region if same else tir.BufferRegion(region.buffer, ranges)
        if all(isinstance(item.extent, tir.IntImm) and item.extent.value == 1 for item in region.region):
            points = self.indices([item.min for item in region.region])
            return tir.BufferRegion(
                self._new, [tir.Range.from_min_extent(item, tir.const(1, item.dtype)) for item in points]
            )
        whole = [tir.Range.from_min_extent(tir.const(0, dim.dtype), dim) for dim in self._new.shape]
        return tir.BufferRegion(self._new, whole)


def map_indices(index_map: IndexMap, indices: Any) -> list[tir.PrimExpr]:
    """The final indices of a map, with like terms collected (open decisions stay symbolic)."""
    values = dict(zip(index_map.initial_indices, indices, strict=True))
    return [simplify_polynomial(substitute(item, values)) for item in index_map.final_indices]


def transform_layout(
    block: BlockNode,
    buffer_index: int,
    is_write: bool,
    index_map: IndexMap,
    pad_value: Any = None,
    function_buffers: dict[Any, tir.Buffer] | None = None,
    new_shape: list[Any] | None = None,
    assume_injective: bool = False,
) -> tuple[tir.Buffer, tir.Buffer]:
    """Store a buffer in another layout; every block of its scope that accesses it is rewritten. Returns (old, new).

    Elements of the new layout that no old one maps to become ``pad_value`` (see :mod:`.layout_padding`).
    """
    buffer = buffer_of(block, buffer_index, is_write, "transform_layout")
    require(
        len(index_map.initial_indices) == len(buffer.shape),
        "transform_layout",
        f"the index map takes {len(index_map.initial_indices)} indices, buffer {buffer.name} has {len(buffer.shape)} dimensions",
    )
    shape = new_shape if new_shape is not None else index_map.map_shape(buffer.shape)
    gaps: Any = None
    if new_shape is None and not assume_injective and index_map.inverse_index_map is None:
        gaps = _require_injective(buffer, index_map)
    require(
        gaps is None or pad_value is not None,
        "transform_layout",
        f"the map leaves gaps between the elements of buffer {buffer.name}; pass pad_value to fill them",
    )
    new = buffer.replace(
        shape=tuple(
            tir.convert(item) if not isinstance(item, int) else tir.const(item, buffer.shape[0].dtype)
            for item in shape
        ),
        strides=(),
    )
    scope = allocating_scope(block, buffer)
    padding = None if gaps is None else Padding(new, index_map, gaps[0], gaps[1], pad_value)
    if scope is None:
        require(
            function_buffers is not None and any(item is buffer for item in function_buffers.values()),
            "transform_layout",
            f"buffer {buffer.name} is neither allocated in a block around {block.name!r} nor a parameter",
        )
        assert function_buffers is not None
        for param, item in list(function_buffers.items()):
            if item is buffer:
                function_buffers[param] = new
        top: TreeNode = block
        while top.parent is not None:
            top = top.parent
    else:
        scope.change(alloc_buffers=tuple(new if item is buffer else item for item in scope.alloc_buffers))
        top = scope
    assert isinstance(top, BlockNode)
    writers = [item for item in child_blocks(top) if buffer in written_buffers(item)]
    by_element = [
        (item, loops)
        for item in (writers if padding is not None else ())
        if (loops := element_loops(item, buffer)) is not None
    ]
    for block_node in all_blocks(top)[::-1]:
        simplify = _IndexSimplifier(block_node).index if new_shape is None else None
        mapper = _MapAccesses(buffer, new, index_map, simplify)
        for node in _own_leaves(block_node):
            node.leaf = mapper.visit(node.leaf)
        block_node.change(
            reads=tuple(mapper.region(item) for item in block_node.reads),
            writes=tuple(mapper.region(item) for item in block_node.writes),
            init=None if block_node.init is None else mapper.visit(block_node.init),
        )
        if block_node is not top and not isinstance(block_node.body, LeafNode):
            _tighten_regions(block_node, new)
    if padding is not None:
        for writer, loops in by_element:
            _substitute_block(writer, iterate_new_layout(writer, loops, padding))
            choose_padding(writer, padding)
        if writers and not by_element:
            store_padding(top, padding)
        elif not writers and scope is None:
            assume_padding(top, padding)
    return buffer, new


def _tighten_regions(block: BlockNode, buffer: tir.Buffer) -> None:
    """State for a buffer what the blocks inside of a block access of it, instead of all of it."""
    found = access_regions(block, block.init)
    for name, regions in zip(("reads", "writes"), found, strict=True):
        inside = {region.buffer: region for region in regions}
        stated = getattr(block, name)
        if buffer in inside and any(region.buffer is buffer for region in stated):
            block.change(
                **{name: tuple(inside[buffer] if region.buffer is buffer else region for region in stated)}
            )


def _own_leaves(block: BlockNode) -> list[LeafNode]:
    """The leaves in a block that are not inside another block of it."""
    found: list[LeafNode] = []
    stack: list[TreeNode] = [block.body]
    while stack:
        node = stack.pop()
        if isinstance(node, LeafNode):
            found.append(node)
        elif not isinstance(node, BlockNode):
            stack.extend(node.children())
    return found


def injective_inverse(
    index_map: IndexMap, shape: Sequence[Any], primitive: str, what: str
) -> tuple[IndexMap, tir.PrimExpr]:
    """(inverse, condition of padding over the final indices); refuses maps that send two of ``what`` to one place."""
    analyzer = Analyzer()
    for var, extent in zip(index_map.initial_indices, shape, strict=True):
        analyzer.bind(var, tir.Range.from_min_extent(tir.const(0, var.dtype), tir.cast(var.dtype, extent)))
    refused = f"the index map sends several {what} to one place"
    try:
        inverse, condition = index_map.non_surjective_inverse(shape)
    except IRError as error:
        raise ScheduleError(f"{primitive}: {refused}: {error}") from error
    restored = map_indices(inverse, list(index_map.final_indices))
    for var, value in zip(index_map.initial_indices, restored, strict=True):
        require(analyzer.can_prove_equal(value, var), primitive, refused)
    return inverse, condition


def _require_injective(buffer: tir.Buffer, index_map: IndexMap) -> tuple[IndexMap, tir.PrimExpr] | None:
    """(inverse, condition of padding over the final indices), or None where there is no padding."""
    inverse, condition = injective_inverse(
        index_map, buffer.shape, "transform_layout", f"elements of buffer {buffer.name}"
    )
    if isinstance(condition, tir.IntImm) and not condition.value:
        return None
    return inverse, condition


def allocating_scope(block: BlockNode, buffer: tir.Buffer) -> BlockNode | None:
    scope: BlockNode | None = block
    while scope is not None:
        if any(item is buffer for item in scope.alloc_buffers):
            return scope
        scope = scope_of(scope)
    return None


def transform_block_layout(
    block: BlockNode, index_map: IndexMap, new_extents: list[Any] | None = None
) -> None:
    """Iterate a block over the mapped index space: its iteration variables and loops are replaced by the map's."""
    primitive = "transform_block_layout"
    require(scope_of(block) is not None, primitive, f"block {block.name!r} is a root block")
    require_complete_or_reduction(block, primitive)
    require(
        len(index_map.initial_indices) == len(block.iter_vars),
        primitive,
        f"the index map takes {len(index_map.initial_indices)} indices, block {block.name!r} has"
        f" {len(block.iter_vars)} iteration variables",
    )
    top = _nest_of(block, primitive)
    kinds = {item.var: item.iter_type for item in block.iter_vars}
    by_initial: Mapping[Any, Any] = dict(
        zip(index_map.initial_indices, [item.var for item in block.iter_vars], strict=True)
    )
    extents = (
        new_extents
        if new_extents is not None
        else index_map.map_shape([item.dom.extent for item in block.iter_vars])
    )
    dtype = block.iter_vars[0].var.dtype if block.iter_vars else "int32"
    new_vars, loops = [], []
    for position, (final, extent) in enumerate(zip(index_map.final_indices, extents, strict=True)):
        used = _variables(substitute(final, by_initial))
        types = {kinds[var] for var in used if var in kinds}
        require(
            len(types) <= 1,
            primitive,
            f"final index {final} mixes data-parallel and reduction variables of block {block.name!r}",
        )
        size = tir.const(extent, dtype) if isinstance(extent, int) else tir.convert(extent)
        var = tir.Var(f"v{position}", dtype)
        new_vars.append(
            IterVar(
                tir.Range.from_min_extent(tir.const(0, dtype), size),
                var,
                types.pop() if types else IterVar.DataPar,
            )
        )
        loops.append((tir.Var(f"ax{position}", dtype), size))
    inverse = _inverse(index_map, block)
    old_values = dict(
        zip(
            [item.var for item in block.iter_vars],
            map_indices(inverse, [item.var for item in new_vars]),
            strict=True,
        )
    )
    predicate: Any = block.predicate
    if _grows([item.dom.extent for item in block.iter_vars], extents):
        # the mapped space has points that no old one maps to; nothing runs there
        ranges = {item.var: tir.cast(item.var.dtype, item.dom.extent) for item in block.iter_vars}
        at_loops = {item.var: var for item, (var, _) in zip(new_vars, loops, strict=True)}
        for var, extent in ranges.items():
            value = substitute(old_values[var], at_loops)
            if not isinstance(value, tir.Var):
                predicate = tir.operators.logical_and(predicate, value < extent)
    for item, final in zip(new_vars, index_map.final_indices, strict=True):
        # The inverse knows that a variable of one value has that value; it is renamed all the same.
        if final in by_initial:
            old_values[by_initial[final]] = item.var
    placeholder = LeafNode(tir.Evaluate(tir.const(0)))
    replace_node(top, placeholder)
    block.change(iter_vars=tuple(new_vars), iter_values=tuple(var for var, _ in loops), predicate=predicate)
    _substitute_block(block, old_values)
    node: TreeNode = block
    for var, extent in reversed(loops):
        node = LoopNode(var, extent, node)
    replace_node(placeholder, node)


def _grows(old: Sequence[Any], new: Sequence[Any]) -> bool:
    """Whether a space of the new extents may be larger than one of the old."""
    total: Any = tir.const(1, "int64")
    other: Any = tir.const(1, "int64")
    for extent in old:
        total = total * tir.cast("int64", tir.convert(extent))
    for extent in new:
        other = other * tir.cast("int64", tir.convert(extent))
    return constant_difference(other, total) != 0


def _nest_of(block: BlockNode, primitive: str) -> TreeNode:
    """The outermost loop around a block; the nest must hold nothing else and iterate each variable by a loop of its own."""
    top: TreeNode = block
    for loop in reversed(loops_around(block)):
        require(
            loop.body is top, primitive, f"the loops around block {block.name!r} hold other blocks as well"
        )
        top = loop
    loops: dict[Any, LoopNode] = {loop.var: loop for loop in loops_around(block)}
    plain = set()
    for item, value in zip(block.iter_vars, block.iter_values, strict=True):
        own = loops.get(value)
        if own is not None and constant_difference(own.extent, item.dom.extent) == 0 and value not in plain:
            plain.add(value)
            continue
        require(
            isinstance(value, tir.IntImm)
            and isinstance(item.dom.extent, tir.IntImm)
            and item.dom.extent.value == 1,
            primitive,
            f"variable {item.var.name!r} of block {block.name!r} is bound to {value}, not to a loop of its own over all its values",
        )
    require(
        all(
            isinstance(loop.extent, tir.IntImm) and loop.extent.value == 1
            for var, loop in loops.items()
            if var not in plain
        ),
        primitive,
        f"a loop around block {block.name!r} is bound to none of its variables",
    )
    return top


def _inverse(index_map: IndexMap, block: BlockNode) -> IndexMap:
    if isinstance(index_map.inverse_index_map, IndexMap):
        return index_map.inverse_index_map
    refused = f"transform_block_layout: the index map sends several points of the domain of block {block.name!r} to one place"
    analyzer = Analyzer()
    for var, item in zip(index_map.initial_indices, block.iter_vars, strict=True):
        analyzer.bind(var, item.dom)
    try:
        inverse, _ = index_map.non_surjective_inverse([item.dom.extent for item in block.iter_vars])
    except IRError as error:
        raise ScheduleError(f"{refused}: {error}") from error
    restored = map_indices(inverse, list(index_map.final_indices))
    for var, value in zip(index_map.initial_indices, restored, strict=True):
        if not analyzer.can_prove_equal(value, var):
            raise ScheduleError(f"{refused}: {var} is not restored")
    return inverse


def _variables(expr: Any) -> set[Any]:
    found: set[Any] = set()
    tir.post_order_visit(
        tir.convert(expr), lambda node: found.add(node) if isinstance(node, tir.Var) else None
    )
    return found


class _IndexSimplifier(StmtExprMutator):
    """Simplifies buffer indices in a block under the ranges of its iteration variables."""

    def __init__(self, block: BlockNode) -> None:
        super().__init__()
        self._block = block
        self._analyzer: Any = None
        self._units: dict[Any, Any] | None = None

    def index(self, index: tir.PrimExpr) -> tir.PrimExpr:
        """One index in simplest form; a variable stays itself even where it has one value only."""
        if index.__class__ is tir.Var:
            return index
        if self._units is None:
            self._units = {
                item.var: item.dom.min
                for item in self._block.iter_vars
                if isinstance(item.dom.extent, tir.IntImm) and item.dom.extent.value == 1
            }
        if self._units:
            index = substitute(index, self._units)
        poly = polynomial(index)
        if poly.is_polynomial():
            return poly.to_expr()
        if self._analyzer is None:
            self._analyzer = Analyzer()
            for item in self._block.iter_vars:
                self._analyzer.bind(item.var, item.dom)
        return self._analyzer.simplify(index)  # type: ignore[no-any-return]

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        mapped = self.generic_visit(load)
        return tir.BufferLoad(
            mapped.buffer, [self.index(index) for index in mapped.indices], mapped.predicate
        )

    def visit_BufferStore(self, store: tir.BufferStore) -> Any:
        mapped = self.generic_visit(store)
        return tir.BufferStore(
            mapped.buffer, mapped.value, [self.index(index) for index in mapped.indices], mapped.predicate
        )


def _substitute_block(block: BlockNode, values: Mapping[Any, Any]) -> None:
    """Replace block variables in the body (blocks inside too), the init and the regions."""
    simplify = _IndexSimplifier(block)

    def mapped(region: tir.BufferRegion) -> tir.BufferRegion:
        return tir.BufferRegion(
            region.buffer,
            [
                tir.Range.from_min_extent(
                    simplify.index(substitute(item.min, values)), substitute(item.extent, values)
                )
                for item in region.region
            ],
        )

    for node in list(walk(block)):
        if isinstance(node, LeafNode):
            node.leaf = simplify.visit(substitute(node.leaf, values))
        elif isinstance(node, LoopNode):
            node.min, node.extent = substitute(node.min, values), substitute(node.extent, values)
            node.touch()
        elif isinstance(node, BlockNode):
            inner = node is not block
            node.change(
                reads=tuple(mapped(region) for region in node.reads),
                writes=tuple(mapped(region) for region in node.writes),
                init=None if node.init is None else simplify.visit(substitute(node.init, values)),
                iter_values=tuple(substitute(item, values) for item in node.iter_values)
                if inner
                else node.iter_values,
                predicate=substitute(node.predicate, values) if inner else node.predicate,
                match_buffers=tuple(substitute(item, values) for item in node.match_buffers),
            )


def set_scope(block: BlockNode, buffer_index: int, storage_scope: str) -> tuple[tir.Buffer, tir.Buffer]:
    """Put a buffer that a block writes into another storage scope. Returns (old, new)."""
    require_storage_scope(storage_scope, "set_scope")
    buffer = buffer_of(block, buffer_index, True, "set_scope")
    scope = allocating_scope(block, buffer)
    require(
        scope is not None,
        "set_scope",
        f"buffer {buffer.name} is no intermediate: it is a parameter of the function",
    )
    assert scope is not None
    if buffer.scope() == storage_scope:
        return buffer, buffer
    new = tir.decl_buffer(
        buffer.shape,
        buffer.dtype,
        cache_name(buffer, storage_scope),
        strides=buffer.strides,
        scope="" if storage_scope == "global" else storage_scope,
    )
    replace_buffer(scope, buffer, new)
    scope.change(alloc_buffers=tuple(new if item is buffer else item for item in scope.alloc_buffers))
    return buffer, new


def storage_align(block: BlockNode, buffer_index: int, axis: int, factor: int, offset: int) -> None:
    """Ask for a stride of dimension ``axis`` that is ``offset`` modulo ``factor`` elements (avoids bank conflicts)."""
    buffer = buffer_of(block, buffer_index, True, "storage_align")
    ndim = len(buffer.shape)
    require(
        -ndim <= axis < ndim,
        "storage_align",
        f"axis {axis} is outside the {ndim} dimensions of {buffer.name}",
    )
    require(factor > 0, "storage_align", f"factor must be positive, got {factor}")
    require(
        allocating_scope(block, buffer) is not None,
        "storage_align",
        f"buffer {buffer.name} is a parameter of the function; its layout is given",
    )
    entry = (buffer_index, axis % ndim, factor, offset)
    existing = [item for item in block.annotations.get("buffer_dim_align", ()) if item[:2] != entry[:2]]
    block.change(annotations={**block.annotations, "buffer_dim_align": (*existing, entry)})
