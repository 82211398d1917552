"""Primitives that change a program's meaning on request, and those by which a user describes blocks by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir import tir
from ir.dtype import lanes, with_lanes
from ir.tir import IndexMap
from ir.tir.stmt_functor import StmtExprMutator

from ..access import why_not_loads_and_stores
from ..affine import simplify_polynomial
from ..analysis import require
from ..argument import Argument, Block, BufferIndex, Integers, Show
from ..declaration import PrimitiveFamily, primitive
from ..random_variable import BlockRV
from ..rewriting import rewrite_inside
from ..state import ScheduleState
from .caching import replace_buffer
from .layout import allocating_scope, buffer_of, map_indices


class _Ranges(Argument):
    """From the block's variables to begin and end per dimension: a function, kept as a map to all of those in a row."""

    def settle(self, sch: ScheduleState, value: Any, given: Mapping[str, Any]) -> Any:
        if isinstance(value, IndexMap):
            return value
        node = sch._block(given["block"])
        variables = [tir.Var(item.var.name, item.var.dtype) for item in node.iter_vars]
        bounds: list[Any] = []
        for item in value(*variables):
            first, last = item if isinstance(item, tuple | list) else (item, item + 1)
            bounds += [tir.convert(first), tir.convert(last)]
        return IndexMap(variables, bounds)

    def text(self, name: str, value: Any, show: Show) -> str | None:
        variables = ", ".join(var.name for var in value.initial_indices)
        pairs = zip(value.final_indices[::2], value.final_indices[1::2], strict=True)
        body = ", ".join(f"({first}, {last})" for first, last in pairs)
        return f"{name}=lambda {variables}: [{body}]"


class UnsafePrimitives(PrimitiveFamily):
    """What the schedule takes on trust."""

    @primitive("UnsafeSetDType", block=Block(), buffer_index=BufferIndex(is_write=True), dtype=Argument())
    def unsafe_set_dtype(
        self, block: BlockRV | str, buffer_index: int | str | tir.Buffer, dtype: str
    ) -> None:
        """Store an intermediate buffer in another dtype, with casts at its accesses.

        Unsafe: results change. ``B[i] = A[i]; C[i] = B[i]`` by float16 becomes ``B[i] = float16(A[i]); C[i] = float32(B[i])``.

        Raises:
            ScheduleError: the buffer is a parameter of the function.
        """
        assert isinstance(buffer_index, int)
        method, node = "unsafe_set_dtype", self._block(block)
        buffer = buffer_of(node, buffer_index, True, method)
        scope = allocating_scope(node, buffer)
        require(
            scope is not None,
            method,
            f"buffer {buffer.name} is no intermediate: it is a parameter of the function",
        )
        assert scope is not None
        if buffer.dtype == dtype:
            return
        reason = why_not_loads_and_stores(scope, buffer)
        require(reason is None, method, f"{reason}; there is no place for a cast")
        new = tir.decl_buffer(
            buffer.shape,
            dtype,
            buffer.name,
            strides=buffer.strides,
            scope="" if buffer.scope() == "global" else buffer.scope(),
        )
        cast = _Cast(buffer, new)
        rewrite_inside(scope, cast.visit, lambda region: region)
        replace_buffer(scope, buffer, new)
        scope.change(alloc_buffers=tuple(new if item is buffer else item for item in scope.alloc_buffers))

    @primitive("UnsafeHideBufferAccess", block=Block(), buf_type=Argument(), buf_index_array=Integers())
    def unsafe_hide_buffer_access(
        self, block: BlockRV | str, buf_type: str, buf_index_array: Sequence[int]
    ) -> None:
        """Strike regions from what a block says that it reads ("read") or writes ("write").

        Unsafe: primitives that follow do not see those accesses.

        Raises:
            ScheduleError: there is no region at one of the positions.
        """
        method, node = "unsafe_hide_buffer_access", self._block(block)
        _require_access_kind(buf_type, method)
        regions = node.reads if buf_type == "read" else node.writes
        for index in buf_index_array:
            require(
                0 <= index < len(regions),
                method,
                f"block {node.name!r} has {len(regions)} {buf_type} regions, there is no region {index}",
            )
        kept = tuple(region for n, region in enumerate(regions) if n not in buf_index_array)
        node.change(**{"reads" if buf_type == "read" else "writes": kept})

    @primitive(
        "AnnotateBufferAccess",
        block=Block(),
        buffer_index=Argument(),
        buf_type=Argument(),
        gen_new_ranges=_Ranges(),
    )
    def annotate_buffer_access(
        self,
        block: BlockRV | str,
        buffer_index: int,
        buf_type: str,
        gen_new_ranges: Callable[..., Any] | IndexMap,
    ) -> None:
        """Say by hand what a block reads ("read") or writes ("write") of a buffer.

        ``gen_new_ranges`` takes the block's variables and returns one item per dimension: an index, or (begin, end). The region
        is marked ``explicit_read_region`` (or write), so that nothing derives it anew.

        Raises:
            ScheduleError: the block has no such buffer, or the ranges are not one per dimension.
        """
        assert isinstance(gen_new_ranges, IndexMap)
        method, node = "annotate_buffer_access", self._block(block)
        _require_access_kind(buf_type, method)
        buffer = buffer_of(node, buffer_index, buf_type == "write", method)
        bounds = map_indices(gen_new_ranges, [item.var for item in node.iter_vars])
        require(
            len(bounds) == 2 * len(buffer.shape),
            method,
            f"got {len(bounds) // 2} ranges, buffer {buffer.name} has {len(buffer.shape)} dimensions",
        )
        region = [
            tir.Range.from_min_extent(first, simplify_polynomial(last - first))
            for first, last in zip(bounds[::2], bounds[1::2], strict=True)
        ]
        field = "reads" if buf_type == "read" else "writes"
        regions = list(getattr(node, field))
        regions[buffer_index] = tir.BufferRegion(buffer, region)
        key = f"explicit_{buf_type}_region"
        marked = tuple(dict.fromkeys([*node.annotations.get(key, ()), buffer_index]))
        node.change(**{field: tuple(regions), "annotations": {**node.annotations, key: marked}})


def _require_access_kind(buf_type: str, method: str) -> None:
    require(buf_type in ("read", "write"), method, f"buf_type must be 'read' or 'write', got {buf_type!r}")


class _Cast(StmtExprMutator):
    """Stores convert to the buffer's new dtype, loads convert back."""

    def __init__(self, old: tir.Buffer, new: tir.Buffer) -> None:
        super().__init__()
        self._old, self._new = old, new

    def visit_BufferLoad(self, load: tir.BufferLoad) -> Any:
        mapped = self.generic_visit(load)
        if load.buffer is not self._old:
            return mapped
        return tir.Cast(mapped.dtype, tir.BufferLoad(self._new, mapped.indices, mapped.predicate))

    def visit_BufferStore(self, store: tir.BufferStore) -> Any:
        mapped = self.generic_visit(store)
        if store.buffer is not self._old:
            return mapped
        value = tir.Cast(with_lanes(self._new.dtype, lanes(mapped.value.dtype)), mapped.value)
        return tir.BufferStore(self._new, value, mapped.indices, mapped.predicate)
