"""Primitives about the memory that a buffer lies in: set_scope, storage_align, set_axis_separator."""

from __future__ import annotations

from collections.abc import Sequence

from ir import tir
from ir.tir.row_alignment import BUFFER_DIM_ALIGN

from ..analysis import require
from ..argument import AnyBuffer, Argument, Block, BufferIndex, Integers
from ..declaration import PrimitiveFamily, primitive
from ..random_variable import BlockRV
from ..tree import BlockNode, root_of
from .caching import cache_name, replace_buffer, require_storage_scope
from .layout import allocating_scope, buffer_of


class StoragePrimitives(PrimitiveFamily):
    """Scopes, strides and dimensions of buffers in memory."""

    @primitive("SetScope", block=Block(), buffer_index=BufferIndex(is_write=True), storage_scope=Argument())
    def set_scope(
        self, block: BlockRV | str, buffer_index: int | str | tir.Buffer, storage_scope: str
    ) -> None:
        """Put the buffer that a block writes at ``buffer_index`` into another storage scope.

        Raises:
            ScheduleError: there is no such scope, or the buffer is a parameter of the function.
        """
        assert isinstance(buffer_index, int)
        node = self._block(block)
        require_storage_scope(storage_scope, "set_scope")
        buffer = buffer_of(node, buffer_index, True, "set_scope")
        scope = allocating_scope(node, buffer)
        require(
            scope is not None,
            "set_scope",
            f"buffer {buffer.name} is no intermediate: it is a parameter of the function",
        )
        assert scope is not None
        if buffer.scope() == storage_scope:
            return
        new = tir.decl_buffer(
            buffer.shape,
            buffer.dtype,
            cache_name(buffer, storage_scope),
            strides=buffer.strides,
            scope="" if storage_scope == "global" else storage_scope,
        )
        replace_buffer(scope, buffer, new)
        scope.change(alloc_buffers=tuple(new if item is buffer else item for item in scope.alloc_buffers))

    @primitive(
        "StorageAlign",
        block=Block(),
        buffer_index=Argument(),
        axis=Argument(),
        factor=Argument(),
        offset=Argument(),
    )
    def storage_align(
        self, block: BlockRV | str, buffer_index: int, axis: int, factor: int, offset: int
    ) -> None:
        """Ask that the stride of ``axis`` is ``offset`` modulo ``factor`` elements, which avoids conflicts of memory banks.

        Raises:
            ScheduleError: the buffer is a parameter, or the axis or the factor makes no sense.
        """
        node = self._block(block)
        buffer = buffer_of(node, buffer_index, True, "storage_align")
        ndim = len(buffer.shape)
        require(
            -ndim <= axis < ndim,
            "storage_align",
            f"axis {axis} is outside the {ndim} dimensions of {buffer.name}",
        )
        require(factor > 0, "storage_align", f"factor must be positive, got {factor}")
        require(
            allocating_scope(node, buffer) is not None,
            "storage_align",
            f"buffer {buffer.name} is a parameter of the function; its layout is given",
        )
        entry = (buffer_index, axis % ndim, factor, offset)
        existing = [item for item in node.annotations.get(BUFFER_DIM_ALIGN, ()) if item[:2] != entry[:2]]
        node.change(annotations={**node.annotations, BUFFER_DIM_ALIGN: (*existing, entry)})

    @primitive("SetAxisSeparator", block=Block(), buffer=AnyBuffer(), axis_separators=Integers())
    def set_axis_separator(
        self,
        block: BlockRV | str,
        buffer: tuple[str, int] | str | tir.Buffer,
        axis_separators: Sequence[int] | None,
    ) -> None:
        """Keep groups of a buffer's axes apart when it is flattened: [1] keeps the first axis as a dimension of its own.

        Raises:
            ScheduleError: the separators are not ascending positions among the axes, or the buffer is a view.
        """
        assert isinstance(buffer, tuple) and axis_separators is not None
        node, (kind, position), separators = self._block(block), buffer, list(axis_separators)
        old = buffer_of(node, position, kind == "write", "set_axis_separator")
        require(
            all(0 <= item <= len(old.shape) for item in separators) and separators == sorted(separators),
            "set_axis_separator",
            f"separators {separators} are not ascending positions among the {len(old.shape)} axes of {old.name}",
        )
        scope = allocating_scope(node, old)
        new = old.replace(axis_separators=tuple(tir.const(item) for item in separators))
        top = root_of(node)
        assert isinstance(top, BlockNode)
        if scope is not None:
            scope.change(alloc_buffers=tuple(new if item is old else item for item in scope.alloc_buffers))
        function_buffers = self._buffer_maps[self._function_of(node)]
        require(
            scope is not None or any(item is old for item in function_buffers.values()),
            "set_axis_separator",
            f"buffer {old.name} is neither allocated in a block around {node.name!r} nor a parameter",
        )
        for param, item in list(function_buffers.items()):
            if item is old:
                function_buffers[param] = new
        replace_buffer(scope or top, old, new)
