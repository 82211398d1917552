"""The thread pool: every index exactly once, errors, nesting, several callers, fork; workspaces; last error."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from ir.codegen.error import CodegenError
from ir.codegen.llvm.compile import MachineOptions, emit_object, optimize
from ir.codegen.llvm.loaded_object import LoadedObject
from ir.codegen.llvm.runtime import runtime, runtime_object, runtime_text

COUNT = """
declare i32 @loopsmith_parallel_for(ptr, i64, ptr)
define i32 @body(i64 %b, i64 %e, ptr %env) {
entry:
  br label %l
l:
  %i = phi i64 [%b, %entry], [%n, %l]
  %p = getelementptr i32, ptr %env, i64 %i
  %old = atomicrmw add ptr %p, i32 1 monotonic
  %n = add i64 %i, 1
  %c = icmp slt i64 %n, %e
  br i1 %c, label %l, label %x
x:
  ret i32 0
}
define i32 @count(i64 %repeats, i64 %extent, ptr %env) {
entry:
  br label %l
l:
  %i = phi i64 [0, %entry], [%n, %l]
  %r = call i32 @loopsmith_parallel_for(ptr @body, i64 %extent, ptr %env)
  %n = add i64 %i, 1
  %c = icmp slt i64 %n, %repeats
  br i1 %c, label %l, label %x
x:
  ret i32 0
}
define i32 @outer.body(i64 %b, i64 %e, ptr %env) {
entry:
  br label %l
l:
  %i = phi i64 [%b, %entry], [%n, %l]
  %row = mul i64 %i, 50
  %p = getelementptr i32, ptr %env, i64 %row
  %r = call i32 @loopsmith_parallel_for(ptr @body, i64 50, ptr %p)
  %n = add i64 %i, 1
  %c = icmp slt i64 %n, %e
  br i1 %c, label %l, label %x
x:
  ret i32 0
}
define i32 @nested(ptr %env) {
  %r = call i32 @loopsmith_parallel_for(ptr @outer.body, i64 20, ptr %env)
  ret i32 %r
}
define i32 @failing.body(i64 %b, i64 %e, ptr %env) {
  %hit = icmp sge i64 %e, 500
  %r = select i1 %hit, i32 7, i32 0
  ret i32 %r
}
define i32 @failing() {
  %r = call i32 @loopsmith_parallel_for(ptr @failing.body, i64 1000, ptr null)
  ret i32 %r
}
"""


@pytest.fixture(scope="module")
def code() -> LoadedObject:
    runtime()
    return LoadedObject(emit_object(optimize(COUNT)))


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    runtime().set_num_threads(request.param)
    yield request.param
    runtime().set_num_threads(0)


def count(code: LoadedObject, repeats: int, extent: int) -> np.ndarray:
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        code.address("count")
    )
    hits = np.zeros(max(extent, 1) + 8, "int32")
    assert entry(repeats, extent, hits.ctypes.data) == 0
    return hits


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 15, 16, 17, 1000, 1001])
def test_every_index_is_visited_once(code: LoadedObject, threads: int, extent: int) -> None:
    hits = count(code, 200, extent)
    assert (hits[:extent] == 200).all()
    assert (hits[extent:] == 0).all()


def test_nested_loops_run(code: LoadedObject, threads: int) -> None:
    hits = np.zeros(1000, "int32")
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code.address("nested"))
    for _ in range(50):
        assert entry(hits.ctypes.data) == 0
    assert (hits == 50).all()


def test_an_error_of_the_body_is_returned(code: LoadedObject, threads: int) -> None:
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(code.address("failing"))() == 7


def test_several_host_threads_may_call(code: LoadedObject) -> None:
    runtime().set_num_threads(2)
    results: list[np.ndarray] = []
    callers = [threading.Thread(target=lambda: results.append(count(code, 300, 100))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=30)
    runtime().set_num_threads(0)
    assert len(results) == 4
    assert all((hits[:100] == 300).all() for hits in results)


def test_workers_that_went_to_sleep_wake_up(code: LoadedObject) -> None:
    runtime().set_num_threads(2)
    for _ in range(5):
        threading.Event().wait(0.005)
        assert (count(code, 1, 64)[:64] == 1).all()
    runtime().set_num_threads(0)


def test_a_forked_child_gets_its_own_pool(code: LoadedObject) -> None:
    runtime().set_num_threads(2)
    count(code, 10, 100)
    child = os.fork()
    if child == 0:
        good = bool((count(code, 100, 100)[:100] == 100).all())
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    runtime().set_num_threads(0)
    assert status == 0


def test_thread_count_can_be_set_and_restored() -> None:
    default = runtime().get_num_threads()
    assert default == len(os.sched_getaffinity(0))
    runtime().set_num_threads(5)
    assert runtime().get_num_threads() == 5
    runtime().set_num_threads(0)
    assert runtime().get_num_threads() == default


def test_workspaces_are_reused_and_aligned() -> None:
    acquire = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(
        runtime().addresses["loopsmith_workspace_acquire"]
    )
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(runtime().addresses["loopsmith_workspace_release"])
    first, second = acquire(100_000), acquire(100_000)
    assert first != second and first % 64 == 0 and second % 64 == 0
    ctypes.memset(first, 1, 100_000)
    release(first)
    assert acquire(90_000) == first
    release(first)
    release(second)
    large = acquire(5_000_000)
    assert large % (2 << 20) == 0  # fit for huge pages
    ctypes.memset(large, 1, 5_000_000)
    release(large)


_SCRATCH = """
declare ptr @loopsmith_workspace_acquire(i64)
declare void @loopsmith_workspace_release(ptr)
define i32 @scratch(ptr %from_runtime, ptr %from_stack, ptr %from_new, i64 %size) {
  %memory = call ptr @loopsmith_workspace_acquire(i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %from_runtime, ptr %memory, i64 %size, i1 true)
  call void @llvm.memset.p0.i64(ptr %memory, i8 1, i64 %size, i1 true)
  call void @loopsmith_workspace_release(ptr %memory)
  %again = call ptr @loopsmith_workspace_acquire(i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %from_new, ptr %again, i64 %size, i1 true)
  call void @loopsmith_workspace_release(ptr %again)
  %area = alloca [65536 x i8], align 64
  call void @llvm.memcpy.p0.p0.i64(ptr %from_stack, ptr %area, i64 65536, i1 true)
  ret i32 7
}
"""


@pytest.mark.parametrize("size", [1000, 1000, 10_000_000])  # new memory, used memory, huge pages
def test_scratch_memory_is_filled_for_a_call_that_asks_for_it(size: int) -> None:
    runtime()
    loaded = LoadedObject(emit_object(optimize(_SCRATCH)))
    outputs = [ctypes.create_string_buffer(n) for n in (size, 65536, size)]
    pointers = [*(ctypes.addressof(item) for item in outputs), size]
    assert runtime().call_filled(loaded.address("scratch"), pointers, 0xFB) == 7
    for output in outputs:
        assert set(output.raw) == {0xFB}
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(loaded.address("scratch"))
    call(*pointers)
    assert set(outputs[2].raw) == {1}  # what the call left there


def test_a_workspace_of_no_bytes_is_no_failure() -> None:
    acquire = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(
        runtime().addresses["loopsmith_workspace_acquire"]
    )
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(runtime().addresses["loopsmith_workspace_release"])
    held = [acquire(0) for _ in range(80)]
    assert len(set(held)) == 80
    assert None not in held
    for pointer in held:
        release(pointer)


def test_more_workspaces_than_slots() -> None:
    acquire = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(
        runtime().addresses["loopsmith_workspace_acquire"]
    )
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(runtime().addresses["loopsmith_workspace_release"])
    held = [acquire(64) for _ in range(80)]
    assert len(set(held)) == 80
    for pointer in held:
        release(pointer)


def test_last_error_is_cut_not_overrun() -> None:
    runtime().set_error("x" * 2000)
    assert runtime().last_error() == "x" * 511
    runtime().set_error("short")
    assert runtime().last_error() == "short"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_compiles_for_other_machines(machine: str) -> None:
    code = runtime_object(MachineOptions(triple=f"{machine}-unknown-linux-gnu"))
    assert code[:4] == b"\x7fELF"


def test_unknown_machine_is_named() -> None:
    with pytest.raises(CodegenError, match="pdp11"):
        runtime_text("pdp11")
