"""Windows of buffers: copies that hold, inside of a block, only the box of a buffer that the block touches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import tir
from ir.tir import IterVar
from ir.tir.operators import index_number
from ir.tir.stmt_functor import loads_in

from ..access import reads_with_init, state_loads_of_indices, why_not_elementwise
from ..affine import constant_difference, mentions, simplify_polynomial
from ..bounds import analyzer_of
from ..moved_accesses import MovedAccesses
from ..region import Box, bind_region, relax_loops
from ..rewriting import rewrite_inside
from ..tree import BlockNode, LeafNode, LoopNode, SeqNode, TreeNode, loops_around, scope_of


def has_window(
    scope: BlockNode, child: TreeNode | None, buffer: tir.Buffer, box: Box, users: Sequence[BlockNode]
) -> bool:
    """Whether a copy at ``child`` of a scope can be of the box alone.

    So it is for a box of constant size that lies in the buffer, directly in a block other than a function's root, whose users
    access nothing else of the buffer, and by loads and stores of single elements only; where it lies, the block's variables say.
    """
    if scope_of(scope) is None or (child is not None and not _is_directly_in(scope, child)):
        return False
    if all(constant_difference(size, dim) == 0 for (_, size), dim in zip(box, buffer.shape, strict=True)):
        return False
    if any(mentions(low, _loops_outside(scope)) for low, _ in box):
        return False  # in blocks there are only loops that are bound to their variables
    analyzer = analyzer_of(variables=scope.iter_vars)
    for (low, size), dim in zip(box, buffer.shape, strict=True):
        if not isinstance(size, tir.IntImm):
            return False
        if not (analyzer.can_prove(low >= 0) and analyzer.can_prove(low + size <= dim)):
            return False
    if any(why_not_elementwise(user, buffer) is not None for user in users):
        return False
    for user in users:
        values = dict(zip([item.var for item in user.iter_vars], user.iter_values, strict=True))
        for region in (*reads_with_init(user), *user.writes):
            if region.buffer is not buffer:
                continue
            touched = relax_loops(bind_region(region.region, values), loops_around(user), buffer.shape)
            for (low, size), (first, count) in zip(box, touched, strict=True):
                if not (analyzer.can_prove(first >= low) and analyzer.can_prove(first + count <= low + size)):
                    return False
    return True


def _loops_outside(scope: BlockNode) -> set[tir.Var]:
    """The variables of all loops around a block, and around the blocks around it."""
    found: set[tir.Var] = set()
    node = scope.parent
    while node is not None:
        if isinstance(node, LoopNode):
            found.add(node.var)
        node = node.parent
    return found


def _is_directly_in(scope: BlockNode, child: TreeNode) -> bool:
    return child.parent is scope or (isinstance(child.parent, SeqNode) and child.parent.parent is scope)


class _Shift(MovedAccesses):
    """Accesses of a buffer become accesses of its window."""

    def __init__(self, old: tir.Buffer, new: tir.Buffer, lows: Sequence[Any]) -> None:
        super().__init__(old, new)
        self._lows = lows

    def indices(self, indices: Sequence[Any]) -> list[Any]:
        return [
            simplify_polynomial(index_number(index) - low)
            for index, low in zip(indices, self._lows, strict=True)
        ]

    def region(self, region: tir.BufferRegion) -> tir.BufferRegion:
        """The region in the window."""
        ranges = [self.visit(item) for item in region.region]
        if region.buffer is not self._old:
            return tir.BufferRegion(region.buffer, ranges)
        starts = self.indices([item.min for item in ranges])
        return tir.BufferRegion(
            self._new,
            [
                tir.Range.from_min_extent(start, item.extent)
                for start, item in zip(starts, ranges, strict=True)
            ],
        )


def access_window(user: BlockNode, buffer: tir.Buffer, window: tir.Buffer, lows: Sequence[Any]) -> None:
    """Let a block and those inside of it access the window, which starts at ``lows`` of the buffer."""
    shift = _Shift(buffer, window, lows)
    rewrite_inside(user, shift.visit, shift.region)


def copy_window(
    buffer: tir.Buffer, window: tir.Buffer, lows: Sequence[Any], name: str, is_write: bool
) -> tuple[TreeNode, BlockNode]:
    """Loops ``ax0, ax1, ...`` around a block that fills the window, or writes it back."""
    loops = [tir.Var(f"ax{n}", dim.dtype) for n, dim in enumerate(window.shape)]
    point = [tir.Var(f"v{n}", dim.dtype) for n, dim in enumerate(window.shape)]
    place = [simplify_polynomial(low + var) for low, var in zip(lows, point, strict=True)]
    outside, inside = (buffer, place), (window, point)
    (source, read_at), (target, write_at) = (inside, outside) if is_write else (outside, inside)

    def region(of: tir.Buffer, indices: Sequence[Any]) -> tuple[tir.BufferRegion, ...]:
        ranges = [tir.Range.from_min_extent(index, tir.const(1, index.dtype)) for index in indices]
        return (tir.BufferRegion(of, ranges),)

    block = BlockNode(
        name,
        tuple(
            IterVar(tir.Range.from_min_extent(tir.const(0, dim.dtype), dim), var, IterVar.DataPar)
            for var, dim in zip(point, window.shape, strict=True)
        ),
        tuple(loops),
        region(source, read_at),
        region(target, write_at),
        LeafNode(tir.BufferStore(target, tir.BufferLoad(source, read_at), write_at)),
    )
    if any(loads_in(low) for low in lows):
        state_loads_of_indices(block)
    node: TreeNode = block
    for var, dim in zip(reversed(loops), reversed(window.shape), strict=True):
        node = LoopNode(var, dim, node)
    return node, block
