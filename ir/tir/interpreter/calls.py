"""Calls of intrinsics: those that touch memory or control, those on the bits of integers, and the others by their ``meaning``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import dtype as dt
from ...error import IRValueError
from ...registry import get_global_func
from .. import expr as E
from ..intrinsic.declaration import Intrinsic, find
from .access import Use
from .arithmetic import data_operation
from .bulk_copies import FORMS as BULK_COPY_FORMS
from .bulk_copies import TensorMap
from .error import InterpreterError, refusal
from .lanes import Closure, lifted
from .matrix import matrix_accumulate, matrix_load, matrix_store
from .memory import Pointer
from .numbers import as_numpy, from_numpy, number, wrapping
from .structs import FORMS as STRUCT_FORMS
from .tensor_cores import (
    fill_fragment,
    fill_sums,
    load_fragment,
    load_rows,
    multiply_fragments,
    multiply_registers,
    store_fragment,
    store_rows,
    store_sums,
)
from .thread_calls import (
    active_mask,
    commit_group,
    copy_async,
    shuffle,
    shuffle_down,
    shuffle_up,
    shuffle_xor,
    storage_sync,
    thread_allreduce,
    wait_group,
)
from .warp_groups import FORMS as WARP_GROUP_FORMS

if TYPE_CHECKING:
    from .expressions import Expressions

Form = Callable[["Expressions", E.Call], "Closure"]


class Returned(BaseException):
    """Unwinds to the function's caller; a BaseException so that no handler of the program's own errors sees it."""

    def __init__(self, value: Any, dtype: str) -> None:
        super().__init__()
        self.value, self.dtype = value, dtype


# ---- integers ----------------------------------------------------------------------------------------------------


def _shift(compute: Callable[[int, int], int]) -> Callable[[E.Call], Callable[..., int]]:
    def operation(node: E.Call) -> Callable[..., int]:
        wrap, width = wrapping(dt.element_of(node.dtype)), dt.bits(node.dtype)

        def shift(value: int, amount: int) -> int:
            if not 0 <= amount < width:
                raise refusal("shift", f"a shift of {node.dtype} by {amount}", node)
            return wrap(compute(value, amount))

        return shift

    return operation


def _wrapped(compute: Callable[..., int]) -> Callable[[E.Call], Callable[..., int]]:
    def operation(node: E.Call) -> Callable[..., int]:
        wrap = wrapping(dt.element_of(node.dtype))
        return lambda *values: wrap(compute(*values))

    return operation


def _of_bits(compute: Callable[[int, int], int]) -> Callable[[E.Call], Callable[..., int]]:
    """A function of the bits of an integer, as an unsigned number, and their count."""

    def operation(node: E.Call) -> Callable[..., int]:
        width = dt.bits(node.args[0].dtype)
        return lambda value: compute(int(value) & ((1 << width) - 1), width)

    return operation


def _power(node: E.Call) -> Callable[..., int]:
    """Integers multiply and wrap; a negative exponent gives the power's whole part."""
    wrap, width = wrapping(dt.element_of(node.dtype)), dt.bits(node.dtype)

    def power(base: int, exponent: int) -> int:
        if exponent >= 0:
            return wrap(pow(base, exponent, 1 << width))
        if base == 0:
            raise refusal("pow", f"0 to the power {exponent}", node)
        return wrap(base if exponent % 2 else 1) if base in (1, -1) else 0

    return power


_ON_INTEGERS: dict[str, Callable[[E.Call], Callable[..., int]]] = {
    "tir.bitwise_and": _wrapped(lambda a, b: a & b),
    "tir.bitwise_or": _wrapped(lambda a, b: a | b),
    "tir.bitwise_xor": _wrapped(lambda a, b: a ^ b),
    "tir.bitwise_not": _wrapped(lambda a: ~a),
    "tir.shift_left": _shift(lambda a, b: a << b),
    "tir.shift_right": _shift(lambda a, b: a >> b),
    "tir.popcount": _of_bits(lambda bits, width: bits.bit_count()),
    "tir.clz": _of_bits(lambda bits, width: width - bits.bit_length()),
    "tir.pow": _power,
}
"""On Python's integers, of every width: the operation for a call."""


def _on_integers(expressions: Expressions, node: E.Call) -> Closure:
    if not dt.is_integral(node.args[0].dtype):
        return call_by_meaning(expressions, node)
    return _each_lane(expressions, node, _ON_INTEGERS[node.op.name](node))


def _each_lane(expressions: Expressions, node: E.Call, operation: Callable[..., Any]) -> Closure:
    args = [expressions.data(arg) for arg in node.args]
    return lifted(operation, args, [dt.lanes(arg.dtype) for arg in node.args], dt.lanes(node.dtype))


# ---- by meaning --------------------------------------------------------------------------------------------------


def call_by_meaning(expressions: Expressions, node: E.Call) -> Closure:
    """A call whose record says what it computes, of numpy's scalars and arrays."""
    record = find(node)
    if record is None or record.meaning is None:

        def refuse(*_: Any) -> Any:
            raise InterpreterError(f"the interpreter does not know {node.op.name}")

        return refuse
    compute = _computation(record, node)
    if record.elementwise:
        element, dtypes = dt.element_of(node.dtype), [dt.element_of(arg.dtype) for arg in node.args]

        def on_lane(*values: Any) -> Any:
            found = compute([as_numpy(value, dtype) for value, dtype in zip(values, dtypes)])
            return from_numpy(found, element)

        return _each_lane(expressions, node, on_lane)
    args, dtypes = _whole_arguments(expressions, node), [arg.dtype for arg in node.args]

    def on_vectors(env: dict[Any, Any], active: Sequence[bool] | None = None) -> Any:
        values = [as_numpy(arg(env, active), dtype) for arg, dtype in zip(args, dtypes)]
        return from_numpy(compute(values), node.dtype)

    return on_vectors


def _whole_arguments(expressions: Expressions, node: E.Call) -> list[Callable[..., Any]]:
    """Arguments of a call that takes vectors as wholes; lanes that are not needed are left out where lanes belong together."""

    def argument(arg: E.PrimExpr) -> Callable[..., Any]:
        value, lanes = expressions.data(arg), dt.lanes(arg.dtype)
        if lanes == 1:
            return lambda env, active: value(env)
        everything = (True,) * lanes
        matches = lanes == dt.lanes(node.dtype)
        return lambda env, active: value(env, active if matches and active is not None else everything)

    return [argument(arg) for arg in node.args]


def _computation(record: Intrinsic, node: E.Call) -> Callable[[Sequence[Any]], Any]:
    def compute(values: Sequence[Any]) -> Any:
        assert record.meaning is not None
        try:
            return record.meaning(node.dtype, *values) if record.dtype_first else record.meaning(*values)
        except IRValueError as error:
            raise InterpreterError(str(error)) from error

    return compute


# ---- control and memory --------------------------------------------------------------------------------------------


def _leave_without_value(env: dict[Any, Any]) -> Any:
    raise Returned(None, "void")


def _ret(expressions: Expressions, node: E.Call) -> Closure:
    if not node.args:
        return _leave_without_value
    value, dtype = expressions.data(node.args[0]), node.args[0].dtype

    def leave(env: dict[Any, Any]) -> Any:
        raise Returned(value(env), dtype)

    return leave


def _assume(expressions: Expressions, node: E.Call) -> Closure:
    holds = expressions.condition(node.args[0])

    def check(env: dict[Any, Any]) -> bool:
        if not holds(env):
            raise refusal("assume", "what is assumed does not hold", node.args[0])
        return True

    return check


def _undef(expressions: Expressions, node: E.Call) -> Closure:
    def refuse(*_: Any) -> Any:
        raise refusal("unwritten", "an undefined value is used: undef() may only be stored")

    return refuse


def _prefetch(expressions: Expressions, node: E.Call) -> Closure:
    return lambda env: 0  # a hint, whose address may lie outside of its buffer


def _address_of(expressions: Expressions, node: E.Call, uses: Sequence[Use] = ()) -> Closure:
    load = node.args[0]
    assert isinstance(load, E.BufferLoad)
    place, data = expressions.accesses.place(load.buffer, load.indices, uses), load.buffer.data
    elements, element = expressions.accesses.elements(load.buffer), dt.element_of(load.buffer.dtype)

    def address(env: dict[Any, Any]) -> Pointer:
        elements(env)  # it must be allocated
        pointer: Pointer = env[data]
        return pointer.moved(place(env), element)

    return address


def _access_ptr(expressions: Expressions, node: E.Call) -> Closure:
    """An address so many elements behind another one, whose elements are of the dtype that is annotated."""
    kind, data, offset = node.args[:3]
    element = dt.element_of(kind.dtype)
    base, distance = expressions.data(data), expressions.index(offset)

    def address(env: dict[Any, Any]) -> Pointer:
        pointer: Pointer = base(env)
        return Pointer(pointer.memory, pointer.offset + distance(env) * dt.bytes_of(kind.dtype), element)

    return address


def _address_to_update(expressions: Expressions, node: E.PrimExpr) -> Closure:
    """The address of an element that is read and written, which the blocks around must state as for a load and a store."""
    if isinstance(node, E.Call) and getattr(node.op, "name", "") == "tir.address_of":
        return _address_of(expressions, node, [Use.READ, Use.WRITE])
    return expressions.data(node)


def _atomic_add(expressions: Expressions, node: E.Call) -> Closure:
    """Additions by several iterations do not disturb each other, so the loops around are not told of them."""
    address, value = _address_to_update(expressions, node.args[0]), expressions.data(node.args[1])
    add = data_operation(E.Add(E.Var("old", node.dtype), E.Var("added", node.dtype)))

    def run(env: dict[Any, Any]) -> Any:
        pointer = address(env)
        elements = pointer.elements(node.dtype)
        before = elements.read(0, "the address", is_atomic=True)
        elements.write(0, add(before, value(env)), "the address", is_atomic=True)
        return before

    return run


def _guarded_load(expressions: Expressions, node: E.Call) -> Closure:
    """Writes what is loaded, or zero, to an element behind an address."""
    register, guard, value, index = node.args
    pointer, place = expressions.data(register), expressions.index(index)
    holds, load, name = expressions.condition(guard), expressions.data(value), str(register)

    def run(env: dict[Any, Any]) -> int:
        found = load(env) if holds(env) else 0.0
        pointer(env).elements(value.dtype).write(place(env), found, name)
        return 0

    return run


def _call_packed(expressions: Expressions, node: E.Call) -> Closure:
    args, machine = [(expressions.data(arg), arg.dtype) for arg in node.args], expressions.machine

    def call(env: dict[Any, Any]) -> Any:
        name, *values = [
            arg(env) if dt.lanes(dtype) == 1 else arg(env, (True,) * dt.lanes(dtype)) for arg, dtype in args
        ]
        if machine.launch_by_name(name, values):
            return 0
        function = get_global_func(name)
        result = function(*[_handed_out(value, dtype) for value, (_, dtype) in zip(values, args[1:])])  # type: ignore[misc]
        if isinstance(result, int | float | np.generic) and node.dtype not in ("handle", "void"):
            return number(result, node.dtype)
        return 0 if result is None else result

    return call


def _handed_out(value: Any, dtype: str) -> Any:
    """What a registered function receives: the memory from the address on, or the value."""
    if isinstance(value, TensorMap):
        return value
    return value.handed_out() if isinstance(value, Pointer) else as_numpy(value, dtype)


INTRINSIC_FORMS: dict[str, Form] = {
    **{name: _on_integers for name in _ON_INTEGERS},
    "tir.ret": _ret,
    "tir.assume": _assume,
    "tir.undef": _undef,
    "tir.prefetch": _prefetch,
    "tir.address_of": _address_of,
    "tir.atomic_add": _atomic_add,
    "tir.matrix_load": matrix_load,
    "tir.matrix_store": matrix_store,
    "tir.matrix_accumulate": matrix_accumulate,
    "tir.tvm_storage_sync": storage_sync,
    "tir.tvm_thread_allreduce": thread_allreduce,
    "tir.tvm_warp_shuffle": shuffle,
    "tir.tvm_warp_shuffle_up": shuffle_up,
    "tir.tvm_warp_shuffle_down": shuffle_down,
    "tir.tvm_warp_shuffle_xor": shuffle_xor,
    "tir.tvm_warp_activemask": active_mask,
    "tir.ptx_cp_async": copy_async,
    "tir.ptx_commit_group": commit_group,
    "tir.ptx_wait_group": wait_group,
    "tir.ptx_ldg32": _guarded_load,
    "tir.tvm_access_ptr": _access_ptr,
    "tir.tvm_load_matrix_sync": load_fragment,
    "tir.tvm_store_matrix_sync": store_fragment,
    "tir.tvm_fill_fragment": fill_fragment,
    "tir.tvm_mma_sync": multiply_fragments,
    "tir.ptx_mma": multiply_registers,
    "tir.ptx_ldmatrix": load_rows,
    "tir.ptx_stmatrix": store_rows,
    "tir.mma_store": store_sums,
    "tir.mma_fill": fill_sums,
    **BULK_COPY_FORMS,
    **WARP_GROUP_FORMS,
    **STRUCT_FORMS,
    "tir.tvm_call_packed": _call_packed,
    "tir.tvm_call_cpacked": _call_packed,
}
"""Intrinsics that are more than a function of numpy values, or that are computed exactly here."""
