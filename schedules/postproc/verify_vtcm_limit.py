"""VerifyVTCMLimit: refuse candidates that use more tightly coupled memory than a target has."""

from __future__ import annotations

from math import prod

from ir import tir
from ir.dtype import bytes_of
from ir.transform import PassContext

from ..schedule import Schedule
from ..tree import BlockNode, walk
from .base import Postproc


class VerifyVTCMLimit(Postproc):
    """Valid if the buffers of scope ``global.vtcm`` fit the target's ``vtcm-capacity``, or ``tir.vtcm_capacity`` of the pass context.

    Without a capacity every candidate is valid.
    """

    def apply(self, sch: Schedule) -> bool:
        configured = PassContext.current().get("tir.vtcm_capacity", 0)
        capacity = int(self.target.attrs.get("vtcm-capacity", 0) or configured or 0)
        func = sch.func_working_on
        assert func is not None
        used = 0
        for node in walk(sch._root(func)):
            for buffer in node.alloc_buffers if isinstance(node, BlockNode) else ():
                extents = [dim.value for dim in buffer.shape if isinstance(dim, tir.IntImm)]
                if buffer.scope() == "global.vtcm" and len(extents) == len(buffer.shape):
                    used += prod(extents) * bytes_of(buffer.dtype)
        return capacity <= 0 or used <= capacity
