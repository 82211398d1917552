"""CommonSubexprElimTIR: what indices have in common is computed once, where everything in it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from typing import Any, ClassVar

from ... import dtype as dt
from ...arith.linear_form import combined, scaled
from ...module import IRModule
from ...node import Visitor
from ...transform import PassContext
from ..buffer import Buffer
from ..expr import (
    DIVISIONS,
    Add,
    BinaryOpExpr,
    Broadcast,
    BufferLoad,
    Cast,
    IntImm,
    Mul,
    PrimExpr,
    Ramp,
    Sub,
    Var,
)
from ..function import PrimFunc
from ..intrinsic.control import optimization_barrier
from ..operators import const
from ..stmt import BufferStore, For, ForKind, LetStmt, Stmt
from ..stmt_functor import StmtExprMutator
from .prim_func_pass import PrimFuncPass


@dataclass(eq=False)
class _Scope:
    """A region in which variables are known: a function, the body of a loop, what stands behind a let."""

    depth: int
    values: list[_Value] = field(default_factory=list)
    is_open: bool = True
    """Whether the current point is in it."""


@dataclass(eq=False)
class _Value:
    """An expression over what is known in a scope: a product, quotient or extreme, or a sum of such."""

    scope: _Scope
    number: int
    build: Callable[[], PrimExpr]
    is_trivial: bool = False
    """Whether there is nothing to compute."""
    uses: int = 0
    is_copied: bool = False
    """Whether some use stands in a loop inside of the scope whose body will be copied."""
    is_displaced: bool = False
    """Whether those copies add a constant of their own to it."""
    var: Var | None = None
    is_opaque: bool = False
    """Whether the variable stands behind a barrier."""
    _expr: PrimExpr | None = None

    def expr(self) -> PrimExpr:
        """The variable if it has one, else the expression: one object for all uses."""
        if self.var is not None:
            return self.var
        if self._expr is None:
            self._expr = self.build()
        return self._expr

    def part(self) -> PrimExpr:
        """The same in the definition of another value: no barrier waits for another one, for what is loaded between takes registers."""
        return self.build() if self.is_opaque else self.expr()


@dataclass(frozen=True)
class _Index:
    """An index as shared values, outer ones first, and what is added to them in place."""

    shared: Sequence[_Value]
    rest: Sequence[tuple[PrimExpr, int]]
    constant: int


def _times(expr: PrimExpr, factor: int) -> PrimExpr:
    return expr if factor == 1 else Mul(expr, const(factor, expr.dtype))


def _sum_of(terms: Sequence[PrimExpr]) -> PrimExpr:
    return reduce(Add, terms)


class _Scopes:
    """Which scope the current point is in, and where each variable is known."""

    def __init__(self, func: PrimFunc) -> None:
        self.function = self.current = _Scope(0)
        sizes = (size for buffer in func.buffer_map.values() for size in (*buffer.shape, *buffer.strides))
        self.of_variable: dict[Var, _Scope | None] = {
            var: self.function for var in (*func.params, *sizes) if isinstance(var, Var)
        }
        self._entered: dict[tuple[int, int], _Scope] = {}
        self._of_expression: dict[int, tuple[PrimExpr, _Scope | None]] = {}

    @contextmanager
    def behind(self, node: For | LetStmt, var: Var) -> Iterator[_Scope]:
        """The scope behind the definition of a variable; the same one each time that the node is met in the same scope."""
        outer = self.current
        scope = self._entered.get((id(node), id(outer)))
        if scope is None:
            scope = self._entered[id(node), id(outer)] = _Scope(outer.depth + 1)
        if self.of_variable.get(var, scope) is not scope:  # defined again: copies of a loop share expressions
            self._of_expression.clear()
        self.current = self.of_variable[var] = scope
        scope.is_open = True
        yield scope
        scope.is_open = False
        self.current = outer

    def hide(self, var: Var) -> None:
        """A variable that is no longer what it was somewhere else, and known nowhere."""
        if self.of_variable.pop(var, None) is not None:
            self._of_expression.clear()

    def scope_of(self, expr: PrimExpr) -> _Scope | None:
        """The innermost scope of an expression's variables; None if it cannot be computed elsewhere than where it stands."""
        if isinstance(expr, Var):
            scope = self.of_variable.get(expr)
            return scope if scope is not None and scope.is_open else None
        if isinstance(expr, IntImm):
            return self.function
        found = self._of_expression.get(id(expr))
        if found is None or (found[1] is not None and not found[1].is_open):
            found = self._of_expression[id(expr)] = (expr, self._find_scope(expr))
        return found[1]

    def _find_scope(self, expr: PrimExpr) -> _Scope | None:
        if isinstance(expr, Cast):
            return self.scope_of(expr.value)
        if not isinstance(expr, BinaryOpExpr):
            return None
        if isinstance(expr, DIVISIONS) and not (isinstance(expr.b, IntImm) and expr.b.value):
            return None  # only a condition may keep it from dividing by zero
        a, b = self.scope_of(expr.a), self.scope_of(expr.b)
        if a is None or b is None:
            return None
        return a if a.depth >= b.depth else b


class _Collect(Visitor):
    """Finds the indices of a function and what they share."""

    remembers: ClassVar[bool] = True

    def __init__(self, scopes: _Scopes) -> None:
        super().__init__()
        self.scopes = scopes
        self.indices: dict[tuple[int, int], _Index] = {}
        """By identity of the expression and of the scope that it stands in."""
        self._values: dict[Any, _Value] = {}
        self._forms: dict[int, tuple[Mapping[PrimExpr, int], int]] = {}
        self._structures: dict[int, int] = {}
        self._numbers: dict[Any, int] = {}
        self._kept: list[PrimExpr] = []  # whose identities are keys
        self._copied_depth = -1  # depth of the innermost scope around a loop that will be copied

    # -- regions -------------------------------------------------------------------
    def visit_For(self, loop: For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        if loop.kind == ForKind.UNROLLED:  # its variable becomes a constant, which is added in place
            outer, self._copied_depth = self._copied_depth, self.scopes.current.depth
            self.scopes.hide(loop.loop_var)
            self.visit(loop.body)
            self._copied_depth = outer
        else:
            with self.scopes.behind(loop, loop.loop_var):
                self.visit(loop.body)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.visit(node.value)
        with self.scopes.behind(node, node.var):
            self.visit(node.body)

    # -- accesses ------------------------------------------------------------------
    def visit_Buffer(self, buffer: Buffer) -> None:
        pass

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self._access(load)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self.visit(store.value)
        self._access(store)

    def _access(self, access: BufferLoad | BufferStore) -> None:
        if access.predicate is not None:
            self.visit(access.predicate)
        for index in access.indices:
            base = _scalar(index)
            if base is None:
                self.visit(index)
                continue
            if isinstance(index, Ramp):
                self.visit(index.stride)
            key = (id(base), id(self.scopes.current))
            found = self.indices.get(key)
            if found is None:
                found = self.indices[key] = self._split(base)
                for term, _ in found.rest:  # what is shared holds no accesses
                    self.visit(term)
            for value in found.shared:
                value.uses += 1
                value.is_copied |= self._copied_depth >= value.scope.depth
            if found.shared:
                found.shared[-1].is_displaced |= found.shared[-1].is_copied

    # -- sums ----------------------------------------------------------------------
    def _split(self, expr: PrimExpr) -> _Index:
        terms, constant = self._linear(expr)
        rest = []
        factors: dict[_Value, int] = {}
        for term, factor in terms.items():
            scope = self.scopes.scope_of(term)
            if scope is None:
                rest.append((term, factor))
            else:
                value = self._atom(term, scope)
                factors[value] = factors.get(value, 0) + factor
        parts = sorted((value.scope.depth, value.number, value) for value in factors if factors[value])
        outer: _Value | None = None
        shared: list[_Value] = []
        # outer parts first: they do not change in the loops inside
        for depth, group in groupby(parts, key=lambda part: part[0]):
            inner = [(value, factors[value]) for _, _, value in group]
            if outer is not None and depth == parts[-1][0] <= self._copied_depth:
                # all accesses of the innermost loop have its part in common, one register; the rest moves out of the loop
                shared = [outer, self._sum(None, inner)]
            else:
                outer = self._sum(outer, inner)
                shared = [outer]
        return _Index(shared, rest, constant)

    def _linear(self, expr: PrimExpr) -> tuple[Mapping[PrimExpr, int], int]:
        """Factors of the terms of an index, and the constant."""
        if isinstance(expr, IntImm):
            return {}, expr.value
        found = self._forms.get(id(expr))
        if found is None:
            found = self._forms[id(expr)] = self._find_form(expr)
            self._kept.append(expr)
        return found

    def _find_form(self, expr: PrimExpr) -> tuple[Mapping[PrimExpr, int], int]:
        if isinstance(expr, Add | Sub):
            (a, x), (b, y) = self._linear(expr.a), self._linear(expr.b)
            sign = -1 if isinstance(expr, Sub) else 1
            return combined(a, b, sign), x + sign * y
        if isinstance(expr, Mul) and isinstance(expr.b, IntImm):
            terms, constant = self._linear(expr.a)
            return scaled(terms, expr.b.value), constant * expr.b.value
        if isinstance(expr, Mul) and isinstance(expr.a, IntImm):
            terms, constant = self._linear(expr.b)
            return scaled(terms, expr.a.value), constant * expr.a.value
        return {expr: 1}, 0

    def _sum(self, outer: _Value | None, parts: list[tuple[_Value, int]]) -> _Value:
        first, factor = parts[0]
        if outer is None and len(parts) == 1 and factor == 1:
            return first
        key = (outer, *parts)
        found = self._values.get(key)
        if found is None:
            inputs = [(outer, 1), *parts] if outer is not None else parts
            found = self._new(
                key, first.scope, lambda: _sum_of([_times(value.part(), factor) for value, factor in inputs])
            )
            for value, _ in inputs:
                value.uses += 1
        return found

    def _atom(self, term: PrimExpr, scope: _Scope) -> _Value:
        key = (scope, self._structure(term))
        found = self._values.get(key)
        if found is None:
            found = self._new(key, scope, lambda: term)
            found.is_trivial = isinstance(term.value if isinstance(term, Cast) else term, Var)
        return found

    def _structure(self, expr: PrimExpr) -> Any:
        """A key that expressions of the same operations on the same variables have in common."""
        if isinstance(expr, IntImm):
            return (expr.value, expr.dtype)
        if isinstance(expr, Var):
            return expr
        found = self._structures.get(id(expr))
        if found is None:
            operands = (expr.value,) if isinstance(expr, Cast) else (expr.a, expr.b)  # type: ignore[attr-defined]
            key = (type(expr), expr.dtype, *[self._structure(item) for item in operands])
            found = self._structures[id(expr)] = self._numbers.setdefault(key, len(self._numbers))
            self._kept.append(expr)
        return found

    def _new(self, key: Any, scope: _Scope, build: Callable[[], PrimExpr]) -> _Value:
        value = self._values[key] = _Value(scope, len(self._values), build)
        scope.values.append(value)
        return value


def _scalar(index: PrimExpr) -> PrimExpr | None:
    """The part of an index that is computed as a number."""
    if isinstance(index, Ramp):
        index = index.base
    elif isinstance(index, Broadcast):
        index = index.value
    return index if dt.is_index(index.dtype) and dt.lanes(index.dtype) == 1 else None


class _Replace(StmtExprMutator):
    """Writes indices in terms of what they share, behind the definitions of that."""

    def __init__(self, scopes: _Scopes, indices: Mapping[tuple[int, int], _Index], barrier: bool) -> None:
        super().__init__()
        self.scopes = scopes
        self.indices = indices
        self.barrier = barrier

    def define(self, scope: _Scope, body: Stmt) -> Stmt:
        """A region with the variables of its scope; the region itself is visited afterwards."""
        chosen = []
        for value in scope.values:
            value.var = value._expr = None  # a loop that stands in two places defines what it shares in both
            value.is_opaque = self.barrier and value.is_displaced
        for value in scope.values:
            if value.is_opaque or (not value.is_trivial and (value.is_copied or value.uses > 1)):
                shared = value.expr()
                value.var = Var("cse_v", shared.dtype)
                chosen.append((value.var, optimization_barrier(shared) if value.is_opaque else shared))
        mapped = self.visit(body)
        for var, shared in reversed(chosen):
            mapped = LetStmt(var, shared, mapped)
        return mapped

    def visit_Buffer(self, buffer: Buffer) -> Buffer:
        return buffer

    def visit_For(self, loop: For) -> Stmt:
        if loop.kind == ForKind.UNROLLED:
            return self.generic_visit(loop)
        start, extent = self.visit(loop.min), self.visit(loop.extent)
        with self.scopes.behind(loop, loop.loop_var) as scope:
            body = self.define(scope, loop.body)
        return loop.replace(min=start, extent=extent, body=body)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.visit(node.value)
        with self.scopes.behind(node, node.var) as scope:
            body = self.define(scope, node.body)
        return node if value is node.value and body is node.body else node.replace(value=value, body=body)

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        predicate = None if load.predicate is None else self.visit(load.predicate)
        return BufferLoad(load.buffer, tuple(map(self._index, load.indices)), predicate, load.span)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        predicate = None if store.predicate is None else self.visit(store.predicate)
        value, indices = self.visit(store.value), tuple(map(self._index, store.indices))
        return BufferStore(store.buffer, value, indices, predicate, store.span)

    def _index(self, index: PrimExpr) -> PrimExpr:
        base = _scalar(index)
        if base is None:
            return self.visit(index)
        value = self._written(self.indices[id(base), id(self.scopes.current)], base.dtype)
        if isinstance(index, Ramp):
            return Ramp(value, self.visit(index.stride), index.lanes)
        return Broadcast(value, index.lanes) if isinstance(index, Broadcast) else value

    def _written(self, index: _Index, dtype: str) -> PrimExpr:
        """The shared value plus one expression, which becomes a constant in the copies of an unrolled loop."""
        terms = [_times(self.visit(term), factor) for term, factor in index.rest]
        if index.constant or not (terms or index.shared):
            terms.append(const(index.constant, dtype))
        shared = [value.expr() for value in index.shared]
        return _sum_of([*shared, _sum_of(terms)] if terms else shared)


@dataclass(frozen=True)
class CommonSubexprElimTIR(PrimFuncPass):
    """Compute once what the indices of a function have in common.

    An index is a sum. Its part over the variables of loops is shared by all indices that have it, whatever the order of
    terms, and outer parts are shared by inner ones; it is computed at the start of the loop in which it is known. Constants, and
    variables of loops that will be copied (``ForKind.UNROLLED``), are added in place: the copies of an unrolled tile then
    have one address and many displacements. There the innermost loop's part is shared by itself: all addresses in the tile
    move with one register, and what they begin with is computed outside of that loop.

    What loads, calls, or might divide by zero stays where it is, and so does all that is no index: one expression that is
    used several times is one object already, and backend compilers find the rest.

    Args:
        barrier: put :func:`~ir.tir.optimization_barrier` around values that copies displace. LLVM's strength reduction thinks
            about each displacement otherwise, which was two thirds of the time of emitting code.

    The option ``tir.disable_cse_tir`` of the PassContext switches the pass off.

    Before::

        for i in range(64):
            for j in T.unroll(2):
                B[n * 8 + i * 2 + j] = A[i * 2 + n * 8 + 3] + A[i * 2 + n * 8]

    After::

        cse_v: T.int32 = n * 8
        for i in range(64):
            cse_v_1: T.int32 = cse_v + i * 2
            for j in T.unroll(2):
                B[cse_v_1 + j] = A[cse_v_1 + 3] + A[cse_v_1]
    """

    barrier: bool = False
    pass_name = "tir.CommonSubexprElimTIR"

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The function with shared indices."""
        if ctx.get("tir.disable_cse_tir"):
            return func
        scopes = _Scopes(func)
        found = _Collect(scopes)
        found.visit(func.body)
        if not found.indices:
            return func
        return func.replace(
            body=_Replace(scopes, found.indices, self.barrier).define(scopes.function, func.body)
        )
