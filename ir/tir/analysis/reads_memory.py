"""Values that memory decides: they may be others later on."""

from __future__ import annotations

from ...node import post_order_visit
from ..expr import BufferLoad, Call, PrimExpr


def reads_memory(expr: PrimExpr) -> bool:
    """Whether an expression loads or calls anything, so that its value may be another one behind a store.

    >>> from ir.tir import Var, decl_buffer
    >>> i, A = Var("i"), decl_buffer((8,), "int32", "A")
    >>> reads_memory(i * 4), reads_memory(A[i] + 1)
    (False, True)
    """
    found: list[object] = []
    post_order_visit(expr, lambda node: found.append(node) if isinstance(node, BufferLoad | Call) else None)
    return bool(found)
