"""The virtual machine's own functions (:mod:`runners.builtins`) in the assembly of a function that C calls."""

from __future__ import annotations

import re
from collections.abc import Callable

from ... import dtype as dt
from .assembly import CallAssembly
from .values import NOTHING, Heap, NotCallableError, Number, Shape, Tensor, Value


def _subject(context: object) -> str:
    """What a check is about, of the text that VMShapeLower writes."""
    text = str(context)
    found = re.search(r"param=([^,]*),", text)
    if found is not None:
        return f"argument {found[1]}"
    if "loc=return" in text:
        return "the result"
    found = re.search(r"var=([^,]*),", text)
    return f"match_cast of {found[1]}" if found is not None else text or "a value"


def _new_heap(call: CallAssembly, size: Value) -> Value:
    (count,) = size.extents if isinstance(size, Shape) else (call.integer(size),)
    name = call.new_name("heap")
    call.entry_lines += [
        f"  {name} = alloca [{max(int(count), 1)} x i64]",
        f"  store [{max(int(count), 1)} x i64] zeroinitializer, ptr {name}",
    ]
    return Heap(name)


def _check_tensor(call: CallAssembly, value: Value, ndim: Value, dtype: Value, context: Value = "") -> Value:
    wanted = int(call.integer(ndim))
    if not isinstance(value, Tensor) or wanted not in (-1, len(value.extents)):
        raise NotCallableError(f"{_subject(context)} is of another rank than the function says")
    if dtype not in ("", "void", value.dtype):
        raise NotCallableError(f"{_subject(context)} is of another dtype than the function says")
    return NOTHING


def _check_shape(call: CallAssembly, value: Value, ndim: Value, context: Value = "") -> Value:
    if not isinstance(value, Shape) or int(call.integer(ndim)) not in (-1, len(value.extents)):
        raise NotCallableError(f"{_subject(context)} is no shape of that rank")
    return NOTHING


def _check_tuple(call: CallAssembly, value: Value, size: Value, context: Value = "") -> Value:
    if not isinstance(value, tuple) or len(value) != int(call.integer(size)):
        raise NotCallableError(f"{_subject(context)} is no tuple of that size")
    return NOTHING


def _match_shape(call: CallAssembly, value: Value, heap: Value, size: Value, *codes: Value) -> Value:
    if not isinstance(value, Tensor | Shape) or len(value.extents) != int(call.integer(size)):
        raise NotCallableError(f"{_subject(codes[-1])} is of another rank than the function says")
    what = f"{call.name}: {_subject(codes[-1])}"
    numbers = [int(call.integer(item)) for item in codes[:-1]]
    for axis, (code, number) in enumerate(zip(numbers[::2], numbers[1::2], strict=True)):
        extent = value.extents[axis]
        if code == 0:
            message = f"{what} must have extent {number} on axis {axis}, got {{}}"
            call.require_equal(extent, str(number), message)
        elif code == 1:
            call.emit(f"store i64 {extent}, ptr {call.heap_slot(heap, number)}")
        elif code == 3:
            message = f"{what} must have extent {{}} on axis {axis}, as the other arguments say, got {{}}"
            call.require_equal(extent, call.load_extent(heap, number), message)
    return NOTHING


def _make_shape(call: CallAssembly, heap: Value, size: Value, *codes: Value) -> Value:
    numbers = [int(call.integer(item)) for item in codes]
    return Shape(
        tuple(
            call.load_extent(heap, number) if loaded else str(number)
            for loaded, number in zip(numbers[::2], numbers[1::2], strict=True)
        )
    )


def _make_number(call: CallAssembly, heap: Value, code: Value, number: Value) -> Value:
    place = int(call.integer(number))
    return Number(call.load_extent(heap, place) if int(call.integer(code)) else str(place), "int64")


def _check_upper_bound(
    call: CallAssembly, heap: Value, number: Value, bound: Value, context: Value = ""
) -> Value:
    found, most = call.load_extent(heap, int(call.integer(number))), call.integer(bound)
    message = f"{call.name}: {context or 'an extent'} must be at most {most} (tir_var_upper_bound), got {{}}"
    call.require(call.assign(f"icmp sle i64 {found}, {most}"), message, found)
    return NOTHING


def _check_extent(
    call: CallAssembly, heap: Value, a_loaded: Value, a: Value, b_loaded: Value, b: Value, text: Value = ""
) -> Value:
    found, wanted = (
        call.load_extent(heap, int(call.integer(number)))
        if int(call.integer(loaded))
        else call.integer(number)
        for loaded, number in ((a_loaded, a), (b_loaded, b))
    )
    message = str(text) or f"{call.name}: an extent must be {{}}, got {{}}"
    given = (found, wanted) if text else (wanted, found)
    call.require(call.assign(f"icmp eq i64 {found}, {wanted}"), message, *given[: message.count("{}")])
    return NOTHING


def _shape_of(call: CallAssembly, value: Value) -> Value:
    if not isinstance(value, Tensor):
        raise NotCallableError("a shape is taken of what is no tensor")
    return Shape(value.extents)


def _reshape(call: CallAssembly, value: Value, shape: Value) -> Value:
    if not isinstance(value, Tensor) or not isinstance(shape, Shape):
        raise NotCallableError("what is reshaped is no tensor")
    found, wanted = call.product(value.extents), call.product(shape.extents)
    call.require_equal(found, wanted, f"{call.name}: a tensor cannot have another number of elements")
    return Tensor(value.pointer, shape.extents, value.dtype, value.storage, value.is_whole)


def _copy(call: CallAssembly, value: Value) -> Value:
    if not isinstance(value, Tensor):
        return value
    size = call.bytes_of(value.extents, value.dtype)
    storage = call.new_storage(size)
    call.emit(f"call ptr @memcpy(ptr {storage.pointer}, ptr {value.pointer}, i64 {size})")
    return Tensor(storage.pointer, value.extents, value.dtype, storage, True)


def _tensor_to_shape(call: CallAssembly, value: Value) -> Value:
    if not isinstance(value, Tensor) or len(value.extents) != 1 or not value.extents[0].isdigit():
        raise NotCallableError("a shape is read from a tensor of a size that is not known")
    size = dt.bytes_of(value.dtype)
    places = [
        call.assign(f"getelementptr i8, ptr {value.pointer}, i64 {size * number}")
        for number in range(int(value.extents[0]))
    ]
    return Shape(tuple(call.loaded_number(place, value.dtype).value for place in places))


def _shape_to_tensor(call: CallAssembly, shape: Value) -> Value:
    if not isinstance(shape, Shape):
        raise NotCallableError("a tensor is made of what is no shape")
    storage = call.new_storage(str(max(8 * len(shape.extents), 1)))
    for number, extent in enumerate(shape.extents):
        place = call.assign(f"getelementptr i64, ptr {storage.pointer}, i64 {number}")
        call.emit(f"store i64 {extent}, ptr {place}")
    return Tensor(storage.pointer, (str(len(shape.extents)),), "int64", storage, True)


def _assert(call: CallAssembly, condition: Value, message: Value = "", *values: Value) -> Value:
    text = message if isinstance(message, str) and message else "assertion failed"
    call.require(call.truth(condition), f"{call.name}: {text}")
    return NOTHING


def _null(call: CallAssembly) -> Value:
    return NOTHING


BUILTINS: dict[str, Callable[..., Value]] = {
    "vm.builtin.alloc_shape_heap": _new_heap,
    "vm.builtin.check_tensor_info": _check_tensor,
    "vm.builtin.check_shape_info": _check_shape,
    "vm.builtin.check_tuple_info": _check_tuple,
    "vm.builtin.match_shape": _match_shape,
    "vm.builtin.make_shape": _make_shape,
    "vm.builtin.make_prim_value": _make_number,
    "vm.builtin.check_upper_bound": _check_upper_bound,
    "vm.builtin.check_extent": _check_extent,
    "vm.builtin.shape_of": _shape_of,
    "vm.builtin.reshape": _reshape,
    "vm.builtin.copy": _copy,
    "vm.builtin.tensor_to_shape": _tensor_to_shape,
    "vm.builtin.null_value": _null,
    "relax.run.shape_to_tensor": _shape_to_tensor,
    "relax.run.assert_op": _assert,
}
"""By their names: the translation of a call, given its operands."""
