"""Calls: elementary functions, bit operations, conditionals, external functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtype as dt
from ...expr import GlobalVar
from ...tir import expr as E
from . import vector_math
from .builder import Value, constant, element_of, lanes_of, mangled, vector
from .compile import CodegenError
from .memory import MemoryEmitter
from .types import memory_type, register_type

#: Intrinsics of LLVM with the same meaning, for every float type.
_LLVM_UNARY = {
    "tir.floor": "floor",
    "tir.ceil": "ceil",
    "tir.trunc": "trunc",
    "tir.nearbyint": "nearbyint",
    "tir.fabs": "fabs",
}

#: Functions of libm that have no vector form here: called lane by lane.
_LIBM = {"tir.erfc": "erfc", "tir.fmod": "fmod", "tir.hypot": "hypot", "tir.nextafter": "nextafter"}

_BITWISE = {
    "tir.bitwise_and": "and",
    "tir.bitwise_or": "or",
    "tir.bitwise_xor": "xor",
    "tir.shift_left": "shl",
}

#: Widest vector (in lanes of float32) that a polynomial is computed for at once; wider ones are split to save registers.
_MATH_LANES = 16

#: Instructions that polynomials may add to an unrolled body; beyond, they are called.
_INLINED_INSTRUCTIONS = 600


class IntrinsicEmitter(MemoryEmitter):
    """Emits calls of intrinsics; each has an entry in the table at the end of this file or a rule for its family."""

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

    def convert(self, value: Value, source: str, target: str) -> Value:
        """Numeric conversion between dtypes of equal lanes."""
        raise CodegenError(f"no conversion from {source} to {target} here")

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
                call,
                lambda args: self.b.call(self.module.intrinsic(intrinsic, args[0].type), args[0].type, args),
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
        if lanes <= _MATH_LANES or lanes & (lanes - 1):
            return self.b.call(self._math_function(name, type_), type_, args)
        part = vector(element_of(type_), _MATH_LANES)
        function = self._math_function(name, part)
        pieces = []
        for start in range(0, lanes, _MATH_LANES):
            window = range(start, start + _MATH_LANES)
            pieces.append(self.b.call(function, part, [self.b.shuffle(a, a, window) for a in args]))  # type: ignore[arg-type]
        while len(pieces) > 1:
            width = range(2 * lanes_of(pieces[0].type))
            pieces = [self.b.shuffle(a, b, width) for a, b in zip(pieces[::2], pieces[1::2])]  # type: ignore[arg-type]
        return pieces[0]

    def _math_function(self, name: str, type_: str) -> str:
        inlined = vector_math.instructions(name) * self._copies
        if element_of(type_) == "float" and self._copies > 1 and inlined > _INLINED_INSTRUCTIONS:
            return vector_math.outlined_function(self.module, name, type_, self.outlined_attributes)
        return vector_math.vector_function(self.module, name, type_)

    def _libm(self, name: str, args: list[Value]) -> Value:
        type_ = args[0].type
        element = element_of(type_)
        symbol = self.module.declare(
            name + ("f" if element == "float" else ""), element, [element] * len(args)
        )
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
            half = self.b.call(
                self.module.intrinsic("copysign", x.type, 2), x.type, [constant(below_half, x.type), x]
            )
            return self.b.call(
                self.module.intrinsic("trunc", x.type), x.type, [self.b.binary("fadd", x, half)]
            )

        return self._elementwise(call, compute)

    def _copysign(self, call: E.Call) -> Value:
        return self._elementwise(
            call,
            lambda args: self.b.call(self.module.intrinsic("copysign", args[0].type, 2), args[0].type, args),
        )

    def _ldexp(self, call: E.Call) -> Value:
        def compute(args: list[Value]) -> Value:
            two_to = vector_math.vector_function(self.module, "exp2", args[0].type)
            return self.b.binary("fmul", args[0], self.b.call(two_to, args[0].type, [args[1]]))

        first, second = call.args
        if not dt.is_float(second.dtype):
            call = call.replace(
                args=(first, E.Cast(dt.with_lanes("float32", dt.lanes(second.dtype)), second))
            )
        return self._elementwise(call, compute)

    def _abs(self, call: E.Call) -> Value:
        if dt.is_float(call.dtype):
            return self._elementwise(
                call,
                lambda args: self.b.call(self.module.intrinsic("fabs", args[0].type), args[0].type, args),
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
        if self._guard is not None or self._cheap(call):
            return self._select_guarded(condition, call.args[1], call.args[2])
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

    def _cheap(self, call: E.Call) -> bool:
        """Whether both sides may be computed whatever the condition: few operations, and loads from known buffers."""
        found = self._cheap_calls.get(id(call))
        if found is None:
            found = self._cheap_calls[id(call)] = all(_is_cheap(arg) for arg in call.args[1:])
            self._alive.append(call)
        return found

    def _select_guarded(self, condition: Value, yes: E.PrimExpr, no: E.PrimExpr) -> Value:
        """Both sides without a branch; loads of the side that is not chosen read the buffer's first element."""
        outer = self._guard
        results = []
        for side, holds in ((yes, condition), (no, None)):
            if isinstance(side, E.IntImm | E.FloatImm):
                results.append(self.value(side))
                continue
            if holds is None:
                holds = self.b.binary("xor", condition, constant(1, "i1"))
            self._guard = holds if outer is None else self.b.select(outer, holds, constant(0, "i1"))
            results.append(self.value(side))
            self._guard = outer
        return self.b.select(condition, *results)

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
        return self.convert(
            zeros, dt.with_lanes(f"uint{dt.bits(call.args[0].dtype)}", lanes_of(value.type)), call.dtype
        )

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
            self.b.cast("sext", self.b.splat(v, lanes) if lanes_of(v.type) != lanes else v, wide)
            for v in (x, y, q, s)
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

    def _prefetch(self, call: E.Call) -> Value:
        """A hint: what is known about memory stays known."""
        address, *kind = call.args
        load = address.args[0] if isinstance(address, E.Call) and address.args else None
        if isinstance(load, E.BufferLoad):
            pointer = self.address(load.buffer, self._flat_index(load.indices, load.buffer))
        else:
            pointer = self.value(address)
        name = self.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        return self.b.call(name, "void", [pointer, *(self.value(item) for item in kind)])

    def _access_ptr(self, call: E.Call) -> Value:
        kind, data, offset = call.args[:3]
        self._loaded.clear()
        return self.b.element_pointer(self.value(data), memory_type(kind.dtype), self.index(offset))

    def _call_extern(self, call: E.Call) -> Value:
        name: str = _constant(call.args[0])
        args = [self.value(arg) for arg in call.args[1:]]
        result = "void" if call.dtype in ("void", "") else register_type(call.dtype)
        self.module.declare(name, result, [a.type for a in args])
        value = self.b.call(name, result, args)
        if call.op.name == "tir.call_extern":
            self._loaded.clear()
        return value

    def _call_llvm(self, call: E.Call) -> Value:
        name: str = _constant(call.args[0])
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
        low, high = (int(_constant(arg)) for arg in call.args)
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


def _constant(arg: Any) -> Any:
    """The value of a constant argument."""
    return arg.value


_ARITHMETIC = (
    E.Add,
    E.Sub,
    E.Mul,
    E.Max,
    E.Min,
    E.Cast,
    E.CmpExpr,
    E.LogicalExpr,
    E.Not,
    E.Select,
    E.Broadcast,
    E.Ramp,
)
_CHEAP_NODES = 24


def _is_cheap(expr: Any) -> bool:
    """Whether an expression is a little arithmetic on loads that can be redirected to the start of their buffer."""
    count = 0
    cheap = True

    def check(node: Any) -> None:
        nonlocal count, cheap
        if isinstance(node, E.BufferLoad):
            extent = node.buffer.shape[0] if node.buffer.shape else None
            known = isinstance(extent, E.IntImm) and extent.value >= dt.lanes(node.dtype)
            plain = not node.indices or isinstance(node.indices[-1], E.Ramp) or dt.lanes(node.dtype) == 1
            cheap = cheap and known and plain and node.predicate is None
            for index in node.indices:
                if isinstance(index, E.Ramp) and not (
                    isinstance(index.stride, E.IntImm) and index.stride.value == 1
                ):
                    cheap = False
            count += 1
            return  # index arithmetic is shared and short
        if isinstance(node, E.Call):
            name = getattr(node.op, "name", "")
            cheap = cheap and name in ("tir.if_then_else", "tir.likely")
        elif not isinstance(node, (*_ARITHMETIC, E.IntImm, E.FloatImm, E.Var)):
            cheap = False
        count += 1
        node._visit_children(check)

    check(expr)
    return cheap and count <= _CHEAP_NODES


_I = IntrinsicEmitter
_INTRINSICS: dict[str, Callable[[Any, Any], Value]] = {
    "tir.round": _I._round, "tir.copysign": _I._copysign, "tir.ldexp": _I._ldexp, "tir.abs": _I._abs,
    "tir.likely": _I._likely, "tir.if_then_else": _I._if_then_else, "tir.isnan": _I._isnan, "tir.isinf": _I._isinf,
    "tir.isfinite": _I._isfinite, "tir.isnullptr": _I._isnullptr, "tir.shift_right": _I._shift_right,
    "tir.bitwise_not": _I._bitwise_not, "tir.popcount": _I._popcount, "tir.clz": _I._clz,
    "tir.reinterpret": _I._reinterpret, "tir.q_multiply_shift": _I._q_multiply_shift,
    "tir.address_of": _I._address_of, "tir.tvm_access_ptr": _I._access_ptr, "tir.call_extern": _I._call_extern,
    "tir.call_pure_extern": _I._call_extern, "tir.call_llvm_intrin": _I._call_llvm,
    "tir.call_llvm_pure_intrin": _I._call_llvm, "tir.tvm_call_packed": _I._packed, "tir.tvm_call_cpacked": _I._packed,
    "tir.assume": _I._assume, "tir.undef": _I._undef, "tir.prefetch": _I._prefetch, "tir.tvm_storage_sync": _I._nothing,
    "tir.large_uint_imm": _I._large_uint, "tir.vectorlow": _I._halves, "tir.vectorhigh": _I._halves,
    "tir.vectorcombine": _I._combine, "tir.dp4a": _I._dp4a,
}  # fmt: skip
