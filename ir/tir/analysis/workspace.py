"""How much memory a function allocates: peak workspace, constants, bytes by scope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import dtype as dt
from ...expr import GlobalVar
from ...module import IRModule
from ...node import Visitor, post_order_visit
from .. import expr as E
from .. import stmt as S
from ..function import OUTLINED, PrimFunc


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


class _Scratch(Visitor):
    """What one function of a lowered module allocates, and the most that one of the functions that it calls needs."""

    def __init__(self, mod: IRModule, threads: int, callers: Sequence[PrimFunc]) -> None:
        super().__init__()
        self._mod, self._threads, self._callers = mod, threads, callers
        self.own: float = 0
        self.called: float = 0

    def visit_PrimExpr(self, node: E.PrimExpr) -> None:
        """Statements allocate, and call what was made of a part of a function."""

    def visit_Allocate(self, node: S.Allocate) -> None:
        known = all(isinstance(extent, E.IntImm) for extent in node.extents)
        self.own += _constant_size(node.dtype, node.extents) if known else math.inf
        self.visit(node.body)

    def visit_Evaluate(self, node: S.Evaluate) -> None:
        call = node.value
        if not isinstance(call, E.Call) or not isinstance(call.op, GlobalVar):
            return
        func = self._mod.functions.get(call.op)
        if isinstance(func, PrimFunc):
            needed = _scratch(self._mod, func, self._threads, self._callers)
            self.called = max(self.called, self._copies(func, call) * needed)

    def _copies(self, func: PrimFunc, call: E.Call) -> int:
        """How many threads run a function at a time: no more than a parallel loop has iterations."""
        if func.attrs.get(OUTLINED) != "parallel":
            return 1
        extent = call.args[1]
        return min(self._threads, extent.value) if isinstance(extent, E.IntImm) else self._threads


def _scratch(mod: IRModule, func: PrimFunc, threads: int, callers: Sequence[PrimFunc] = ()) -> float:
    if any(func is caller for caller in callers):
        return math.inf  # it calls itself, who knows how often
    counter = _Scratch(mod, threads, [*callers, func])
    counter.visit(func.body)
    return counter.own + counter.called


def scratch_bytes(lowered: IRModule, threads: int) -> int | None:
    """Bytes of all buffers that exist at the same time in a call of a kernel, those that will be registers included.

    A function's buffers exist as long as it runs. Those inside of a parallel loop exist once for each thread.

    Args:
        lowered: what :func:`ir.tir.lower.lower` gives; of several kernels the one with the largest need counts.
        threads: that share parallel loops.

    Returns:
        None where an extent is not constant, or a function calls itself.
    """
    kernels = [
        func
        for func in lowered.functions.values()
        if isinstance(func, PrimFunc) and OUTLINED not in func.attrs
    ]
    total = max((_scratch(lowered, func, threads) for func in kernels), default=0)
    return None if math.isinf(total) else int(total)
