"""RemoveStoreUndef: stores of what is undefined go."""

import pytest

import ir
from ir import tir
from ir.error import IRValueError
from ir.script import tir as T


def test_stores_of_nothing_disappear(check):
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        A[0] = T.undef()
        x: T.int32 = T.undef()
        A[1] = x + 1
        A[2] = 3

    @T.prim_func
    def after(A: T.Buffer((4,), "int32")):
        A[2] = 3

    check(tir.transform.RemoveStoreUndef(), before, after, False)

    @T.prim_func
    def wrong(A: T.Buffer((4,), "int32")):
        A[T.undef()] = 3

    with pytest.raises(IRValueError, match="A is stored to at an undefined index"):
        tir.transform.RemoveStoreUndef()(ir.IRModule({"main": wrong}))
