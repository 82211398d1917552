"""Rewriting all that a block of the loop tree says: its statements, what stands around those, and what it states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ir import tir

from .tree import BlockNode, LeafNode, LoopNode, TreeNode, WrapNode, all_blocks

Rewrite = Callable[[Any], Any]
"""From an expression, a statement or a region to another one; what does not change must stay the same object."""


def rewrite_inside(block: BlockNode, rewrite: Rewrite, region: Rewrite | None = None) -> None:
    """:func:`rewrite_block` of a block and of all blocks in it. The block's own domains, bindings and predicate stand outside."""
    for item in all_blocks(block):
        rewrite_block(item, rewrite, region)


def rewrite_block(block: BlockNode, rewrite: Rewrite, region: Rewrite | None = None) -> None:
    """Rewrite what is in a block, other blocks in it aside: of those only the domains, bindings and the predicate.

    Args:
        block: whose own domains, bindings and predicate stay.
        rewrite: expressions, statements and matched views.
        region: what the block reads and writes; ``rewrite`` if that is not given.
    """
    for node in _own_nodes(block):
        _rewrite_node(node, rewrite)
    _change(
        block,
        reads=_each(block.reads, region or rewrite),
        writes=_each(block.writes, region or rewrite),
        init=None if block.init is None else rewrite(block.init),
        match_buffers=_each(block.match_buffers, rewrite),
    )


def _own_nodes(block: BlockNode) -> Iterator[TreeNode]:
    """The nodes in a block that are not inside of another block in it; those blocks count."""
    pending = [block.body]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, BlockNode):
            pending += node.children()


def _rewrite_node(node: TreeNode, rewrite: Rewrite) -> None:
    """Rewrite what a node evaluates itself."""
    if isinstance(node, LeafNode):
        node.leaf = rewrite(node.leaf)
    elif isinstance(node, LoopNode):
        low, extent = rewrite(node.min), rewrite(node.extent)
        if low is not node.min or extent is not node.extent:
            node.min, node.extent = low, extent
            node.touch()
    elif isinstance(node, WrapNode):
        bare = node.template.replace(**{name: tir.Evaluate(tir.const(0)) for name in node.bodies})
        rewritten = rewrite(bare)
        if rewritten is not bare:
            node.template = rewritten
            node.touch()
    elif isinstance(node, BlockNode):
        _change(
            node,
            iter_vars=_each(node.iter_vars, lambda item: _rewrite_domain(item, rewrite)),
            iter_values=_each(node.iter_values, rewrite),
            predicate=rewrite(node.predicate),
        )


def _rewrite_domain(item: tir.IterVar, rewrite: Rewrite) -> tir.IterVar:
    low, extent = rewrite(item.dom.min), rewrite(item.dom.extent)
    if low is item.dom.min and extent is item.dom.extent:
        return item
    return item.replace(dom=tir.Range.from_min_extent(low, extent))


def _each(items: tuple[Any, ...], rewrite: Rewrite) -> tuple[Any, ...]:
    """The rewritten items; the same tuple where none changes."""
    rewritten = tuple(rewrite(item) for item in items)
    return items if all(a is b for a, b in zip(rewritten, items, strict=True)) else rewritten


def _change(block: BlockNode, **fields: Any) -> None:
    """Set those fields of a block that are others than before."""
    changed = {name: value for name, value in fields.items() if value is not getattr(block, name)}
    if changed:
        block.change(**changed)
