"""VerifyVTCMLimit: refuse candidates that use more tightly coupled memory than a target has."""

from __future__ import annotations

from math import prod

from ir import tir
from ir.dtype import bytes_of

from ..schedule import Schedule
from ..tree import BlockNode, walk
from .base import Postproc


class VerifyVTCMLimit(Postproc):
    """Valid if the buffers of scope ``global.vtcm`` fit the target's ``vtcm-capacity``; without a capacity all are."""

    def apply(self, sch: Schedule) -> bool:
        capacity = int(self.target.attrs.get("vtcm-capacity", 0) or 0)
        func = sch.func_working_on
        assert func is not None
        used = 0
        for node in walk(sch._root(func)):
            for buffer in node.alloc_buffers if isinstance(node, BlockNode) else ():
                extents = [dim.value for dim in buffer.shape if isinstance(dim, tir.IntImm)]
                if buffer.scope() == "global.vtcm" and len(extents) == len(buffer.shape):
                    used += prod(extents) * bytes_of(buffer.dtype)
        return capacity <= 0 or used <= capacity
