"""Host functions: allocations become calls; elements are the device's."""

from __future__ import annotations

import pytest

from ir import IRModule, assert_structural_equal
from ir.script import tir as T
from runners import RunnerError
from runners.cuda.host import host_functions


def _host(func):
    (made,) = host_functions(IRModule({"main": func})).functions.values()
    return made


def test_an_allocation_is_a_number_that_calls_give_and_take_back():
    @T.prim_func
    def before(A: T.Buffer((128,), "float32")):
        B = T.allocate([128], "float32", "global")
        T.call_packed("main_kernel", B, A.data, 4, 32)

    @T.prim_func
    def after(A: T.Buffer((128,), "float32")):
        B: T.int64 = T.call_packed("loopsmith.cuda.allocate", T.int64(512), dtype="int64")
        T.call_packed("main_kernel", B, A.data, 4, 32)
        T.call_packed("loopsmith.cuda.free", B)

    assert_structural_equal(_host(before).body, after.body, map_free_vars=True)


def test_elements_are_refused_by_name():
    @T.prim_func
    def stores(A: T.Buffer((128,), "float32")):
        A[3] = T.float32(1)

    @T.prim_func
    def loads(A: T.Buffer((128,), "int32")):
        T.call_packed("main_kernel", A.data, A[0], 32)

    for func in (stores, loads):
        with pytest.raises(RunnerError, match="main: the host's code accesses A, which lies on the device"):
            _host(func)


def test_memory_of_blocks_is_no_memory_of_the_host():
    @T.prim_func
    def shared(A: T.Buffer((128,), "float32")):
        B = T.allocate([128], "float32", "shared")
        T.call_packed("main_kernel", B, A.data, 4, 32)

    with pytest.raises(RunnerError, match="B is shared memory"):
        _host(shared)


def test_kernels_alone_are_refused():
    with pytest.raises(RunnerError, match="the module has kernels only"):
        host_functions(IRModule({}))
