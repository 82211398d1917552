"""What a PrimFunc says of itself."""

from __future__ import annotations

import ir
from ir import relax
from ir.script import tir as T


def test_struct_info_of_scalars() -> None:
    @T.prim_func
    def func(m: T.int32, n: T.int32) -> T.int32:
        T.ret(m * n)

    expected = relax.FuncStructInfo(
        [relax.PrimStructInfo("int32")] * 2, relax.PrimStructInfo("int32"), purity=True
    )
    ir.assert_structural_equal(func.struct_info, expected)


def test_struct_info_of_buffers_that_are_read() -> None:
    @T.prim_func
    def func(A: T.Buffer([16, 16], "float32"), p: T.handle) -> T.float32:
        B = T.decl_buffer((4,), "float32")
        B[0] = A[0, 0]
        T.ret(B[0])

    expected = relax.FuncStructInfo(
        [relax.TensorStructInfo([16, 16], "float32"), relax.ObjectStructInfo()],
        relax.PrimStructInfo("float32"),
        purity=True,
    )
    ir.assert_structural_equal(func.struct_info, expected)


def test_struct_info_of_a_function_that_writes() -> None:
    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = A[i]

    tensor = relax.TensorStructInfo([16], "float32")
    ir.assert_structural_equal(
        func.struct_info, relax.FuncStructInfo([tensor, tensor], relax.TupleStructInfo([]), purity=False)
    )


def test_name() -> None:
    @T.prim_func
    def func():
        T.evaluate(0)

    assert func.__name__ == "func"
    assert func.without_attr("global_symbol").__name__ == "main"
