"""TIR expressions to LLVM values: variables, constants, arithmetic, comparisons, conversions, vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtype as dt
from ...integer import truncated_quotient, truncated_remainder
from ...tir import expr as E
from ...tir import operators
from ...tir.expr import PrimExpr, Var
from ...tir.intrinsic.declaration import CallEffectKind, effect_of
from .builder import Value, constant, lane_constants, lanes_of, vector
from .compile import CodegenError
from .intrinsics import emit_call
from .memory import MemoryEmitter
from .types import register_type

_SIGNED = {E.LT: "slt", E.LE: "sle", E.GT: "sgt", E.GE: "sge", E.EQ: "eq", E.NE: "ne"}
_UNSIGNED = {E.LT: "ult", E.LE: "ule", E.GT: "ugt", E.GE: "uge", E.EQ: "eq", E.NE: "ne"}
_ORDERED = {E.LT: "olt", E.LE: "ole", E.GT: "ogt", E.GE: "oge", E.EQ: "oeq", E.NE: "une"}


class ExpressionEmitter(MemoryEmitter):
    """Emits expressions of one LLVM function; statements are added by :class:`~.statement.FunctionEmitter`."""

    reduction_update: Any = None
    """The expression that combines a partial result with the next value of a reduction; its order is free."""

    def value(self, expr: PrimExpr) -> Value:
        """Emits an expression and returns its value in a register; operands that occur again are not emitted again."""
        handler = _HANDLERS.get(expr.__class__)
        if handler is None:
            raise CodegenError(f"code generation has no expression {type(expr).__name__}")
        emitted = self._emitted
        if emitted is None:
            self._emitted = {}
            try:
                return handler(self, expr)
            finally:
                self._emitted = None
        if not expr.is_compound:
            return handler(self, expr)
        found = emitted.get(id(expr))
        if found is not None:
            return found[1]
        effects = self._effects
        value = handler(self, expr)
        if effects == self._effects:
            emitted[id(expr)] = (expr, value)
        return value

    def _var(self, var: Var) -> Value:
        value = self._variable(var)
        if var.dtype == "handle":
            return value
        wanted = register_type(var.dtype)
        if value.type == wanted:
            return value
        literal = value.literal
        if literal is not None:  # a loop variable of an unrolled loop
            return Value(value.ref, wanted) if wanted != "i1" else constant(literal, "i1")
        if value.type == "i64":
            return self.b.cast("trunc", value, wanted)
        return value

    def _int(self, expr: E.IntImm) -> Value:
        return constant(expr.value, register_type(expr.dtype))

    def _float(self, expr: E.FloatImm) -> Value:
        if expr.dtype == "bfloat16":
            import numpy as np

            bits = int(np.asarray(expr.value, dt.to_numpy("bfloat16")).view("uint16"))
            return Value(str(bits), "i16")
        return constant(expr.value, register_type(expr.dtype))

    def _string(self, expr: E.StringImm) -> Value:
        return self.module.string(expr.value)

    # -- arithmetic ------------------------------------------------------------------
    def _arithmetic(self, expr: Any) -> Value:
        dtype = expr.dtype
        kind = expr.__class__
        if dt.is_float(dtype):
            a, b = self.value(expr.a), self.value(expr.b)
            if dt.code(dtype) == "bfloat":
                a, b = self.widen_float(a, dtype), self.widen_float(b, dtype)
                return self.narrow_float(self._float_arithmetic(kind, a, b), dtype)
            if expr is self.reduction_update:
                return self._reduction_arithmetic(kind, a, b)
            return self._float_arithmetic(kind, a, b)
        return self._integer_arithmetic(kind, self.value(expr.a), self.value(expr.b), dtype, expr)

    def _float_arithmetic(self, kind: type, a: Value, b: Value) -> Value:
        # contract: a product and a sum may become one fused operation, rounded once
        if kind is E.Add:
            return self.b.binary("fadd contract", a, b)
        if kind is E.Sub:
            return self.b.binary("fsub contract", a, b)
        if kind is E.Mul:
            return self.b.binary("fmul contract", a, b)
        if kind is E.Div:
            return self.b.binary("fdiv", a, b)
        # one instruction on x86; a NaN in the first operand is the result, as in relu(NaN) = max(NaN, 0)
        if kind is E.Max:
            return self.b.select(self.b.fcmp("ogt", b, a), b, a)
        if kind is E.Min:
            return self.b.select(self.b.fcmp("olt", b, a), b, a)
        remainder = self.b.binary("frem", a, b)
        if kind is E.Mod:
            return remainder
        zero = constant(0.0, a.type)
        if kind is E.FloorDiv:
            return self.b.call(self.module.intrinsic("floor", a.type), a.type, [self.b.binary("fdiv", a, b)])
        wrong_sign = self.b.binary("xor", self.b.fcmp("olt", remainder, zero), self.b.fcmp("olt", b, zero))
        inexact = self.b.binary("and", wrong_sign, self.b.fcmp("one", remainder, zero))
        return self.b.select(inexact, self.b.binary("fadd", remainder, b), remainder)

    def _reduction_arithmetic(self, kind: type, a: Value, b: Value) -> Value:
        """One step of a reduction, in any order: LLVM may keep several partial results and combine them at the end.

        Extremes are taken as if there were no NaN and no sign of zero; a NaN among the inputs may or may not show.
        """
        if kind is E.Add:
            return self.b.binary("fadd reassoc nsz contract", a, b)
        if kind is E.Mul:
            return self.b.binary("fmul reassoc nsz contract", a, b)
        if kind is E.Max or kind is E.Min:
            larger = self.b.fcmp("nnan nsz ogt" if kind is E.Max else "nnan nsz olt", b, a)
            return self.b.define(
                f"select nnan nsz {larger.type} {larger.ref}, {b.type} {b.ref}, {a.type} {a.ref}", a.type
            )
        return self._float_arithmetic(kind, a, b)

    def _integer_arithmetic(self, kind: type, a: Value, b: Value, dtype: str, expr: Any) -> Value:
        unsigned = dt.is_uint(dtype) or dt.is_bool(dtype)
        x, y = a.literal, b.literal
        if x is not None and y is not None and dt.is_index(dtype):
            folded = _fold(kind, x, y)
            if folded is not None:
                return Value(str(operators.wrap_integer(folded, dtype)), a.type)
        if kind is E.Add:
            return self.b.binary("add", a, b)
        if kind is E.Sub:
            return self.b.binary("sub", a, b)
        if kind is E.Mul:
            return self.b.binary("mul", a, b)
        if kind is E.Max or kind is E.Min:
            name = ("u" if unsigned else "s") + ("max" if kind is E.Max else "min")
            return self.b.call(self.module.intrinsic(name, a.type, 2), a.type, [a, b])
        if kind is E.Div:
            return self.b.binary("udiv" if unsigned else "sdiv", a, b)
        if kind is E.Mod:
            return self.b.binary("urem" if unsigned else "srem", a, b)
        floor = kind is E.FloorDiv
        if unsigned:
            return self.b.binary("udiv" if floor else "urem", a, b)
        return self._floor_divide(a, b, floor)

    def _compare(self, expr: Any) -> Value:
        dtype = expr.a.dtype
        if dt.is_index(dtype):
            if dt.lanes(dtype) == 1:
                a, b = self.index(expr.a), self.index(expr.b)
                x, y = a.literal, b.literal
                if x is not None and y is not None:
                    return constant(_COMPARE[expr.__class__](x, y), "i1")
                return self.b.icmp(_SIGNED[expr.__class__], a, b)
        a, b = self.value(expr.a), self.value(expr.b)
        if dt.is_float(dtype):
            a, b = self.widen_float(a, dtype), self.widen_float(b, dtype)
            return self.b.fcmp(_ORDERED[expr.__class__], a, b)
        if dtype == "handle":
            return self.b.icmp(_UNSIGNED[expr.__class__], a, b)
        return self.b.icmp((_SIGNED if dt.is_int(dtype) else _UNSIGNED)[expr.__class__], a, b)

    def _and(self, expr: E.And) -> Value:
        a = self.value(expr.a)
        if a.ref == "false":
            return a
        b = self.value(expr.b)
        if a.ref == "true":
            return b
        # select, not and: the right side may be poison or meaningless where the left does not hold
        if a.type == "i1":
            return self.b.select(a, b, constant(0, "i1"))
        return self.b.binary("and", a, b)

    def _or(self, expr: E.Or) -> Value:
        a = self.value(expr.a)
        if a.ref == "true":
            return a
        b = self.value(expr.b)
        if a.ref == "false":
            return b
        if a.type == "i1":
            return self.b.select(a, constant(1, "i1"), b)
        return self.b.binary("or", a, b)

    def _not(self, expr: E.Not) -> Value:
        a = self.value(expr.a)
        if a.ref in ("true", "false"):
            return constant(a.ref == "false", "i1")
        return self.b.binary("xor", a, constant(1, a.type))

    def _select(self, expr: E.Select) -> Value:
        condition = self.value(expr.condition)
        if condition.ref in ("true", "false"):
            return self.value(expr.true_value if condition.ref == "true" else expr.false_value)
        a, b = self.value(expr.true_value), self.value(expr.false_value)
        return self.b.select(condition, a, b)

    def _let(self, expr: E.Let) -> Value:
        self.variables[expr.var] = self.value(expr.value)
        with self.conditionally():
            return self.value(expr.body)

    def _call(self, call: E.Call) -> Value:
        if effect_of(call) > CallEffectKind.READ_STATE:
            self._effects += 1
        emitter: Any = self
        return emit_call(emitter, call)

    # -- conversions --------------------------------------------------------------
    def widen_float(self, value: Value, dtype: str) -> Value:
        """float16 or bfloat16 as float32; other floats as they are."""
        lanes = dt.lanes(dtype)
        if dt.code(dtype) == "bfloat":
            wide = self.b.cast("zext", value, vector("i32", lanes))
            shifted = self.b.binary("shl", wide, constant(16, wide.type))
            return self.b.cast("bitcast", shifted, vector("float", lanes))
        return self.b.cast("fpext", value, vector("float", lanes)) if dt.bits(dtype) == 16 else value

    def narrow_float(self, value: Value, dtype: str) -> Value:
        """float32 rounded to the nearest even value of float16 or bfloat16; other floats as they are."""
        lanes = dt.lanes(dtype)
        if dt.code(dtype) == "bfloat":
            b = self.b
            bits = b.cast("bitcast", value, vector("i32", lanes))
            upper = b.binary("lshr", bits, constant(16, bits.type))
            odd = b.binary("and", upper, constant(1, bits.type))
            rounded = b.binary("add", b.binary("add", bits, constant(0x7FFF, bits.type)), odd)
            result = b.binary("lshr", rounded, constant(16, bits.type))
            nan = b.binary(
                "or", upper, constant(0x40, bits.type)
            )  # stays a NaN when its low bits are cut off
            result = b.select(b.fcmp("uno", value, value), nan, result)
            return b.cast("trunc", result, vector("i16", lanes))
        return self.b.cast("fptrunc", value, vector("half", lanes)) if dt.bits(dtype) == 16 else value

    def _cast(self, expr: E.Cast) -> Value:
        return self.convert(self.value(expr.value), expr.value.dtype, expr.dtype)

    def convert(self, value: Value, source: str, target: str) -> Value:
        """Numeric conversion between dtypes of equal lanes."""
        if source == target:
            return value
        wanted = register_type(target)
        lanes = dt.lanes(target)
        if dt.is_float(source):
            value = self.widen_float(value, source)
            if dt.is_bool(target):
                return self.b.fcmp("une", value, constant(0.0, value.type))
            if not dt.is_float(target):
                return self.b.cast("fptosi" if dt.is_int(target) else "fptoui", value, wanted)
            if dt.bits(target) == 16:
                if value.type != vector("float", lanes):
                    value = self.b.cast("fptrunc", value, vector("float", lanes))
                return self.narrow_float(value, target)
            narrower = dt.bits(target) < dt.bits(source)
            return (
                self.b.cast("fptrunc" if narrower else "fpext", value, wanted)
                if value.type != wanted
                else value
            )
        signed = dt.is_int(source)
        if dt.is_float(target):
            wide = vector("float", lanes) if dt.bits(target) == 16 else wanted
            return self.narrow_float(self.b.cast("sitofp" if signed else "uitofp", value, wide), target)
        if dt.is_bool(target):
            return self.b.icmp("ne", value, constant(0, value.type))
        bits, new_bits = dt.bits(source), dt.bits(target)
        if value.literal is not None and new_bits >= bits:
            return Value(value.ref, wanted)
        if new_bits == bits:
            return Value(value.ref, wanted)
        if new_bits < bits:
            return self.b.cast("trunc", value, wanted)
        return self.b.cast("sext" if signed else "zext", value, wanted)

    # -- vectors --------------------------------------------------------------------
    def _ramp(self, expr: E.Ramp) -> Value:
        element = register_type(expr.base.dtype)
        base = self.b.splat(self._as(self.index(expr.base), element), expr.lanes)
        steps = lane_constants(range(expr.lanes), element)  # type: ignore[arg-type]
        stride = self._as(self.index(expr.stride), element)
        if stride.literal is not None:
            steps = lane_constants([stride.literal * i for i in range(expr.lanes)], element)
        else:
            steps = self.b.binary("mul", steps, self.b.splat(stride, expr.lanes))
        return self.b.binary("add", base, steps)

    def _as(self, value: Value, type_: str) -> Value:
        """An i64 as a narrower integer."""
        if value.type == type_:
            return value
        return Value(value.ref, type_) if value.literal is not None else self.b.cast("trunc", value, type_)

    def _broadcast(self, expr: E.Broadcast) -> Value:
        value = self.value(expr.value)
        if value.ref[0] != "%":
            return self.b.splat(value, expr.lanes)
        key = ("splat", value.ref, expr.lanes)
        found = self._known(key)
        if found is None:
            found = self._scopes[-1][key] = self.b.splat(value, expr.lanes)
        return found

    def _shuffle(self, expr: E.Shuffle) -> Value:
        lanes: list[tuple[Value, int]] = []
        for item in expr.vectors:
            value = self.value(item)
            lanes += [(value, i) for i in range(lanes_of(value.type))]
        picked = [self.b.extract(*lanes[int(index)]) for index in expr.indices]  # type: ignore[call-overload]
        if len(picked) == 1:
            return picked[0]
        result = Value("poison", register_type(expr.dtype))
        for i, lane in enumerate(picked):
            result = self.b.insert(result, lane, i)
        return result


def _fold(kind: type, x: int, y: int) -> int | None:
    if kind is E.Add:
        return x + y
    if kind is E.Sub:
        return x - y
    if kind is E.Mul:
        return x * y
    if kind is E.Min:
        return min(x, y)
    if kind is E.Max:
        return max(x, y)
    if y == 0:
        return None
    if kind is E.FloorDiv:
        return x // y
    if kind is E.FloorMod:
        return x % y
    return truncated_quotient(x, y) if kind is E.Div else truncated_remainder(x, y)


_COMPARE: dict[type, Callable[[int, int], bool]] = {
    E.LT: lambda a, b: a < b,
    E.LE: lambda a, b: a <= b,
    E.GT: lambda a, b: a > b,
    E.GE: lambda a, b: a >= b,
    E.EQ: lambda a, b: a == b,
    E.NE: lambda a, b: a != b,
}

_X = ExpressionEmitter
_HANDLERS: dict[type, Callable[[Any, Any], Value]] = {
    E.Var: _X._var, E.SizeVar: _X._var, E.IntImm: _X._int, E.FloatImm: _X._float, E.StringImm: _X._string,
    **dict.fromkeys((E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.FloorDiv, E.FloorMod, E.Min, E.Max), _X._arithmetic),
    **dict.fromkeys((E.LT, E.LE, E.GT, E.GE, E.EQ, E.NE), _X._compare),
    E.And: _X._and, E.Or: _X._or, E.Not: _X._not, E.Select: _X._select, E.Let: _X._let, E.Cast: _X._cast,
    E.Ramp: _X._ramp, E.Broadcast: _X._broadcast, E.Shuffle: _X._shuffle, E.BufferLoad: _X._load, E.Call: _X._call,
}  # fmt: skip
