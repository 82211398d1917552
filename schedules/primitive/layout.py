"""transform_layout: change how data lies in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir import tir
from ir.arith import Analyzer
from ir.error import IRError
from ir.tir import IndexMap
from ir.tir.stmt_functor import StmtExprMutator, substitute

from ..access import access_regions, why_not_elementwise
from ..affine import polynomial, simplify_polynomial
from ..analysis import require, written_buffers
from ..argument import AnyBuffer, Block, Flag, Map
from ..bounds import analyzer_of
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects_of_indices
from ..error import ScheduleError
from ..moved_accesses import MovedAccesses
from ..random_variable import BlockRV
from ..region import point_region
from ..rewriting import declare_anew, rewrite_block, rewrite_inside
from ..state import ScheduleState
from ..tree import (
    BlockNode,
    LeafNode,
    all_blocks,
    child_blocks,
    root_of,
    scope_of,
)
from .layout_padding import (
    Padding,
    assume_padding,
    choose_padding,
    element_loops,
    iterate_new_layout,
    last_writer,
    store_padding,
)
from .wide_maps import all_held, in_int64


def _indices_of_buffer(sch: ScheduleState, given: Mapping[str, Any]) -> int:
    """What a map of the buffer's indices takes."""
    kind, position = given["buffer"]
    node = sch._block(given["block"])
    return len(buffer_of(node, position, kind == "write", "transform_layout").shape)


class _PadValue(Map):
    """A number, or a map from the new indices to the value there (or a function that is made into one)."""

    def __init__(self) -> None:
        super().__init__(lambda sch, given: len(given["index_map"].final_indices))

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        return super().settle(sch, value, given) if callable(value) else value

    def record(self, sch: ScheduleState, value: Any) -> Sequence[Any]:
        return (value,)


class LayoutPrimitives(PrimitiveFamily):
    """How data lies in memory."""

    @primitive(
        "TransformLayout",
        block=Block(),
        buffer=AnyBuffer(),
        index_map=Map(_indices_of_buffer),
        pad_value=_PadValue(),
        assume_injective_transform=Flag(),
    )
    def transform_layout(
        self,
        block: BlockRV | str,
        buffer: tuple[str, int] | str | tir.Buffer,
        index_map: IndexMap | Callable[..., Any],
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """Store a buffer in another layout, rewriting every access in its scope.

        ``buffer`` is ("read" or "write", position), a name, or a Buffer. With ``lambda i, j: [j, i]`` an access ``B[i, j]``
        becomes ``B[j, i]``. Maps that leave gaps need ``pad_value`` (a number, or a function of the new indices), which fills
        them behind the last writer.

        Raises:
            ScheduleError: the block does not access the buffer, or the map is not injective, or it pads without a value.
        """
        assert isinstance(buffer, tuple) and isinstance(index_map, IndexMap)
        kind, position = buffer
        node, resolved = self._block(block), self._resolved_map(index_map)
        old = buffer_of(node, position, kind == "write", "transform_layout")
        _transform_layout(
            node,
            old,
            resolved,
            pad_value,
            self._buffer_maps[self._function_of(node)],
            self._symbolic_shape(resolved, old.shape),
            assume_injective_transform,
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


class _MapAccesses(MovedAccesses):
    """Accesses of a buffer become accesses of its relaid-out twin; indices simplify under ``simplify``."""

    def __init__(
        self, old: tir.Buffer, new: tir.Buffer, index_map: IndexMap, simplify: IndexSimplifier | None
    ) -> None:
        super().__init__(old, new)
        self._map, self._simplify = index_map, simplify

    def indices(self, indices: Sequence[Any]) -> list[tir.PrimExpr]:
        """The indices in the new layout."""
        mapped = map_indices(self._map, indices)
        return mapped if self._simplify is None else [self._simplify.index(item) for item in mapped]

    def visit_Block(self, block: tir.Block) -> Any:
        """A block in the init of another one."""
        if self._simplify is not None:
            self._simplify.know(block.iter_vars)
        return self.generic_visit(block)

    def visit_BufferRegion(self, region: tir.BufferRegion) -> Any:
        return self.region(region)

    def region(self, region: tir.BufferRegion) -> tir.BufferRegion:
        """The box of the mapped region: exact for points, else the whole buffer."""
        if region.buffer is not self._old:
            ranges = [self.visit(item) for item in region.region]
            same = all(a is b for a, b in zip(ranges, region.region, strict=True))
            return region if same else tir.BufferRegion(region.buffer, ranges)
        if all(isinstance(item.extent, tir.IntImm) and item.extent.value == 1 for item in region.region):
            points = self.indices([item.min for item in region.region])
            return point_region(self._new, points)
        whole = [tir.Range.from_min_extent(tir.const(0, dim.dtype), dim) for dim in self._new.shape]
        return tir.BufferRegion(self._new, whole)


def map_indices(index_map: IndexMap, indices: Any) -> list[tir.PrimExpr]:
    """The final indices of a map, with like terms collected (open decisions stay symbolic)."""
    return [simplify_polynomial(item) for item in index_map.substituted(list(indices))]


def _transform_layout(
    block: BlockNode,
    buffer: tir.Buffer,
    index_map: IndexMap,
    pad_value: Any,
    function_buffers: dict[Any, tir.Buffer],
    new_shape: list[Any] | None,
    assume_injective: bool,
) -> None:
    """Elements of the new layout that no old one maps to become ``pad_value`` (see :mod:`.layout_padding`)."""
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
    dtype = buffer.shape[0].dtype if shape else "int32"
    if not all_held(shape):
        dtype = "int64"
        index_map = in_int64(index_map)
    new = buffer.replace(
        shape=tuple(
            tir.convert(item) if not isinstance(item, int) else tir.const(item, dtype) for item in shape
        ),
        strides=(),
    )
    scope = allocating_scope(block, buffer)
    padding = None if gaps is None else Padding(new, index_map, gaps[0], gaps[1], pad_value)
    top = root_of(block) if scope is None else scope
    assert isinstance(top, BlockNode)
    require_no_effects_of_indices([top], buffer, "transform_layout")
    reason = why_not_elementwise(top, buffer)
    require(reason is None, "transform_layout", f"{reason}; a map of indices says nothing of that")
    writers = [item for item in child_blocks(top) if buffer in written_buffers(item)]
    by_element = [
        (item, loops)
        for item in (writers if padding is not None else ())
        if (loops := element_loops(item, buffer)) is not None
    ]
    anchor = None if padding is None or by_element else last_writer(top, buffer)
    if scope is None:
        require(
            any(item is buffer for item in function_buffers.values()),
            "transform_layout",
            f"buffer {buffer.name} is neither allocated in a block around {block.name!r} nor a parameter",
        )
        for param, item in list(function_buffers.items()):
            if item is buffer:
                function_buffers[param] = new
    else:
        scope.change(alloc_buffers=tuple(new if item is buffer else item for item in scope.alloc_buffers))
    for block_node in all_blocks(top)[::-1]:
        # Blocks that will run over the new layout keep the variables of their indices, those of one value too.
        is_plain = new_shape is None and all(block_node is not item for item, _ in by_element)
        simplify = IndexSimplifier(block_node) if is_plain else None
        mapper = _MapAccesses(buffer, new, index_map, simplify)
        rewrite_block(block_node, mapper.visit, mapper.region)
        if block_node is not top and not isinstance(block_node.body, LeafNode):
            _tighten_regions(block_node, new)
    if padding is not None:
        for writer, loops in by_element:
            substitute_block(writer, iterate_new_layout(writer, loops, padding))
            choose_padding(writer, padding)
        if anchor is not None:
            store_padding(anchor, padding)
        elif not writers and scope is None:
            assume_padding(top, padding)


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


def injective_inverse(
    index_map: IndexMap, shape: Sequence[Any], primitive: str, what: str
) -> tuple[IndexMap, tir.PrimExpr]:
    """(inverse, condition of padding over the final indices); refuses maps that send two of ``what`` to one place."""
    analyzer = Analyzer()
    for var, extent in zip(index_map.initial_indices, shape, strict=True):
        analyzer.bind(var, tir.Range.from_min_extent(tir.const(0, var.dtype), tir.cast(var.dtype, extent)))
    refused = f"the index map sends several {what} to one place"
    require_no_negative_index(index_map, analyzer, primitive)
    try:
        inverse, condition = index_map.non_surjective_inverse(shape)
    except IRError as error:
        raise ScheduleError(f"{primitive}: {refused}: {error}") from error
    restored = map_indices(inverse, list(index_map.final_indices))
    for var, value in zip(index_map.initial_indices, restored, strict=True):
        require(analyzer.can_prove_equal(value, var), primitive, refused)
    return inverse, condition


def require_no_negative_index(index_map: IndexMap, analyzer: Analyzer, primitive: str) -> None:
    """Mapped indices count from zero; the analyzer knows the domains of the initial ones."""
    for final in index_map.final_indices:
        low = analyzer.const_int_bound(final).min_value
        require(
            low >= 0 or analyzer.can_prove(final >= 0),
            primitive,
            f"final index {final} of the map may be negative; mapped indices count from zero",
        )


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


class IndexSimplifier(StmtExprMutator):
    """Simplifies buffer indices in a block under the ranges of its iteration variables."""

    def __init__(self, block: BlockNode) -> None:
        super().__init__()
        self._variables = block.iter_vars
        self._analyzer: Any = None
        self._units: dict[Any, Any] | None = None

    def know(self, variables: Sequence[tir.IterVar]) -> None:
        """The variables of a block within it, too."""
        self._variables = (*self._variables, *variables)
        self._analyzer = self._units = None

    def index(self, index: tir.PrimExpr) -> tir.PrimExpr:
        """One index in simplest form; a variable stays itself even where it has one value only."""
        if index.__class__ is tir.Var:
            return index
        if self._units is None:
            self._units = {
                item.var: item.dom.min
                for item in self._variables
                if isinstance(item.dom.extent, tir.IntImm) and item.dom.extent.value == 1
            }
        if self._units:
            index = substitute(index, self._units)
        poly = polynomial(index)
        if poly.is_polynomial():
            return poly.to_expr()
        if self._analyzer is None:
            self._analyzer = analyzer_of(variables=self._variables)
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


def substitute_block(block: BlockNode, values: Mapping[Any, Any]) -> None:
    """Replace block variables in the body (blocks inside too), the init and the regions."""
    declare_anew(block, values)
    simplify = IndexSimplifier(block)

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

    rewrite_inside(block, lambda item: simplify.visit(substitute(item, values)), mapped)
