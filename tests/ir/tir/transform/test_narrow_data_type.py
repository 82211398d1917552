"""NarrowDataType: 64-bit loops become 32-bit ones where everything fits."""

import pytest

from ir import IRModule, IRValueError, tir
from ir.node import post_order_visit
from ir.script import tir as T


@T.prim_func
def wide(A: T.Buffer((64,), "float32")):
    for i in range(T.int64(16)):
        if i < T.int64(10):
            A[i * T.int64(4)] = T.Cast("float32", i)


def dtypes(func):
    found = set()
    post_order_visit(func.body, lambda n: found.add(n.loop_var.dtype) if isinstance(n, tir.For) else None)
    return found


def test_loops_and_indices(apply):
    after = apply(tir.transform.NarrowDataType(32), wide)
    assert dtypes(wide) == {"int64"}
    assert dtypes(after) == {"int32"}
    assert apply(tir.transform.NarrowDataType(64), wide) is wide


def test_what_does_not_fit_stays():
    @T.prim_func
    def huge(A: T.Buffer((1,), "float32")):
        for _i in range(T.int64(4294967296)):
            A[0] = T.float32(0)

    module = IRModule({"main": huge})
    assert dtypes(tir.transform.NarrowDataType(32)(module)["main"]) == {"int64"}


def test_other_widths_are_refused():
    with pytest.raises(IRValueError, match="target_bits=16"):
        tir.transform.NarrowDataType(16)(IRModule({"main": wide}))


def test_bounds_of_a_loop_have_the_dtype_of_its_variable(apply):
    @T.prim_func
    def before(A: T.Buffer((13,), "int32"), n: T.int32):
        for i in range(T.Cast("int64", n)):
            A[i] = 1

    loop = apply(tir.transform.NarrowDataType(32), before).body
    assert (loop.loop_var.dtype, loop.min.dtype, loop.extent.dtype) == ("int32", "int32", "int32")
