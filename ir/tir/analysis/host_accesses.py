"""Elements that the host's part of a GPU program touches, which lie on the device."""

from __future__ import annotations

from ...node import Visitor
from ..buffer import Buffer
from ..expr import BufferLoad
from ..function import PrimFunc
from ..stmt import BufferStore


class _Accesses(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Buffer] = []

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.found.append(node.buffer)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.found.append(node.buffer)


def host_accesses(func: PrimFunc) -> list[Buffer]:
    """The buffers of which a host function of a lowered program reads or writes elements itself, in order."""
    visitor = _Accesses()
    visitor.visit(func.body)
    return visitor.found


HOST_ACCESS = (
    "{function}: the host's code accesses {buffer}, which lies on the device; bind the loops around it to blockIdx.x and threadIdx.x, as"
    " schedules.dlight does for what has no schedule"
)
"""What is said of a program that does; ``.format(function=..., buffer=...)``."""

__all__ = ["HOST_ACCESS", "host_accesses"]
