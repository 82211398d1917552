"""Memory that has one name: what is stored to it is read by that name only."""

from __future__ import annotations

from typing import Any, ClassVar

from ...node import Visitor
from .. import expr as E
from .. import stmt as S
from ..function import PrimFunc
from .no_alias import promises_no_alias


class _Names(Visitor):
    """Collects what is allocated, and whose address becomes a value, which may go on under another name."""

    remembers: ClassVar[bool] = False  # an address in a hint is none elsewhere

    def __init__(self) -> None:
        super().__init__()
        self.allocated: set[E.Var] = set()
        self.shared: set[E.Var] = set()

    def visit_Var(self, var: E.Var) -> None:
        self.shared.add(var)

    def visit_Buffer(self, buffer: Any) -> None:
        """An access by a buffer gives nobody its address."""

    def visit_Allocate(self, node: S.Allocate) -> None:
        self.allocated.add(node.buffer_var)
        for part in (*node.extents, node.condition, node.body):
            self.visit(part)

    def visit_Block(self, block: S.Block) -> None:
        self.allocated.update(buffer.data for buffer in block.alloc_buffers)
        for match in block.match_buffers:
            self.shared |= {match.buffer.data, match.source.buffer.data}
        self.generic_visit(block)

    def visit_Call(self, call: E.Call) -> None:
        name = getattr(call.op, "name", "")
        if name == "tir.prefetch":  # which tells nobody
            return
        if name == "tir.address_of":
            self.shared.update(part.buffer.data for part in call.args if isinstance(part, E.BufferLoad))
        self.generic_visit(call)


def own_memory(func: PrimFunc) -> frozenset[E.Var]:
    """The data pointers by which alone their memory is read and written while a function runs.

    Allocations are, and parameters of functions that promise that these are different memory, as long as no address is taken.
    Memory behind another pointer is other memory, then, whatever is known of that one.
    """
    names = _Names()
    names.visit(func.body)
    own = names.allocated
    if promises_no_alias(func):
        own = own | {
            func.buffer_map[param].data if param in func.buffer_map else param for param in func.params
        }
    return frozenset(own - names.shared)
