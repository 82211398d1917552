"""Intrinsics of TIR: one table of operators with their arity and effect, and the functions that build calls of them."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from .. import dtype as dt
from ..error import IRTypeError, IRValueError
from ..expr import GlobalVar
from ..node import Node
from ..op import register_op
from ..span import Span
from .expr import (
    Call,
    CommReducer,
    FloatImm,
    IntImm,
    IterVar,
    PrimExpr,
    Range,
    Reduce,
    Select,
    StringImm,
    Var,
)
from .operators import (
    cast,
    const,
    convert,
    floordiv,
    floormod,
    logical_and,
    logical_or,
    operands,
    power,
)
from .operators import max as _max
from .operators import min as _min


class CallEffectKind(IntEnum):
    """What a call may do beside computing its value: the attribute ``TCallEffectKind`` of an intrinsic."""

    EXPR_ANNOTATION = 0
    PURE = 1
    READ_STATE = 2
    UPDATE_STATE = 3
    SPECIAL_CALL_ARG = 4
    EMBED_INFO = 5
    CONTROL_JUMP = 6
    # The names of the Python interface of other systems.
    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    Opaque = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6


FLOAT_UNARY = (
    "exp exp2 exp10 expm1 erf erfc tanh sigmoid log log2 log10 log1p sqrt rsqrt tan cos sin cosh sinh acos acosh asin asinh atan atanh "
    "floor ceil trunc round nearbyint"
).split()
"""Elementwise functions of one float; integers convert to float32 first."""

_PURE = (
    *FLOAT_UNARY,
    *"pow fmod atan2 ldexp hypot copysign nextafter fabs abs isnan isinf isfinite isnullptr popcount clz".split(),
    *"reinterpret likely if_then_else".split(),
    *"shift_left shift_right bitwise_and bitwise_or bitwise_xor bitwise_not q_multiply_shift".split(),
    *"q_multiply_shift_per_axis call_pure_extern call_llvm_pure_intrin large_uint_imm vectorlow vectorhigh vectorcombine".split(),
    *"type_annotation vscale dp4a get_active_lane_mask ignore_loop_partition handle_add_byte_offset".split(),
)
_READS = "address_of tvm_access_ptr tvm_struct_get buffer_offset".split()
_UPDATES = (
    *"call_extern call_llvm_intrin tvm_call_packed tvm_call_cpacked call_cpacked tvm_struct_set tvm_storage_sync prefetch".split(),
    *"ret tvm_throw_last_error assume undef atomic_add tvm_thread_allreduce tvm_warp_shuffle tvm_warp_shuffle_up".split(),
    *"tvm_warp_shuffle_down tvm_warp_activemask tvm_load_matrix_sync tvm_store_matrix_sync tvm_mma_sync tvm_fill_fragment".split(),
    *"tvm_bmma_sync ptx_mma ptx_ldmatrix ptx_cp_async ptx_commit_group ptx_wait_group mma_fill mma_store start_profile_intrinsic".split(),
    *"end_profile_intrinsic tvm_stack_alloca lookup_param tvm_tuple tvm_check_return texture2d_load texture2d_store".split(),
    *"tvm_call_packed_lowered tvm_call_cpacked_lowered tvm_stack_make_shape tvm_stack_make_array".split(),
    *"TVMBackendAllocWorkspace TVMBackendFreeWorkspace".split(),
)

for _effect, _names in (
    (CallEffectKind.PURE, _PURE),
    (CallEffectKind.READ_STATE, _READS),
    (CallEffectKind.UPDATE_STATE, _UPDATES),
):
    for _name in _names:
        register_op(f"tir.{_name}").set_attr("TCallEffectKind", _effect)


def effect_of(call: Call) -> CallEffectKind:
    """The effect of a call; calls of module functions and unknown operators may update state."""
    if isinstance(call.op, GlobalVar):
        return CallEffectKind.UPDATE_STATE
    found = call.op.get_attr("TCallEffectKind")
    return CallEffectKind.UPDATE_STATE if found is None else found


def _as_float(x: Any) -> PrimExpr:
    value = convert(x)
    if isinstance(value, IterVar):
        value = value.var
    if dt.is_integral(value.dtype):
        return cast(dt.with_lanes("float32", dt.lanes(value.dtype)), value)
    if not dt.is_float(value.dtype):
        raise IRTypeError(f"expected a number, got {value.dtype}")
    return value


def _unary(name: str) -> Callable[..., PrimExpr]:
    def build(x: Any, span: Span | None = None) -> PrimExpr:
        value = _as_float(x)
        return Call(value.dtype, f"tir.{name}", (value,), span)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"``{name}(x)`` elementwise; integers convert to float32 first."
    return build


exp, exp2, exp10, expm1 = _unary("exp"), _unary("exp2"), _unary("exp10"), _unary("expm1")
erf, erfc, tanh, sigmoid = _unary("erf"), _unary("erfc"), _unary("tanh"), _unary("sigmoid")
log, log2, log10, log1p = _unary("log"), _unary("log2"), _unary("log10"), _unary("log1p")
sqrt, rsqrt = _unary("sqrt"), _unary("rsqrt")
tan, cos, sin = _unary("tan"), _unary("cos"), _unary("sin")
cosh, sinh = _unary("cosh"), _unary("sinh")
acos, acosh, asin, asinh = _unary("acos"), _unary("acosh"), _unary("asin"), _unary("asinh")
atan, atanh = _unary("atan"), _unary("atanh")


_ROUNDED: dict[str, Callable[[float], float]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": lambda x: math.copysign(math.floor(builtins.abs(x) + 0.5), x),
    "nearbyint": builtins.round,
}
"""What the rounding functions make of a constant: ``round`` takes halves away from zero, ``nearbyint`` to even."""


def _rounding(name: str) -> Callable[..., PrimExpr]:
    def build(x: Any, span: Span | None = None) -> PrimExpr:
        value = convert(x)
        if dt.is_integral(value.dtype):
            return value
        if isinstance(value, FloatImm) and math.isfinite(value.value):
            return FloatImm(value.dtype, _ROUNDED[name](value.value))
        return Call(value.dtype, f"tir.{name}", (value,), span)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"``{name}(x)`` elementwise; integers are returned as they are, constants are rounded."
    return build


floor, ceil, trunc = _rounding("floor"), _rounding("ceil"), _rounding("trunc")
round, nearbyint = _rounding("round"), _rounding("nearbyint")


def _binary(name: str) -> Callable[..., PrimExpr]:
    def build(x1: Any, x2: Any, span: Span | None = None) -> PrimExpr:
        a = _as_float(x1)
        b = convert(x2, a.dtype)
        return Call(
            a.dtype,
            f"tir.{name}",
            (a, b if b.dtype == a.dtype or name == "ldexp" else cast(a.dtype, b)),
            span,
        )

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"``{name}(x1, x2)`` elementwise on floats."
    return build


fmod, atan2, ldexp = _binary("fmod"), _binary("atan2"), _binary("ldexp")
hypot, copysign, nextafter = _binary("hypot"), _binary("copysign"), _binary("nextafter")


pow = power


def abs(x: Any, span: Span | None = None) -> PrimExpr:
    """Absolute value."""
    value = convert(x)
    if isinstance(value, IntImm | FloatImm):
        return const(value.value if value.value >= 0 else -value.value, value.dtype)
    if dt.is_float(value.dtype):
        return Call(value.dtype, "tir.fabs", (value,), span)
    if dt.is_uint(value.dtype) or dt.is_bool(value.dtype):
        return value
    return Select(value >= const(0, value.dtype), value, const(0, value.dtype) - value)


def _float_test(name: str) -> Callable[..., PrimExpr]:
    def build(x: Any, span: Span | None = None) -> PrimExpr:
        value = convert(x)
        result = dt.with_lanes("bool", dt.lanes(value.dtype))
        if dt.is_integral(value.dtype):
            return const(name == "isfinite", result)
        return Call(result, f"tir.{name}", (value,), span)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"``{name}(x)`` elementwise as bool."
    return build


isnan, isinf, isfinite = _float_test("isnan"), _float_test("isinf"), _float_test("isfinite")


def isnullptr(x: Any, span: Span | None = None) -> PrimExpr:
    """Whether a pointer is null."""
    return Call("bool", "tir.isnullptr", (convert(x),), span)


def popcount(x: Any) -> PrimExpr:
    """The number of set bits of an integer."""
    value = convert(x)
    return Call(value.dtype, "tir.popcount", (value,))


def clz(x: Any) -> PrimExpr:
    """The number of leading zero bits of an integer, as int32."""
    return Call("int32", "tir.clz", (convert(x),))


def if_then_else(cond: Any, t: Any, f: Any, span: Span | None = None) -> PrimExpr:
    """``t`` where the condition holds, else ``f``; only the chosen side is evaluated."""
    condition = convert(cond)
    a, b = operands(t, f)
    if not dt.is_bool(condition.dtype):
        raise IRTypeError(f"if_then_else needs a bool condition, got {condition.dtype}")
    if isinstance(condition, IntImm):
        return a if condition.value else b
    return Call(a.dtype, "tir.if_then_else", (condition, a, b), span)


def likely(cond: Any, span: Span | None = None) -> PrimExpr:
    """Mark a condition as holding nearly always (the guard of a tile's tail)."""
    condition = convert(cond)
    return (
        condition
        if isinstance(condition, IntImm)
        else Call(condition.dtype, "tir.likely", (condition,), span)
    )


def reinterpret(dtype: str, value: Any, span: Span | None = None) -> PrimExpr:
    """The bits of ``value`` read as ``dtype`` of the same width."""
    expr = convert(value)
    if dt.bits(dtype) * dt.lanes(dtype) != dt.bits(expr.dtype) * dt.lanes(expr.dtype):
        raise IRTypeError(f"reinterpret needs dtypes of one size, got {expr.dtype} and {dtype}")
    return expr if expr.dtype == dtype else Call(dtype, "tir.reinterpret", (expr,), span)


def bitwise_and(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """Bitwise and of integers."""
    return convert(x) & y


def bitwise_or(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """Bitwise or of integers."""
    return convert(x) | y


def bitwise_xor(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """Bitwise exclusive or of integers."""
    return convert(x) ^ y


def bitwise_not(x: Any, span: Span | None = None) -> PrimExpr:
    """Bitwise complement of an integer."""
    return ~convert(x)


def shift_left(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """``x << y``."""
    return convert(x) << y


def shift_right(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """``x >> y``, arithmetic for signed integers."""
    return convert(x) >> y


def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> PrimExpr:
    """Fixed-point multiplication: ``round(x * y * 2**(s - q))`` of int32."""
    return Call("int32", "tir.q_multiply_shift", (x, y, q, s))


def indexdiv(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """Division of indices known to be at least zero."""
    return floordiv(a, b, span)


def indexmod(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """Remainder of indices known to be at least zero."""
    return floormod(a, b, span)


def ceildiv(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """Integer division rounded up."""
    rhs = convert(rhs)
    return floordiv(convert(lhs) + (rhs - 1), rhs)


def all(*args: Any, span: Span | None = None) -> PrimExpr:
    """The conjunction of conditions."""
    if not args:
        raise IRValueError("tir.all needs at least one condition")
    return functools.reduce(logical_and, [convert(item) for item in args])


def any(*args: Any, span: Span | None = None) -> PrimExpr:
    """The disjunction of conditions."""
    if not args:
        raise IRValueError("tir.any needs at least one condition")
    return functools.reduce(logical_or, [convert(item) for item in args])


def min_value(dtype: str, span: Span | None = None) -> PrimExpr:
    """The smallest finite value of a dtype."""
    return _extreme_value(dtype, lowest=True)


def max_value(dtype: str, span: Span | None = None) -> PrimExpr:
    """The largest finite value of a dtype."""
    return _extreme_value(dtype, lowest=False)


def _extreme_value(dtype: str, lowest: bool) -> PrimExpr:
    if dt.is_float(dtype):
        import ml_dtypes

        info = ml_dtypes.finfo(dt.to_numpy(dtype))
        return const(float(info.min if lowest else info.max), dtype)
    return const(dt.integer_range(dtype)[0 if lowest else 1], dtype)


def infinity(dtype: str, span: Span | None = None) -> PrimExpr:
    """Positive infinity."""
    return FloatImm(dtype, float("inf"), span)


def ret(value: Any) -> PrimExpr:
    """Return ``value`` from the function."""
    expr = convert(value)
    return Call(expr.dtype, "tir.ret", (expr,))


def call_intrin(dtype: str, func_name: Any, *args: Any, span: Span | None = None) -> PrimExpr:
    """Call an intrinsic by name (``"tir.exp"``) or Op."""
    return Call(dtype, func_name, args, span)


def call_extern(dtype: str, func_name: str, *args: Any, span: Span | None = None) -> PrimExpr:
    """Call a C function by symbol; it may have effects."""
    return Call(dtype, "tir.call_extern", (StringImm(func_name), *args), span)


def call_pure_extern(dtype: str, func_name: str, *args: Any, span: Span | None = None) -> PrimExpr:
    """Call a C function without effects by symbol."""
    return Call(dtype, "tir.call_pure_extern", (StringImm(func_name), *args), span)


def call_packed(*args: Any, span: Span | None = None) -> PrimExpr:
    """Call a registered function (:func:`ir.register_func`): its name, then buffers and values."""
    return Call("int32", "tir.tvm_call_packed", [_packed_arg(item) for item in args], span)


def call_cpacked(*args: Any, span: Span | None = None) -> PrimExpr:
    """Call a packed C function by symbol."""
    return Call("int32", "tir.tvm_call_cpacked", [_packed_arg(item) for item in args], span)


def _packed_arg(item: Any) -> Any:
    is_buffer = isinstance(item, Node) and not isinstance(item, PrimExpr | IterVar)
    return address_of(item) if is_buffer else convert(item)


def call_llvm_intrin(dtype: str, name: str, *args: Any, span: Span | None = None) -> PrimExpr:
    """Call an LLVM intrinsic by name; its value depends on more than the arguments."""
    return Call(dtype, "tir.call_llvm_intrin", (StringImm(name), *args), span)


def call_llvm_pure_intrin(dtype: str, name: str, *args: Any, span: Span | None = None) -> PrimExpr:
    """Call a pure LLVM intrinsic by name."""
    return Call(dtype, "tir.call_llvm_pure_intrin", (StringImm(name), *args), span)


def call_tir(global_var: GlobalVar, *args: Any) -> PrimExpr:
    """Call another PrimFunc of the module."""
    return Call("void", global_var, args)


def address_of(obj: Any, span: Span | None = None) -> PrimExpr:
    """The address of a buffer's element (a BufferLoad), or of a buffer's first element."""
    load = obj if isinstance(obj, PrimExpr) else obj[(0,) * len(obj.shape)]
    return Call("handle", "tir.address_of", (load,), span)


def prefetch(address: PrimExpr, rw: int = 0, locality: int = 3, cache: int = 1) -> PrimExpr:
    """Hint that memory will be used soon; never faults.

    Args:
        address: a pointer, such as :func:`address_of` gives; it may lie outside of the buffer.
        rw: 0 for reading, 1 for writing.
        locality: from 0 (used once) to 3 (keep in every cache).
        cache: 1 for data, 0 for instructions.
    """
    return Call("int32", "tir.prefetch", (address, rw, locality, cache))


def type_annotation(dtype: str) -> PrimExpr:
    """A dtype as argument of a call."""
    return Call(dtype, "tir.type_annotation", ())


def assume(cond: Any) -> PrimExpr:
    """A promise that a condition holds."""
    return Call("bool", "tir.assume", (convert(cond),))


def undef() -> PrimExpr:
    """An undefined value."""
    return Call("int32", "tir.undef", ())


def vscale() -> PrimExpr:
    """The runtime multiple of a scalable vector's lanes."""
    return Call("int32", "tir.vscale", ())


def trace(args: Sequence[Any], trace_action: str = "tvm.default_trace_action") -> PrimExpr:
    """Report values to a registered function; the value is the last argument."""
    return Call(convert(args[-1]).dtype, "tir.tvm_call_packed", (StringImm(trace_action), *args))


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A commutative reducer from a combiner and its identity.

    The reducer is called as ``reducer(expr, axis, where=None, init=None)`` with reduction axes. For tuples, ``expr`` is
    a tuple, ``fcombine`` takes and returns tuples, and ``fidentity`` takes one dtype per element. Called with values
    instead of axes, it combines them.

    >>> maximum = comm_reducer(lambda x, y: tir.max(x, y), lambda t: tir.min_value(t), name="max")  # doctest: +SKIP
    """

    def reduced(expr: Any, axis: Any, where: Any, init: Any) -> Any:
        axes = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
        for item in axes:
            if item.iter_type != IterVar.CommReduce:
                raise IRTypeError(
                    f"{name}: {item.var.name} is no reduction axis; make one with te.reduce_axis"
                )
        single = not isinstance(expr, tuple | list)
        sources = [convert(item) for item in ((expr,) if single else expr)]
        lhs = [Var(f"x{i}" if len(sources) > 1 else "x", item.dtype) for i, item in enumerate(sources)]
        rhs = [Var(f"y{i}" if len(sources) > 1 else "y", item.dtype) for i, item in enumerate(sources)]
        if single:
            results = [convert(fcombine(lhs[0], rhs[0]))]
            identity = [convert(fidentity(sources[0].dtype))]
        else:
            results = [convert(item) for item in fcombine(lhs, rhs)]
            identity = [convert(item) for item in fidentity(*[item.dtype for item in sources])]
        combiner = CommReducer(lhs, rhs, results, identity)
        condition = const(True) if where is None else convert(where)
        inits = (
            ()
            if init is None
            else tuple(convert(item) for item in (init if isinstance(init, list | tuple) else (init,)))
        )
        outputs = tuple(Reduce(combiner, sources, axes, condition, i, inits) for i in range(len(sources)))
        return outputs[0] if single else outputs

    def reducer(expr: Any, axis: Any, where: Any = None, init: Any = None, *args: Any) -> Any:
        items = axis if isinstance(axis, tuple | list) else (axis,)
        if builtins.all(isinstance(item, IterVar) for item in items):
            return reduced(expr, axis, where, init)
        result = convert(expr)
        for value in (axis, where, init, *args):
            if value is not None:
                result = fcombine(result, convert(value))
        return result

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"Reduce by {name} over axes, or combine values directly: see :func:`comm_reducer`."
    return reducer


sum = comm_reducer(lambda x, y: x + y, lambda t: const(0, t), name="sum")
max = comm_reducer(_max, lambda t: min_value(t), name="max")
min = comm_reducer(_min, lambda t: max_value(t), name="min")


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "", span: Span | None = None) -> IterVar:
    """A reduction axis over a range, given as ``(begin, end)`` or a Range."""
    domain = dom if isinstance(dom, Range) else Range(*dom)
    return IterVar(domain, Var(name, domain.extent.dtype), IterVar.CommReduce, thread_tag, span)


if not TYPE_CHECKING:  # type checkers cannot evaluate this; without it they take all public names
    _IMPORTED = (
        "Any",
        "Callable",
        "Sequence",
        "annotations",
        "builtins",
        "Node",
        "dt",
        "operands",
        "functools",
        "math",
        "TYPE_CHECKING",
    )
    __all__ = [name for name in dir() if not name.startswith("_") and name not in _IMPORTED]
