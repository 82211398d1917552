"""How much memory a function allocates: peak workspace, constants, bytes by scope."""

from __future__ import annotations

from typing import Any

from ... import dtype as dt
from ...module import IRModule
from ...node import Visitor, post_order_visit
from .. import expr as E
from .. import stmt as S
from ..function import PrimFunc


def _constant_size(dtype: str, extents: Any) -> int:
    """Bytes, 0 where an extent is not constant."""
    total = dt.bytes_of(dtype)
    for extent in extents:
        if not isinstance(extent, E.IntImm):
            return 0
        total *= extent.value
    return total


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


class _Peak(Visitor):
    """Allocations are live for their body: the peak is the largest sum along a path."""

    def __init__(self, alignment: int) -> None:
        super().__init__()
        self._alignment = alignment
        self._live = self.peak = 0

    def _during(self, size: int, body: Any) -> None:
        self._live += size
        self.peak = max(self.peak, self._live)
        self.visit(body)
        self._live -= size

    def visit_Allocate(self, stmt: S.Allocate) -> None:
        scope = _scope_of(stmt.buffer_var)
        size = _aligned(_constant_size(stmt.dtype, stmt.extents), self._alignment) if scope == "global" else 0
        self._during(size, stmt.body)

    def visit_Block(self, block: S.Block) -> None:
        sizes = [
            _aligned(_constant_size(buffer.dtype, buffer.shape), self._alignment)
            for buffer in block.alloc_buffers
            if buffer.scope() == "global"
        ]
        self._live += sum(sizes)
        self.peak = max(self.peak, self._live)
        self.generic_visit(block)
        self._live -= sum(sizes)

    def visit_PrimExpr(self, expr: E.PrimExpr) -> None:
        """Expressions allocate nothing."""


def _scope_of(var: E.Var) -> str:
    return getattr(var.type_annotation, "storage_scope", "") or "global"


def calculate_workspace_bytes(func: PrimFunc, workspace_byte_alignment: int = 1) -> int:
    """The most bytes of global memory that are allocated at one time inside a function (constant sizes only)."""
    visitor = _Peak(workspace_byte_alignment)
    visitor.visit(func.body)
    return visitor.peak


def calculate_constant_bytes(func: PrimFunc, constant_byte_alignment: int = 1) -> int:
    """Bytes of the constants that a function carries."""
    total = 0

    def count(node: Any) -> None:
        nonlocal total
        if isinstance(node, S.AllocateConst):
            total += _aligned(_constant_size(node.dtype, node.extents), constant_byte_alignment)

    post_order_visit(func.body, count)
    return total


def calculate_allocated_bytes(func_or_mod: PrimFunc | IRModule) -> dict[str, dict[str, int]]:
    """Bytes allocated (constant sizes only) per storage scope, by the name of the function; a lone PrimFunc is ``"main"``."""
    if isinstance(func_or_mod, PrimFunc):
        return {"main": _bytes_by_scope(func_or_mod)}
    return {
        var.name_hint: _bytes_by_scope(func)
        for var, func in func_or_mod.functions_items()
        if isinstance(func, PrimFunc)
    }


def _bytes_by_scope(func: PrimFunc) -> dict[str, int]:
    sizes: dict[str, int] = {}

    def count(node: Any) -> None:
        if isinstance(node, S.Allocate):
            scope = _scope_of(node.buffer_var)
            sizes[scope] = sizes.get(scope, 0) + _constant_size(node.dtype, node.extents)
        elif isinstance(node, S.Block):
            for buffer in node.alloc_buffers:
                size = _constant_size(buffer.dtype, buffer.shape)
                sizes[buffer.scope()] = sizes.get(buffer.scope(), 0) + size

    post_order_visit(func.body, count)
    return sizes
