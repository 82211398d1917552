"""Host functions that launch through a queue: what they look like, and what their native code gives the driver."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from ir import IRModule, assert_structural_equal
from ir.codegen.build import build
from ir.codegen.cuda.queue import LaunchThroughQueue, scratch_bytes
from ir.codegen.error import CodegenError
from ir.script import tir as T
from ir.tir.kernel_launch import CALLING_CONVENTION, DEVICE_KERNEL_LAUNCH, is_kernel


@T.prim_func
def kernel(B: T.handle("float32"), A: T.handle("float32"), n: T.int32, factor: T.float32):
    T.func_attr({"global_symbol": "main_kernel"})
    blocks = T.launch_thread("blockIdx.x", n)
    threads = T.launch_thread("threadIdx.x", 32)
    source, target = T.Buffer((32,), data=A), T.Buffer((32,), data=B)
    target[threads] = source[threads] * factor


KERNEL = kernel.with_attr(CALLING_CONVENTION, DEVICE_KERNEL_LAUNCH)


def _made(host):
    module = LaunchThroughQueue()(IRModule({"main": host, "main_kernel": KERNEL}))
    return module, module["main"]


def test_memory_of_the_host_lies_in_scratch_memory():
    @T.prim_func
    def before(A: T.Buffer((128,), "float32"), scratch: T.Buffer((1024,), "uint8")):
        T.func_attr({"loopsmith.scratch": 1})
        B = T.allocate([128], "float32", "global")
        C = T.allocate([8], "float32", "global")
        T.call_packed("main_kernel", B, A.data, 4, T.float32(2), 4, 32)
        T.call_packed("main_kernel", C, A.data, 4, T.float32(3), 4, 32)

    @T.prim_func
    def after(queue: T.handle, A: T.Buffer((128,), "float32"), scratch: T.Buffer((1024,), "uint8")):
        B: T.handle("float32", "global") = T.address_of(scratch[T.int64(0)])
        C: T.handle("float32", "global") = T.address_of(scratch[T.int64(512)])
        T.launch_kernel(queue, 0, 4, 1, 1, 32, 1, 1, 0, B, A.data, 4, T.float32(2))
        T.launch_kernel(queue, 0, 4, 1, 1, 32, 1, 1, 0, C, A.data, 4, T.float32(3))

    assert [size.value for size in scratch_bytes(before)] == [512, 256]
    assert_structural_equal(
        _made(before)[1].without_attr("global_symbol"), after.without_attr("global_symbol")
    )


def test_what_the_host_cannot_do_is_refused_by_name():
    @T.prim_func
    def stores(A: T.Buffer((128,), "float32")):
        A[3] = T.float32(1)

    @T.prim_func
    def allocates(A: T.Buffer((128,), "float32")):
        B = T.allocate([128], "float32", "global")
        T.call_packed("main_kernel", B, A.data, 4, T.float32(2), 4, 32)

    @T.prim_func
    def calls(A: T.Buffer((128,), "float32")):
        T.call_packed("of_python", A.data)

    for func, says in (
        (stores, "main: the host's code accesses A, which lies on the device"),
        (allocates, "main: kernels hand over B, for which the function has no scratch memory"),
        (calls, "the host's code calls the function 'of_python'"),
    ):
        with pytest.raises(CodegenError, match=says):
            _made(func)


class _Queue(ctypes.Structure):
    _fields_ = (
        ("launch", ctypes.c_void_p), ("stream", ctypes.c_void_p), ("functions", ctypes.c_void_p),
        ("failed_kernel", ctypes.c_int64), ("failed_status", ctypes.c_int64),
    )  # fmt: skip


_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_uint32] * 7, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)  # fmt: skip


@pytest.fixture
def native():
    @T.prim_func
    def host(a: T.handle, factor: T.float32):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        T.call_packed("main_kernel", A.data, A.data, n, factor, n, 32)

    module, _ = _made(host)
    hosts = {var: func for var, func in module.functions.items() if not is_kernel(func)}
    code = build(module.replace(functions=hosts), "llvm")
    entry = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_int64
    )(code.entry_pointer(code.functions()[0]))
    return code, entry


def test_native_code_gives_the_driver_what_its_kernels_take(native):
    code, entry = native
    seen = []

    def launch(function, *rest):
        *dimensions, stream, arguments, extra = rest
        n = ctypes.cast(arguments[2], ctypes.POINTER(ctypes.c_int32))[0]
        factor = ctypes.cast(arguments[3], ctypes.POINTER(ctypes.c_float))[0]
        address = ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_void_p))[0]
        seen.append((function, dimensions, stream, address, n, factor, extra))
        return 0

    callback, functions = _LAUNCH(launch), (ctypes.c_void_p * 1)(77)
    queue = _Queue(ctypes.cast(callback, ctypes.c_void_p), 99, ctypes.addressof(functions), 0, 0)
    array = np.zeros(6, "float32")
    assert entry(ctypes.addressof(queue), array.ctypes.data, 2.5, 6) == 0
    assert seen == [(77, [6, 1, 1, 32, 1, 1, 0], 99, array.ctypes.data, 6, 2.5, None)]
    assert entry(ctypes.addressof(queue), array.ctypes.data, 2.5, 0) == 0
    assert len(seen) == 1  # there is no launch of no threads


def test_a_refused_launch_ends_the_function_and_is_noted(native):
    _, entry = native
    callback, functions = _LAUNCH(lambda *given: 701), (ctypes.c_void_p * 1)(77)
    queue = _Queue(ctypes.cast(callback, ctypes.c_void_p), None, ctypes.addressof(functions), 5, 0)
    assert entry(ctypes.addressof(queue), None, 1.0, 6) != 0
    assert (queue.failed_kernel, queue.failed_status) == (0, 701)


@T.prim_func
def copying(C: T.handle("float32"), tensor: T.handle("uint8", "tensor_map")):
    T.func_attr({"global_symbol": "copying_kernel"})
    threads = T.launch_thread("threadIdx.x", 32)
    target = T.Buffer((32,), data=C)
    target[threads] = T.float32(0)


class _QueueWithMaps(ctypes.Structure):
    _fields_ = (*_Queue._fields_, ("encode", ctypes.c_void_p))


_ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32), *[ctypes.c_int32] * 4,
)  # fmt: skip


def test_tensor_maps_are_made_by_the_queue_and_given_by_value():
    @T.prim_func
    def before(a: T.handle, C: T.Buffer((32,), "float32")):
        n = T.int32()
        A = T.match_buffer(a, (n, 8, 64), "bfloat16")
        tensor: T.handle("uint8", "tensor_map") = T.tensor_map_encode_tiled(
            A.data, "bfloat16", 64, n, 8, 64, 512, 64, 1, 1, 4, 32
        )
        T.call_packed("copying_kernel", C.data, tensor, 32)

    kernel = copying.with_attr(CALLING_CONVENTION, DEVICE_KERNEL_LAUNCH)
    module = LaunchThroughQueue()(IRModule({"main": before, "copying_kernel": kernel}))
    hosts = {var: func for var, func in module.functions.items() if not is_kernel(func)}
    code = build(module.replace(functions=hosts), "llvm")
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, ctypes.c_int64)(
        code.entry_pointer(code.functions()[0])
    )
    seen, status = [], [0]

    def encode(made, kind, rank, address, shape, strides, box, steps, *flags):
        ctypes.memset(made, 7, 128)
        seen.append((made % 64, kind, rank, address, shape[:3], strides[:2], box[:3], steps[:3], flags))
        return status[0]

    def launch(function, *rest):
        seen.append(ctypes.string_at(rest[-2][1], 128))
        return 0

    callbacks, functions = (_LAUNCH(launch), _ENCODE(encode)), (ctypes.c_void_p * 1)(77)
    started, made = (ctypes.cast(item, ctypes.c_void_p) for item in callbacks)
    queue = _QueueWithMaps(started, None, ctypes.addressof(functions), 0, 0, made)
    a, c = np.zeros((5, 8, 64), "uint16"), np.zeros(32, "float32")
    assert entry(ctypes.addressof(queue), a.ctypes.data, c.ctypes.data, 5) == 0
    told = (0, 9, 3, a.ctypes.data, [64, 8, 5], [128, 1024], [32, 4, 1], [1, 1, 1], (0, 2, 3, 0))
    assert seen == [told, b"\x07" * 128]
    status[0] = 1
    assert entry(ctypes.addressof(queue), a.ctypes.data, c.ctypes.data, 5) != 0
    assert (queue.failed_kernel, queue.failed_status, len(seen)) == (-1, 1, 3)


def test_tensor_maps_have_the_dtypes_of_the_driver():
    @T.prim_func
    def maps(A: T.Buffer((64, 64), "int16"), C: T.Buffer((32,), "float32")):
        tensor: T.handle("uint8", "tensor_map") = T.tensor_map_encode_tiled(
            A.data, "int16", 0, 64, 64, 64, 1, 64, 64
        )
        T.call_packed("main_kernel", C.data, tensor, 4, T.float32(2), 4, 32)

    with pytest.raises(CodegenError, match="there are no tensor maps of int16; there are those of float16, "):
        _made(maps)


def test_numbers_have_the_types_of_parameters_in_cpp():
    @T.prim_func
    def halves(B: T.handle("float32"), factor: T.float16, n: T.int64):
        T.func_attr({"global_symbol": "halves_kernel"})
        threads = T.launch_thread("threadIdx.x", 32)
        target = T.Buffer((32,), data=B)
        target[threads] = T.Cast("float32", factor)

    @T.prim_func
    def before(B: T.Buffer((32,), "float32"), factor: T.float16, n: T.int32):
        T.call_packed("halves_kernel", B.data, factor, n, 32)

    @T.prim_func
    def after(queue: T.handle, B: T.Buffer((32,), "float32"), factor: T.float16, n: T.int32):
        T.launch_kernel(queue, 0, 1, 1, 1, 32, 1, 1, 0, B.data, T.Cast("float32", factor), T.Cast("int64", n))

    kernel = halves.with_attr(CALLING_CONVENTION, DEVICE_KERNEL_LAUNCH)
    made = LaunchThroughQueue()(IRModule({"main": before, "halves_kernel": kernel}))["main"]
    assert_structural_equal(made.without_attr("global_symbol"), after.without_attr("global_symbol"))
