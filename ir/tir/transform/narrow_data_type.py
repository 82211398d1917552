"""NarrowDataType: loop variables and index arithmetic in the narrowest integers that hold them."""

from __future__ import annotations

from dataclasses import dataclass

from ...arith.index_simplifier import IndexSimplifier
from ...error import IRValueError
from ...module import IRModule
from ...transform import PassContext
from .. import expr as E
from .. import operators
from ..buffer import Buffer
from ..expr import IntImm, PrimExpr, Var
from ..function import PrimFunc
from ..operators import const
from ..stmt import AttrStmt, BufferStore, For, LetStmt, Stmt
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass


class Narrower(StmtExprMutator):
    def __init__(self, bits: int) -> None:
        super().__init__()
        self.simplifier = IndexSimplifier()
        self.limit = 1 << (bits - 1)
        self.dtype = f"int{bits}"
        self.vars: dict[Var, Var] = {}

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def _fits(self, expr: PrimExpr) -> bool:
        low, high = self.simplifier.bounds(expr)
        return -self.limit <= low and high < self.limit

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        self.simplifier.bind_thread(stmt)
        return super().visit_AttrStmt(stmt)

    def visit_For(self, loop: For) -> Stmt:
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        if loop.loop_var.dtype == self.dtype or not E.dt.is_index(loop.loop_var.dtype):
            return self.generic_visit(loop)
        last = E.Add(loop.min, loop.extent)
        if not (self._fits(loop.loop_var) and self._fits(loop.extent) and self._fits(last)):
            return self.generic_visit(loop)
        var = self.vars[loop.loop_var] = Var(loop.loop_var.name, self.dtype)
        start, extent = (operators.cast(self.dtype, self._narrow(bound)) for bound in (loop.min, loop.extent))
        self.simplifier.bind_range(var, start, extent)
        return For(
            var,
            start,
            extent,
            loop.kind,
            self.visit(loop.body),
            loop.thread_binding,
            loop.annotations,
            loop.span,
        )

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        return self.generic_visit(node)

    def visit_Var(self, var: Var) -> PrimExpr:
        narrow = self.vars.get(var)
        return var if narrow is None else operators.cast(var.dtype, narrow)

    def _narrow(self, expr: PrimExpr) -> PrimExpr:
        """The expression computed in the narrow dtype if every part of it fits, else unchanged but for variables."""
        result = self._try(expr)
        return self.visit(expr) if result is None else result

    def _try(self, expr: PrimExpr) -> PrimExpr | None:
        if not E.dt.is_index(expr.dtype) or not self._fits(expr):
            return None
        if isinstance(expr, IntImm):
            return const(expr.value, self.dtype)
        if isinstance(expr, Var):
            narrow = self.vars.get(expr)
            if narrow is not None:
                return narrow
            return expr if expr.dtype == self.dtype else None
        if isinstance(expr, E.BinaryOpExpr):
            a, b = self._try(expr.a), self._try(expr.b)
            return None if a is None or b is None else type(expr)(a, b)
        if isinstance(expr, E.Cast) and expr.value.dtype == self.dtype:
            return self.visit(expr.value)  # type: ignore[no-any-return]
        if isinstance(expr, E.Cast) and E.dt.is_index(expr.value.dtype):
            return self._try(expr.value)
        return None

    def _indices(self, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        result: list[PrimExpr] = []
        for index in indices:
            if isinstance(index, E.Ramp):
                base, stride = self._try(index.base), self._try(index.stride)
                if base is not None and stride is not None:
                    result.append(E.Ramp(base, stride, index.lanes))
                    continue
            result.append(self._narrow(index))
        return result

    def visit_BufferLoad(self, load: E.BufferLoad) -> PrimExpr:
        predicate = self.visit(load.predicate) if load.predicate is not None else None
        return E.BufferLoad(load.buffer, self._indices(load.indices), predicate, load.span)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        predicate = self.visit(store.predicate) if store.predicate is not None else None
        return BufferStore(
            store.buffer, self.visit(store.value), self._indices(store.indices), predicate, store.span
        )

    def visit_CmpExpr(self, node: E.CmpExpr) -> PrimExpr:
        a, b = self._try(node.a), self._try(node.b)
        return type(node)(a, b) if a is not None and b is not None else self.generic_visit(node)


@dataclass(frozen=True)
class NarrowDataType(PrimFuncPass):
    """Compute loop variables, indices and conditions in ``target_bits`` integers where all values fit.

    Before::

        for i in range(T.int64(16)):
            A[i * T.int64(4)] = 0.0

    After (``target_bits=32``)::

        for i in range(16):
            A[i * 4] = 0.0
    """

    target_bits: int = 32
    pass_name = "tir.NarrowDataType"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with narrower index arithmetic."""
        if self.target_bits not in (32, 64):
            raise IRValueError(
                f"NarrowDataType: indices have 32 or 64 bits, got target_bits={self.target_bits}"
            )
        if self.target_bits == 64:
            return func
        return func.replace(body=Narrower(self.target_bits).visit(func.body))
