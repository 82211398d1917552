"""Values that memory decides: they may be others later on."""

from __future__ import annotations

from typing import Any, ClassVar

from ...node import Visitor
from ..expr import BufferLoad, Call, PrimExpr
from ..intrinsic.declaration import CallEffectKind, effect_of


class _Reads(Visitor):
    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def visit_Buffer(self, buffer: Any) -> None:
        pass

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self.found = True

    def visit_Call(self, call: Call) -> None:
        self.found |= effect_of(call) > CallEffectKind.PURE
        self.generic_visit(call)


def reads_memory(expr: PrimExpr) -> bool:
    """Whether an expression loads, or calls what is no function of its arguments: its value may be another one behind a store.

    >>> from ir.tir import Var, decl_buffer, exp
    >>> i, x, A = Var("i"), Var("x", "float32"), decl_buffer((8,), "int32", "A")
    >>> reads_memory(i * 4), reads_memory(exp(x)), reads_memory(A[i] + 1)
    (False, False, True)
    """
    visitor = _Reads()
    visitor.visit(expr)
    return visitor.found
