"""Whether a function only computes."""

from __future__ import annotations

from typing import Any, ClassVar

from ...error import IRValueError
from ...node import Visitor
from .. import expr as E
from .. import stmt as S
from ..function import PrimFunc
from ..intrinsic.declaration import CallEffectKind, effect_of


class _Purity(Visitor):
    """Stores are allowed only to memory that the function allocates itself."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.problem: str | None = None
        self._local: set[Any] = set()

    def visit_Block(self, block: S.Block) -> None:
        self._local |= {buffer.data for buffer in block.alloc_buffers}
        self.generic_visit(block)

    def visit_Allocate(self, stmt: S.Allocate) -> None:
        self._local.add(stmt.buffer_var)
        self.visit(stmt.body)

    def visit_BufferStore(self, store: S.BufferStore) -> None:
        if store.buffer.data not in self._local:
            self.problem = (
                self.problem or f"it writes to buffer {store.buffer.name}, which it does not allocate"
            )
        self.generic_visit(store)

    def visit_Call(self, call: E.Call) -> None:
        if effect_of(call) > CallEffectKind.READ_STATE and getattr(call.op, "name", "") != "tir.ret":
            name = getattr(call.op, "name", None) or getattr(call.op, "name_hint", "?")
            self.problem = self.problem or f"it calls {name}, which may have side effects"
        self.generic_visit(call)


def is_pure_function(func: PrimFunc) -> bool:
    """Whether a function has no effect beside the value that it returns."""
    visitor = _Purity()
    visitor.visit(func.body)
    return visitor.problem is None


def assert_pure_function(func: PrimFunc) -> bool:
    """True for a pure function; raises IRValueError that says what makes it impure otherwise."""
    visitor = _Purity()
    visitor.visit(func.body)
    if visitor.problem is not None:
        raise IRValueError(
            f"function {func.attrs.get('global_symbol', '(unnamed)')} is not pure: {visitor.problem}"
        )
    return True
