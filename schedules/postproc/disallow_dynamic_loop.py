"""DisallowDynamicLoop: refuse candidates whose blocks run in loops of extents that are not constant."""

from __future__ import annotations

from ir import tir

from ..analysis import leaves_beside_blocks
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, TreeNode, walk
from .base import Postproc


class DisallowDynamicLoop(Postproc):
    """Valid if every loop around a block has a constant extent.

    How often a block that computes with statements of its own loops over them is its own affair, such as a selection that looks at
    what it has kept so far.
    """

    def apply(self, sch: Schedule) -> bool:
        func = sch.func_working_on
        assert func is not None
        return all(
            isinstance(node.extent, tir.IntImm)
            for node in walk(sch._root(func), enters=_holds_blocks_only)
            if isinstance(node, LoopNode)
        )


def _holds_blocks_only(node: TreeNode) -> bool:
    """Whether a node is no block with statements of its own."""
    return not isinstance(node, BlockNode) or not leaves_beside_blocks(node)
