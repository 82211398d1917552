"""CUDA C++ compiled without a GPU: code for every architecture, and messages that name the line at fault."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from ir.codegen.cuda import nvrtc
from ir.codegen.cuda.nvrtc import compile_cuda, nvrtc_version, supported_architectures
from ir.codegen.cuda.toolkit import Toolkit
from ir.codegen.error import CodegenError, CudaCompileError, CudaToolkitError
from ir.target import TargetError

pytestmark = pytest.mark.usefixtures("nvrtc")

TWICE = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'
WMMA = """
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
extern "C" __global__ void product(const half* a, const half* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  wmma::load_matrix_sync(left, a, 16);
  wmma::load_matrix_sync(right, b, 16);
  wmma::mma_sync(sum, left, right, sum);
  wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
"""


def _error(source: str, arch: str = "sm_80", **options) -> CudaCompileError:
    with pytest.raises(CudaCompileError) as raised:
        compile_cuda(source, arch, **options)
    return raised.value


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a"])
def test_matrix_units_are_programmed_for_each_architecture(arch):
    compiled = compile_cuda(WMMA, arch)
    assert compiled.arch == arch
    assert compiled.cubin.startswith(b"\x7fELF")
    assert f".target {arch}" in compiled.ptx and "wmma.mma.sync" in compiled.ptx
    assert list(compiled.resources) == ["product"]


def test_products_and_sums_are_contracted_only_where_the_program_says_so():
    kernel = 'extern "C" __global__ void f(float* x) {{ x[0] = {}; }}'
    assert "fma." not in compile_cuda(kernel.format("x[1] * x[2] + x[3]"), "sm_80").ptx
    assert "fma.rn.f32" in compile_cuda(kernel.format("fmaf(x[1], x[2], x[3])"), "sm_80").ptx


def test_functions_belong_to_the_device_and_lines_are_known():
    compiled = compile_cuda(
        'int next(int x) { return x + 1; }\nextern "C" __global__ void f(int* x) {\n  x[0] = next(x[1]);\n}',
        "sm_80",
        name="next.cu",
    )
    assert 'next.cu"' in compiled.ptx and ".loc" in compiled.ptx


def test_options_go_to_the_compiler():
    source = 'extern "C" __global__ void f(int* x) { x[0] = TILE; }'
    assert "1234" in compile_cuda(source, "sm_80", options=["-DTILE=1234"]).ptx
    assert "unrecognized option --quux" in str(_error(TWICE, options=["--quux"]))


def test_kernels_of_templates_are_instantiated_and_have_names_in_the_cubin():
    source = "template <class T> __global__ void scale(T* x) { x[0] *= 2; }\n" + TWICE
    compiled = compile_cuda(source, "sm_80", kernels=["scale<float>", "scale<double>", "twice"])
    assert set(compiled.symbols.values()) == set(compiled.resources)
    assert compiled.symbols["twice"] == "twice" and "scale" in compiled.symbols["scale<double>"]
    assert "thrice" in str(_error(TWICE, kernels=["thrice"]))


def test_warnings_are_apart_from_errors():
    compiled = compile_cuda(
        'extern "C" __global__ void f(float* x) {\n  int unused;\n  x[0] = 1;\n}', "sm_80"
    )
    (warning,) = compiled.warnings
    assert (warning.severity, warning.file, warning.line) == ("warning", "kernels.cu", 2)
    assert "unused" in warning.message and "int unused;" in warning.excerpt
    assert compile_cuda(TWICE, "sm_80").warnings == ()


def test_every_error_shows_its_line():
    error = _error(
        'extern "C" __global__ void f(float* x) {\n  int unused;\n  x[0] = nothing;\n  y[0] = 1;\n}',
        name="wrong.cu",
    )
    assert isinstance(error, CodegenError)
    assert [(item.severity, item.line) for item in error.diagnostics] == [
        ("error", 3),
        ("error", 4),
        ("warning", 2),
    ]
    text = str(error)
    assert "wrong.cu does not compile for sm_80" in text
    assert 'wrong.cu:3: error: identifier "nothing" is undefined\n' in text and "x[0] = nothing;" in text
    assert 'wrong.cu:4: error: identifier "y" is undefined\n' in text and "unused" not in text


def test_an_error_within_a_template_says_who_asked_for_it():
    error = _error('template <int N> struct S { static_assert(N > 1, "small"); };\nS<1> s;')
    assert error.diagnostics[0].line == 1
    assert "detected during" in str(error) and "line 2" in str(error)


def test_an_error_in_assembly_shows_the_line_of_the_source():
    error = _error(
        'extern "C" __global__ void f(int* x) {\n  x[0] = 1;\n\n  asm volatile("quux.u32 %0;" : "=r"(x[1]));\n}'
    )
    assert {item.line for item in error.diagnostics} == {4}
    assert 'asm volatile("quux.u32 %0;"' in str(error) and "in the PTX text: quux.u32" in str(error)


def test_an_instruction_of_a_newer_architecture_is_refused_at_its_line():
    source = 'extern "C" __global__ void f() {\n  asm volatile("cp.async.bulk.commit_group;");\n}'
    error = _error(source)
    assert error.diagnostics[0].line == 2 and "requires .target sm_90 or higher" in str(error)
    compile_cuda(source, "sm_90")


def test_too_much_shared_memory_is_refused_by_the_kernels_name():
    source = """extern "C" __global__ void large(float* x) {
      __shared__ float s[12289];
      s[threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      x[threadIdx.x] = s[threadIdx.x ^ 1];
    }"""
    assert "Entry function 'large' uses too much shared data" in str(_error(source))
    fits = compile_cuda(source.replace("12289", "12288"), "sm_80")
    assert fits.resources["large"].static_shared_bytes == 49152


def test_what_is_missing_at_the_end_is_an_error_without_a_line():
    (diagnostic,) = _error('extern "C" __device__ void g();\n__global__ void f() { g(); }').diagnostics
    assert diagnostic.line is None and "Unresolved extern function" in diagnostic.message


def test_architectures_that_the_compiler_does_not_know_are_refused_with_those_that_it_knows():
    known = supported_architectures()
    with pytest.raises(
        CudaToolkitError, match=rf"does not know sm_9999: the newest.*sm_{known[-1]},.* newer"
    ):
        compile_cuda(TWICE, "sm_9999")
    with pytest.raises(CudaToolkitError, match=rf"does not know sm_20: .*the oldest sm_{known[0]};.* older"):
        compile_cuda(TWICE, "sm_20")
    with pytest.raises(TargetError, match="'compute_80'"):
        compile_cuda(TWICE, "compute_80")
    assert _error(TWICE, "sm_80a").diagnostics  # an architecture with a suffix that it has not


def test_the_version_is_that_of_the_text_that_is_made():
    major, _ = nvrtc_version()
    assert f"Cuda compilation tools, release {major}." in compile_cuda(TWICE, "sm_80").ptx


def test_threads_compile_at_the_same_time():
    results: dict[int, object] = {}

    def compile_one(number: int) -> None:
        source = f'extern "C" __global__ void f{number}(int* x) {{ x[0] = {number} + nothing; }}'
        if number % 2:
            source = source.replace(" + nothing", "")
        try:
            results[number] = list(compile_cuda(source, "sm_80").resources)
        except CudaCompileError as error:
            results[number] = [item.message for item in error.diagnostics]

    threads = [threading.Thread(target=compile_one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    undefined = ['identifier "nothing" is undefined']
    assert results == {number: [f"f{number}"] if number % 2 else undefined for number in range(8)}


def test_a_process_forked_while_another_thread_compiles_can_compile():
    program = f"""
import os, threading
from ir.codegen.cuda.nvrtc import compile_cuda
source = {WMMA!r}
compile_cuda(source, "sm_80")
thread = threading.Thread(target=lambda: [compile_cuda(source, "sm_80") for _ in range(5)])
thread.start()
child = os.fork()
if child == 0:
    os._exit(0 if compile_cuda(source, "sm_80").cubin else 1)
_, status = os.waitpid(child, 0)
thread.join()
print(status)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "0\n", done.stderr


def test_a_library_that_cannot_be_loaded_is_an_error_that_says_what_to_install(monkeypatch, tmp_path):
    broken = tmp_path / "libnvrtc.so.12"
    broken.write_bytes(b"no library")
    monkeypatch.setattr(nvrtc, "toolkit", lambda: Toolkit(str(broken), (), ()))
    nvrtc.library.cache_clear()
    try:
        with pytest.raises(
            CudaToolkitError, match=r"libnvrtc\.so\.12 cannot be loaded: .*pip install 'loopsmith\[cuda\]'"
        ):
            nvrtc_version()
    finally:
        nvrtc.library.cache_clear()
