"""Programs that are compiled in another process: the same code and errors as here, and an end of that process is one error."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from ir.codegen.cuda import compiler_process, nvrtc
from ir.codegen.cuda.compiler_process import compile_apart
from ir.codegen.cuda.nvrtc import compile_cuda, compile_here
from ir.codegen.error import CudaCompileError

pytestmark = pytest.mark.usefixtures("nvrtc")

TWICE = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'
FENCE = 'extern "C" __global__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }'


def process() -> int:
    found = compiler_process._process
    assert found is not None
    return found.pid


def test_it_gives_what_this_process_gives():
    there, here = compile_apart(TWICE, "sm_80", "kernels.cu", (), ()), compile_here(TWICE, "sm_80")
    assert (there.ptx, there.arch, there.resources) == (here.ptx, here.arch, here.resources)
    before = process()
    assert "wgmma.fence" in compile_cuda(FENCE, "sm_90a").ptx
    assert process() == before


def test_errors_come_back_with_their_lines():
    with pytest.raises(CudaCompileError, match="kernels.cu") as raised:
        compile_cuda(f"// wgmma\n{TWICE.replace('*=', '@=')}", "sm_90a")
    assert raised.value.diagnostics[0].line == 2


def test_a_compiler_that_ends_is_an_error_and_the_next_program_has_another_one(monkeypatch):
    compile_apart(TWICE, "sm_80", "kernels.cu", (), ())
    ended = compiler_process._process
    os.kill(process(), signal.SIGSEGV)
    with monkeypatch.context() as patch:
        patch.setattr(compiler_process, "_running", lambda: ended)
        with pytest.raises(
            CudaCompileError, match="the compiler was ended by SIGSEGV while it compiled for sm_90a"
        ):
            compile_cuda(FENCE, "sm_90a")
    assert compile_cuda(FENCE, "sm_90a").arch == "sm_90a"
    assert compiler_process._process is not ended


ZERO = """extern "C" __global__ void zero(float* c) {
  float d[4] = {0, 0, 0, 0};
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(0ull));
  for (int i = 0; i < 4; ++i) c[threadIdx.x * 4 + i] = d[i];
}"""


def test_a_program_that_ends_nvrtc_is_an_error_or_compiles():
    """NVRTC 12.9 ends its process at this one."""
    try:
        assert "wgmma" in compile_cuda(ZERO, "sm_90a").ptx
    except CudaCompileError as error:
        assert "the compiler was ended by SIGSEGV" in str(error)
    assert compile_cuda(FENCE, "sm_90a").arch == "sm_90a"


def test_threads_share_it():
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(compile_cuda(FENCE, "sm_90a").arch)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["sm_90a"] * 4


def test_other_programs_are_compiled_here(monkeypatch):
    monkeypatch.setattr(nvrtc, "compile_apart", lambda *given: pytest.fail("compiled in another process"))
    assert compile_cuda(TWICE, "sm_80").arch == "sm_80"
