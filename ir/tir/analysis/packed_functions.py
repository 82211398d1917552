"""Which registered Python functions a PrimFunc calls."""

from __future__ import annotations

from typing import Any

from ...node import post_order_visit
from ...op import Op
from ..expr import Call, StringImm
from ..function import PrimFunc

_CALLS = frozenset(("tir.tvm_call_packed", "tir.tvm_call_cpacked"))


def packed_functions(func: PrimFunc) -> tuple[str, ...]:
    """The names of the functions that ``T.call_packed`` calls in a PrimFunc, sorted."""
    found: set[str] = set()

    def visit(node: Any) -> None:
        if not isinstance(node, Call) or not node.args:
            return
        name = node.args[0]
        if isinstance(node.op, Op) and node.op.name in _CALLS and isinstance(name, StringImm):
            found.add(name.value)

    post_order_visit(func.body, visit)
    return tuple(sorted(found))


__all__ = ["packed_functions"]
