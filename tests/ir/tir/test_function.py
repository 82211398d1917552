"""What a PrimFunc says of itself."""

from __future__ import annotations

import pytest

import ir
from ir import relax, tir
from ir.error import IRValueError
from ir.script import tir as T
from ir.span import SourceName, Span


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


def test_a_body_may_come_from_another_place() -> None:
    func = tir.PrimFunc([], tir.Evaluate(tir.const(0)), span=Span(SourceName("a.py"), 1, 1, 0, 0))
    body = tir.Evaluate(tir.const(1))
    there = Span(SourceName("b.py"), 7, 7, 0, 0)
    assert func.with_body(body).span is func.span and func.with_body(body, there).span is there
    pointer = tir.decl_buffer((4,), "float32").access_ptr("r", "int64")
    assert pointer.dtype == "int64"


def test_a_name_is_no_variable_to_specialize() -> None:
    @T.prim_func
    def func(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            A[i] = T.float32(0)

    with pytest.raises(
        IRValueError, match=r"'n' is no parameter .*; pass the variable, as in .*, and not its name"
    ):
        func.specialize({"n": 8})
    (shape,) = func.specialize({func.buffer_map[func.params[0]].shape[0]: 8}).buffer_map.values()
    assert shape.shape[0].value == 8
