"""Launches of a device's kernels by host functions, through a queue that their caller gives them.

A queue is this structure; whoever runs a program fills it in, and the code of host functions depends on nothing else of a device::

    struct queue {
      int32_t (*launch)(void* function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x, uint32_t block_y,
                        uint32_t block_z, uint32_t shared_bytes, void* stream, void** arguments, void** extra);
      void* stream;
      void** functions;         // by the numbers of kernels
      int64_t failed_kernel;    // set when launch returns another status than 0, which ends the host function; -1 when encode does
      int64_t failed_status;
      int32_t (*encode)(void* map, int32_t kind, uint32_t rank, void* address, uint64_t* shape, uint64_t* strides, uint32_t* box,
                        uint32_t* steps, int32_t interleave, int32_t swizzle, int32_t promotion, int32_t fill);
    };

``launch`` and ``encode`` have the signatures of the CUDA driver's ``cuLaunchKernel`` and ``cuTensorMapEncodeTiled``, which may be put
there as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import dtype as dt
from ...tir import expr as E
from ...tir.intrinsic.bulk_copies import is_tensor_map
from .builder import Value
from .conversion import to_memory
from .emitter import FunctionEmitter
from .kernel_context import FAILED
from .types import element_bytes, memory_type

_STREAM, _FUNCTIONS, _FAILED_KERNEL, _FAILED_STATUS, _ENCODE = 8, 16, 24, 32, 40
"""Where the fields of a queue are, in bytes; ``launch`` is the first. Pointers have 64 bits on every host of a GPU."""
_DIMENSIONS = 7
"""Of the grid, of a block, and the bytes of shared memory."""
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64
"""Of a tensor map, which kernels are given by value."""
_NO_KERNEL = Value("-1", "i64")


def launch_kernel(emitter: FunctionEmitter, call: E.Call) -> Value:
    """Calls the queue's function for launches, and returns early when it fails; its status, which is 0."""
    b = emitter.b
    queue, kernel, *rest = call.args
    place = emitter.value(queue)
    number = emitter.index(kernel)
    dimensions = [b.cast("trunc", emitter.index(item), "i32") for item in rest[:_DIMENSIONS]]
    arguments = rest[_DIMENSIONS:]
    table = b.alloca(f"[{max(1, len(arguments))} x ptr]", 8)
    for position, argument in enumerate(arguments):
        b.store(_in_memory(emitter, argument), _field(emitter, table, 8 * position), 8)
    launch = b.load("ptr", place, 8)
    stream = b.load("ptr", _field(emitter, place, _STREAM), 8)
    functions = b.load("ptr", _field(emitter, place, _FUNCTIONS), 8)
    function = b.load("ptr", b.element_pointer(functions, "ptr", number), 8)
    given = [function, *dimensions, stream, table, Value("null", "ptr")]
    listed = ", ".join(f"{value.type} {value.ref}" for value in given)
    status = b.define(f"call i32 {launch.ref}({listed})", "i32")
    _end_if_failed(emitter, place, status, number, "the device refused to launch a kernel")
    return status


def encode_tensor_map(emitter: FunctionEmitter, call: E.Call) -> Value:
    """Calls the queue's function that makes a tensor map in the function's frame, and returns early when it fails; the map's address."""
    b = emitter.b
    queue, kind, address, *rest = call.args
    flags, layout = rest[:4], rest[4:]
    rank = (len(layout) + 1) // 3
    shape, strides, box = layout[:rank], layout[rank : 2 * rank - 1], layout[2 * rank - 1 :]
    place = emitter.value(queue)
    made = b.alloca(f"[{_MAP_BYTES} x i8]", _MAP_ALIGNMENT)
    given = [
        made,
        *[b.cast("trunc", emitter.index(item), "i32") for item in (kind, E.IntImm("int32", rank))],
        emitter.value(address),
        *[_table(emitter, items, "i64") for items in (shape, strides)],
        *[_table(emitter, items, "i32") for items in (box, [E.IntImm("int64", 1)] * rank)],
        *[b.cast("trunc", emitter.index(item), "i32") for item in flags],
    ]
    listed = ", ".join(f"{value.type} {value.ref}" for value in given)
    encode = b.load("ptr", _field(emitter, place, _ENCODE), 8)
    status = b.define(f"call i32 {encode.ref}({listed})", "i32")
    _end_if_failed(emitter, place, status, _NO_KERNEL, "the device refused to make a tensor map")
    return made


def _end_if_failed(emitter: FunctionEmitter, queue: Value, status: Value, kernel: Value, says: str) -> None:
    """Leaves where the driver's status is none of success; the queue tells which it was."""
    b = emitter.b

    def note() -> Value:
        b.store(kernel, _field(emitter, queue, _FAILED_KERNEL), 8)
        b.store(b.cast("sext", status, "i64"), _field(emitter, queue, _FAILED_STATUS), 8)
        return emitter.set_error(says, FAILED)

    emitter.fail_if(b.icmp("ne", status, Value("0", "i32")), note)


def _table(emitter: FunctionEmitter, items: Sequence[E.PrimExpr], type_: str) -> Value:
    """Numbers one behind the other in the function's frame."""
    b, width = emitter.b, 8 if type_ == "i64" else 4
    table = b.alloca(f"[{max(1, len(items))} x {type_}]", 8)
    for position, item in enumerate(items):
        number = emitter.index(item)
        if type_ != "i64":
            number = b.cast("trunc", number, type_)
        b.store(number, _field(emitter, table, width * position), width)
    return table


def _field(emitter: FunctionEmitter, base: Value, offset: int) -> Value:
    return emitter.b.define(f"getelementptr i8, ptr {base.ref}, i64 {offset}", "ptr")


def _in_memory(emitter: FunctionEmitter, argument: E.PrimExpr) -> Value:
    """The address of an argument, which the driver copies."""
    value, dtype = emitter.value(argument), argument.dtype
    if isinstance(argument, E.Var) and is_tensor_map(argument):
        return value  # the map itself is the argument
    if value.type == "ptr":
        place = emitter.b.alloca("ptr", 8)
        emitter.b.store(value, place, 8)
        return place
    stored = memory_type(dtype)
    if dt.is_integral(dtype) and value.type == "i64" != stored:
        value = emitter.b.cast("trunc", value, stored)  # indices are wider in registers
    place = emitter.b.alloca(stored, 8)
    emitter.b.store(to_memory(emitter.b, value, dtype), place, element_bytes(dtype))
    return place
