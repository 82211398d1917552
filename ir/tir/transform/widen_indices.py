"""WidenIndices: index arithmetic in 64 bits, as addresses are."""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_

from ... import dtype as dt
from ...module import IRModule
from ...transform import PassContext
from ..buffer import Buffer
from ..expr import (
    Add,
    BinaryOpExpr,
    Broadcast,
    BufferLoad,
    Cast,
    CmpExpr,
    IntImm,
    Let,
    Mul,
    PrimExpr,
    Ramp,
    Sub,
    Var,
)
from ..function import PrimFunc
from ..operators import cast
from ..stmt import AttrStmt, BufferStore, For, LetStmt, Stmt
from .positions import PositionedMutator
from .prim_func_pass import PrimFuncPass

_SUMS = (Add, Sub, Mul)
_WIDE = "int64"


class _Widen(PositionedMutator):
    def __init__(self, params: tuple[Var, ...], large_only: bool) -> None:
        super().__init__()
        self._large_only = large_only
        self.indices = {var for var in params if dt.is_index(var.dtype)}
        """Variables that stand for numbers without overflow: loops, sizes, integer arguments."""
        self.counters: dict[Var, Var] = {}
        """What loops count with instead of their variables."""
        self._data: set[Var] = set()
        """Variables of lets, which may have wrapped."""
        self._wide: dict[int, tuple[PrimExpr, PrimExpr]] = {}
        self._of_indices: dict[int, tuple[PrimExpr, bool]] = {}

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def visit_For(self, loop: For) -> Stmt:
        var = loop.loop_var
        if var in self._data:
            self._become(var, is_data=False)
        self.indices.add(var)
        if self._large_only or not dt.is_index(var.dtype) or var.dtype == _WIDE:
            return self.generic_visit(loop)  # type: ignore[no-any-return]
        counter = self.counters.setdefault(var, type(var)(var.name, _WIDE))
        self.indices.add(counter)
        start, extent = self._widened(loop.min), self._widened(loop.extent)
        return loop.replace(loop_var=counter, min=start, extent=extent, body=self.visit(loop.body))

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.as_data(node.value)
        self._become(node.var, is_data=True)
        return node.replace(value=value, body=self.visit(node.body))  # type: ignore[no-any-return]

    def visit_Let(self, node: Let) -> PrimExpr:
        value = self.as_data(node.value)
        self._become(node.var, is_data=True)
        return node.replace(value=value, body=self.visit(node.body))  # type: ignore[no-any-return]

    def _become(self, var: Var, is_data: bool) -> None:
        """A variable is defined; what is known of expressions ends if it was the variable of a loop before, or data."""
        if not is_data or var in self.indices:
            self._wide.clear()
            self._of_indices.clear()
        self.indices.discard(var)
        self.counters.pop(var, None)
        if is_data:
            self._data.add(var)
        else:
            self._data.discard(var)

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        counter = self.counters.get(stmt.node) if isinstance(stmt.node, Var) else None
        mapped: Stmt = self.generic_visit(stmt)
        return mapped if counter is None else mapped.replace(node=counter)  # type: ignore[no-any-return]

    def visit_Var(self, var: Var) -> PrimExpr:
        """Where a loop's variable is data it has its own width."""
        counter = self.counters.get(var)
        return var if counter is None else cast(var.dtype, counter)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        value, indices, predicate = self.as_data(store.value), self._indices(store), self._predicate(store)
        if value is store.value and indices is store.indices and predicate is store.predicate:
            return store
        return BufferStore(store.buffer, value, indices, predicate, store.span)

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        outer, self.in_data = self.in_data, False
        remembered, self._remembered = self._remembered, {} if outer else self._remembered
        indices, predicate = self._indices(load), self._predicate(load)
        self.in_data, self._remembered = outer, remembered
        if indices is load.indices and predicate is load.predicate:
            return load
        return BufferLoad(load.buffer, indices, predicate, load.span)

    def _predicate(self, access: BufferLoad | BufferStore) -> PrimExpr | None:
        return None if access.predicate is None else self.visit(access.predicate)

    def _indices(self, access: BufferLoad | BufferStore) -> tuple[PrimExpr, ...]:
        index = self.visit if self._large_only and _is_counted_in_32_bits(access.buffer) else self._index
        indices = tuple(map(index, access.indices))
        return access.indices if all(map(is_, indices, access.indices)) else indices

    def _index(self, index: PrimExpr) -> PrimExpr:
        if isinstance(index, Ramp) and dt.is_index(index.base.dtype):
            base, stride = self._widened(index.base), self._widened(index.stride)
            return index if base is index.base and stride is index.stride else Ramp(base, stride, index.lanes)
        if isinstance(index, Broadcast) and dt.is_index(index.value.dtype):
            value = self._widened(index.value)
            return index if value is index.value else Broadcast(value, index.lanes)
        if dt.is_index(index.dtype) and dt.lanes(index.dtype) == 1:
            return self._widened(index)
        return self.visit(index)  # type: ignore[no-any-return]

    def visit_CmpExpr(self, node: CmpExpr) -> PrimExpr:
        if not self.in_data and dt.is_index(node.a.dtype) and dt.lanes(node.a.dtype) == 1:
            if self._large_only:
                return self.generic_visit(node)  # type: ignore[no-any-return]
            if self._is_index(node.a) and self._is_index(node.b):
                return type(node)(self._widened(node.a), self._widened(node.b))
        return self.as_data(node) if not self.in_data else self.generic_visit(node)  # type: ignore[no-any-return]

    def _is_index(self, expr: PrimExpr) -> bool:
        """Whether an expression computes with nothing but sizes and loop variables."""
        if isinstance(expr, Var):
            return expr in self.indices
        if isinstance(expr, IntImm):
            return True
        found = self._of_indices.get(id(expr))
        if found is None:
            if isinstance(expr, BinaryOpExpr):
                answer = self._is_index(expr.a) and self._is_index(expr.b)
            else:
                answer = (
                    isinstance(expr, Cast)
                    and dt.is_index(expr.value.dtype)
                    and dt.bits(expr.dtype) >= dt.bits(expr.value.dtype)  # others keep the low bits alone
                    and self._is_index(expr.value)
                )
            found = self._of_indices[id(expr)] = (expr, answer)
        return found[1]

    def _widened(self, expr: PrimExpr) -> PrimExpr:
        found = self._wide.get(id(expr))
        if found is None:
            found = self._wide[id(expr)] = (expr, self._widen(expr))
        return found[1]

    def _widen(self, expr: PrimExpr) -> PrimExpr:
        # what is divided, compared or cast may be data that has wrapped; a sum that an access consists of has not
        if dt.is_index(expr.dtype) and (isinstance(expr, _SUMS) or self._is_index(expr)):
            if isinstance(expr, BinaryOpExpr):
                a, b = self._widened(expr.a), self._widened(expr.b)
                return expr if a is expr.a and b is expr.b else type(expr)(a, b)
            if isinstance(expr, Cast):
                return self._widened(expr.value)
        if isinstance(expr, Var) and expr in self.counters:
            return self.counters[expr]
        return cast(_WIDE, self.visit(expr))


def _is_counted_in_32_bits(buffer: Buffer) -> bool:
    """Whether int32 holds the number of elements, and so the offset of each."""
    if len(buffer.shape) != 1:
        return not buffer.shape
    (count,) = buffer.shape
    if isinstance(count, IntImm):
        return count.value <= 1 << 31
    return isinstance(count, Var) and count.dtype == "int32"


@dataclass(frozen=True)
class WidenIndices(PrimFuncPass):
    """Count loops, and compute the indices of accesses and comparisons of loop variables and sizes, in 64 bits.

    Indices must not overflow, so that their value stays; machines with 64-bit addresses then need no conversions between.
    Integers that are data (loaded, results of calls, a loop's variable and a comparison where they are values) keep their width and are
    converted where they meet an index; so do divisions, extremes and casts of them, for data may have wrapped.

    Args:
        large_only: leave all but the indices of buffers that may have more elements than 32 bits count: processors that have
            registers of 32 bits compute in 64 with two of them.

    Before::

        for i, j in T.grid(4, 8):
            if i * 8 + j < n:
                A[i * 8 + j] = B[C[i] + j]

    After::

        for i, j in T.grid(T.int64(4), T.int64(8)):
            if i * T.int64(8) + j < T.Cast("int64", n):
                A[i * T.int64(8) + j] = B[T.Cast("int64", C[i]) + j]
    """

    large_only: bool = False
    pass_name = "tir.WidenIndices"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with wide indices."""
        sizes = (
            extent
            for buffer in func.buffer_map.values()
            for extent in (*buffer.shape, *buffer.strides)
            if isinstance(extent, Var)
        )
        body = _Widen((*func.params, *sizes), self.large_only).visit(func.body)
        return func if body is func.body else func.replace(body=body)
