"""Methods that attach data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ir import tir
from ir.tir import IndexMap

from ..primitive import annotate as annotate_primitive
from ..primitive import unsafe
from ..random_variable import BlockRV, ExprRV, LoopRV
from ..state import ScheduleState


class AnnotationMethods(ScheduleState):
    """Annotations of blocks and loops."""

    def annotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Attach a value to a block or loop."""
        self._run(
            "Annotate",
            [block_or_loop, ann_val],
            [ann_key],
            lambda: annotate_primitive.annotate(
                self._node(block_or_loop), ann_key, self._annotation(ann_val)
            ),
        )

    def _annotation(self, value: Any) -> Any:
        if isinstance(value, ExprRV):
            found = self._value(value)
            return found.value if isinstance(found, tir.IntImm) else found
        if isinstance(value, list | tuple):
            return tuple(self._annotation(item) for item in value)
        if isinstance(value, dict):
            return {key: self._annotation(item) for key, item in value.items()}
        return value

    def unannotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
        """Remove an annotation."""
        self._run(
            "Unannotate",
            [block_or_loop],
            [ann_key],
            lambda: annotate_primitive.unannotate(self._node(block_or_loop), ann_key),
        )

    def reorder_block_iter_var(self, block: BlockRV | str, new_order: Sequence[int]) -> None:
        """Put a block's iteration variables into another order; (vi, vj) by [1, 0] becomes (vj, vi)."""
        block = self._as_rv(block)
        order = [int(item) for item in new_order]
        self._run(
            "ReorderBlockIterVar",
            [block],
            [order],
            lambda: unsafe.reorder_block_iter_var(self._block(block, "reorder_block_iter_var"), order),
        )

    def unsafe_hide_buffer_access(
        self, block: BlockRV | str, buf_type: str, buf_index_array: Sequence[int]
    ) -> None:
        """Strike regions from what a block says that it reads ("read") or writes ("write").

        Unsafe: primitives that follow do not see those accesses.
        """
        block = self._as_rv(block)
        indices = [int(item) for item in buf_index_array]
        self._run(
            "UnsafeHideBufferAccess",
            [block],
            [buf_type, indices],
            lambda: unsafe.unsafe_hide_buffer_access(
                self._block(block, "unsafe_hide_buffer_access"), buf_type, indices
            ),
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
        """
        block = self._as_rv(block)
        node = self._block(block, "annotate_buffer_access")
        if isinstance(gen_new_ranges, IndexMap):
            ranges = gen_new_ranges
        else:
            variables = [tir.Var(item.var.name, item.var.dtype) for item in node.iter_vars]
            bounds: list[Any] = []
            for item in gen_new_ranges(*variables):
                first, last = item if isinstance(item, tuple | list) else (item, item + 1)
                bounds += [tir.convert(first), tir.convert(last)]
            ranges = IndexMap(variables, bounds)
        self._run(
            "AnnotateBufferAccess",
            [block],
            [buffer_index, buf_type, ranges],
            lambda: unsafe.annotate_buffer_access(node, buffer_index, buf_type, ranges),
        )
