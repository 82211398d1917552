"""Accesses by vectors: backwards, with strides, to one place, masked."""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np
import pytest

from ir.codegen.build import build
from ir.script import from_source
from ir.tir import PrimFunc, interpreter


@pytest.mark.parametrize(
    "statement",
    [
        "B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(15 - i * 4, -1, 4)]",
        "B[T.Ramp(15 - i * 4, -1, 4)] = A[T.Ramp(i * 4, 1, 4)]",
        "B[T.Ramp(i, 4, 4)] = A[T.Ramp(i * 4, 1, 4)]",
        "B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i, 4, 4)]",
        "B[T.Ramp(i * 4, 1, 4)] = A[T.Broadcast(i, 4)]",
        "B[T.Broadcast(i, 4)] = A[T.Ramp(i * 4, 1, 4)]",
        "B.vstore([T.Broadcast(i, 4)], A[T.Ramp(i * 4, 1, 4)], predicate=A[T.Ramp(i * 4, 1, 4)] < T.Broadcast(14, 4))",
        "B.vstore([T.Ramp(i * 4, 1, 4)], A[T.Ramp(0, 1, 4)], predicate=A[T.Ramp(i * 4, 1, 4)] < T.Broadcast(6, 4))",
        "B.vstore([T.Ramp(i, 4, 4)], A[T.Ramp(0, 1, 4)], predicate=A[T.Ramp(i * 4, 1, 4)] < T.Broadcast(6, 4))",
    ],
    ids=[
        "back",
        "to_back",
        "to_stride",
        "stride",
        "one",
        "to_one",
        "to_one_masked",
        "masked",
        "to_stride_masked",
    ],
)
def test_places_of_lanes(statement: str) -> None:
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(4):
        {statement}
""")
    a, expected, native = np.arange(16, dtype="int32"), np.zeros(16, "int32"), np.zeros(16, "int32")
    interpreter.run(func, a, expected)
    build(func)["main"](a, native)
    np.testing.assert_array_equal(native, expected)
    assert expected.any()


@pytest.mark.parametrize("index", ["x + T.uint8(100)", "x + y", "y + x + T.uint8(250)"])
def test_indices_that_are_data_wrap(index: str) -> None:
    """A sum of bytes that have been loaded is a byte, whatever place it is then used for."""
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((600,), "int32"), B: T.Buffer((8,), "int32"), X: T.Buffer((8,), "uint8")):
    for i in range(8):
        x: T.uint8 = X[i]
        y: T.uint8 = X[7 - i]
        B[i] = A[{index}]
""")
    a, bytes_ = np.arange(600, dtype="int32"), np.array([200, 100, 50, 60, 3, 130, 220, 255], "uint8")
    expected, native = np.zeros(8, "int32"), np.zeros(8, "int32")
    interpreter.run(func, a, expected, bytes_)
    build(func)["main"](a, native, bytes_)
    np.testing.assert_array_equal(native, expected)


@pytest.mark.parametrize("stride", [1, 2, -1])
def test_lanes_of_data_wrap(stride: int) -> None:
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((600,), "int32"), B: T.Buffer((32,), "int32"), X: T.Buffer((8,), "uint8")):
    for i in range(8):
        B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(X[i], T.uint8({stride % 256}), 4)]
""")
    a, bytes_ = np.arange(600, dtype="int32"), np.array([254, 100, 0, 1, 3, 255, 250, 253], "uint8")
    expected, native = np.zeros(32, "int32"), np.zeros(32, "int32")
    interpreter.run(func, a, expected, bytes_)
    build(func)["main"](a, native, bytes_)
    np.testing.assert_array_equal(native, expected)


def steps(stride: int, lanes: int, dtype: str) -> PrimFunc:
    """Copies vectors whose lanes lie apart, up to the last element of the source."""
    return from_source(f"""@T.prim_func
def main(A: T.Buffer(({(3 * lanes - 1) * stride + 1},), "{dtype}"), B: T.Buffer(({3 * lanes},), "{dtype}")):
    for i in range(3):
        B[T.Ramp(i * {lanes}, 1, {lanes})] = A[T.Ramp(i * {lanes * stride}, {stride}, {lanes})]
""")


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float32", "int64", "float64"])
@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16, 32])
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5, 7])
def test_lanes_that_lie_apart(stride: int, lanes: int, dtype: str) -> None:
    a = np.random.default_rng(0).integers(0, 100, (3 * lanes - 1) * stride + 1).astype(dtype)
    native = np.zeros(3 * lanes, dtype)
    build(steps(stride, lanes, dtype))["main"](a, native)
    np.testing.assert_array_equal(native, a[::stride])


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
@pytest.mark.parametrize("lanes", [4, 9, 17, 33])
@pytest.mark.parametrize("stride", [-1, -2, -3, -4, -5])
def test_lanes_that_lie_apart_backwards(stride: int, lanes: int, dtype: str) -> None:
    extent = (lanes - 1) * -stride + 1
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer(({extent},), "{dtype}"), B: T.Buffer(({lanes},), "{dtype}")):
    B[T.Ramp(0, 1, {lanes})] = A[T.Ramp({extent - 1}, {stride}, {lanes})]
""")
    a = np.random.default_rng(0).integers(0, 100, extent).astype(dtype)
    native = np.zeros(lanes, dtype)
    build(func)["main"](a, native)
    np.testing.assert_array_equal(native, a[::stride])


def test_registers_are_not_read_by_vectors_that_overlap() -> None:
    """A tile of accumulators whose lanes lie apart would live in memory."""
    source = """@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((8,), "float32")):
    tile = T.allocate([16], "float32", "{scope}")
    C = T.Buffer((16,), data=tile, scope="{scope}")
    C[T.Ramp(0, 1, 16)] = A[T.Ramp(0, 1, 16)]
    B[T.Ramp(0, 1, 8)] = C[T.Ramp(0, 2, 8)]
"""
    texts = {scope: build(from_source(source.format(scope=scope))).llvm_ir for scope in ("local", "global")}
    assert "shufflevector" in texts["global"] and "shufflevector" not in texts["local"]


_PROT_NONE = 0  # of sys/mman.h, where Python's module has no name for it


@pytest.mark.skipif(sys.platform != "linux", reason="protects memory by mprotect")
@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("lanes", [3, 8, 11, 16])
def test_what_lies_between_lanes_is_read_and_nothing_beside_them(stride: int, lanes: int) -> None:
    """The memory before and behind the array may not be touched: a load from there ends the process."""
    page = mmap.PAGESIZE
    func = build(steps(stride, lanes, "float32"))["main"]
    n_bytes = 4 * ((3 * lanes - 1) * stride + 1)
    memory = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for protected in (start, start + 2 * page):
        assert libc.mprotect(ctypes.c_void_p(protected), ctypes.c_size_t(page), _PROT_NONE) == 0
    try:
        for offset in (page, 2 * page - n_bytes):
            elements = (ctypes.c_float * (n_bytes // 4)).from_address(start + offset)
            a = np.frombuffer(elements, "float32")
            a[:] = np.arange(len(a))
            native = np.zeros(3 * lanes, "float32")
            func(a, native)
            np.testing.assert_array_equal(native, a[::stride])
    finally:
        for protected in (start, start + 2 * page):
            libc.mprotect(ctypes.c_void_p(protected), ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE)


@pytest.mark.parametrize(
    ("lanes", "loads"),
    [
        ("T.Broadcast(i, 8) + T.Ramp(0, 1, 8) // T.Broadcast(4, 8) * T.Broadcast(4, 8)", 2),
        ("T.Broadcast(i * 2, 8) + T.Ramp(0, 1, 8) // T.Broadcast(2, 8) * T.Broadcast(3, 8)", 4),
        ("T.Broadcast(9 - i, 8) - T.Ramp(0, 1, 8) % T.Broadcast(3, 8)", 3),
        ("T.Ramp(0, 1, 8) // T.Broadcast(4, 8) + T.Broadcast(2, 8)", 2),
        ("T.Ramp(0, 1, 8) % T.Broadcast(5, 8) + T.Broadcast(i, 8)", None),  # too many to be loaded one by one
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16", "int64"])
def test_elements_that_lanes_share(lanes: str, loads: int | None, dtype: str) -> None:
    """As the channels of grouped convolutions do."""
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((16,), "{dtype}"), B: T.Buffer((32,), "{dtype}")):
    for i in range(4):
        B[i * 8:i * 8 + 8] = A[{lanes}]
""")
    a = (np.arange(16) % 7 % 2 if dtype == "bool" else np.arange(16)).astype(dtype)
    expected, native = np.zeros(32, dtype), np.zeros(32, dtype)
    interpreter.run(func, a, expected)
    kernel = build(func)
    kernel["main"](a, native)
    np.testing.assert_array_equal(native, expected)
    text = kernel.llvm_ir
    scalar_loads = sum("= load " in line and "<" not in line for line in text.splitlines())
    assert scalar_loads == loads or loads is None
    assert ("extractelement" in text) is (loads is None)
