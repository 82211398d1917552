"""VectorizeLoop: vectorized loops become vector expressions, masked where a condition depends on the lane."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ... import dtype as dt
from ...arith.index_simplifier import IndexSimplifier, Linear
from ...expr import GlobalVar
from ...module import IRModule
from ...node import Mutator, post_order_visit
from ...transform import PassContext
from .. import expr as E
from .. import operators
from ..buffer import Buffer
from ..expr import Broadcast, BufferLoad, Call, IntImm, PrimExpr, Ramp, Select, Var
from ..faults import may_divide_by_zero, may_fault
from ..function import PrimFunc
from ..intrinsic.control import if_then_else
from ..intrinsic.declaration import CallEffectKind, calls_costly, effect_of, find, is_transparent
from ..operators import const
from ..stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    seq,
)
from ..stmt_functor import StmtExprMutator, substitute
from .fresh_copy import fresh_copy
from .prim_func_pass import PrimFuncPass


class _NotVectorizable(Exception):
    """The loop has to run lane by lane."""


class _Lanes(Mutator):
    """Rewrites one loop body for all values of the loop variable at once."""

    def __init__(self, var: Var, start: PrimExpr, lanes: int, simplifier: IndexSimplifier) -> None:
        super().__init__()
        self.var = var
        self.start = start
        self.lanes = lanes
        self.simplifier = simplifier
        self.mask: PrimExpr | None = None
        self.wide_vars: dict[Var, Var] = {}
        self.wide_buffers: dict[
            Var, dict[Buffer, Buffer]
        ] = {}  # by the variable that is allocated in the loop

        self.in_index = False
        """Whether the expression at hand is in an index."""

    # -- helpers -----------------------------------------------------------------
    def _widen(self, value: PrimExpr) -> PrimExpr:
        lanes = dt.lanes(value.dtype)
        if lanes == self.lanes:
            return value
        if lanes != 1:
            raise _NotVectorizable
        return Broadcast(value, self.lanes)

    def _is_wide(self, value: PrimExpr) -> bool:
        return dt.lanes(value.dtype) != 1

    def _masked(self, condition: PrimExpr) -> PrimExpr:
        return condition if self.mask is None else E.And(self.mask, condition)

    # -- expressions -------------------------------------------------------------
    def visit_Var(self, var: Var) -> PrimExpr:
        if var is self.var:
            return Ramp(self.start, const(1, var.dtype), self.lanes)
        return self.wide_vars.get(var, var)

    def visit_BinaryOpExpr(self, node: Any) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if self.mask is not None and may_divide_by_zero(node):
            raise _NotVectorizable  # perhaps in the lanes for which it does not count
        if a is node.a and b is node.b:
            return node
        kind = type(node)
        if not self._is_wide(a) and not self._is_wide(b):
            return kind(a, b)
        if kind is E.Add or kind is E.Sub:
            sign = operators.add if kind is E.Add else operators.subtract
            if isinstance(a, Ramp) and not self._is_wide(b):
                return Ramp(sign(a.base, b), a.stride, a.lanes)
            if isinstance(b, Ramp) and not self._is_wide(a):
                stride = b.stride if kind is E.Add else const(0, b.stride.dtype) - b.stride
                return Ramp(sign(a, b.base), stride, b.lanes)
        elif kind is E.Mul:
            if isinstance(a, Ramp) and not self._is_wide(b):
                return Ramp(a.base * b, a.stride * b, a.lanes)
            if isinstance(b, Ramp) and not self._is_wide(a):
                return Ramp(a * b.base, a * b.stride, b.lanes)
        return kind(self._widen(a), self._widen(b))

    def visit_CmpExpr(self, node: Any) -> PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        if self._is_wide(a) or self._is_wide(b):
            a, b = self._widen(a), self._widen(b)
        return type(node)(a, b)

    def visit_LogicalExpr(self, node: Any) -> PrimExpr:
        a = self.visit(node.a)
        if not may_fault(node.b):
            return self.visit_CmpExpr(node)
        if self._is_wide(a):
            with self._under(a if isinstance(node, E.And) else E.Not(a)):
                return type(node)(a, self._widen(self.visit(node.b)))
        b = self.visit(node.b)
        if not self._is_wide(b):
            return type(node)(a, b)
        # one condition for all lanes: it decides whether the right side is computed at all
        known = Broadcast(const(isinstance(node, E.Or), "bool"), self.lanes)
        return if_then_else(a, b, known) if isinstance(node, E.And) else if_then_else(a, known, b)

    def visit_Not(self, node: E.Not) -> PrimExpr:
        a = self.visit(node.a)
        return node if a is node.a else E.Not(a)

    def visit_Select(self, node: Select) -> PrimExpr:
        condition = self.visit(node.condition)
        a, b = self.visit(node.true_value), self.visit(node.false_value)
        if self._is_wide(condition) or self._is_wide(a) or self._is_wide(b):
            a, b = self._widen(a), self._widen(b)
            condition = self._widen(condition)
        return Select(condition, a, b)

    def visit_Cast(self, node: E.Cast) -> PrimExpr:
        value = self.visit(node.value)
        if value is node.value:
            return node
        if self.in_index and isinstance(value, Ramp) and self._widens_index(node):
            # an index has the number that its parts say, in whatever dtype: neighbours stay neighbours
            return Ramp(
                operators.cast(node.dtype, value.base), operators.cast(node.dtype, value.stride), value.lanes
            )
        return E.Cast(dt.with_lanes(node.dtype, dt.lanes(value.dtype)), value)

    def _widens_index(self, node: E.Cast) -> bool:
        kinds = node.value.dtype, node.dtype
        return kinds == ("int32", "int64") and self.simplifier.is_index(node.value)

    def visit_Ramp(self, node: Ramp) -> PrimExpr:
        base, stride = self.visit(node.base), self.visit(node.stride)
        if self._is_wide(base) or self._is_wide(stride):
            raise _NotVectorizable
        return node if base is node.base and stride is node.stride else Ramp(base, stride, node.lanes)

    def visit_Broadcast(self, node: Broadcast) -> PrimExpr:
        value = self.visit(node.value)
        if value is not node.value and self._is_wide(value):
            raise _NotVectorizable
        return node if value is node.value else Broadcast(value, node.lanes)

    def visit_Shuffle(self, node: E.Shuffle) -> PrimExpr:
        mapped = self.generic_visit(node)
        if mapped is not node:
            raise _NotVectorizable
        return node

    def visit_Let(self, node: E.Let) -> PrimExpr:
        value = self.visit(node.value)
        outer = self.wide_vars.pop(node.var, None)
        var = self._let_var(node.var, value)
        with self.forgetting():  # the variable may have had another value where parts of the body stand, too
            body = self.visit(node.body)
        self._restore(node.var, outer)
        return E.Let(var, value, body)

    def _let_var(self, var: Var, value: PrimExpr) -> Var:
        if not self._is_wide(value) or value.dtype == var.dtype:
            return var
        wide = self.wide_vars[var] = Var(var.name, value.dtype)
        return wide

    def _restore(self, var: Var, outer: Var | None) -> None:
        """Behind the scope of a variable it is what it was."""
        if outer is None:
            self.wide_vars.pop(var, None)
        else:
            self.wide_vars[var] = outer

    def _index(self, index: PrimExpr) -> PrimExpr:
        """An index as scalar, Ramp, or general vector."""
        if not dt.is_index(index.dtype):
            mapped = self.visit(index)
            if mapped is not index and not self._is_wide(index):
                return mapped
            if mapped is not index:
                raise _NotVectorizable
            return index
        value = self.simplifier.linear(index)
        stride = value.terms.get(self.var, 0)
        rest = {atom: c for atom, c in value.terms.items() if atom is not self.var}
        others = self._built(type(value)(rest, value.const), index.dtype)
        if not rest or not self._mentions_lane(others):
            if not stride:
                # the bounds may have made a constant of what mentions the variable
                return others if self._mentions_lane(index) else index
            base = others + self.start * const(stride, index.dtype) if not _is_zero(self.start) else others
            return Ramp(base, const(stride, index.dtype), self.lanes)
        outer, self.in_index = self.in_index, True
        try:
            return self.visit(self._built(value, index.dtype))
        finally:
            self.in_index = outer

    def _built(self, value: Linear, dtype: str) -> PrimExpr:
        built = self.simplifier.try_build(value, dtype)
        if built is None:
            raise _NotVectorizable
        return built

    def _mentions_lane(self, expr: PrimExpr) -> bool:
        found = False

        def check(node: Any) -> None:
            nonlocal found
            if node is self.var or node in self.wide_vars:
                found = True
            elif isinstance(node, BufferLoad) and node.buffer.data in self.wide_buffers:
                found = True  # every lane has its own

        post_order_visit(expr, check)
        return found

    def _access(self, access: BufferLoad | BufferStore) -> tuple[Buffer, list[PrimExpr]]:
        """Buffer and indices for all lanes; what is allocated in the loop has a copy per lane, lanes side by side."""
        buffer, indices = access.buffer, access.indices
        copies = self.wide_buffers.get(buffer.data)
        if copies is None:
            return buffer, self._indices(indices)
        if len(indices) != 1 or self._is_wide(indices[0]):
            raise _NotVectorizable
        if buffer not in copies:
            copies[buffer] = buffer.replace(shape=(buffer.shape[0] * self.lanes,))
        lane = E.Sub(self.var, self.start)
        index = operators.index_number(indices[0])  # data of a byte, say, which would wrap
        return copies[buffer], self._indices((index * self.lanes + lane,))

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        buffer, indices = self._access(load)
        predicate = self.visit(load.predicate) if load.predicate is not None else None
        wide = self._is_wide(indices[-1]) if indices else False
        if predicate is not None and self._is_wide(predicate) and not wide:
            raise _NotVectorizable
        if wide and self.mask is not None and not self._is_register(buffer, indices):
            predicate = self.mask if predicate is None else E.And(self.mask, self._widen(predicate))
        elif wide and predicate is not None:
            predicate = self._widen(predicate)
        if all(a is b for a, b in zip(indices, load.indices)) and predicate is load.predicate:
            return load
        return BufferLoad(buffer, indices, predicate, load.span)

    def _is_register(self, buffer: Buffer, indices: list[PrimExpr]) -> bool:
        """Whether all lanes lie in a buffer of local scope, masked or not: nobody else sees what is there."""
        if buffer.scope() != "local" or len(indices) != 1 or not isinstance(buffer.shape[0], IntImm):
            return False
        ramp = indices[0]
        if not isinstance(ramp, Ramp) or not isinstance(ramp.stride, IntImm) or ramp.stride.value != 1:
            return False
        low, high = self.simplifier.bounds(ramp.base)
        return low >= 0 and high + ramp.lanes <= buffer.shape[0].value

    def _indices(self, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        mapped = [self._index(index) for index in indices]
        if any(self._is_wide(index) for index in mapped[:-1]):
            raise _NotVectorizable
        if mapped and mapped[-1] is not indices[-1] and self._is_wide(indices[-1]):
            raise _NotVectorizable
        return mapped

    def visit_Call(self, call: Call) -> PrimExpr:
        if isinstance(call.op, GlobalVar):
            raise _NotVectorizable
        name = call.op.name
        if name == "tir.if_then_else":
            return self._if_then_else(call)
        if is_transparent(call):
            return self.visit(call.args[0])
        if name == "tir.address_of":
            mapped = self.generic_visit(call)
            if mapped is not call:
                raise _NotVectorizable
            return call
        args = [self.visit(arg) for arg in call.args]
        if all(a is b for a, b in zip(args, call.args)):
            if effect_of(call) > CallEffectKind.PURE:
                raise _NotVectorizable
            return call
        if not any(self._is_wide(arg) for arg in args):
            return Call(call.dtype, call.op, args, call.span)
        record = find(call)
        if record is None or not record.elementwise:
            raise _NotVectorizable
        return Call(
            dt.with_lanes(call.dtype, self.lanes), call.op, [self._widen(arg) for arg in args], call.span
        )

    def _if_then_else(self, call: Call) -> PrimExpr:
        condition = self.visit(call.args[0])
        if not self._is_wide(condition):
            a, b = self.visit(call.args[1]), self.visit(call.args[2])
            if self._is_wide(a) or self._is_wide(b):
                a, b = self._widen(a), self._widen(b)
            return Call(a.dtype, call.op, (condition, a, b), call.span)
        # Both sides are computed; loads of lanes that are not chosen are masked off.
        with self._under(condition):
            a = self._widen(self.visit(call.args[1]))
        with self._under(E.Not(condition)):
            b = self._widen(self.visit(call.args[2]))
        return Select(condition, a, b)

    @contextmanager
    def _under(self, condition: PrimExpr) -> Iterator[None]:
        """What counts in the lanes in which a condition holds."""
        saved = self.mask
        self.mask = self._masked(condition)
        with self.forgetting():
            yield
        self.mask = saved

    # -- statements --------------------------------------------------------------
    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        buffer, indices = self._access(store)
        if not indices or not self._is_wide(indices[-1]):
            raise _NotVectorizable  # every lane stores to one place: a reduction
        value = self._widen(self.visit(store.value))
        predicate = self.visit(store.predicate) if store.predicate is not None else None
        if self.mask is not None and predicate is None and self._is_register(buffer, indices):
            # A blend leaves the buffer in registers, where a masked store would need it in memory.
            value = Select(self.mask, value, BufferLoad(buffer, indices))
        elif self.mask is not None:
            predicate = self.mask if predicate is None else E.And(self.mask, self._widen(predicate))
        elif predicate is not None:
            predicate = self._widen(predicate)
        return BufferStore(buffer, value, indices, predicate, store.span)

    def visit_For(self, loop: For) -> Stmt:
        start, extent = self.visit(loop.min), self.visit(loop.extent)
        if self._is_wide(start) or self._is_wide(extent):
            raise _NotVectorizable
        self.simplifier.bind_range(loop.loop_var, start, extent)
        kind = ForKind.SERIAL if loop.kind == ForKind.VECTORIZED else loop.kind
        body = self.visit(loop.body)
        return For(loop.loop_var, start, extent, kind, body, loop.thread_binding, loop.annotations, loop.span)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.visit(node.condition)
        if not self._is_wide(condition):
            otherwise = self.visit(node.else_case) if node.else_case is not None else None
            return IfThenElse(condition, self.visit(node.then_case), otherwise, node.span)
        # what the branches store must not change the condition
        mask = Var("mask", condition.dtype) if may_fault(condition) else None
        holds = condition if mask is None else mask
        with self._under(holds):
            parts = [self.visit(node.then_case)]
        if node.else_case is not None:
            with self._under(E.Not(holds)):
                parts.append(self.visit(node.else_case))
        return seq(parts) if mask is None else LetStmt(mask, condition, seq(parts))

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        outer = self.wide_vars.pop(node.var, None)
        var = self._let_var(node.var, value)
        body = self.visit(node.body)
        self._restore(node.var, outer)
        return LetStmt(var, value, body, node.span)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        return node.replace(body=self.visit(node.body))

    def visit_Allocate(self, node: Allocate) -> Stmt:
        if len(node.extents) != 1:
            raise _NotVectorizable
        self.wide_buffers[node.buffer_var] = {}
        body = self.visit(node.body)
        return node.replace(extents=(node.extents[0] * self.lanes,), body=body)

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        if isinstance(node.value, IntImm):
            return node
        raise _NotVectorizable

    def _refuse(self, node: Any) -> Stmt:
        raise _NotVectorizable

    visit_AllocateConst = visit_While = visit_AssertStmt = visit_DeclBuffer = _refuse


def _is_zero(value: PrimExpr) -> bool:
    return isinstance(value, IntImm) and value.value == 0


class _Vectorize(StmtExprMutator):
    def __init__(self, vector_bits: int, enabled: bool) -> None:
        super().__init__()
        self.vector_bits = vector_bits
        self.enabled = enabled
        self.simplifier = IndexSimplifier()

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return node

    def visit_Allocate(self, node: Allocate | AllocateConst) -> Stmt:
        body = self.visit(node.body)
        return node if body is node.body else node.replace(body=body)

    visit_AllocateConst = visit_Allocate

    def visit_While(self, node: While) -> Stmt:
        body = self.visit(node.body)
        return node if body is node.body else While(node.condition, body, node.span)

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        self.simplifier.bind_thread(stmt)
        return super().visit_AttrStmt(stmt)

    def visit_For(self, loop: For) -> Stmt:
        self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
        if loop.kind != ForKind.VECTORIZED:
            body = self.visit(loop.body)
            return loop if body is loop.body else loop.replace(body=body)
        if not self.enabled:
            return loop.replace(kind=ForKind.SERIAL, body=self.visit(loop.body))
        native = max(1, self.vector_bits // _widest_bits(loop.body)) * (2 if calls_costly(loop.body) else 1)
        try:
            return self._split(loop, native)
        except _NotVectorizable:
            self.simplifier.bind_range(loop.loop_var, loop.min, loop.extent)
            return loop.replace(kind=ForKind.SERIAL, body=self.visit(loop.body))

    def _lanes(self, loop: For, start: PrimExpr, lanes: int) -> Stmt:
        """The body for ``lanes`` values of the loop variable from ``start`` on."""
        if lanes == 1:
            return self.visit(substitute(loop.body, {loop.loop_var: start}))
        return _Lanes(loop.loop_var, start, lanes, self.simplifier).visit(loop.body)

    def _split(self, loop: For, native: int) -> Stmt:
        """Vectors of a power of two of lanes that cover the loop."""
        dtype = loop.loop_var.dtype
        extent = loop.extent
        if not isinstance(extent, IntImm):
            # whole vectors, and a masked one for what is left
            outer = Var(loop.loop_var.name + "_o", dtype)
            width = const(native, dtype)
            guarded = IfThenElse(E.LT(loop.loop_var, operators.add(loop.min, extent)), loop.body)
            body = _Lanes(
                loop.loop_var, operators.add(loop.min, outer * width), native, self.simplifier
            ).visit(guarded)
            return For(
                outer, const(0, dtype), operators.floordiv(extent + (native - 1), width), ForKind.SERIAL, body
            )
        count = extent.value
        if count <= 4 * native and count & (count - 1) == 0:
            return self._lanes(loop, loop.min, count)
        parts: list[Stmt] = []
        whole = count // native
        if whole > 1:
            outer = Var(loop.loop_var.name + "_o", dtype)
            self.simplifier.bind(outer, 0, whole - 1)
            body = self._lanes(loop, operators.add(loop.min, outer * const(native, dtype)), native)
            # few iterations are unrolled, so that a register tile stays one
            kind = ForKind.UNROLLED if whole <= 8 else ForKind.SERIAL
            parts.append(For(outer, const(0, dtype), const(whole, dtype), kind, body))
        elif whole == 1:
            parts.append(self._lanes(loop, loop.min, native))
        done, piece = whole * native, native
        while done < count:
            piece //= 2
            if done + piece <= count:
                parts.append(self._lanes(loop, operators.add(loop.min, const(done, dtype)), piece))
                done += piece
        return seq([parts[0], *[fresh_copy(part) for part in parts[1:]]]) if parts else Evaluate(const(0))


def _widest_bits(body: Stmt) -> int:
    """Bits of the widest element that the loop loads or stores."""
    widest = 8

    def check(node: Any) -> None:
        nonlocal widest
        if isinstance(node, BufferLoad | BufferStore):
            widest = max(widest, dt.bits(node.buffer.dtype))
        elif isinstance(node, E.Cast):
            widest = max(widest, dt.bits(node.dtype) if dt.is_float(node.dtype) else 8)

    post_order_visit(body, check)
    return widest


@dataclass(frozen=True)
class VectorizeLoop(PrimFuncPass):
    """Replace vectorized loops by vector loads, arithmetic and stores.

    Loops longer than four native vectors, or of odd length, are taken apart, into pairs of vectors where exp and the like are
    computed; a symbolic extent gets masked vectors.  A condition on the lane becomes a mask.  What has no vector form runs as a
    serial loop.

    Before::

        for j in T.vectorized(16):
            B[i * 16 + j] = A[i * 16 + j] + 1.0

    After::

        B[T.ramp(i * 16, 1, 16)] = A[T.ramp(i * 16, 1, 16)] + T.broadcast(1.0, 16)
    """

    enable_vectorize: bool = True
    vector_bits: int = 512
    pass_name = "tir.VectorizeLoop"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function without vectorized loops."""
        enabled = self.enable_vectorize and not ctx.get("tir.disable_vectorize", False)
        return func.replace(body=_Vectorize(self.vector_bits, enabled).visit(func.body))
