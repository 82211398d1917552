"""ForceNarrowIndexToInt32: loops and indices have 32 bits, or the function is refused."""

import pytest

from ir import IRModule, tir
from ir.error import IRValueError
from ir.script import tir as T


def test_loops_and_indices_become_narrow(check):
    @T.prim_func
    def before(A: T.Buffer((64,), "float32")):
        for i in range(T.int64(16)):
            A[i * T.int64(4)] = A[i] + T.float32(1)

    @T.prim_func
    def after(A: T.Buffer((64,), "float32")):
        for i in range(16):
            A[i * 4] = A[i] + T.float32(1)

    check(tir.transform.ForceNarrowIndexToInt32(), before, after)


def test_what_does_not_fit_is_refused():
    @T.prim_func
    def huge(A: T.Buffer((1,), "float32")):
        for i in range(T.int64(4294967296)):
            A[0] = T.float32(0)

    with pytest.raises(IRValueError, match="ForceNarrowIndexToInt32: loop i does not fit into int32"):
        tir.transform.ForceNarrowIndexToInt32()(IRModule({"main": huge}))
