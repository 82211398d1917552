"""Compiled CUDA programs: calls with arrays on devices, refusals, allocations of host functions, code and sources."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest

import ir
import runners
from ir.codegen.entry import KernelError
from ir.codegen.error import CodegenError
from ir.script import tir as T
from runners import EvaluatorConfig, array, cuda, empty
from runners.cuda import time_evaluator
from runners.cuda.context import context
from runners.cuda.driver import Driver
from runners.cuda.memory import allocator
from runners.cuda.module import CudaModule, build_module
from tests.runners.cuda import programs


@pytest.fixture(scope="module")
def turned(device_library) -> CudaModule:
    return build_module(programs.bound(programs.turned, "twice", "turn"), programs.TARGET)


@pytest.fixture(scope="module")
def scaled(device_library) -> CudaModule:
    return build_module(programs.bound(programs.scaled, "scale"), programs.TARGET)


VALUES = np.arange(128, dtype=np.float32)


@pytest.mark.parametrize("index", [0, 1])
def test_a_call_writes_its_outputs_on_the_device_of_its_arguments(turned, index):
    a, c = array(VALUES, cuda(index)), empty((128,), "float32", cuda(index))
    turned["turned"](a, c)
    assert not context(index).stream.done  # nobody has waited yet
    np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))
    turned(c, a)
    np.testing.assert_array_equal(a.numpy(), programs.turned_values(programs.turned_values(VALUES)))


def test_what_host_functions_allocate_is_memory_of_the_device_and_goes_back(turned):
    a, c, pool = array(VALUES, cuda(0)), empty((128,), "float32", cuda(0)), allocator(0)
    turned(a, c)
    before = pool.used
    turned(a, c)
    assert pool.used == before
    assert "loopsmith.cuda.allocate" in {site.function for site in turned.host.packed_sites}


def test_a_bound_call_keeps_what_its_kernels_hand_over(turned):
    a, c, pool = array(VALUES, cuda(0)), empty((128,), "float32", cuda(0)), allocator(0)
    before = pool.used
    call = turned["turned"].bind(a, c)
    assert pool.used > before
    others = [
        array(np.full(128, 5, "float32"), cuda(0)) for _ in range(4)
    ]  # of the size that was freed, if it was
    call()
    np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))
    for other in others:
        np.testing.assert_array_equal(other.numpy(), 5)


def test_numbers_and_symbolic_extents(scaled):
    for n in (1, 32, 1000):
        a, c = array(np.arange(n, dtype=np.float32), cuda(0)), empty((n,), "float32", cuda(0))
        scaled(a, c, 2.5)
        np.testing.assert_array_equal(c.numpy(), np.arange(n) * 2.5)
    nothing = empty((0,), "float32", cuda(0))
    scaled(nothing, nothing, 1.0)


def test_a_bound_call_is_repeated_and_timed(turned):
    a, c = array(VALUES, cuda(0)), empty((128,), "float32", cuda(0))
    call = turned["turned"].bind(a, c)
    assert [launch.name for launch in call.launches] == ["main_kernel", "main_kernel1"]
    call()
    np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))
    a.copyfrom(VALUES + 1)
    assert call.time_calls(3) > 0 and call.time_flushed_calls(2) > 0
    np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES + 1))


def test_a_bound_call_makes_as_many_calls_as_it_is_asked_for(device_library):
    @T.prim_func
    def count(A: T.Buffer((1,), "int32")):
        for i in T.thread_binding(1, "threadIdx.x"):
            with T.block("count"):
                vi = T.axis.spatial(1, i)
                A[vi] = A[vi] + 1

    a = array(np.zeros(1, np.int32), cuda(0))
    call = build_module(count, programs.TARGET)["count"].bind(a)
    call.time_calls(1300)
    assert a.numpy()[0] == 1300


def test_own_memory_is_filled_where_that_is_asked_for(turned):
    a, c = array(VALUES, cuda(0)), empty((128,), "float32", cuda(0))
    turned["turned"].call_filled(0xFF, a, c)
    np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))


def test_arguments_are_checked(turned, scaled):
    a, c = array(VALUES, cuda(0)), empty((128,), "float32", cuda(0))
    with pytest.raises(
        KernelError, match=r"turned: argument A is on the processor; copy it with runners\.array"
    ):
        turned(VALUES, c)
    with pytest.raises(KernelError, match=r"argument C is on cuda\(1\), others are on cuda\(0\)"):
        turned(a, empty((128,), "float32", cuda(1)))
    with pytest.raises(KernelError, match="argument A must be float32, got float64"):
        turned(array(VALUES.astype("float64"), cuda(0)), c)
    with pytest.raises(KernelError, match=r"argument C must have shape \(128,\), got \(64,\)"):
        turned(a, c[:64])
    with pytest.raises(KernelError, match="argument A must be contiguous"):
        turned(array(np.zeros(256, np.float32), cuda(0))[::2], c)
    with pytest.raises(KernelError, match="begins at an address that is no multiple of 16 bytes"):
        scaled(empty((129,), "float32", cuda(0))[1:], empty((128,), "float32", cuda(0)), 1.0)
    with pytest.raises(KernelError, match="takes 2 arguments"):
        turned(a)
    with pytest.raises(KernelError, match="arguments A and C overlap and C is written"):
        turned(a, a)
    with pytest.raises(KernelError, match="no kernel 'other'; there are: turned"):
        turned["other"]


def test_functions_of_the_module_win_over_registered_ones(turned):
    called = []
    ir.register_func("main_kernel", lambda *args: called.append(args))
    try:
        a, c = array(VALUES, cuda(0)), empty((128,), "float32", cuda(0))
        turned(a, c)
        np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))
    finally:
        ir.registry.remove_global_func("main_kernel")
    assert called == []


def test_a_module_travels(turned):
    again = pickle.loads(pickle.dumps(turned))
    a, c = array(VALUES, cuda(1)), empty((128,), "float32", cuda(1))
    again(a, c)
    np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))


def test_what_is_done_outside_of_kernels_is_refused(device_library):
    with pytest.raises(CodegenError, match=r"turned: the host's code accesses \w+, .* bind the loops"):
        build_module(programs.turned, programs.TARGET)
    with pytest.raises(runners.RunnerError, match="built for targets of kind 'cuda', got llvm"):
        build_module(programs.turned, "llvm")


def test_too_much_shared_memory_is_refused_by_name(device_library):
    @T.prim_func
    def greedy(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
        S = T.alloc_buffer((50000,), "float32", scope="shared.dyn")
        for b in T.thread_binding(1, "blockIdx.x"):
            for i in T.thread_binding(32, "threadIdx.x"):
                with T.block("put"):
                    vi = T.axis.spatial(32, b * 32 + i)
                    S[vi * 1500] = A[vi]
            for i in T.thread_binding(32, "threadIdx.x"):
                with T.block("take"):
                    vi = T.axis.spatial(32, b * 32 + i)
                    C[vi] = S[(31 - vi) * 1500]

    module = build_module(greedy, "nvidia/h200")  # whose blocks have more than those of this device
    a, c = array(np.ones(32, np.float32), cuda(0)), empty((32,), "float32", cuda(0))
    with pytest.raises(
        runners.cuda.driver.CudaError,
        match=r"kernel greedy_kernel asks for \d+ bytes of shared memory, and cuda\(0\)",
    ):
        module(a, c)
    assert a.numpy()[0] == 1  # the device can still be used


def test_shared_memory_of_several_kernels_is_the_devices(device_library):
    @T.prim_func
    def apart(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
        S = T.alloc_buffer((32,), "float32", scope="shared")
        for i in T.thread_binding(32, "threadIdx.x"):
            with T.block("put"):
                vi = T.axis.spatial(32, i)
                S[vi] = A[vi]
        for i in T.thread_binding(32, "threadIdx.x"):
            with T.block("take"):
                vi = T.axis.spatial(32, i)
                C[vi] = S[31 - vi]

    given = np.arange(32, dtype="float32")
    a, c = array(given, cuda(0)), empty((32,), "float32", cuda(0))
    build_module(apart, programs.TARGET)(a, c)
    np.testing.assert_array_equal(c.numpy(), given[::-1])


def test_sources_and_resources(turned, nvrtc):
    assert "__global__" in turned.source() and ".entry main_kernel" in turned.source("ptx")
    assert "define" in turned.source("llvm")
    assert turned.resources["main_kernel1"].registers > 0
    with pytest.raises(runners.RunnerError, match="sources 'cuda', 'ptx' and 'llvm', not 'c'"):
        turned.source("c")


@pytest.mark.parametrize("flush", [False, True])
def test_a_function_is_timed(turned, flush):
    a, c = array(VALUES, cuda(0)), empty((128,), "float32", cuda(0))
    config = EvaluatorConfig(repeat=3, min_repeat_ms=1, enable_cpu_cache_flush=flush)
    secs = time_evaluator(turned["turned"], a, c, config=config)
    assert len(secs) == 3 and all(0 < item < 1 for item in secs)
    np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))


def test_code_leaves_the_device_with_the_last_that_uses_it(device_library, monkeypatch):
    gc.collect()  # what other tests have left
    called = []
    status = Driver.status
    monkeypatch.setattr(
        Driver, "status", lambda self, name, *args: called.append(name) or status(self, name, *args)
    )
    a, c = array(VALUES, cuda(0)), empty((128,), "float32", cuda(0))
    module = build_module(programs.bound(programs.turned, "twice", "turn"), programs.TARGET)
    call = module["turned"].bind(a, c)
    del module
    gc.collect()
    assert "cuModuleUnload" not in called
    call.start()
    del call
    gc.collect()
    assert "cuModuleUnload" in called
    np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))


def test_what_was_built_for_cuda_is_run(device_library):
    built = ir.build(programs.bound(programs.turned, "twice", "turn"), programs.TARGET)
    module = build_module(built)
    a, c = array(VALUES, cuda(0)), empty((128,), "float32", cuda(0))
    module["turned"](a, c)
    np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))
    assert [item.stored for item in module.host.signatures["turned"].parameters] == [False, True]
    assert module.source() == built.source()


def test_code_that_takes_the_place_of_other_code_is_its_own(device_library):
    a, c = array(VALUES, cuda(0)), empty((128,), "float32", cuda(0))
    for _ in range(2):
        module = build_module(programs.bound(programs.turned, "twice", "turn"), programs.TARGET)
        module(a, c)
        np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))
        module = build_module(programs.bound(programs.scaled, "scale"), programs.TARGET)
        module(a, c, 3.0)
        np.testing.assert_array_equal(c.numpy(), VALUES * 3)
        del module
        gc.collect()
