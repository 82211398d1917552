"""MakeUnpackedAPI: addresses in place of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule
from ir.codegen.build import build
from ir.error import IRValueError
from ir.script import tir as T
from ir.tir.interpreter import run
from ir.tir.transform import MakeUnpackedAPI


@T.prim_func
def filled(A: T.Buffer((16,), "float32"), k: T.int32):
    T.func_attr({"global_symbol": "main"})
    for i in range(k):
        A[i] = T.float32(2)


def test_parameters_are_addresses() -> None:
    after = MakeUnpackedAPI()(IRModule({"main": filled}))["main"]
    assert not after.buffer_map and [param.dtype for param in after.params] == ["handle", "int32"]
    assert after.params[0].type_annotation.element_type.dtype == "float32"
    found = np.zeros(16, "float32")
    run(after, found, 5)
    assert found.tolist() == [2.0] * 5 + [0.0] * 11
    again = np.zeros(16, "float32")
    build(after, "llvm")["main"](again, 7)
    assert again.sum() == 14


def test_private_functions_stay() -> None:
    module = IRModule({"main": filled.without_attr("global_symbol")})
    assert MakeUnpackedAPI()(module) is module


def test_extents_that_nothing_tells_are_refused() -> None:
    @T.prim_func
    def main(a: T.handle):
        T.func_attr({"global_symbol": "main"})
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        A[0] = T.float32(0)

    with pytest.raises(IRValueError, match="function main: no parameter tells n"):
        MakeUnpackedAPI()(IRModule({"main": main}))


def test_extents_that_a_parameter_tells_are_taken() -> None:
    @T.prim_func
    def main(a: T.handle, n: T.int32):
        T.func_attr({"global_symbol": "main"})
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            A[i] = T.float32(3)

    found = np.zeros(3, "float32")
    run(MakeUnpackedAPI()(IRModule({"main": main}))["main"], found, 3)
    assert found.tolist() == [3] * 3
