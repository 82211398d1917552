"""TIR expressions to LLVM values: arithmetic, conversions, memory accesses, intrinsics.

Indices and loop variables are 64-bit throughout.  An index is split into a sum over run-time values and a constant:
the sum is computed once per scope, and copies of an unrolled body differ in the constant alone, so that an unrolled
tile costs one address and many displacements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtype as dt
from ...expr import GlobalVar
from ...tir import expr as E
from ...tir.buffer import Buffer
from ...tir.expr import PrimExpr, Var
from ...tir.transform.index_simplifier import IndexSimplifier
from . import vector_math
from .builder import (
    FunctionBuilder,
    ModuleBuilder,
    Value,
    constant,
    element_of,
    lane_constants,
    lanes_of,
    mangled,
    vector,
)
from .compile import CodegenError
from .types import element_bytes, memory_type, register_type

_I64_ZERO = Value("0", "i64")

#: Intrinsics of LLVM with the same meaning, for every float type.
_LLVM_UNARY = {"tir.floor": "floor", "tir.ceil": "ceil", "tir.trunc": "trunc", "tir.nearbyint": "nearbyint", "tir.fabs": "fabs"}

#: Functions of libm that have no vector form here: called lane by lane.
_LIBM = {"tir.erfc": "erfc", "tir.fmod": "fmod", "tir.hypot": "hypot", "tir.nextafter": "nextafter"}

_BITWISE = {"tir.bitwise_and": "and", "tir.bitwise_or": "or", "tir.bitwise_xor": "xor", "tir.shift_left": "shl"}

_SIGNED = {E.LT: "slt", E.LE: "sle", E.GT: "sgt", E.GE: "sge", E.EQ: "eq", E.NE: "ne"}
_UNSIGNED = {E.LT: "ult", E.LE: "ule", E.GT: "ugt", E.GE: "uge", E.EQ: "eq", E.NE: "ne"}
_ORDERED = {E.LT: "olt", E.LE: "ole", E.GT: "ogt", E.GE: "oge", E.EQ: "oeq", E.NE: "une"}

#: Widest vector (in lanes of float32) that a polynomial is computed for at once; wider ones are split to save registers.
_MATH_LANES = 16


class IndexForm:
    """A flat index as ``sum(coefficient * variable) + sum(coefficient * expression) + constant``."""

    __slots__ = ("constant", "opaque", "variables")

    def __init__(self) -> None:
        self.variables: list[tuple[Var, int]] = []
        self.opaque: list[tuple[PrimExpr, int]] = []
        self.constant = 0


class ExpressionEmitter:
    """Emits expressions of one LLVM function; statements are added by :class:`~.codegen.FunctionEmitter`."""

    def __init__(self, module: ModuleBuilder, builder: FunctionBuilder) -> None:
        self.module = module
        self.b = builder
        self.variables: dict[Var, Value] = {}
        self.simplifier = IndexSimplifier()
        self._forms: dict[int, IndexForm] = {}
        self._alive: list[PrimExpr] = []  # keeps the expressions whose ids are keys
        # Values that dominate the current point, innermost scope last.
        self._scopes: list[dict[Any, Value]] = [{}]
        # Loaded values that memory still holds: by data pointer, then by (address, type).
        self._loaded: dict[Var, dict[tuple[str, str], Value]] = {}

    # -- scopes ------------------------------------------------------------------
    def enter(self) -> None:
        """Starts a region whose values do not dominate what follows it."""
        self._scopes.append({})
        self._loaded.clear()

    def leave(self) -> None:
        """Ends the region."""
        self._scopes.pop()
        self._loaded.clear()

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

    def _collect(self, expr: PrimExpr, factor: int, terms: dict[Var, int], opaque: list[tuple[PrimExpr, int]]) -> int:
        kind = expr.__class__
        if kind is E.IntImm:
            return factor * expr.value  # type: ignore[attr-defined]
        if kind is E.Var or kind is E.SizeVar:
            terms[expr] = terms.get(expr, 0) + factor  # type: ignore[index]
            return 0
        if kind is E.Add:
            return self._collect(expr.a, factor, terms, opaque) + self._collect(expr.b, factor, terms, opaque)  # type: ignore[attr-defined]
        if kind is E.Sub:
            return self._collect(expr.a, factor, terms, opaque) + self._collect(expr.b, -factor, terms, opaque)  # type: ignore[attr-defined]
        if kind is E.Mul:
            if expr.b.__class__ is E.IntImm:  # type: ignore[attr-defined]
                return self._collect(expr.a, factor * expr.b.value, terms, opaque)  # type: ignore[attr-defined]
            if expr.a.__class__ is E.IntImm:  # type: ignore[attr-defined]
                return self._collect(expr.b, factor * expr.a.value, terms, opaque)  # type: ignore[attr-defined]
        if kind is E.Cast and dt.is_index(expr.dtype) and dt.is_index(expr.value.dtype):  # type: ignore[attr-defined]
            return self._collect(expr.value, factor, terms, opaque)  # type: ignore[attr-defined]
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
            value = self._opaque_index(item)
            literal = value.literal
            if literal is not None:
                const += coefficient * literal
            else:
                terms[value.ref] = terms.get(value.ref, 0) + coefficient
        return tuple(term for term in terms.items() if term[1]), const

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
        return found

    def index(self, expr: PrimExpr) -> Value:
        """An integer scalar as i64, for addresses and loop bounds."""
        terms, const = self.split_index(expr)
        return self.b.add(self._sum(terms), Value(str(const), "i64"))

    def _opaque_index(self, expr: PrimExpr) -> Value:
        """An i64 value of what is no sum of products."""
        kind = expr.__class__
        if kind is E.Mul:
            return self.b.mul(self.index(expr.a), self.index(expr.b))  # type: ignore[attr-defined]
        if kind in (E.FloorDiv, E.FloorMod) and dt.is_index(expr.dtype):
            return self._divide_index(expr)
        if kind in (E.Min, E.Max) and dt.is_index(expr.dtype):
            a, b = self.index(expr.a), self.index(expr.b)  # type: ignore[attr-defined]
            x, y = a.literal, b.literal
            if x is not None and y is not None:
                return Value(str(min(x, y) if kind is E.Min else max(x, y)), "i64")
            key = (kind, a.ref, b.ref)
            found = self._known(key)
            if found is None:
                name = self.module.intrinsic("smin" if kind is E.Min else "smax", "i64", 2)
                found = self._scopes[-1][key] = self.b.call(name, "i64", [a, b])
            return found
        return self._wide(self.value(expr), dt.is_uint(expr.dtype))

    def _divide_index(self, expr: Any) -> Value:
        a, b = self.index(expr.a), self.index(expr.b)
        floor = expr.__class__ is E.FloorDiv
        x, y = a.literal, b.literal
        if x is not None and y:
            return Value(str(x // y if floor else x % y), "i64")
        key = (expr.__class__, a.ref, b.ref)
        found = self._known(key)
        if found is None:
            nonnegative = self.simplifier.bounds(expr.a)[0] >= 0 and self.simplifier.bounds(expr.b)[0] >= 0
            if nonnegative:
                found = self.b.binary("udiv" if floor else "urem", a, b)
            else:
                found = self._floor_divide(a, b, floor)
            self._scopes[-1][key] = found
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

    # -- values ------------------------------------------------------------------
    def value(self, expr: PrimExpr) -> Value:
        """Emits an expression and returns its value in a register."""
        handler = _HANDLERS.get(expr.__class__)
        if handler is None:
            raise CodegenError(f"code generation has no expression {type(expr).__name__}")
        return handler(self, expr)

    def _variable(self, var: Var) -> Value:
        try:
            return self.variables[var]
        except KeyError:
            raise CodegenError(f"variable {var.name} is used where it is not defined") from None

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

    # -- half precision ------------------------------------------------------------
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
            nan = b.binary("or", upper, constant(0x40, bits.type))  # stays a NaN when its low bits are cut off
            result = b.select(b.fcmp("uno", value, value), nan, result)
            return b.cast("trunc", result, vector("i16", lanes))
        return self.b.cast("fptrunc", value, vector("half", lanes)) if dt.bits(dtype) == 16 else value

    # -- arithmetic ------------------------------------------------------------------
    def _arithmetic(self, expr: Any) -> Value:
        dtype = expr.dtype
        kind = expr.__class__
        if dt.is_float(dtype):
            a, b = self.value(expr.a), self.value(expr.b)
            if dt.code(dtype) == "bfloat":
                a, b = self.widen_float(a, dtype), self.widen_float(b, dtype)
                return self.narrow_float(self._float_arithmetic(kind, a, b), dtype)
            return self._float_arithmetic(kind, a, b)
        if dt.is_index(dtype) and kind not in (E.Div, E.Mod):
            terms, const = self.split_index(expr)
            if not terms:
                return Value(str(const), register_type(dtype))
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
        if kind is E.Max:
            return self.b.select(self.b.fcmp("ogt", a, b), a, b)
        if kind is E.Min:
            return self.b.select(self.b.fcmp("olt", a, b), a, b)
        remainder = self.b.binary("frem", a, b)
        if kind is E.Mod:
            return remainder
        zero = constant(0.0, a.type)
        if kind is E.FloorDiv:
            return self.b.call(self.module.intrinsic("floor", a.type), a.type, [self.b.binary("fdiv", a, b)])
        wrong_sign = self.b.binary(
            "xor", self.b.fcmp("olt", remainder, zero), self.b.fcmp("olt", b, zero)
        )
        inexact = self.b.binary("and", wrong_sign, self.b.fcmp("one", remainder, zero))
        return self.b.select(inexact, self.b.binary("fadd", remainder, b), remainder)

    def _integer_arithmetic(self, kind: type, a: Value, b: Value, dtype: str, expr: Any) -> Value:
        unsigned = dt.is_uint(dtype) or dt.is_bool(dtype)
        x, y = a.literal, b.literal
        if x is not None and y is not None and dt.is_index(dtype):
            folded = _fold(kind, x, y)
            if folded is not None:
                return Value(str(folded), a.type)
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
        if unsigned or (
            dt.is_index(dtype)
            and self.simplifier.bounds(expr.a)[0] >= 0
            and self.simplifier.bounds(expr.b)[0] >= 0
        ):
            return self.b.binary("udiv" if floor else "urem", a, b)
        return self._floor_divide(a, b, floor)

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
        return self.value(expr.body)

    # -- conversions --------------------------------------------------------------
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
            return self.b.cast("fptrunc" if narrower else "fpext", value, wanted) if value.type != wanted else value
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
        for i, item in enumerate(picked):
            result = self.b.insert(result, item, i)
        return result

    # -- memory ----------------------------------------------------------------------
    def address(self, buffer: Buffer, index: PrimExpr | None) -> Value:
        """Address of an element at a scalar index."""
        base = self._variable(buffer.data)
        if index is None:
            return base
        terms, const = self.split_index(index)
        return self._offset(base, memory_type(buffer.dtype), terms, const)

    def _offset(self, base: Value, element: str, terms: tuple[tuple[str, int], ...], const: int) -> Value:
        if terms:
            key = ("address", base.ref, element, terms)
            found = self._known(key)
            if found is None:
                found = self._scopes[-1][key] = self.b.element_pointer(base, element, self._sum(terms))
            base = found
        if const == 0:
            return base
        key = ("displaced", base.ref, element, const)
        found = self._known(key)
        if found is None:
            found = self._scopes[-1][key] = self.b.element_pointer(base, element, Value(str(const), "i64"))
        return found

    def _from_memory(self, value: Value, dtype: str) -> Value:
        if dt.is_bool(dtype):
            return self.b.icmp("ne", value, constant(0, value.type))
        return value

    def _to_memory(self, value: Value, dtype: str) -> Value:
        if dt.is_bool(dtype):
            return self.b.cast("zext", value, vector("i8", lanes_of(value.type)))
        return value

    def _load(self, expr: E.BufferLoad) -> Value:
        buffer = expr.buffer
        index = self._flat_index(expr.indices, buffer)
        type_ = memory_type(expr.dtype)
        align = element_bytes(buffer.dtype)
        if expr.predicate is not None:
            value = self._masked_load(buffer, index, expr.predicate, type_, align)
            return self._from_memory(value, expr.dtype)
        if index is None or dt.lanes(index.dtype) == 1:
            return self._from_memory(self._plain_load(buffer, self.address(buffer, index), type_, align), expr.dtype)
        if isinstance(index, E.Broadcast):
            scalar = self._plain_load(buffer, self.address(buffer, index.value), memory_type(buffer.dtype), align)
            return self._from_memory(self.b.splat(scalar, index.lanes), expr.dtype)
        if isinstance(index, E.Ramp):
            stride = self.index(index.stride).literal
            if stride == 1:
                pointer = self.address(buffer, index.base)
                return self._from_memory(self._plain_load(buffer, pointer, type_, align), expr.dtype)
            if stride == -1:
                pointer = self.address(buffer, index.base - (index.lanes - 1))
                straight = self._plain_load(buffer, pointer, type_, align)
                turned = self.b.shuffle(straight, straight, range(index.lanes - 1, -1, -1))  # type: ignore[arg-type]
                return self._from_memory(turned, expr.dtype)
        result = Value("poison", type_)
        element = memory_type(buffer.dtype)
        for i, pointer in enumerate(self._lane_addresses(buffer, index)):
            result = self.b.insert(result, self._plain_load(buffer, pointer, element, align), i)
        return self._from_memory(result, expr.dtype)

    def _plain_load(self, buffer: Buffer, pointer: Value, type_: str, align: int) -> Value:
        known = self._loaded.setdefault(buffer.data, {})
        key = (pointer.ref, type_)
        found = known.get(key)
        if found is None:
            found = known[key] = self.b.load(type_, pointer, align)
        return found

    def _flat_index(self, indices: tuple[PrimExpr, ...], buffer: Buffer) -> PrimExpr | None:
        if len(indices) > 1:
            raise CodegenError(
                f"buffer {buffer.name} is accessed with {len(indices)} indices; run ir.tir.transform.FlattenBuffer first"
            )
        return indices[0] if indices else None

    def _lane_addresses(self, buffer: Buffer, index: PrimExpr) -> list[Value]:
        base = self._variable(buffer.data)
        element = memory_type(buffer.dtype)
        if isinstance(index, E.Ramp):
            terms, const = self.split_index(index.base)
            stride = self.index(index.stride)
            if stride.literal is not None:
                return [self._offset(base, element, terms, const + i * stride.literal) for i in range(index.lanes)]
        lanes = self.value(index)
        result = []
        for i in range(lanes_of(lanes.type)):
            offset = self._wide(self.b.extract(lanes, i))
            result.append(self.b.element_pointer(base, element, offset))
        return result

    def _address_vector(self, buffer: Buffer, index: PrimExpr) -> Value:
        lanes = self.value(index)
        count = lanes_of(lanes.type)
        if element_of(lanes.type) != "i64":
            lanes = self.b.cast("sext", lanes, vector("i64", count))
        base = self._variable(buffer.data)
        return self.b.define(
            f"getelementptr {memory_type(buffer.dtype)}, ptr {base.ref}, {lanes.type} {lanes.ref}", vector("ptr", count)
        )

    def _masked_load(self, buffer: Buffer, index: PrimExpr | None, predicate: PrimExpr, type_: str, align: int) -> Value:
        mask = self.value(predicate)
        count = lanes_of(type_)
        if index is None or count == 1:
            return self._guarded(mask, lambda: self._plain_load_uncached(buffer, index, type_, align), type_)
        nothing = Value("zeroinitializer", type_)
        if isinstance(index, E.Ramp) and self.index(index.stride).literal == 1:
            pointer = self.address(buffer, index.base)
            name = f"llvm.masked.load.{mangled(type_)}.p0"
            self.module.declare(name, type_, ["ptr", "i32", mask.type, type_])
            return self.b.call(name, type_, [pointer, Value(str(align), "i32"), mask, nothing])
        pointers = self._address_vector(buffer, index)
        name = f"llvm.masked.gather.{mangled(type_)}.v{count}p0"
        self.module.declare(name, type_, [pointers.type, "i32", mask.type, type_])
        return self.b.call(name, type_, [pointers, Value(str(align), "i32"), mask, nothing])

    def _plain_load_uncached(self, buffer: Buffer, index: PrimExpr | None, type_: str, align: int) -> Value:
        return self.b.load(type_, self.address(buffer, index), align)

    def _guarded(self, condition: Value, compute: Callable[[], Value], type_: str) -> Value:
        """``compute()`` where the condition holds, else zero."""
        then, join = self.b.fresh("then"), self.b.fresh("join")
        before = self.b.block
        self.b.cond_branch(condition, then, join)
        self.b.label(then)
        self.enter()
        value = compute()
        self.leave()
        last = self.b.block
        self.b.branch(join)
        self.b.label(join)
        return self.b.define(f"phi {type_} [{value.ref}, %{last}], [zeroinitializer, %{before}]", type_)

    def store(self, buffer: Buffer, indices: tuple[PrimExpr, ...], value: PrimExpr, predicate: PrimExpr | None) -> None:
        """Emits a store."""
        index = self._flat_index(indices, buffer)
        stored = self._to_memory(self.value(value), value.dtype)
        align = element_bytes(buffer.dtype)
        if index is not None and isinstance(index, E.Broadcast):
            index = index.value  # all lanes go to one place: the last one wins
            stored = self.b.extract(stored, lanes_of(stored.type) - 1)
        if predicate is not None:
            self._masked_store(buffer, index, stored, self.value(predicate), align)
            self._loaded.pop(buffer.data, None)
            return
        if index is None or dt.lanes(index.dtype) == 1:
            self._plain_store(buffer, self.address(buffer, index), stored, align)
            return
        if isinstance(index, E.Ramp):
            stride = self.index(index.stride).literal
            if stride == 1:
                self._plain_store(buffer, self.address(buffer, index.base), stored, align)
                return
        for i, pointer in enumerate(self._lane_addresses(buffer, index)):
            self.b.store(self.b.extract(stored, i), pointer, align)
        self._loaded.pop(buffer.data, None)

    def _plain_store(self, buffer: Buffer, pointer: Value, value: Value, align: int) -> None:
        self.b.store(value, pointer, align)
        # What was loaded from this buffer may have changed; what was stored is known.
        self._loaded[buffer.data] = {(pointer.ref, value.type): value}

    def _masked_store(self, buffer: Buffer, index: PrimExpr | None, value: Value, mask: Value, align: int) -> None:
        count = lanes_of(value.type)
        if index is None or count == 1:
            then, join = self.b.fresh("then"), self.b.fresh("join")
            pointer = self.address(buffer, index)
            self.b.cond_branch(mask, then, join)
            self.b.label(then)
            self.b.store(value, pointer, align)
            self.b.branch(join)
            self.b.label(join)
            return
        if isinstance(index, E.Ramp) and self.index(index.stride).literal == 1:
            name = f"llvm.masked.store.{mangled(value.type)}.p0"
            self.module.declare(name, "void", [value.type, "ptr", "i32", mask.type])
            self.b.call(name, "void", [value, self.address(buffer, index.base), Value(str(align), "i32"), mask])
            return
        pointers = self._address_vector(buffer, index)
        name = f"llvm.masked.scatter.{mangled(value.type)}.v{count}p0"
        self.module.declare(name, "void", [value.type, pointers.type, "i32", mask.type])
        self.b.call(name, "void", [value, pointers, Value(str(align), "i32"), mask])

    # -- calls -------------------------------------------------------------------------
    def _call(self, call: E.Call) -> Value:
        if isinstance(call.op, GlobalVar):
            return self.call_function(call)
        name = call.op.name
        handler = _INTRINSICS.get(name)
        if handler is not None:
            return handler(self, call)
        short = name.removeprefix("tir.")
        if short in vector_math.FUNCTIONS:
            return self._elementwise(call, lambda args: self._math(short, args))
        if name in _LLVM_UNARY:
            intrinsic = _LLVM_UNARY[name]
            return self._elementwise(
                call, lambda args: self.b.call(self.module.intrinsic(intrinsic, args[0].type), args[0].type, args)
            )
        if name in _LIBM:
            function = _LIBM[name]
            return self._elementwise(call, lambda args: self._libm(function, args))
        if name in _BITWISE:
            return self.b.binary(_BITWISE[name], *[self.value(arg) for arg in call.args])
        raise CodegenError(f"code generation has no intrinsic {name}")

    def call_function(self, call: E.Call) -> Value:
        """A call of another function of the module; defined with statements."""
        raise CodegenError(f"a call of {call.op.name_hint} is no value")

    def call_packed(self, call: E.Call) -> Value:
        """A call of a registered Python function; defined with statements."""
        raise CodegenError("a packed call is not possible here")

    def _elementwise(self, call: E.Call, compute: Callable[[list[Value]], Value]) -> Value:
        """A float function, computed in float32 for half precision."""
        dtype = call.dtype
        args = [self.widen_float(self.value(arg), arg.dtype) for arg in call.args]
        return self.narrow_float(compute(args), dtype)

    def _math(self, name: str, args: list[Value]) -> Value:
        """A polynomial, in pieces of at most a register's width."""
        type_ = args[0].type
        lanes = lanes_of(type_)
        if lanes <= _MATH_LANES or lanes % _MATH_LANES:
            return self.b.call(vector_math.vector_function(self.module, name, type_), type_, args)
        part = vector(element_of(type_), _MATH_LANES)
        function = vector_math.vector_function(self.module, name, part)
        pieces = []
        for start in range(0, lanes, _MATH_LANES):
            window = range(start, start + _MATH_LANES)
            pieces.append(self.b.call(function, part, [self.b.shuffle(a, a, window) for a in args]))  # type: ignore[arg-type]
        while len(pieces) > 1:
            width = range(2 * lanes_of(pieces[0].type))
            pieces = [self.b.shuffle(a, b, width) for a, b in zip(pieces[::2], pieces[1::2])]  # type: ignore[arg-type]
        return pieces[0]

    def _libm(self, name: str, args: list[Value]) -> Value:
        type_ = args[0].type
        element = element_of(type_)
        symbol = self.module.declare(name + ("f" if element == "float" else ""), element, [element] * len(args))
        lanes = lanes_of(type_)
        result = Value("poison", type_)
        for i in range(lanes):
            item = self.b.call(symbol, element, [self.b.extract(a, i) for a in args])
            result = self.b.insert(result, item, i) if lanes > 1 else item
        return result

    def _round(self, call: E.Call) -> Value:
        # Away from zero in ties: add the largest number below one half, with the sign of x, and truncate.
        def compute(args: list[Value]) -> Value:
            (x,) = args
            below_half = 0.49999997019767761 if element_of(x.type) == "float" else 0.49999999999999994
            half = self.b.call(self.module.intrinsic("copysign", x.type, 2), x.type, [constant(below_half, x.type), x])
            return self.b.call(self.module.intrinsic("trunc", x.type), x.type, [self.b.binary("fadd", x, half)])

        return self._elementwise(call, compute)

    def _copysign(self, call: E.Call) -> Value:
        return self._elementwise(
            call, lambda args: self.b.call(self.module.intrinsic("copysign", args[0].type, 2), args[0].type, args)
        )

    def _ldexp(self, call: E.Call) -> Value:
        def compute(args: list[Value]) -> Value:
            two_to = vector_math.vector_function(self.module, "exp2", args[0].type)
            return self.b.binary("fmul", args[0], self.b.call(two_to, args[0].type, [args[1]]))

        first, second = call.args
        if not dt.is_float(second.dtype):
            call = call.replace(args=(first, E.Cast(dt.with_lanes("float32", dt.lanes(second.dtype)), second)))
        return self._elementwise(call, compute)

    def _abs(self, call: E.Call) -> Value:
        if dt.is_float(call.dtype):
            return self._elementwise(
                call, lambda args: self.b.call(self.module.intrinsic("fabs", args[0].type), args[0].type, args)
            )
        value = self.value(call.args[0])
        zero = constant(0, value.type)
        return self.b.select(self.b.icmp("slt", value, zero), self.b.binary("sub", zero, value), value)

    def _likely(self, call: E.Call) -> Value:
        return self.value(call.args[0])

    def _if_then_else(self, call: E.Call) -> Value:
        condition = self.value(call.args[0])
        if condition.ref in ("true", "false"):
            return self.value(call.args[1] if condition.ref == "true" else call.args[2])
        if condition.type != "i1":
            return self.b.select(condition, self.value(call.args[1]), self.value(call.args[2]))
        then, otherwise, join = self.b.fresh("then"), self.b.fresh("else"), self.b.fresh("join")
        self.b.cond_branch(condition, then, otherwise)
        results = []
        kept = {data: dict(known) for data, known in self._loaded.items()}
        for label, branch in ((then, call.args[1]), (otherwise, call.args[2])):
            self.b.label(label)
            self.enter()
            self._loaded.update({data: dict(known) for data, known in kept.items()})
            value = self.value(branch)
            self.leave()
            results.append(f"[{value.ref}, %{self.b.block}]")
            self.b.branch(join)
        self.b.label(join)
        self._loaded.update(kept)  # expressions store nothing, so what was loaded before still holds
        type_ = register_type(call.dtype)
        return self.b.define(f"phi {type_} {', '.join(results)}", type_)

    def _isnan(self, call: E.Call) -> Value:
        value = self.widen_float(self.value(call.args[0]), call.args[0].dtype)
        return self.b.fcmp("uno", value, value)

    def _isinf(self, call: E.Call) -> Value:
        return self._against_infinity(call, "oeq")

    def _isfinite(self, call: E.Call) -> Value:
        return self._against_infinity(call, "olt")

    def _against_infinity(self, call: E.Call, predicate: str) -> Value:
        value = self.widen_float(self.value(call.args[0]), call.args[0].dtype)
        size = self.b.call(self.module.intrinsic("fabs", value.type), value.type, [value])
        return self.b.fcmp(predicate, size, constant(float("inf"), value.type))

    def _isnullptr(self, call: E.Call) -> Value:
        return self.b.icmp("eq", self.value(call.args[0]), Value("null", "ptr"))

    def _shift_right(self, call: E.Call) -> Value:
        op = "ashr" if dt.is_int(call.dtype) else "lshr"
        return self.b.binary(op, self.value(call.args[0]), self.value(call.args[1]))

    def _bitwise_not(self, call: E.Call) -> Value:
        value = self.value(call.args[0])
        return self.b.binary("xor", value, constant(-1, value.type))

    def _popcount(self, call: E.Call) -> Value:
        value = self.value(call.args[0])
        return self.b.call(self.module.intrinsic("ctpop", value.type), value.type, [value])

    def _clz(self, call: E.Call) -> Value:
        value = self.value(call.args[0])
        name = self.module.declare(f"llvm.ctlz.{mangled(value.type)}", value.type, [value.type, "i1"])
        zeros = self.b.call(name, value.type, [value, Value("false", "i1")])
        return self.convert(zeros, dt.with_lanes(f"uint{dt.bits(call.args[0].dtype)}", lanes_of(value.type)), call.dtype)

    def _reinterpret(self, call: E.Call) -> Value:
        value = self.value(call.args[0])
        if dt.is_bool(call.args[0].dtype) or dt.is_bool(call.dtype):
            return self._from_memory(self._to_memory(value, call.args[0].dtype), call.dtype)
        return self.b.cast("bitcast", value, register_type(call.dtype))

    def _q_multiply_shift(self, call: E.Call) -> Value:
        """round(x * y * 2**(s - q)) in 64 bits, ties upwards."""
        x, y, q, s = (self.value(arg) for arg in call.args)
        lanes = lanes_of(x.type)
        wide = vector("i64", lanes)
        x, y, q, s = (
            self.b.cast("sext", self.b.splat(v, lanes) if lanes_of(v.type) != lanes else v, wide) for v in (x, y, q, s)
        )
        zero, one = constant(0, wide), constant(1, wide)
        smax = self.module.intrinsic("smax", wide, 2)
        left = self.b.call(smax, wide, [s, zero])
        right = self.b.binary("add", q, self.b.call(smax, wide, [self.b.binary("sub", zero, s), zero]))
        product = self.b.binary("mul", self.b.binary("shl", x, left), y)
        rounding = self.b.binary("shl", one, self.b.binary("sub", right, one))
        shifted = self.b.binary("ashr", self.b.binary("add", product, rounding), right)
        return self.b.cast("trunc", shifted, vector("i32", lanes))

    def _address_of(self, call: E.Call) -> Value:
        load = call.args[0]
        assert isinstance(load, E.BufferLoad)
        self._loaded.clear()  # whoever gets the address may write there
        return self.address(load.buffer, self._flat_index(load.indices, load.buffer))

    def _access_ptr(self, call: E.Call) -> Value:
        kind, data, offset = call.args[:3]
        self._loaded.clear()
        return self.b.element_pointer(self.value(data), memory_type(kind.dtype), self.index(offset))

    def _call_extern(self, call: E.Call) -> Value:
        name = call.args[0].value  # type: ignore[attr-defined]
        args = [self.value(arg) for arg in call.args[1:]]
        result = "void" if call.dtype in ("void", "") else register_type(call.dtype)
        self.module.declare(name, result, [a.type for a in args])
        value = self.b.call(name, result, args)
        if call.op.name == "tir.call_extern":
            self._loaded.clear()
        return value

    def _call_llvm(self, call: E.Call) -> Value:
        name = call.args[0].value  # type: ignore[attr-defined]
        args = [self.value(arg) for arg in call.args[1:]]
        result = "void" if call.dtype in ("void", "") else register_type(call.dtype)
        self.module.declare(name, result, [a.type for a in args])
        if call.op.name == "tir.call_llvm_intrin":
            self._loaded.clear()
        return self.b.call(name, result, args)

    def _packed(self, call: E.Call) -> Value:
        return self.call_packed(call)

    def _assume(self, call: E.Call) -> Value:
        condition = self.value(call.args[0])
        self.module.declare("llvm.assume", "void", ["i1"])
        self.b.call("llvm.assume", "void", [condition])
        return condition

    def _undef(self, call: E.Call) -> Value:
        return Value("undef", register_type(call.dtype))

    def _nothing(self, call: E.Call) -> Value:
        return Value("0", "i32")

    def _large_uint(self, call: E.Call) -> Value:
        low, high = (int(arg.value) for arg in call.args)  # type: ignore[attr-defined]
        return constant(high << 32 | low, register_type(call.dtype))

    def _halves(self, call: E.Call) -> Value:
        value = self.value(call.args[0])
        half = lanes_of(value.type) // 2
        start = half if call.op.name == "tir.vectorhigh" else 0
        return self.b.shuffle(value, value, range(start, start + half))  # type: ignore[arg-type]

    def _combine(self, call: E.Call) -> Value:
        a, b = self.value(call.args[0]), self.value(call.args[1])
        return self.b.shuffle(a, b, range(2 * lanes_of(a.type)))  # type: ignore[arg-type]

    def _dp4a(self, call: E.Call) -> Value:
        """Dot product of four bytes, added to an accumulator."""
        x, y, accumulator = (self.value(arg) for arg in call.args)
        total = accumulator
        for i in range(4):
            product = self.b.binary(
                "mul",
                self.b.cast("sext", self.b.extract(x, i), total.type),
                self.b.cast("sext", self.b.extract(y, i), total.type),
            )
            total = self.b.binary("add", total, product)
        return total


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
    quotient = abs(x) // abs(y) * (1 if (x >= 0) == (y >= 0) else -1)
    return quotient if kind is E.Div else x - quotient * y


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

_INTRINSICS: dict[str, Callable[[Any, Any], Value]] = {
    "tir.round": _X._round, "tir.copysign": _X._copysign, "tir.ldexp": _X._ldexp, "tir.abs": _X._abs,
    "tir.likely": _X._likely, "tir.if_then_else": _X._if_then_else, "tir.isnan": _X._isnan, "tir.isinf": _X._isinf,
    "tir.isfinite": _X._isfinite, "tir.isnullptr": _X._isnullptr, "tir.shift_right": _X._shift_right,
    "tir.bitwise_not": _X._bitwise_not, "tir.popcount": _X._popcount, "tir.clz": _X._clz,
    "tir.reinterpret": _X._reinterpret, "tir.q_multiply_shift": _X._q_multiply_shift,
    "tir.address_of": _X._address_of, "tir.tvm_access_ptr": _X._access_ptr, "tir.call_extern": _X._call_extern,
    "tir.call_pure_extern": _X._call_extern, "tir.call_llvm_intrin": _X._call_llvm,
    "tir.call_llvm_pure_intrin": _X._call_llvm, "tir.tvm_call_packed": _X._packed, "tir.tvm_call_cpacked": _X._packed,
    "tir.assume": _X._assume, "tir.undef": _X._undef, "tir.prefetch": _X._nothing, "tir.tvm_storage_sync": _X._nothing,
    "tir.large_uint_imm": _X._large_uint, "tir.vectorlow": _X._halves, "tir.vectorhigh": _X._halves,
    "tir.vectorcombine": _X._combine, "tir.dp4a": _X._dp4a,
}  # fmt: skip
