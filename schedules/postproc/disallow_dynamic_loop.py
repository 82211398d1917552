"""DisallowDynamicLoop: refuse candidates with loops whose extent is not constant."""

from __future__ import annotations

from ir import tir

from ..schedule import Schedule
from ..tree import LoopNode, walk
from .base import Postproc


class DisallowDynamicLoop(Postproc):
    """Valid if every loop has a constant extent."""

    def apply(self, sch: Schedule) -> bool:
        func = sch.func_working_on
        assert func is not None
        return all(
            isinstance(node.extent, tir.IntImm)
            for node in walk(sch._root(func))
            if isinstance(node, LoopNode)
        )
