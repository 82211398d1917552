"""Calls: what is left of intrinsics behind :class:`ir.tir.transform.LowerIntrin`, and calls of other functions.

The elementary functions that LowerIntrin calls by name (``loopsmith.exp``) are generated here for the lanes at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ... import dtype as dt
from ...expr import GlobalVar
from ...tir import expr as E
from ...tir.buffer import Buffer
from ...tir.intrinsic.calls import LIBRARY
from . import vector_math
from .builder import FunctionBuilder, ModuleBuilder, Value, constant, element_of, lanes_of, vector
from .compile import CodegenError
from .types import memory_type, register_type

#: Widest vector (in lanes of float32) that a polynomial is computed for at once; wider ones are split to save registers.
_MATH_LANES = 16

#: Instructions that polynomials may add to an unrolled body; beyond, they are called.
_INLINED_INSTRUCTIONS = 600

#: Instructions of a function that is never called: a call costs as much.
_SHORT_FUNCTION = 12


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
    handler = PRIMITIVES.get(call.op.name)
    if handler is None:
        raise CodegenError(
            f"the LLVM emitter has no form of {call.op.name}; run ir.tir.transform.LowerIntrin first"
        )
    return handler(emitter, call)


def _library_call(emitter: Emitter, name: str, args: list[Value]) -> Value:
    """A call of a generated function, in pieces of at most a register's width."""
    type_ = args[0].type
    lanes = lanes_of(type_)
    if lanes <= _MATH_LANES or lanes & (lanes - 1):
        return emitter.b.call(_library_function(emitter, name, type_), type_, args)
    part = vector(element_of(type_), _MATH_LANES)
    function = _library_function(emitter, name, part)
    pieces = []
    for start in range(0, lanes, _MATH_LANES):
        window = range(start, start + _MATH_LANES)
        pieces.append(emitter.b.call(function, part, [emitter.b.shuffle(a, a, window) for a in args]))  # type: ignore[arg-type]
    while len(pieces) > 1:
        width = range(2 * lanes_of(pieces[0].type))
        pieces = [emitter.b.shuffle(a, b, width) for a, b in zip(pieces[::2], pieces[1::2])]  # type: ignore[arg-type]
    return pieces[0]


def _library_function(emitter: Emitter, name: str, type_: str) -> str:
    length = vector_math.instructions(name)
    inlined = length * emitter._copies
    if element_of(type_) == "float" and length > _SHORT_FUNCTION and inlined > _INLINED_INSTRUCTIONS:
        return vector_math.outlined_function(emitter.module, name, type_, emitter.outlined_attributes)
    return vector_math.vector_function(emitter.module, name, type_)


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


def _instruction(op: str) -> Callable[[Emitter, E.Call], Value]:
    """An operation on two integers for which LLVM has an instruction."""
    return lambda emitter, call: emitter.b.binary(op, *[emitter.value(arg) for arg in call.args])


def _shift_right(emitter: Emitter, call: E.Call) -> Value:
    op = "ashr" if dt.is_int(call.dtype) else "lshr"
    return emitter.b.binary(op, emitter.value(call.args[0]), emitter.value(call.args[1]))


def _reinterpret(emitter: Emitter, call: E.Call) -> Value:
    value = emitter.value(call.args[0])
    if dt.is_bool(call.args[0].dtype) or dt.is_bool(call.dtype):
        return emitter._from_memory(emitter._to_memory(value, call.args[0].dtype), call.dtype)
    wanted = register_type(call.dtype)
    if "ptr" in (value.type, wanted):
        return emitter.b.cast("ptrtoint" if value.type == "ptr" else "inttoptr", value, wanted)
    return emitter.b.cast("bitcast", value, wanted)


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
    if name.startswith(LIBRARY):
        return _library_call(emitter, name.removeprefix(LIBRARY), args)
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


PRIMITIVES: dict[str, Callable[[Any, Any], Value]] = {
    "tir.if_then_else": _if_then_else,
    "tir.bitwise_and": _instruction("and"), "tir.bitwise_or": _instruction("or"), "tir.bitwise_xor": _instruction("xor"),
    "tir.shift_left": _instruction("shl"), "tir.shift_right": _shift_right, "tir.reinterpret": _reinterpret,
    "tir.address_of": _address_of, "tir.tvm_access_ptr": _access_ptr, "tir.prefetch": _prefetch,
    "tir.call_extern": _call_extern, "tir.call_pure_extern": _call_extern,
    "tir.call_llvm_intrin": _call_llvm, "tir.call_llvm_pure_intrin": _call_llvm,
    "tir.tvm_call_packed": _packed, "tir.tvm_call_cpacked": _packed, "tir.assume": _assume, "tir.undef": _undef,
}  # fmt: skip
"""The calls that are printed as they are; all others were rewritten to these (``T.ret`` is a statement's)."""
