"""Effects of blocks: calls of functions that the program does not hold happen as often as written, in that order (rule ``[effects]``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ir import tir
from ir.node import remembered
from ir.tir.intrinsic.declaration import find

from .analysis import require
from .tree import BlockNode, LeafNode, walk


def require_no_effects(blocks: Iterable[BlockNode], primitive: str) -> None:
    """Refuse to change the order of what blocks do, or how often they do it, where they call functions with effects.

    Raises:
        ScheduleError: one of the blocks does.
    """
    for block in blocks:
        called = _foreign_call_in(block)
        require(
            called is None,
            primitive,
            f"block {block.name!r} calls {called}, which may have effects: they happen in the order in which they are written; call a"
            " function without effects by T.call_pure_extern",
        )


def _foreign_call_in(block: BlockNode) -> str | None:
    """What a block, with the blocks in it, calls that is not in the program and may have effects; or None."""
    for node in walk(block):
        parts: list[Any] = []
        if isinstance(node, LeafNode):
            parts = [node.leaf]
        elif isinstance(node, BlockNode):
            parts = [*node.iter_values, node.predicate, *([] if node.init is None else [node.init])]
        for part in parts:
            found = _foreign_call(part)
            if found is not None:
                return found
    return None


@remembered
def _foreign_call(node: Any) -> str | None:
    found: list[tir.Call] = []

    def visit(item: Any) -> None:
        record = find(item) if isinstance(item, tir.Call) else None
        if record is not None and record.foreign:
            found.append(item)

    tir.post_order_visit(node, visit)
    return str(found[0]) if found else None
