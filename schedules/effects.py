"""Effects of blocks: calls of functions that the program does not hold happen as often as written, in that order (rule ``[effects]``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ir import tir

from .analysis import require
from .foreign import foreign_call
from .surroundings import evaluated_by
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


def require_no_effects_of_indices(blocks: Iterable[BlockNode], buffer: tir.Buffer, primitive: str) -> None:
    """Refuse to compute indices at which blocks access a buffer elsewhere, or how often another expression says, where they have effects.

    Raises:
        ScheduleError: one of them calls a function that has.
    """
    for block in blocks:
        called = _foreign_call_in_indices(block, buffer)
        require(
            called is None,
            primitive,
            f"block {block.name!r} accesses {buffer.name} where {called} says, which may have effects: it is called once for each access",
        )


def has_effects(blocks: Iterable[BlockNode]) -> bool:
    """Whether one of some blocks calls a function with effects."""
    return any(_foreign_call_in(block) is not None for block in blocks)


def _foreign_call_in(block: BlockNode) -> str | None:
    """What a block, with the blocks in it, calls that is not in the program and may have effects; or None."""
    return next((found for part in _parts_of(block) if (found := foreign_call(part)) is not None), None)


def _foreign_call_in_indices(block: BlockNode, buffer: tir.Buffer) -> str | None:
    found: list[str] = []

    def visit(item: Any) -> None:
        if isinstance(item, tir.BufferLoad | tir.BufferStore) and item.buffer is buffer:
            found.extend(called for index in item.indices if (called := foreign_call(index)) is not None)

    for part in _parts_of(block):
        tir.post_order_visit(part, visit)
    return found[0] if found else None


def _parts_of(block: BlockNode) -> Iterator[Any]:
    """All statements and expressions that run with a block."""
    for node in walk(block):
        yield from evaluated_by(node)
        if isinstance(node, LeafNode):
            yield node.leaf
        elif isinstance(node, BlockNode) and node.init is not None:
            yield node.init
