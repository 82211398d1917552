"""Index arithmetic: scopes of known values, and indices as a shared run-time sum with a constant.

Indices and loop variables are 64-bit throughout.  An index is split into a sum over run-time values and a constant:
the sum is computed once per scope, and copies of an unrolled body differ in the constant alone, so that an unrolled
tile costs one address and many displacements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import floordiv, mod
from typing import Any

from ... import dtype as dt
from ...integer import truncated_quotient, truncated_remainder
from ...node import post_order_visit
from ...tir import expr as E
from ...tir.expr import PrimExpr, Var
from .builder import FunctionBuilder, ModuleBuilder, Value, constant
from .compile import CodegenError

_I64_ZERO = Value("0", "i64")

_DIVISIONS: dict[type, Callable[[int, int], int]] = {
    E.FloorDiv: floordiv,
    E.FloorMod: mod,
    E.Div: truncated_quotient,
    E.Mod: truncated_remainder,
}


class IndexForm:
    """A flat index as ``sum(coefficient * variable) + sum(coefficient * expression) + constant``."""

    __slots__ = ("constant", "opaque", "variables")

    def __init__(self) -> None:
        self.variables: list[tuple[Var, int]] = []
        self.opaque: list[tuple[PrimExpr, int]] = []
        self.constant = 0


def _pure_variables(expr: PrimExpr) -> tuple[Var, ...] | None:
    """Variables of an expression whose value depends on nothing else; None if it loads or calls."""
    found: dict[Var, None] = {}
    pure = True

    def check(node: object) -> None:
        nonlocal pure
        if isinstance(node, Var):
            found[node] = None
        elif isinstance(node, E.BufferLoad | E.Call | E.Let):
            pure = False

    post_order_visit(expr, check)
    return tuple(found) if pure else None


class IndexEmitter:
    """Emits integer scalars of one LLVM function as 64-bit values; the rest is added by subclasses."""

    def __init__(self, module: ModuleBuilder, builder: FunctionBuilder) -> None:
        self.module = module
        self.b = builder
        self.variables: dict[Var, Value] = {}
        self._forms: dict[int, IndexForm] = {}
        self._alive: list[PrimExpr] = []  # keeps the expressions whose ids are keys
        # Values that dominate the current point, innermost scope last.
        self._scopes: list[dict[Any, Value]] = [{}]
        # What the expression at hand has given already, by identity, latest last: a shared operand is emitted once.
        self._emitted: dict[int, tuple[PrimExpr, Value]] | None = None
        self._effects = 0  # calls emitted so far that must be made as often as they are written
        # Condition under which the expression being emitted counts; loads go to a safe address where it does not hold.
        self._guard: Value | None = None
        self._cheap_calls: dict[int, bool] = {}
        self._variables_of: dict[int, tuple[Var, ...] | None] = {}
        # Loops around the current point, and around the definition of values (0 for what the function is given).
        self.loop_depth = 0
        self.outlined_attributes = "noinline nounwind"
        self._copies = 1  # of the current statement, by unrolled loops around it
        self._depth: dict[str, int] = {}

    # -- scopes ------------------------------------------------------------------
    def enter(self) -> None:
        """Starts a region whose values do not dominate what follows it."""
        self._scopes.append({})

    def leave(self) -> None:
        """Ends the region."""
        self._scopes.pop()

    @contextmanager
    def conditionally(self) -> Iterator[None]:
        """A part of an expression whose values are not those of the rest: it is evaluated under a condition."""
        emitted = self._emitted
        known = len(emitted) if emitted is not None else 0
        yield
        while emitted is not None and len(emitted) > known:
            emitted.popitem()

    def _known(self, key: Any) -> Value | None:
        for scope in reversed(self._scopes):
            found = scope.get(key)
            if found is not None:
                return found
        return None

    # -- indices -----------------------------------------------------------------
    def _form(self, expr: PrimExpr) -> IndexForm:
        form = self._forms.get(id(expr))
        if form is None:
            form = IndexForm()
            terms: dict[Var, int] = {}
            form.constant = self._collect(expr, 1, terms, form.opaque)
            form.variables = list(terms.items())
            self._forms[id(expr)] = form
            self._alive.append(expr)
        return form

    def _collect(
        self, expr: Any, factor: int, terms: dict[Var, int], opaque: list[tuple[PrimExpr, int]]
    ) -> int:
        kind = expr.__class__
        if kind is E.IntImm:
            return factor * expr.value
        if kind is E.Var or kind is E.SizeVar:
            terms[expr] = terms.get(expr, 0) + factor
            return 0
        if kind is E.Add:
            return self._collect(expr.a, factor, terms, opaque) + self._collect(expr.b, factor, terms, opaque)
        if kind is E.Sub:
            return self._collect(expr.a, factor, terms, opaque) + self._collect(
                expr.b, -factor, terms, opaque
            )
        if kind is E.Mul:
            if expr.b.__class__ is E.IntImm:
                return self._collect(expr.a, factor * expr.b.value, terms, opaque)
            if expr.a.__class__ is E.IntImm:
                return self._collect(expr.b, factor * expr.a.value, terms, opaque)
        if kind is E.Cast and dt.is_index(expr.dtype) and dt.is_index(expr.value.dtype):
            return self._collect(expr.value, factor, terms, opaque)
        opaque.append((expr, factor))
        return 0

    def split_index(self, expr: PrimExpr) -> tuple[tuple[tuple[str, int], ...], int]:
        """Run-time terms (text of an i64 value and coefficient) and the constant of an integer scalar."""
        form = self._form(expr)
        const = form.constant
        terms: dict[str, int] = {}
        for var, coefficient in form.variables:
            value = self._wide(self._variable(var))
            literal = value.literal
            if literal is not None:
                const += coefficient * literal
            else:
                terms[value.ref] = terms.get(value.ref, 0) + coefficient
        for item, coefficient in form.opaque:
            value = self._shared_index(item)
            literal = value.literal
            if literal is not None:
                const += coefficient * literal
            else:
                terms[value.ref] = terms.get(value.ref, 0) + coefficient
        found = [term for term in terms.items() if term[1]]
        if len(found) > 1:
            # outer variables first: what belongs to them alone is then invariant in the inner loops
            found.sort(key=lambda term: self._depth.get(term[0], 0))
        return tuple(found), const

    def _sum(self, terms: tuple[tuple[str, int], ...]) -> Value:
        """The run-time part of an index; prefixes are shared, so parts over outer loops are computed once."""
        if not terms:
            return _I64_ZERO
        key = ("sum", terms)
        found = self._known(key)
        if found is None:
            ref, coefficient = terms[-1]
            product = self.b.mul(Value(ref, "i64"), Value(str(coefficient), "i64"))
            rest = self._sum(terms[:-1])
            found = self.b.add(rest, product)
            self._scopes[-1][key] = found
            self._depth[found.ref] = self._depth.get(ref, 0)  # the last one is the innermost
        return found

    def _shared_index(self, item: PrimExpr) -> Value:
        """:meth:`_opaque_index`, once per scope and binding of the variables inside."""
        used = self._variables_of.get(id(item), ())
        if used == ():
            used = self._variables_of[id(item)] = _pure_variables(item)
            self._alive.append(item)
        if used is None:
            return self._opaque_index(item)
        key = ("index", id(item), *[self._variable(var).ref for var in used])
        found = self._known(key)
        if found is None:
            found = self._scopes[-1][key] = self._opaque_index(item)
        return found

    def index(self, expr: PrimExpr) -> Value:
        """An integer scalar as i64, for addresses and loop bounds."""
        if expr.__class__ is E.IntImm:
            return Value(str(expr.value), "i64")  # type: ignore[attr-defined]
        terms, const = self.split_index(expr)
        return self.b.add(self._sum(terms), Value(str(const), "i64"))

    def _opaque_index(self, expr: Any) -> Value:
        """An i64 value of what is no sum of products."""
        kind = expr.__class__
        if kind is E.Mul:
            return self.b.mul(self.index(expr.a), self.index(expr.b))
        if kind in _DIVISIONS and dt.is_index(expr.dtype):
            return self._divide_index(expr)
        if kind in (E.Min, E.Max) and dt.is_index(expr.dtype):
            a, b = self.index(expr.a), self.index(expr.b)
            x, y = a.literal, b.literal
            if x is not None and y is not None:
                return Value(str(min(x, y) if kind is E.Min else max(x, y)), "i64")
            key = (kind, a.ref, b.ref)
            found = self._known(key)
            if found is None:
                name = self.module.intrinsic("smin" if kind is E.Min else "smax", "i64", 2)
                found = self._scopes[-1][key] = self.b.call(name, "i64", [a, b])
                self._depth[found.ref] = max(self._depth.get(a.ref, 0), self._depth.get(b.ref, 0))
            return found
        found = self._wide(self.value(expr), dt.is_uint(expr.dtype))
        self._depth.setdefault(found.ref, self.loop_depth)
        return found

    def _divide_index(self, expr: Any) -> Value:
        a, b = self.index(expr.a), self.index(expr.b)
        x, y = a.literal, b.literal
        if x is not None and y:
            return Value(str(_DIVISIONS[expr.__class__](x, y)), "i64")
        key = (expr.__class__, a.ref, b.ref)
        found = self._known(key)
        if found is None:
            if expr.__class__ is E.Div or expr.__class__ is E.Mod:
                found = self.b.binary("sdiv" if expr.__class__ is E.Div else "srem", a, b)
            else:
                found = self._floor_divide(a, b, expr.__class__ is E.FloorDiv)
            self._scopes[-1][key] = found
            self._depth[found.ref] = max(self._depth.get(a.ref, 0), self._depth.get(b.ref, 0))
        return found

    def _wide(self, value: Value, unsigned: bool = False) -> Value:
        """Any scalar integer as i64."""
        if value.type == "i64":
            return value
        literal = value.literal
        if literal is not None:
            return Value(value.ref, "i64")
        key = ("wide", value.ref)
        found = self._known(key)
        if found is None:
            op = "zext" if unsigned or value.type == "i1" else "sext"
            found = self._scopes[-1][key] = self.b.cast(op, value, "i64")
        return found

    def value(self, expr: PrimExpr) -> Value:
        """Emits any expression; see :class:`~.expression.ExpressionEmitter`."""
        raise CodegenError(f"{type(self).__name__} emits indices only, not {type(expr).__name__}")

    def _variable(self, var: Var) -> Value:
        try:
            return self.variables[var]
        except KeyError:
            raise CodegenError(f"variable {var.name} is used where it is not defined") from None

    def _floor_divide(self, a: Value, b: Value, floor: bool) -> Value:
        """Signed division rounded down, or its remainder."""
        divisor = b.literal
        if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
            if floor:
                return self.b.binary("ashr", a, Value(str(divisor.bit_length() - 1), a.type))
            return self.b.binary("and", a, Value(str(divisor - 1), a.type))
        zero = constant(0, a.type)
        remainder = self.b.binary("srem", a, b)
        differs = self.b.icmp("slt", self.b.binary("xor", remainder, b), zero)
        adjust = self.b.binary("and", differs, self.b.icmp("ne", remainder, zero))
        if floor:
            quotient = self.b.binary("sdiv", a, b)
            return self.b.binary("add", quotient, self.b.cast("sext", adjust, a.type))
        return self.b.select(adjust, self.b.binary("add", remainder, b), remainder)
