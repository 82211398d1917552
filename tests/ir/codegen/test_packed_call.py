"""What packed functions are called with: structures that say what arrays are."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, tir
from ir.codegen.build import build
from ir.codegen.entry import KernelError
from ir.codegen.error import CodegenError
from ir.codegen.packed_call import call_with_packed_arguments
from ir.dlpack_layout import tensor_struct
from ir.dtype import to_numpy
from ir.script import tir as T
from ir.tir.transform import MakePackedAPI


def test_structures_of_arrays() -> None:
    array = np.zeros((3, 4), "float32")
    struct, kept = tensor_struct(array)
    assert (struct.ndim, struct.code, struct.bits, struct.lanes, struct.strides) == (2, 2, 32, 1, None)
    assert kept[1].tolist() == [3, 4] and struct.data == array.ctypes.data
    struct, kept = tensor_struct(array[:, ::2])
    assert struct.strides == kept[2].ctypes.data and kept[2].tolist() == [4, 2]
    assert tensor_struct(np.zeros(1, to_numpy("bfloat16")))[0].code == 4
    assert (tensor_struct(np.zeros(1, bool))[0].code, tensor_struct(np.zeros(1, bool))[0].bits) == (6, 8)


def test_numbers_and_addresses() -> None:
    @T.prim_func
    def main(x: T.float64, p: T.handle, k: T.int64) -> T.float64:
        T.func_attr({"global_symbol": "main"})
        return x * T.Cast("float64", k) + T.if_then_else(T.isnullptr(p), T.float64(1), T.float64(0))

    function = build(MakePackedAPI()(IRModule({"main": main})), "llvm")["main"]
    assert call_with_packed_arguments(function, 0.5, None, 1 << 40) == (1 << 39) + 1
    with pytest.raises(KernelError, match=r"main: expects arg\[0\] \(x\) to be float64, a float"):
        call_with_packed_arguments(function, 1, None, 1)


def test_a_field_has_its_dtype() -> None:
    p = tir.Var("p", "handle")
    get = tir.op.tvm_struct_get(p, 0, 4, "int64")
    func = tir.PrimFunc([p], tir.Evaluate(tir.op.ret(get)))
    with pytest.raises(CodegenError, match="this field is of int32"):
        build(func, "llvm")


def test_unsigned_numbers_keep_all_of_their_bits() -> None:
    @T.prim_func
    def main(x: T.uint64) -> T.uint64:
        T.func_attr({"global_symbol": "main"})
        return x

    function = build(MakePackedAPI()(IRModule({"main": main})), "llvm")["main"]
    for number in (0, 1 << 63, (1 << 64) - 1):
        assert call_with_packed_arguments(function, number) == number
