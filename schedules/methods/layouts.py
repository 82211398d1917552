"""Methods that change how data lies in memory and how blocks iterate it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ir import tir
from ir.tir import IndexMap

from ..primitive import layout, unsafe
from ..random_variable import BlockRV
from ..state import ScheduleState


class LayoutMethods(ScheduleState):
    """Layouts, scopes, dtypes and strides of buffers."""

    def transform_layout(
        self,
        block: BlockRV | str,
        buffer: tuple[str, int] | int | str | tir.Buffer,
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
        block = self._as_rv(block)
        node = self._block(block, "transform_layout")
        is_write, position = self._which_buffer(node, buffer, "transform_layout")
        ndim = len(layout.buffer_of(node, position, is_write, "transform_layout").shape)
        mapping = self._as_index_map(index_map, ndim, node)
        resolved = self._resolved_map(mapping)
        padding = pad_value
        if callable(pad_value) and not isinstance(pad_value, IndexMap):
            padding = self._as_index_map(pad_value, len(mapping.final_indices), node)

        def step() -> None:
            func = self._function_of(node)
            layout.transform_layout(
                node,
                position,
                is_write,
                resolved,
                padding,
                self._buffer_maps[func],
                self._symbolic_shape(
                    resolved, (node.writes if is_write else node.reads)[position].buffer.shape
                ),
                assume_injective_transform,
            )

        self._run(
            "TransformLayout",
            [block],
            [
                position,
                is_write,
                self._recorded_map(mapping, resolved),
                padding,
                assume_injective_transform,
            ],
            step,
        )

    def transform_block_layout(self, block: BlockRV | str, index_map: IndexMap | Callable[..., Any]) -> None:
        """Iterate a block over the mapped index space; its loops become the final indices of the map."""
        block = self._as_rv(block)
        node = self._block(block, "transform_block_layout")
        mapping = self._as_index_map(index_map, len(node.iter_vars), node)
        resolved = self._resolved_map(mapping)
        self._run(
            "TransformBlockLayout",
            [block],
            [self._recorded_map(mapping, resolved)],
            lambda: layout.transform_block_layout(
                node, resolved, self._symbolic_shape(resolved, [item.dom.extent for item in node.iter_vars])
            ),
        )

    def set_scope(
        self, block: BlockRV | str, buffer_index: int | str | tir.Buffer, storage_scope: str
    ) -> None:
        """Put the buffer that a block writes at ``buffer_index`` into another storage scope."""
        block = self._as_rv(block)
        index = self._buffer_index(block, buffer_index, True, "set_scope")
        self._run(
            "SetScope",
            [block],
            [index, storage_scope],
            lambda: _no_output(layout.set_scope(self._block(block, "set_scope"), index, storage_scope)),
        )

    def storage_align(
        self, block: BlockRV | str, buffer_index: int, axis: int, factor: int, offset: int
    ) -> None:
        """Ask that the stride of ``axis`` is ``offset`` modulo ``factor`` elements."""
        block = self._as_rv(block)
        self._run(
            "StorageAlign",
            [block],
            [buffer_index, axis, factor, offset],
            lambda: layout.storage_align(
                self._block(block, "storage_align"), buffer_index, axis, factor, offset
            ),
        )

    def set_axis_separator(
        self,
        block: BlockRV | str,
        buffer: tuple[str, int] | str | tir.Buffer,
        axis_separators: Sequence[int] | None,
    ) -> None:
        """Keep groups of a buffer's axes apart when it is flattened: [1] keeps the first axis as a dimension of its own."""
        block = self._as_rv(block)
        node = self._block(block, "set_axis_separator")
        is_write, position = self._which_buffer(node, buffer, "set_axis_separator")
        separators = [int(getattr(item, "value", item)) for item in axis_separators or ()]

        def step() -> None:
            buffers = self._buffer_maps[self._function_of(node)]
            unsafe.set_axis_separator(node, position, is_write, separators, buffers)

        self._run("SetAxisSeparator", [block], [position, is_write, separators], step)

    def unsafe_set_dtype(
        self, block: BlockRV | str, buffer_index: int | str | tir.Buffer, dtype: str
    ) -> None:
        """Store an intermediate buffer in another dtype, with casts at its accesses.

        Unsafe: results change. ``B[i] = A[i]; C[i] = B[i]`` by float16 becomes ``B[i] = float16(A[i]); C[i] = float32(B[i])``.
        """
        block = self._as_rv(block)
        index = self._buffer_index(block, buffer_index, True, "unsafe_set_dtype")
        self._run(
            "UnsafeSetDType",
            [block],
            [index, dtype],
            lambda: unsafe.unsafe_set_dtype(self._block(block, "unsafe_set_dtype"), index, dtype),
        )


def _no_output(_result: Any) -> None:
    """Drops what a primitive returns: the method returns nothing."""
