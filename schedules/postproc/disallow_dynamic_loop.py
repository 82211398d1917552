"""DisallowDynamicLoop: refuse candidates whose blocks run in loops of extents that are not constant."""

from __future__ import annotations

from ir import tir

from ..analysis import leaves_beside_blocks
from ..schedule import Schedule
from ..tree import BlockNode, LoopNode, TreeNode
from .base import Postproc


class DisallowDynamicLoop(Postproc):
    """Valid if every loop around a block has a constant extent.

    How often a block that computes with statements of its own loops over them is its own affair, such as a selection that looks at
    what it has kept so far.
    """

    def apply(self, sch: Schedule) -> bool:
        func = sch.func_working_on
        assert func is not None
        pending: list[TreeNode] = [sch._root(func)]
        while pending:
            node = pending.pop()
            if isinstance(node, LoopNode) and not isinstance(node.extent, tir.IntImm):
                return False
            if not isinstance(node, BlockNode) or not leaves_beside_blocks(node):
                pending += node.children()
        return True
