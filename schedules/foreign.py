"""Calls of functions that the program does not hold, which may have effects (rule ``[effects]``)."""

from __future__ import annotations

from typing import Any

from ir import tir
from ir.node import remembered
from ir.tir.intrinsic.declaration import find


@remembered
def foreign_call(node: Any) -> str | None:
    """A call in a statement or an expression of what is not in the program and may have effects; or None."""
    found: list[tir.Call] = []

    def visit(item: Any) -> None:
        record = find(item) if isinstance(item, tir.Call) else None
        if record is not None and record.foreign:
            found.append(item)

    tir.post_order_visit(node, visit)
    return str(found[0]) if found else None
