"""Calls of intrinsics: those that LowerIntrin leaves for CUDA, each with the C++ that it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtype as dt
from ...tir import expr as E
from ...tir.analysis.reads_memory import reads_memory
from ...tir.intrinsic.calls import LIBRARY
from ..error import CodegenError
from .conversions import from_memory
from .device_functions import MATHEMATICS
from .emitter import KernelEmitter, Lanes, prints
from .expression import condition_of, refuse_lanes
from .memory import element, stored
from .tensor_cores import FORMS as TENSOR_CORE_FORMS
from .text import Text, binary, call, cast, choice
from .types import is_float8, memory_type
from .warp_groups import FORMS as WARP_GROUP_FORMS

_ATOMIC = ("int32", "int64", "uint32", "uint64", "float16", "bfloat16", "float32", "float64")


@prints(E.Call)
def _call(emitter: KernelEmitter, node: E.Call) -> Lanes:
    name = getattr(node.op, "name", None)
    handler = PRIMITIVES.get(name or "")
    if handler is None:
        what = name or getattr(node.op, "name_hint", "a function")
        raise CodegenError(
            f"a CUDA kernel has no form of a call of {what}; run ir.tir.transform.LowerIntrin first"
        )
    return handler(emitter, node)


# -- choices -----------------------------------------------------------------------
def _if_then_else(emitter: KernelEmitter, node: E.Call) -> Lanes:
    condition, yes, no = node.args
    count = dt.lanes(node.dtype)
    uniform = condition.value if isinstance(condition, E.Broadcast) else condition
    if emitter.in_order and (reads_memory(yes) or reads_memory(no)):
        if dt.lanes(uniform.dtype) > 1:
            refuse_lanes(node)
        return _branches(emitter, uniform, yes, no, node.dtype)
    if count > 1 and dt.lanes(uniform.dtype) == 1 and not emitter.is_conditional:
        return _branches(emitter, uniform, yes, no, node.dtype)
    conditions = condition_of(emitter, condition)
    with emitter.conditionally():
        sides = [emitter.lanes(yes), emitter.lanes(no)]
    if len(conditions) == 1:
        conditions = conditions * count
    return [choice(*parts) for parts in zip(conditions, *sides, strict=True)]


def _branches(
    emitter: KernelEmitter, condition: E.PrimExpr, yes: E.PrimExpr, no: E.PrimExpr, dtype: str
) -> Lanes:
    """A vector that is one of two, under a condition that all lanes share: in branches vectors can be read at once."""
    test = emitter.index(condition)
    type_ = emitter.type_of(dtype)
    names = [emitter.fresh("chosen") for _ in range(dt.lanes(dtype))]
    emitter.line(f"{type_} {', '.join(names)};")
    for head, side in ((f"if ({test.code})", yes), ("else", no)):
        with emitter.block(head):
            for name, value in zip(names, emitter.lanes(side), strict=True):
                emitter.line(f"{name} = {value.code};")
    return [Text(name) for name in names]


# -- bits --------------------------------------------------------------------------
def _bitwise(operator: str) -> Callable[[KernelEmitter, E.Call], Lanes]:
    def emit(emitter: KernelEmitter, node: E.Call) -> Lanes:
        pairs = zip(emitter.lanes(node.args[0]), emitter.lanes(node.args[1]), strict=True)
        return [_narrowed(binary(operator, a, b), node.dtype) for a, b in pairs]

    return emit


def _narrowed(value: Text, dtype: str) -> Text:
    """C++ computes what is narrower than int in int."""
    if dt.is_bool(dtype):
        return cast("bool", value)
    return value if dt.bits(dtype) >= 32 else cast(memory_type(dtype), value)


def _shift_left(emitter: KernelEmitter, node: E.Call) -> Lanes:
    function = emitter.use("shift_left")
    pairs = zip(emitter.lanes(node.args[0]), emitter.lanes(node.args[1]), strict=True)
    return [call(function, a, b) for a, b in pairs]


def _reinterpret(emitter: KernelEmitter, node: E.Call) -> Lanes:
    source, target = node.args[0].dtype, node.dtype
    if "handle" in (source, target):
        raise CodegenError("a CUDA kernel does not make addresses of numbers")
    kind = memory_type(source)
    function = f"{emitter.use('reinterpret')}<{memory_type(target)}, {kind}>"
    emitter.type_of(target)
    found = []
    for value in stored(emitter, node.args[0]):
        made = call(function, cast(kind, value) if dt.is_bool(source) else value)
        found.append(from_memory(emitter, made, target))
    return found


# -- functions ---------------------------------------------------------------------
def _call_extern(emitter: KernelEmitter, node: E.Call) -> Lanes:
    name: str = node.args[0].value  # type: ignore[attr-defined]
    values = [emitter.data(arg) for arg in node.args[1:]]
    if not name.startswith(LIBRARY):
        return [call(name, *lanes) for lanes in zip(*values, strict=True)] if values else [call(name)]
    short = name.removeprefix(LIBRARY)
    is_double = dt.element_of(node.dtype) == "float64"
    if short == "sigmoid":
        return [call(emitter.use("sigmoid"), *lanes) for lanes in zip(*values, strict=True)]
    if short not in MATHEMATICS:
        raise CodegenError(f"CUDA's mathematical library has no function {short}")
    if short == "ldexp":
        values[1] = [cast("int", lane) for lane in values[1]]
    return [call(short + ("" if is_double else "f"), *lanes) for lanes in zip(*values, strict=True)]


def _count(function: str) -> Callable[[KernelEmitter, E.Call], Lanes]:
    """A function of the bits of a number of 32 or 64 bits."""

    def emit(emitter: KernelEmitter, node: E.Call) -> Lanes:
        bits = dt.bits(node.args[0].dtype)
        suffix, type_ = ("ll", "long long") if bits == 64 else ("", "int")
        return [
            _counted(call(function + suffix, cast(type_, lane)), node.dtype)
            for lane in emitter.data(node.args[0])
        ]

    return emit


def _counted(value: Text, dtype: str) -> Text:
    return value if dt.element_of(dtype) == "int32" else cast(memory_type(dtype), value)


# -- threads -----------------------------------------------------------------------
def _sync(emitter: KernelEmitter, node: E.Call) -> Lanes:
    scope: str = node.args[0].value  # type: ignore[attr-defined]
    return [call("__syncwarp" if scope == "warp" else "__syncthreads")]


def _shuffle(function: str) -> Callable[[KernelEmitter, E.Call], Lanes]:
    def emit(emitter: KernelEmitter, node: E.Call) -> Lanes:
        mask, value, lane, width, _warp_size = node.args
        parts = [emitter.scalar(item) for item in (mask, value, lane, width)]
        if is_float8(node.dtype):  # a class
            bits, kind = f"{emitter.use('reinterpret')}<unsigned char", emitter.type_of(node.dtype)
            parts[1] = call(f"{bits}, {kind}>", parts[1])
            found = cast("unsigned char", call(function, cast("unsigned int", parts[0]), *parts[1:]))
            return [call(f"reinterpret<{kind}, unsigned char>", found)]
        found = call(function, cast("unsigned int", parts[0]), *parts[1:])
        return [_narrowed(found, node.dtype) if not dt.is_float(node.dtype) else found]

    return emit


def _atomic_add(emitter: KernelEmitter, node: E.Call) -> Lanes:
    address, value = node.args
    where, dtype = emitter.scalar(address), value.dtype
    (added,) = stored(emitter, value)
    if dtype not in _ATOMIC:
        raise CodegenError(f"CUDA adds no {dtype} atomically; it adds {', '.join(_ATOMIC)}")
    if dtype == "int64":  # which has the same bits
        unsigned = memory_type("uint64")
        sum_ = call("atomicAdd", cast(f"{unsigned}*", where), cast(unsigned, added))
        return [cast(memory_type(dtype), sum_)]
    return [from_memory(emitter, call("atomicAdd", where, added), dtype)]


def _dot_of_bytes(emitter: KernelEmitter, node: E.Call) -> Lanes:
    pack = emitter.use("packed_bytes")
    first, second = (call(pack, *emitter.data(arg)) for arg in node.args[:2])
    (sums,) = emitter.data(node.args[2])
    return [call("__dp4a", first, second, sums)]


# -- memory ------------------------------------------------------------------------
def _address_of(emitter: KernelEmitter, node: E.Call) -> Lanes:
    load: Any = node.args[0]
    index = emitter.index(load.indices[0]) if load.indices else None
    return [Text(f"&{element(emitter, load.buffer, index).code}", 1)]


def _access_ptr(emitter: KernelEmitter, node: E.Call) -> Lanes:
    kind, data, offset = node.args[:3]
    address = cast(f"{memory_type(kind.dtype)}*", emitter.scalar(data))
    return [binary("+", address, emitter.index(offset))]


def _argument(emitter: KernelEmitter, node: E.Call) -> Lanes:
    return emitter.lanes(node.args[0])


def _nothing(emitter: KernelEmitter, node: E.Call) -> Lanes:
    return []


PRIMITIVES: dict[str, Callable[[KernelEmitter, E.Call], Lanes]] = {
    "tir.if_then_else": _if_then_else,
    "tir.bitwise_and": _bitwise("&"), "tir.bitwise_or": _bitwise("|"), "tir.bitwise_xor": _bitwise("^"),
    "tir.shift_left": _shift_left, "tir.shift_right": _bitwise(">>"), "tir.reinterpret": _reinterpret,
    "tir.call_extern": _call_extern, "tir.call_pure_extern": _call_extern,
    "tir.popcount": _count("__popc"), "tir.clz": _count("__clz"),
    "tir.tvm_storage_sync": _sync, "tir.tvm_warp_shuffle": _shuffle("__shfl_sync"),
    "tir.tvm_warp_shuffle_up": _shuffle("__shfl_up_sync"), "tir.tvm_warp_shuffle_down": _shuffle("__shfl_down_sync"),
    "tir.tvm_warp_shuffle_xor": _shuffle("__shfl_xor_sync"),
    "tir.tvm_warp_activemask": lambda emitter, node: [cast("int", call("__activemask"))],
    "tir.atomic_add": _atomic_add, "tir.address_of": _address_of, "tir.tvm_access_ptr": _access_ptr,
    "tir.in_order": _argument, "tir.as_data": _argument, "tir.optimization_barrier": _argument,
    "tir.assume": _nothing, "tir.prefetch": _nothing,
    "tir.dp4a": _dot_of_bytes, **TENSOR_CORE_FORMS, **WARP_GROUP_FORMS,
}  # fmt: skip
"""The calls that are printed as they are; all others were rewritten to these."""
