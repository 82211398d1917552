"""Calls: what is left of intrinsics behind :class:`ir.tir.transform.LowerIntrin`, and calls of other functions.

The elementary functions that LowerIntrin calls by name (``loopsmith.exp``) are generated here for the lanes at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import dtype as dt
from ...expr import GlobalVar
from ...node import Visitor
from ...tir import expr as E
from ...tir.buffer import Buffer
from ...tir.intrinsic.calls import LIBRARY
from ...tir.intrinsic.declaration import CallEffectKind, effect_of
from ...tir.stmt import For
from ..error import CodegenError
from . import vector_math
from .builder import Value, constant, element_of, lanes_of, vector
from .call import call_function, call_packed
from .conversion import from_memory, number_of, to_memory
from .dot_product import dot_accumulate
from .emitter import FunctionEmitter, prints
from .launch import encode_tensor_map, launch_kernel
from .matrix import matrix_accumulate, matrix_load, matrix_store
from .memory import address, flat_index
from .structs import struct_get, struct_set
from .types import memory_type, register_type

#: Widest vector (in lanes of float32) that a polynomial is computed for at once; wider ones are split to save registers.
_MATH_LANES = 16

#: Instructions that polynomials may add to the body of a loop; beyond, they are called.
_INLINED_INSTRUCTIONS = 600

#: Instructions of a function that is never called: a call costs as much.
_SHORT_FUNCTION = 12


@prints(E.Call)
def _call(emitter: FunctionEmitter, call: E.Call) -> Value:
    """A call of an intrinsic or of another function of the module."""
    if effect_of(call) > CallEffectKind.READ_STATE:
        emitter.has_effect()
    if isinstance(call.op, GlobalVar):
        return call_function(emitter, call)
    handler = PRIMITIVES.get(call.op.name)
    if handler is None:
        raise CodegenError(
            f"the LLVM emitter has no form of {call.op.name}; run ir.tir.transform.LowerIntrin first"
        )
    return handler(emitter, call)


# -- elementary functions ----------------------------------------------------------
class _LibraryInstructions(Visitor):
    """Counts what the calls of generated functions in a statement come to, without those in loops inside."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._of: dict[int, int] = {}  # by expression

    def visit_For(self, loop: For) -> None:
        pass

    def visit_Buffer(self, buffer: Buffer) -> None:
        pass

    def visit_PrimExpr(self, expr: E.PrimExpr) -> None:
        before = self.count
        found = self._of.get(id(expr))
        if found is None:
            self.generic_visit(expr)
            if isinstance(expr, E.Call):
                self.count += _instructions(expr)
            self._of[id(expr)] = self.count - before
        else:
            self.count += found


def _library_instructions(emitter: FunctionEmitter) -> int:
    """Instructions of the generated functions that the loop at hand calls, loops inside left out."""
    if emitter.library_instructions is None:
        counter = _LibraryInstructions()
        counter.visit(emitter.body)
        emitter.library_instructions = counter.count
    return emitter.library_instructions


def _instructions(call: E.Call) -> int:
    if getattr(call.op, "name", "") not in ("tir.call_pure_extern", "tir.call_extern"):
        return 0
    name: str = call.args[0].value  # type: ignore[attr-defined]
    return vector_math.instructions(name.removeprefix(LIBRARY)) if name.startswith(LIBRARY) else 0


def _library_call(emitter: FunctionEmitter, name: str, args: list[Value]) -> Value:
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


def _library_function(emitter: FunctionEmitter, name: str, type_: str) -> str:
    if (
        element_of(type_) == "float"
        and vector_math.instructions(name) > _SHORT_FUNCTION
        and _library_instructions(emitter) > _INLINED_INSTRUCTIONS
    ):
        return vector_math.outlined_function(emitter.module, name, type_, emitter.context.outlined_attributes)
    return vector_math.vector_function(emitter.module, name, type_)


# -- choices -----------------------------------------------------------------------
def _if_then_else(emitter: FunctionEmitter, call: E.Call) -> Value:
    b = emitter.b
    condition = emitter.value(call.args[0])
    if condition.type != "i1":
        return b.select(condition, emitter.value(call.args[1]), emitter.value(call.args[2]))
    then, otherwise, join = b.fresh("then"), b.fresh("else"), b.fresh("join")
    b.cond_branch(condition, then, otherwise)
    results = []
    for label, branch in ((then, call.args[1]), (otherwise, call.args[2])):
        b.label(label)
        with emitter.conditionally():
            value = emitter.value(branch)
        results.append(f"[{value.ref}, %{b.block}]")
        b.branch(join)
    b.label(join)
    type_ = register_type(call.dtype)
    return b.define(f"phi {type_} {', '.join(results)}", type_)


# -- the others --------------------------------------------------------------------
def _instruction(op: str) -> Callable[[FunctionEmitter, E.Call], Value]:
    """An operation on two integers for which LLVM has an instruction."""
    return lambda emitter, call: emitter.b.binary(op, *[emitter.value(arg) for arg in call.args])


def _shift_right(emitter: FunctionEmitter, call: E.Call) -> Value:
    op = "ashr" if dt.is_int(call.dtype) else "lshr"
    return emitter.b.binary(op, emitter.value(call.args[0]), emitter.value(call.args[1]))


def _reinterpret(emitter: FunctionEmitter, call: E.Call) -> Value:
    value = emitter.value(call.args[0])
    if dt.is_bool(call.args[0].dtype) or dt.is_bool(call.dtype):
        return from_memory(emitter.b, to_memory(emitter.b, value, call.args[0].dtype), call.dtype)
    wanted = register_type(call.dtype)
    if value.literal is not None and dt.is_integral(call.dtype):
        return constant(number_of(value, call.dtype), wanted)
    if "ptr" in (value.type, wanted):
        return emitter.b.cast("ptrtoint" if value.type == "ptr" else "inttoptr", value, wanted)
    return emitter.b.cast("bitcast", value, wanted)


def _address_of(emitter: FunctionEmitter, call: E.Call) -> Value:
    load = call.args[0]
    assert isinstance(load, E.BufferLoad)
    emitter.private.discard(load.buffer.data)
    return address(emitter, load.buffer, flat_index(load.indices, load.buffer))


def _prefetch(emitter: FunctionEmitter, call: E.Call) -> Value:
    target, *kind = call.args
    load = target.args[0] if isinstance(target, E.Call) and target.args else None
    if isinstance(load, E.BufferLoad):
        pointer = address(emitter, load.buffer, flat_index(load.indices, load.buffer))
    else:
        pointer = emitter.value(target)
    name = emitter.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
    return emitter.b.call(name, "void", [pointer, *(emitter.value(item) for item in kind)])


def _access_ptr(emitter: FunctionEmitter, call: E.Call) -> Value:
    kind, data, offset = call.args[:3]
    return emitter.b.element_pointer(emitter.value(data), memory_type(kind.dtype), emitter.index(offset))


def _call_extern(emitter: FunctionEmitter, call: E.Call) -> Value:
    name: str = call.args[0].value  # type: ignore[attr-defined]
    args = [emitter.value(arg) for arg in call.args[1:]]
    if name.startswith(LIBRARY):
        return _library_call(emitter, name.removeprefix(LIBRARY), args)
    result = "void" if call.dtype in ("void", "") else register_type(call.dtype)
    emitter.module.declare(name, result, [a.type for a in args])
    return emitter.b.call(name, result, args)


def _call_llvm(emitter: FunctionEmitter, call: E.Call) -> Value:
    name: str = call.args[0].value  # type: ignore[attr-defined]
    args = [emitter.value(arg) for arg in call.args[1:]]
    result = "void" if call.dtype in ("void", "") else register_type(call.dtype)
    emitter.module.declare(name, result, [a.type for a in args])
    return emitter.b.call(name, result, args)


def _assume(emitter: FunctionEmitter, call: E.Call) -> Value:
    condition = emitter.value(call.args[0])
    emitter.module.declare("llvm.assume", "void", ["i1"])
    emitter.b.call("llvm.assume", "void", [condition])
    return condition


def _optimization_barrier(emitter: FunctionEmitter, call: E.Call) -> Value:
    value = emitter.value(call.args[0])
    if value.type not in ("i32", "i64"):
        return value  # what addresses are made of is all that LLVM thinks about for too long
    pure = emitter.module.attributes("nounwind willreturn memory(none)")
    kept = emitter.b.define(f'call {value.type} asm "", "=r,0"({value.type} {value.ref}) {pure}', value.type)
    return emitter.b.bound(kept, emitter.b.magnitude(value))


def _in_order(emitter: FunctionEmitter, call: E.Call) -> Value:
    return emitter.value(call.args[0])  # what is no step of a reduction is not reassociated anyway


def _undef(emitter: FunctionEmitter, call: E.Call) -> Value:
    return Value("undef", register_type(call.dtype))


PRIMITIVES: dict[str, Callable[[Any, Any], Value]] = {
    "tir.if_then_else": _if_then_else,
    "tir.bitwise_and": _instruction("and"), "tir.bitwise_or": _instruction("or"), "tir.bitwise_xor": _instruction("xor"),
    "tir.shift_left": _instruction("shl"), "tir.shift_right": _shift_right, "tir.reinterpret": _reinterpret,
    "tir.address_of": _address_of, "tir.tvm_access_ptr": _access_ptr, "tir.prefetch": _prefetch,
    "tir.call_extern": _call_extern, "tir.call_pure_extern": _call_extern,
    "tir.call_llvm_intrin": _call_llvm, "tir.call_llvm_pure_intrin": _call_llvm,
    "tir.tvm_call_packed": call_packed, "tir.tvm_call_cpacked": call_packed, "tir.assume": _assume, "tir.undef": _undef,
    "tir.launch_kernel": launch_kernel, "tir.tvm_struct_get": struct_get, "tir.tvm_struct_set": struct_set,
    "tir.encode_tensor_map": encode_tensor_map,
    "tir.optimization_barrier": _optimization_barrier, "tir.in_order": _in_order, "tir.dot_accumulate": dot_accumulate,
    "tir.matrix_load": matrix_load, "tir.matrix_store": matrix_store, "tir.matrix_accumulate": matrix_accumulate,
}  # fmt: skip
"""The calls that are printed as they are; all others were rewritten to these (``T.ret`` is a statement's)."""
