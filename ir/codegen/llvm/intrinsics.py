"""Calls: elementary functions, bit operations, conditionals, external functions; one function per intrinsic or family."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ... import dtype as dt
from ...expr import GlobalVar
from ...tir import expr as E
from ...tir.buffer import Buffer
from . import vector_math
from .builder import FunctionBuilder, ModuleBuilder, Value, constant, element_of, lanes_of, mangled, vector
from .compile import CodegenError
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


class Emitter(Protocol):
    """What the functions of this file ask of the emitter of a function's code."""

    b: FunctionBuilder
    module: ModuleBuilder
    outlined_attributes: str
    _copies: int
    _guard: Value | None
    _cheap_calls: dict[int, bool]
    _alive: list[E.PrimExpr]

    def value(self, expr: E.PrimExpr) -> Value: ...
    def index(self, expr: E.PrimExpr) -> Value: ...
    def address(self, buffer: Buffer, index: E.PrimExpr | None) -> Value: ...
    def convert(self, value: Value, source: str, target: str) -> Value: ...
    def widen_float(self, value: Value, dtype: str) -> Value: ...
    def narrow_float(self, value: Value, dtype: str) -> Value: ...
    def enter(self) -> None: ...
    def leave(self) -> None: ...
    def conditionally(self) -> AbstractContextManager[None]: ...
    def call_function(self, call: E.Call) -> Value: ...
    def call_packed(self, call: E.Call) -> Value: ...
    def _flat_index(self, indices: tuple[E.PrimExpr, ...], buffer: Buffer) -> E.PrimExpr | None: ...
    def _from_memory(self, value: Value, dtype: str) -> Value: ...
    def _to_memory(self, value: Value, dtype: str) -> Value: ...


def emit_call(emitter: Emitter, call: E.Call) -> Value:
    """The value of a call of an intrinsic or of another function of the module."""
    if isinstance(call.op, GlobalVar):
        return emitter.call_function(call)
    name = call.op.name
    handler = _INTRINSICS.get(name)
    if handler is not None:
        return handler(emitter, call)
    short = name.removeprefix("tir.")
    if short in vector_math.FUNCTIONS:
        return _elementwise(emitter, call, lambda args: _math(emitter, short, args))
    if name in _LLVM_UNARY:
        intrinsic = _LLVM_UNARY[name]
        return _elementwise(
            emitter,
            call,
            lambda args: emitter.b.call(
                emitter.module.intrinsic(intrinsic, args[0].type), args[0].type, args
            ),
        )
    if name in _LIBM:
        function = _LIBM[name]
        return _elementwise(emitter, call, lambda args: _libm(emitter, function, args))
    if name in _BITWISE:
        return emitter.b.binary(_BITWISE[name], *[emitter.value(arg) for arg in call.args])
    raise CodegenError(f"code generation has no intrinsic {name}")


def _elementwise(emitter: Emitter, call: E.Call, compute: Callable[[list[Value]], Value]) -> Value:
    """A float function, computed in float32 for half precision."""
    dtype = call.dtype
    args = [emitter.widen_float(emitter.value(arg), arg.dtype) for arg in call.args]
    return emitter.narrow_float(compute(args), dtype)


def _math(emitter: Emitter, name: str, args: list[Value]) -> Value:
    """A polynomial, in pieces of at most a register's width."""
    type_ = args[0].type
    lanes = lanes_of(type_)
    if lanes <= _MATH_LANES or lanes & (lanes - 1):
        return emitter.b.call(_math_function(emitter, name, type_), type_, args)
    part = vector(element_of(type_), _MATH_LANES)
    function = _math_function(emitter, name, part)
    pieces = []
    for start in range(0, lanes, _MATH_LANES):
        window = range(start, start + _MATH_LANES)
        pieces.append(emitter.b.call(function, part, [emitter.b.shuffle(a, a, window) for a in args]))  # type: ignore[arg-type]
    while len(pieces) > 1:
        width = range(2 * lanes_of(pieces[0].type))
        pieces = [emitter.b.shuffle(a, b, width) for a, b in zip(pieces[::2], pieces[1::2])]  # type: ignore[arg-type]
    return pieces[0]


def _math_function(emitter: Emitter, name: str, type_: str) -> str:
    inlined = vector_math.instructions(name) * emitter._copies
    if element_of(type_) == "float" and emitter._copies > 1 and inlined > _INLINED_INSTRUCTIONS:
        return vector_math.outlined_function(emitter.module, name, type_, emitter.outlined_attributes)
    return vector_math.vector_function(emitter.module, name, type_)


def _libm(emitter: Emitter, name: str, args: list[Value]) -> Value:
    type_ = args[0].type
    element = element_of(type_)
    symbol = emitter.module.declare(
        name + ("f" if element == "float" else ""), element, [element] * len(args)
    )
    lanes = lanes_of(type_)
    result = Value("poison", type_)
    for i in range(lanes):
        item = emitter.b.call(symbol, element, [emitter.b.extract(a, i) for a in args])
        result = emitter.b.insert(result, item, i) if lanes > 1 else item
    return result


def _round(emitter: Emitter, call: E.Call) -> Value:
    # Away from zero in ties: add the largest number below one half, with the sign of x, and truncate.
    def compute(args: list[Value]) -> Value:
        (x,) = args
        below_half = 0.49999997019767761 if element_of(x.type) == "float" else 0.49999999999999994
        half = emitter.b.call(
            emitter.module.intrinsic("copysign", x.type, 2), x.type, [constant(below_half, x.type), x]
        )
        return emitter.b.call(
            emitter.module.intrinsic("trunc", x.type), x.type, [emitter.b.binary("fadd", x, half)]
        )

    return _elementwise(emitter, call, compute)


def _copysign(emitter: Emitter, call: E.Call) -> Value:
    return _elementwise(
        emitter,
        call,
        lambda args: emitter.b.call(
            emitter.module.intrinsic("copysign", args[0].type, 2), args[0].type, args
        ),
    )


def _ldexp(emitter: Emitter, call: E.Call) -> Value:
    def compute(args: list[Value]) -> Value:
        two_to = vector_math.vector_function(emitter.module, "exp2", args[0].type)
        return emitter.b.binary("fmul", args[0], emitter.b.call(two_to, args[0].type, [args[1]]))

    first, second = call.args
    if not dt.is_float(second.dtype):
        call = call.replace(args=(first, E.Cast(dt.with_lanes("float32", dt.lanes(second.dtype)), second)))
    return _elementwise(emitter, call, compute)


def _likely(emitter: Emitter, call: E.Call) -> Value:
    return emitter.value(call.args[0])


def _if_then_else(emitter: Emitter, call: E.Call) -> Value:
    condition = emitter.value(call.args[0])
    if condition.ref in ("true", "false"):
        return emitter.value(call.args[1] if condition.ref == "true" else call.args[2])
    if condition.type != "i1":
        return emitter.b.select(condition, emitter.value(call.args[1]), emitter.value(call.args[2]))
    if emitter._guard is not None or _cheap(emitter, call):
        return _select_guarded(emitter, condition, call.args[1], call.args[2])
    then, otherwise, join = emitter.b.fresh("then"), emitter.b.fresh("else"), emitter.b.fresh("join")
    emitter.b.cond_branch(condition, then, otherwise)
    results = []
    for label, branch in ((then, call.args[1]), (otherwise, call.args[2])):
        emitter.b.label(label)
        emitter.enter()
        with emitter.conditionally():
            value = emitter.value(branch)
        emitter.leave()
        results.append(f"[{value.ref}, %{emitter.b.block}]")
        emitter.b.branch(join)
    emitter.b.label(join)
    type_ = register_type(call.dtype)
    return emitter.b.define(f"phi {type_} {', '.join(results)}", type_)


def _cheap(emitter: Emitter, call: E.Call) -> bool:
    """Whether both sides may be computed whatever the condition: few operations, and loads from known buffers."""
    found = emitter._cheap_calls.get(id(call))
    if found is None:
        found = emitter._cheap_calls[id(call)] = all(_is_cheap(arg) for arg in call.args[1:])
        emitter._alive.append(call)
    return found


def _select_guarded(emitter: Emitter, condition: Value, yes: E.PrimExpr, no: E.PrimExpr) -> Value:
    """Both sides without a branch; loads of the side that is not chosen read the buffer's first element."""
    outer = emitter._guard
    results = []
    for side, holds in ((yes, condition), (no, None)):
        if isinstance(side, E.IntImm | E.FloatImm):
            results.append(emitter.value(side))
            continue
        if holds is None:
            holds = emitter.b.binary("xor", condition, constant(1, "i1"))
        emitter._guard = holds if outer is None else emitter.b.select(outer, holds, constant(0, "i1"))
        with emitter.conditionally():
            results.append(emitter.value(side))
        emitter._guard = outer
    return emitter.b.select(condition, *results)


def _isnan(emitter: Emitter, call: E.Call) -> Value:
    value = emitter.widen_float(emitter.value(call.args[0]), call.args[0].dtype)
    return emitter.b.fcmp("uno", value, value)


def _isinf(emitter: Emitter, call: E.Call) -> Value:
    return _against_infinity(emitter, call, "oeq")


def _isfinite(emitter: Emitter, call: E.Call) -> Value:
    return _against_infinity(emitter, call, "olt")


def _against_infinity(emitter: Emitter, call: E.Call, predicate: str) -> Value:
    value = emitter.widen_float(emitter.value(call.args[0]), call.args[0].dtype)
    size = emitter.b.call(emitter.module.intrinsic("fabs", value.type), value.type, [value])
    return emitter.b.fcmp(predicate, size, constant(float("inf"), value.type))


def _isnullptr(emitter: Emitter, call: E.Call) -> Value:
    return emitter.b.icmp("eq", emitter.value(call.args[0]), Value("null", "ptr"))


def _shift_right(emitter: Emitter, call: E.Call) -> Value:
    op = "ashr" if dt.is_int(call.dtype) else "lshr"
    return emitter.b.binary(op, emitter.value(call.args[0]), emitter.value(call.args[1]))


def _bitwise_not(emitter: Emitter, call: E.Call) -> Value:
    value = emitter.value(call.args[0])
    return emitter.b.binary("xor", value, constant(-1, value.type))


def _popcount(emitter: Emitter, call: E.Call) -> Value:
    value = emitter.value(call.args[0])
    return emitter.b.call(emitter.module.intrinsic("ctpop", value.type), value.type, [value])


def _clz(emitter: Emitter, call: E.Call) -> Value:
    value = emitter.value(call.args[0])
    name = emitter.module.declare(f"llvm.ctlz.{mangled(value.type)}", value.type, [value.type, "i1"])
    zeros = emitter.b.call(name, value.type, [value, Value("false", "i1")])
    return emitter.convert(
        zeros, dt.with_lanes(f"uint{dt.bits(call.args[0].dtype)}", lanes_of(value.type)), call.dtype
    )


def _reinterpret(emitter: Emitter, call: E.Call) -> Value:
    value = emitter.value(call.args[0])
    if dt.is_bool(call.args[0].dtype) or dt.is_bool(call.dtype):
        return emitter._from_memory(emitter._to_memory(value, call.args[0].dtype), call.dtype)
    return emitter.b.cast("bitcast", value, register_type(call.dtype))


def _q_multiply_shift(emitter: Emitter, call: E.Call) -> Value:
    """round(x * y * 2**(s - q)) in 64 bits, ties upwards."""
    x, y, q, s = (emitter.value(arg) for arg in call.args)
    lanes = lanes_of(x.type)
    wide = vector("i64", lanes)
    x, y, q, s = (
        emitter.b.cast("sext", emitter.b.splat(v, lanes) if lanes_of(v.type) != lanes else v, wide)
        for v in (x, y, q, s)
    )
    zero, one = constant(0, wide), constant(1, wide)
    smax = emitter.module.intrinsic("smax", wide, 2)
    left = emitter.b.call(smax, wide, [s, zero])
    right = emitter.b.binary("add", q, emitter.b.call(smax, wide, [emitter.b.binary("sub", zero, s), zero]))
    product = emitter.b.binary("mul", emitter.b.binary("shl", x, left), y)
    rounding = emitter.b.binary("shl", one, emitter.b.binary("sub", right, one))
    shifted = emitter.b.binary("ashr", emitter.b.binary("add", product, rounding), right)
    return emitter.b.cast("trunc", shifted, vector("i32", lanes))


def _address_of(emitter: Emitter, call: E.Call) -> Value:
    load = call.args[0]
    assert isinstance(load, E.BufferLoad)
    return emitter.address(load.buffer, emitter._flat_index(load.indices, load.buffer))


def _prefetch(emitter: Emitter, call: E.Call) -> Value:
    address, *kind = call.args
    load = address.args[0] if isinstance(address, E.Call) and address.args else None
    if isinstance(load, E.BufferLoad):
        pointer = emitter.address(load.buffer, emitter._flat_index(load.indices, load.buffer))
    else:
        pointer = emitter.value(address)
    name = emitter.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
    return emitter.b.call(name, "void", [pointer, *(emitter.value(item) for item in kind)])


def _access_ptr(emitter: Emitter, call: E.Call) -> Value:
    kind, data, offset = call.args[:3]
    return emitter.b.element_pointer(emitter.value(data), memory_type(kind.dtype), emitter.index(offset))


def _call_extern(emitter: Emitter, call: E.Call) -> Value:
    name: str = _constant(call.args[0])
    args = [emitter.value(arg) for arg in call.args[1:]]
    result = "void" if call.dtype in ("void", "") else register_type(call.dtype)
    emitter.module.declare(name, result, [a.type for a in args])
    return emitter.b.call(name, result, args)


def _call_llvm(emitter: Emitter, call: E.Call) -> Value:
    name: str = _constant(call.args[0])
    args = [emitter.value(arg) for arg in call.args[1:]]
    result = "void" if call.dtype in ("void", "") else register_type(call.dtype)
    emitter.module.declare(name, result, [a.type for a in args])
    return emitter.b.call(name, result, args)


def _packed(emitter: Emitter, call: E.Call) -> Value:
    return emitter.call_packed(call)


def _assume(emitter: Emitter, call: E.Call) -> Value:
    condition = emitter.value(call.args[0])
    emitter.module.declare("llvm.assume", "void", ["i1"])
    emitter.b.call("llvm.assume", "void", [condition])
    return condition


def _undef(emitter: Emitter, call: E.Call) -> Value:
    return Value("undef", register_type(call.dtype))


def _nothing(emitter: Emitter, call: E.Call) -> Value:
    return Value("0", "i32")


def _large_uint(emitter: Emitter, call: E.Call) -> Value:
    low, high = (int(_constant(arg)) for arg in call.args)
    return constant(high << 32 | low, register_type(call.dtype))


def _halves(emitter: Emitter, call: E.Call) -> Value:
    value = emitter.value(call.args[0])
    half = lanes_of(value.type) // 2
    start = half if call.op.name == "tir.vectorhigh" else 0
    return emitter.b.shuffle(value, value, range(start, start + half))  # type: ignore[arg-type]


def _combine(emitter: Emitter, call: E.Call) -> Value:
    a, b = emitter.value(call.args[0]), emitter.value(call.args[1])
    return emitter.b.shuffle(a, b, range(2 * lanes_of(a.type)))  # type: ignore[arg-type]


def _dp4a(emitter: Emitter, call: E.Call) -> Value:
    """Dot product of four bytes, added to an accumulator."""
    x, y, accumulator = (emitter.value(arg) for arg in call.args)
    total = accumulator
    for i in range(4):
        product = emitter.b.binary(
            "mul",
            emitter.b.cast("sext", emitter.b.extract(x, i), total.type),
            emitter.b.cast("sext", emitter.b.extract(y, i), total.type),
        )
        total = emitter.b.binary("add", total, product)
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


_INTRINSICS: dict[str, Callable[[Any, Any], Value]] = {
    "tir.round": _round, "tir.copysign": _copysign, "tir.ldexp": _ldexp,
    "tir.likely": _likely, "tir.if_then_else": _if_then_else, "tir.isnan": _isnan, "tir.isinf": _isinf,
    "tir.isfinite": _isfinite, "tir.isnullptr": _isnullptr, "tir.shift_right": _shift_right,
    "tir.bitwise_not": _bitwise_not, "tir.popcount": _popcount, "tir.clz": _clz,
    "tir.reinterpret": _reinterpret, "tir.q_multiply_shift": _q_multiply_shift,
    "tir.address_of": _address_of, "tir.tvm_access_ptr": _access_ptr, "tir.call_extern": _call_extern,
    "tir.call_pure_extern": _call_extern, "tir.call_llvm_intrin": _call_llvm,
    "tir.call_llvm_pure_intrin": _call_llvm, "tir.tvm_call_packed": _packed, "tir.tvm_call_cpacked": _packed,
    "tir.assume": _assume, "tir.undef": _undef, "tir.prefetch": _prefetch, "tir.tvm_storage_sync": _nothing,
    "tir.large_uint_imm": _large_uint, "tir.vectorlow": _halves, "tir.vectorhigh": _halves,
    "tir.vectorcombine": _combine, "tir.dp4a": _dp4a,
}  # fmt: skip
