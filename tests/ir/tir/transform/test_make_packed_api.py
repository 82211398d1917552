"""MakePackedAPI: what is checked, by the interpreter and by native code; what is returned; calls within a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import IRModule
from ir.codegen.build import build
from ir.codegen.entry import KernelError
from ir.codegen.packed_call import call_with_packed_arguments
from ir.dtype import to_numpy
from ir.script import from_source
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import InterpreterError, run
from ir.tir.interpreter.structs import PackedArguments
from ir.tir.kernel_launch import is_kernel
from ir.tir.lower import lower
from ir.tir.transform import MakePackedAPI

Call = Callable[..., Any]


def interpreted(module: IRModule, *args: Any, name: str = "main") -> Any:
    """A call of a packed function in the interpreter."""
    given, result, code = PackedArguments(args), PackedArguments([None]), np.zeros(1, "int32")
    run(module, given, given.type_codes, len(args), result, code, None, name=name)
    return None if code[0] == 4 else result.values[0]


def native(module: IRModule, *args: Any, name: str = "main") -> Any:
    """The same in native code."""
    return call_with_packed_arguments(build(module, "llvm")[name], *args)


both = pytest.mark.parametrize("call", [interpreted, native], ids=["interpreted", "native"])


def packed(func: PrimFunc) -> IRModule:
    return MakePackedAPI()(IRModule({"main": func.with_attr("global_symbol", "main")}))


@T.prim_func
def scaled(a: T.handle, k: T.int32, c: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int32()
    A = T.match_buffer(a, (n, 4), "float32")
    C = T.match_buffer(c, (4, n), "float32")
    for i, j in T.grid(n, 4):
        with T.block("scale"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj, vi] = A[vi, vj] * T.Cast("float32", k)


def test_form() -> None:
    module = packed(scaled)
    main, compute = module["main"], module["main_compute_"]
    assert [param.name for param in main.params] == [
        "args", "arg_type_ids", "num_args", "out_ret_value", "out_ret_tcode", "resource_handle"
    ]  # fmt: skip
    assert main.attrs["calling_conv"] == 1 and main.attrs["global_symbol"] == "main" and not main.buffer_map
    assert [param.dtype for param in compute.params] == ["handle", "int32", "handle", "int32"]
    assert "global_symbol" not in compute.attrs and compute.attrs["tir.noalias"]
    text = main.script()
    for part in (
        'assert num_args == 3, "main: num_args should be 3"',
        'n: T.int32 = T.Cast("int32", A_shape_1[0])',
        '"main: strides[1] of C should be dense"',
        "main_compute_(A, k, C, n)",
    ):
        assert part in text, part
    assert MakePackedAPI()(module) is module


@both
def test_symbols_get_their_values(call: Call) -> None:
    a, c = np.arange(12, dtype="float32").reshape(3, 4), np.zeros((4, 3), "float32")
    assert call(packed(scaled), a, 3, c) is None
    np.testing.assert_array_equal(c, a.T * 3)


@both
@pytest.mark.parametrize(
    ("args", "says"),
    [
        (lambda a, c: (a, 3), "num_args should be 3"),
        (lambda a, c: (a, 3.0, c), r"arg\[1\] \(k\) to be int32, an integer"),
        (lambda a, c: (a, 1 << 40, c), r"arg\[1\] \(k\) to be int32, of -2147483648 to 2147483647"),
        (lambda a, c: (5, 3, c), r"arg\[0\] \(A\) to be a tensor"),
        (lambda a, c: (None, 3, c), r"arg\[0\] \(A\) to be a tensor"),
        (lambda a, c: (a.reshape(-1), 3, c), r"arg\[0\] \(A\) to have 2 dimensions"),
        (lambda a, c: (a.astype("float64"), 3, c), r"arg\[0\] \(A\) to be of float32"),
        (lambda a, c: (a.view("int32"), 3, c), r"arg\[0\] \(A\) to be of float32"),
        (lambda a, c: (a, 3, np.zeros((4, 2), "float32")), r"shape\[1\] of C should be n"),
        (lambda a, c: (a[:, :3].copy(), 3, c), r"shape\[1\] of A should be 4"),
        (lambda a, c: (np.zeros((3, 8), "float32")[:, ::2], 3, c), r"strides\[1\] of A should be dense"),
        (lambda a, c: (np.zeros((6, 4), "float32")[::2], 3, c), r"strides\[0\] of A should be dense"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_anything_runs(call: Call, args: Any, says: str) -> None:
    a, c = np.ones((3, 4), "float32"), np.zeros((4, 3), "float32")
    with pytest.raises((KernelError, InterpreterError), match=f"main: .*{says}"):
        call(packed(scaled), *args(a, c))
    assert not c.any()


@both
def test_strides_offsets_and_scalars_are_symbols(call: Call) -> None:
    @T.prim_func
    def main(a: T.handle, n: T.int64, c: T.handle, x: T.float32, flag: T.bool):
        s = T.int64()
        A = T.match_buffer(a, (n,), "int16", strides=[s])
        C = T.match_buffer(c, (n,), "float32")
        for i in range(n):
            C[i] = T.Cast("float32", A[i]) * T.if_then_else(flag, x, T.float32(-1))

    whole = np.arange(20, dtype="int16")
    c = np.zeros(5, "float32")
    call(packed(main), whole[::4], 5, c, 0.5, True)
    np.testing.assert_array_equal(c, whole[::4] * np.float32(0.5))
    with pytest.raises((KernelError, InterpreterError), match=r"shape\[0\] of A should be n"):
        call(packed(main), whole[::4], 6, np.zeros(6, "float32"), 0.5, True)


@both
@pytest.mark.parametrize(("dtype", "value"), [("int32", 41), ("float32", 2.5), ("float16", 0.5), ("bool", 1)])
def test_results_are_handed_over(call: Call, dtype: str, value: float) -> None:
    func = from_source(f"""
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer((2,), "{dtype}")) -> T.{dtype}:
    return A[1]
""")
    assert call(packed(func), np.array([0, value]).astype(to_numpy(dtype))) == value


@both
def test_empty_tensors_are_tensors(call: Call) -> None:
    call(packed(scaled), np.zeros((0, 4), "float32"), 1, np.zeros((4, 0), "float32"))


MODULE = """
from ir.script import ir as I, tir as T
@I.ir_module
class Module:
    @T.prim_func
    def add_one(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "add_one"})
        for i in range(4):
            A[i] = A[i] + T.float32(1)

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        Module.add_one(A.data)
        Module.add_one(A.data)
"""


@both
def test_calls_within_the_module_go_to_what_computes(call: Call) -> None:
    module = MakePackedAPI()(from_source(MODULE))
    a = np.zeros(4, "float32")
    call(module, a)
    call(module, a, name="add_one")
    assert a.tolist() == [3] * 4


def test_kernels_stay_and_their_hosts_want_tensors_of_the_device() -> None:
    @T.prim_func
    def main(A: T.Buffer((32,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in T.thread_binding(32, thread="threadIdx.x"):
            A[i] = T.float32(1)

    lowered = lower(main, Target("nvidia/nvidia-a100"))
    module = MakePackedAPI()(lowered)
    kernels = [func for func in lowered.functions.values() if is_kernel(func)]
    assert [func for func in module.functions.values() if is_kernel(func)] == kernels
    with pytest.raises(InterpreterError, match=r"arg\[0\] \(A\) to lie on a device of type 2"):
        interpreted(module, np.zeros(32, "float32"))


@both
def test_lowered_functions_compute_the_same(call: Call) -> None:
    module = MakePackedAPI()(lower(scaled.with_attr("global_symbol", "main"), "llvm"))
    a, c = np.arange(8, dtype="float32").reshape(2, 4), np.zeros((4, 2), "float32")
    call(module, a, 2, c)
    np.testing.assert_array_equal(c, a.T * 2)


@both
@pytest.mark.parametrize(
    ("dtype", "right", "wrong"),
    [
        ("uint64", [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1], [-1, -(1 << 63)]),
        ("int64", [-(1 << 63), -1, (1 << 63) - 1], [1 << 63, (1 << 64) - 1]),
        ("int32", [-(1 << 31), -1], [1 << 31, (1 << 64) - 1]),
        ("uint8", [255], [-1, 256, (1 << 64) - 1]),
    ],
)
def test_integers_at_the_ends_of_each_width(
    call: Call, dtype: str, right: list[int], wrong: list[int]
) -> None:
    """The 8 bytes of -1 and of 2 ** 64 - 1 are the same; what the caller says that they are tells them apart."""
    same = from_source(
        f"""
@T.prim_func
def main(x: T.{dtype}) -> T.{dtype}:
    return x
"""
    )
    module = packed(same)
    assert [int(call(module, item)) for item in right] == right
    for item in wrong:
        with pytest.raises((KernelError, InterpreterError), match=rf"to be {dtype}, of -?\d+ to \d+"):
            call(module, item)
