"""Time of an empty and of a tiny parallel loop on the runtime's thread pool, hot and after a pause."""

from __future__ import annotations

import ctypes
import time

from ir.codegen.llvm.compile import emit_object, optimize
from ir.codegen.llvm.loaded_object import LoadedObject
from ir.codegen.llvm.runtime import runtime

TEXT = """
declare i32 @loopsmith_parallel_for(ptr, i64, ptr)
define i32 @body(i64 %b, i64 %e, ptr %env) {
entry:
  %work = ptrtoint ptr %env to i64
  br label %l
l:
  %i = phi i64 [0, %entry], [%n, %l]
  call void asm sideeffect "", ""()
  %n = add i64 %i, 1
  %c = icmp slt i64 %n, %work
  br i1 %c, label %l, label %x
x:
  ret i32 0
}
define void @many(i64 %repeats, i64 %extent, ptr %env) {
entry:
  br label %l
l:
  %i = phi i64 [0, %entry], [%n, %l]
  %r = call i32 @loopsmith_parallel_for(ptr @body, i64 %extent, ptr %env)
  %n = add i64 %i, 1
  %c = icmp slt i64 %n, %repeats
  br i1 %c, label %l, label %x
x:
  ret void
}
"""


def figures() -> dict[str, tuple[float, str]]:
    """Microseconds of a loop, and of dispatching and joining it beyond its own work."""
    runtime()
    code = LoadedObject(emit_object(optimize(TEXT)))
    many = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(code.address("many"))

    def measure(repeats: int, extent: int, work: int) -> float:
        best = float("inf")
        for _ in range(10):
            start = time.perf_counter()
            many(repeats, extent, work)
            best = min(best, (time.perf_counter() - start) / repeats)
        return best * 1e6

    runtime().set_num_threads(0)
    threads = runtime().get_num_threads()
    found = {f"parallel loop with an empty body, {threads} threads": measure(2000, threads, 0)}
    for work in (1_000, 10_000, 100_000):
        runtime().set_num_threads(1)
        alone = measure(200, threads, work)  # serial: the body is called once for the whole range
        runtime().set_num_threads(0)
        found[f"dispatch and join beyond a body of {alone:.1f} us"] = measure(200, threads, work) - alone
    pauses = []
    for _ in range(20):
        time.sleep(0.01)
        start = time.perf_counter()
        many(1, threads, 0)
        pauses.append((time.perf_counter() - start) * 1e6)
    found["the empty loop after 10 ms of sleep"] = sorted(pauses)[10]
    return {name: (value, "us") for name, value in found.items()}
