"""Calls of other functions of the module, of the threads that share one, and of registered Python functions."""

from __future__ import annotations

from ... import dtype as dt
from ...tir import expr as E
from ...tir.analysis.call_fit import result_dtype
from ...tir.buffer import Buffer
from ...tir.function import OUTLINED, PrimFunc
from .builder import Value
from .conversion import convert, from_memory
from .emitter import FunctionEmitter
from .kernel_context import FAILED, PackedSite
from .signature import passed_float
from .types import element_bytes, memory_type


def call_function(emitter: FunctionEmitter, call: E.Call) -> Value:
    """Calls another PrimFunc of the module and returns early when it fails; what it returns, of one that returns something."""
    emitter.inner += 1
    args = [_passed(emitter, arg) for arg in call.args]
    callee = emitter.context.program[call.op]
    assert isinstance(callee, PrimFunc)
    name = emitter.context.symbols[call.op]
    if callee.attrs.get(OUTLINED) == "parallel":
        status = _share(emitter, name, args)
        emitter.check_status(status)
        return status
    returned = result_dtype(callee)
    place = None if returned is None else emitter.b.alloca(memory_type(returned), element_bytes(returned))
    status = emitter.b.call(name, "i32", args if place is None else [*args, place])
    emitter.check_status(status)
    if returned is None or place is None:
        return status
    return from_memory(
        emitter.b, emitter.b.load(memory_type(returned), place, element_bytes(returned)), returned
    )


def _passed(emitter: FunctionEmitter, arg: E.PrimExpr) -> Value:
    """An argument as functions take it, see :class:`.signature.Parameter`."""
    value = emitter.value(arg)
    if value.type == "ptr":
        return value
    if dt.is_float(arg.dtype):
        return convert(emitter.b, value, arg.dtype, passed_float(arg.dtype))
    return emitter.widened(value, dt.is_uint(arg.dtype))


def _share(emitter: FunctionEmitter, name: str, args: list[Value]) -> Value:
    """Lets the runtime's threads call a function over parts of the range of iterations, which starts at 0."""
    _, extent, *captured = args
    env = emitter.b.alloca(f"[{max(1, len(captured))} x i64]", 8)
    for i, value in enumerate(captured):
        place = emitter.b.define(f"getelementptr i64, ptr {env.ref}, i64 {i}", "ptr")
        emitter.b.store(value, place, 8)
    emitter.module.declare("loopsmith_parallel_for", "i32", ["ptr", "i64", "ptr"])
    return emitter.b.call("loopsmith_parallel_for", "i32", [Value(f"@{name}.part", "ptr"), extent, env])


def call_packed(emitter: FunctionEmitter, call: E.Call) -> Value:
    """Calls a registered Python function through a pointer that the loader fills in."""
    name = call.args[0].value  # type: ignore[attr-defined]
    site = PackedSite(name)
    values = call.args[1:]
    array = emitter.b.alloca(f"[{max(1, len(values))} x i64]", 8)
    for i, arg in enumerate(values):
        place = emitter.b.define(f"getelementptr i64, ptr {array.ref}, i64 {i}", "ptr")
        value = emitter.value(arg)
        if isinstance(arg, E.StringImm):
            site.arguments.append(("string", "", 0))
        elif value.type == "ptr":
            site.arguments.append(_pointer_description(arg))
        elif dt.is_float(arg.dtype):
            value = convert(emitter.b, value, arg.dtype, "float64")
            site.arguments.append(("float", arg.dtype, 0))
        else:
            value = emitter.widened(value, not dt.is_int(arg.dtype))
            site.arguments.append(("int", arg.dtype, 0))
        emitter.b.store(value, place, 8)
    number = len(emitter.context.packed_sites)
    emitter.context.packed_sites.append(site)
    result = emitter.b.alloca("i64", 8)
    emitter.b.store(Value("0", "i64"), result, 8)
    target = emitter.b.load("ptr", Value("@loopsmith.packed", "ptr"), 8)
    emitter.fail_if(
        emitter.b.icmp("eq", target, Value("null", "ptr")),
        lambda: emitter.set_error(f"no registered function can be called here; {name} is needed", FAILED),
    )
    status = emitter.b.define(
        f"call i32 {target.ref}(i32 {number}, ptr {array.ref}, ptr {result.ref})", "i32"
    )
    emitter.check_status(status)
    if dt.is_float(call.dtype):
        return convert(emitter.b, emitter.b.load("double", result, 8), "float64", call.dtype)
    return convert(
        emitter.b, emitter.b.load("i64", result, 8), "int64", call.dtype if call.dtype != "void" else "int32"
    )


def _pointer_description(arg: E.PrimExpr) -> tuple[str, str, int]:
    """dtype and number of elements behind a pointer argument, as far as they are known."""
    if isinstance(arg, E.Call) and arg.args and isinstance(arg.args[0], E.BufferLoad):
        buffer: Buffer = arg.args[0].buffer
        index = arg.args[0].indices[0] if arg.args[0].indices else None
        extent = buffer.shape[0] if buffer.shape else None
        skipped = index.value if isinstance(index, E.IntImm) else 0 if index is None else None
        if isinstance(extent, E.IntImm) and skipped is not None:
            return ("pointer", buffer.dtype, extent.value - skipped)
        return ("pointer", buffer.dtype, 0)
    return ("pointer", "uint8", 0)
