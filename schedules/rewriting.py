"""Rewriting all that a block of the loop tree says: its statements, what stands around those, and what it states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ir import tir
from ir.tir.stmt_functor import substitute

from .tree import BlockNode, LeafNode, LoopNode, TreeNode, WrapNode, all_blocks, walk

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
    _rewrite_fields(block, rewrite, region or rewrite)


def _rewrite_fields(block: BlockNode, rewrite: Rewrite, region: Rewrite) -> None:
    """Rewrite what a block states, its init and its views."""
    _change(
        block,
        reads=_each(block.reads, region),
        writes=_each(block.writes, region),
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


def substitute_inside(block: BlockNode, values: Mapping[Any, Any]) -> None:
    """Replace a block's variables in it and in all blocks in it."""
    declare_anew(block, values)
    rewrite_inside(block, lambda item: substitute(item, values))


def declare_anew(node: TreeNode, values: Mapping[Any, Any]) -> None:
    """Where the extents, strides or offset of a buffer that is declared below a node say variables, replace these in all that is there.

    All that uses such a buffer uses one buffer still, also blocks that do not know the variables; and copies of it that schedules have
    made say its extents in their domains and guards.
    """
    names = {
        buffer: new
        for item in walk(node)
        for buffer in _declared_by(item)
        if (new := substitute(buffer, values)) is not buffer
    }
    if not names:
        return
    known = {**values, **names}

    def renamed(item: Any) -> Any:
        return substitute(item, known)

    for item in list(walk(node)):
        _rewrite_node(item, renamed)
        if isinstance(item, BlockNode):
            _rewrite_fields(item, renamed, renamed)
            _change(item, alloc_buffers=_each(item.alloc_buffers, renamed))


def _declared_by(node: TreeNode) -> tuple[tir.Buffer, ...]:
    """The buffers that are known below a node only; those of leaves are not among them."""
    if isinstance(node, BlockNode):
        return (*node.alloc_buffers, *(view.buffer for view in node.match_buffers))
    if isinstance(node, WrapNode) and isinstance(node.template, tir.DeclBuffer):
        return (node.template.buffer,)
    return ()


def _substituted(expr: Any, values: dict[Any, Any]) -> Any:
    """:func:`substitute` with short ways for what most bindings are."""
    kind = expr.__class__
    if kind is tir.IntImm:
        return expr
    return values.get(expr, expr) if kind is tir.Var else substitute(expr, values)


def _rewrite_opaque_block(block: BlockNode, values: dict[Any, Any]) -> None:
    """Substitute in the regions of a block without iteration variables."""

    def mapped(region: tir.BufferRegion) -> tir.BufferRegion:
        ranges = tuple(substitute(item, values) for item in region.region)
        same = all(a is b for a, b in zip(ranges, region.region, strict=True))
        return region if same else tir.BufferRegion(region.buffer, ranges)

    reads = tuple(mapped(item) for item in block.reads)
    writes = tuple(mapped(item) for item in block.writes)
    matched = tuple(substitute(item, values) for item in block.match_buffers)
    old = (*block.reads, *block.writes, *block.match_buffers)
    if any(a is not b for a, b in zip((*reads, *writes, *matched), old, strict=True)):
        block.change(reads=reads, writes=writes, match_buffers=matched)


def rewrite_expressions(
    node: TreeNode, values: dict[Any, Any], finish: Callable[[BlockNode], None] | None = None
) -> None:
    """Substitute loop variables below ``node``: in loop ranges, block bindings and predicates, and leaves outside blocks.

    Blocks with iteration variables are closed over them, so the walk does not enter them; opaque blocks (without any) use the
    loops around them directly. ``finish`` is called on each block whose bindings changed (to simplify them).
    """
    declare_anew(node, values)
    _rewrite_below(node, values, finish)


def _rewrite_below(
    node: TreeNode, values: dict[Any, Any], finish: Callable[[BlockNode], None] | None
) -> None:
    if isinstance(node, BlockNode):
        new_values = tuple(_substituted(value, values) for value in node.iter_values)
        changed = any(a is not b for a, b in zip(new_values, node.iter_values, strict=True))
        predicate = _substituted(node.predicate, values)
        if changed or predicate is not node.predicate:
            node.change(iter_values=new_values, predicate=predicate)
            if changed and finish is not None:
                finish(node)
        if not node.iter_vars:
            _rewrite_opaque_block(node, values)
            _rewrite_below(node.body, values, finish)
        return
    if isinstance(node, LoopNode):
        low, extent = _substituted(node.min, values), _substituted(node.extent, values)
        if low is not node.min or extent is not node.extent:
            node.min, node.extent = low, extent
            node.touch()
    elif isinstance(node, LeafNode):
        new_leaf = substitute(node.leaf, values)
        if new_leaf is not node.leaf:
            node.leaf = new_leaf
            node.touch()
    elif isinstance(node, WrapNode):
        bodies = {name: tir.Evaluate(tir.const(0)) for name in node.bodies}
        new_template = substitute(node.template.replace(**bodies), values)
        node.template = new_template
        node.touch()
    for child in node.children():
        _rewrite_below(child, values, finish)
