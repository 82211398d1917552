"""What kernels are called in object files: no name of a kernel is taken for a function that the kernel or the runtime calls."""

import ctypes
import ctypes.util
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ir import tir
from ir.codegen.build import build
from ir.codegen.llvm.symbols import c_symbol, reserved_symbols
from ir.codegen.llvm.vector_math import CALLED_OF_LIBM, arity
from ir.module import IRModule
from ir.script.parser import from_source

_LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
_LENGTH = 4


def _of_libm(name: str) -> Callable[..., float]:
    function = getattr(_LIBM, name)
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_double] * arity(name)
    return function  # type: ignore[no-any-return]


def _kernel(function: str, dtype: str, symbol: str) -> tir.PrimFunc:
    a, b, c = (tir.decl_buffer((_LENGTH,), dtype, name) for name in "ABC")
    i = tir.Var("i", "int32")
    args = [a[i], b[i]][: arity(function)]
    store = tir.BufferStore(c, getattr(tir, function)(*args), [i])
    body = tir.For(i, 0, _LENGTH, tir.ForKind.SERIAL, store)
    return _function([a, b, c], body, symbol)


def _function(buffers: list[tir.Buffer], body: tir.Stmt, symbol: str) -> tir.PrimFunc:
    params = [tir.Var(f"{buffer.name}_handle", "handle") for buffer in buffers]
    func = tir.PrimFunc(params, body, buffer_map=dict(zip(params, buffers, strict=True)))
    return func.with_attr("global_symbol", symbol)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", sorted(CALLED_OF_LIBM))
def test_a_kernel_may_be_called_as_the_function_that_it_calls(function: str, dtype: str) -> None:
    first = np.array([1.25, 1.5, 1.75, 3.0] if function == "acosh" else [0.125, 0.25, 0.5, 0.75], dtype)
    second = np.array([0.5, 2.0, 0.25, 1.5], dtype)
    reference = _of_libm(function)
    expected = [reference(*map(float, pair[: arity(function)])) for pair in zip(first, second, strict=True)]
    for symbol in (function, f"{function}f"):
        result = np.zeros(_LENGTH, dtype)
        build(_kernel(function, dtype, symbol))[symbol](first, second, result)
        np.testing.assert_allclose(result, expected, 1e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("symbol", ["sin", "cos", "tan"])
def test_a_kernel_may_be_called_as_what_is_asked_of_large_numbers(symbol: str) -> None:
    large = np.array([1e13, 2e15, 3e20, 1e30], "float32")
    result = np.zeros(_LENGTH, "float32")
    build(_kernel(symbol, "float32", symbol))[symbol](large, large, result)
    expected = [getattr(math, symbol)(float(item)) for item in large]
    np.testing.assert_allclose(result, expected, 1e-6)


def test_every_function_that_code_may_call_is_reserved() -> None:
    assert {"erf", "log1p", "expm1", "hypotf", "erfcf", "acosh", "powf"} <= reserved_symbols()
    assert {"memcpy", "loopsmith_set_error", "pthread_create", "syscall", "free"} <= reserved_symbols()
    assert c_symbol("sigmoid") == "sigmoid" and c_symbol("matmul") == "matmul"
    assert not any(name.startswith("llvm.") or name == "worker" for name in reserved_symbols())


@pytest.mark.parametrize("name", ["getpid", "loopsmith_set_error", "aligned_alloc", "_init"])
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a linker")
def test_an_exported_kernel_may_be_called_as_what_the_runtime_calls(name: str, tmp_path: Path) -> None:
    path = tmp_path / "kernels.so"
    native = build(_kernel("hypot", "float64", name))
    native.export_library(path, header=tmp_path / "kernels.h")
    symbol = native.signatures[name].symbol
    assert f"{symbol}(" in (tmp_path / "kernels.h").read_text()
    first, second, result = np.array([3.0, 5, 8, 7]), np.array([4.0, 12, 15, 24]), np.zeros(_LENGTH)
    called = getattr(ctypes.CDLL(str(path)), symbol)
    assert called(*(ctypes.c_void_p(item.ctypes.data) for item in (first, second, result))) == 0
    np.testing.assert_array_equal(result, [5, 13, 17, 25])
    native[name](first, first, result)
    np.testing.assert_allclose(result, first * math.sqrt(2))


def _storing(number: int, name: str) -> tir.PrimFunc:
    buffer = tir.decl_buffer((1,), "int32", "A")
    return _function([buffer], tir.BufferStore(buffer, tir.const(number, "int32"), [0]), name)


def test_kernels_of_one_module_have_symbols_of_their_own() -> None:
    names = ["erf", "loopsmith_erf", "conv-1", "conv.1", "conv_1", "loopsmith_conv_1"]
    native = build(IRModule({f"f{i}": _storing(i, name) for i, name in enumerate(names)}))
    assert len({item.symbol for item in native.signatures.values()}) == len(names)
    assert native.signatures["loopsmith_erf"].symbol == "loopsmith_erf"
    for i, name in enumerate(names):
        found = np.full(1, -1, "int32")
        native[name](found)
        assert found[0] == i


def test_a_kernel_may_be_called_as_what_is_defined_where_code_is_loaded() -> None:
    """LLVM defines ``atexit`` beside all code: there were two."""
    found = np.zeros(1, "int32")
    build(_storing(7, "atexit"))["atexit"](found)
    assert found[0] == 7


def test_a_kernel_may_be_called_as_the_external_function_that_it_calls() -> None:
    func = from_source("""
@T.prim_func
def toupper(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        B[i] = T.call_extern("int32", "toupper", A[i])
""")
    letters = np.frombuffer(b"az09", "uint8").astype("int32")
    result = np.zeros(4, "int32")
    build(func)["toupper"](letters, result)
    assert bytes(result.astype("uint8")) == b"AZ09"
