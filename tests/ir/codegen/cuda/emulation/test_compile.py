"""Compiling, loading and calling emulated kernels: what is accepted, and what each mistake is told."""

from __future__ import annotations

import shutil
import stat

import numpy as np
import pytest

from ir.codegen.cuda.emulation import compile as emulation
from ir.codegen.cuda.emulation.compile import emulate, has_compiler
from ir.codegen.cuda.emulation.errors import ArgumentError, KernelSourceError, LaunchError, NoCompilerError
from ir.codegen.cuda.emulation.source import declared_kernels, to_cpp
from ir.codegen.error import CudaCompileError

SCALE = r"""
#include <cuda_fp16.h>
extern "C" __global__ void scale(float* out, const float* in, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * factor;
}
extern "C" __global__ void address(void* any, const int4* vectors) { *(int*)any = vectors == nullptr ? -1 : vectors[1].z; }
extern "C" __global__ void says(int n) { if (threadIdx.x == 0) printf("n is %d\n", n); }
"""


def test_a_kernel_runs_on_arrays(launch) -> None:
    data = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    data.flags.writeable = False
    out = np.zeros(1000, np.float32)
    launch(SCALE, "scale", out, data, np.float32(1.5), 1000, grid=(8,), block=(128,))
    np.testing.assert_array_equal(out, data * np.float32(1.5))


def test_parameters_are_known() -> None:
    module = emulate(SCALE, ["scale", "address"])
    assert [str(p) for p in module.parameters["scale"]] == ["float32*", "const float32*", "float32", "int32"]
    assert [str(p) for p in module.parameters["address"]] == ["void*", "const bytes16*"]


def test_addresses_may_be_numbers_or_nothing(launch) -> None:
    out, vectors = np.zeros(1, np.int32), np.arange(8, dtype=np.int32)
    launch(SCALE, "address", out.ctypes.data, vectors, block=(1,))
    assert out[0] == 6
    launch(SCALE, "address", out, None, block=(1,))
    assert out[0] == -1


def test_arrays_of_bool_are_bytes(launch) -> None:
    source = 'extern "C" __global__ void invert(unsigned char* a) { a[threadIdx.x] = !a[threadIdx.x]; }'
    data = np.arange(32) % 3 == 0
    out = data.copy()
    launch(source, "invert", out)
    np.testing.assert_array_equal(out, ~data)


def test_output_of_kernels_is_flushed(launch, capfd) -> None:
    launch(SCALE, "says", 42)
    assert capfd.readouterr().out == "n is 42\n"


F = np.zeros(4, np.float32)
READ_ONLY = np.zeros(4, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    "args, message",
    [
        (
            (F, F, 1.0),
            r"kernel scale has 4 parameters \(float32\*, const float32\*, float32, int32\), got 3 arguments",
        ),
        (
            (F, F.astype(np.float64), 1.0, 4),
            r"argument 1 \(parameter const float32\*\) takes an array of float32, got float64",
        ),
        ((F[::2], F, 1.0, 4), r"argument 0 .*takes an array in C order"),
        ((READ_ONLY, F, 1.0, 4), r"argument 0 .*the array is read-only"),
        ((F, [1.0], 1.0, 4), r"argument 1 .*takes an array or an address, got list"),
        ((F, F, F, 4), r"argument 2 .*takes a number"),
        ((F, F, 1.0, 4.5), r"argument 3 \(parameter int32\) takes an integer, got 4.5"),
        ((F, F, 1.0, 2**31), r"argument 3 .*cannot hold 2147483648"),
    ],
)
def test_arguments_that_do_not_fit(launch, args, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        launch(SCALE, "scale", *args)


def test_kernels_that_are_not_there(launch) -> None:
    with pytest.raises(
        KernelSourceError, match="no kernel 'scales' in the source; there are: scale, address"
    ):
        emulate(SCALE, ["scales"])
    with pytest.raises(LaunchError, match="no kernel 'says' in this module; there are: scale"):
        emulate(SCALE, ["scale"]).launch("says", (1,), (1,), 0, [1])


def test_errors_of_the_compiler_show_their_lines() -> None:
    source = (
        "#include <cuda_fp16.h>\n"
        'extern "C" __global__ void k(float* a) {\n  int i = threadIdx.x;\n  a[i] = unknown_thing(i);\n  a = 1.5;\n}\n'
    )
    with pytest.raises(CudaCompileError) as raised:
        emulate(source, ["k"])
    error = raised.value
    assert isinstance(error, KernelSourceError)
    assert [(item.file, item.line) for item in error.diagnostics] == [("kernels.cu", 4), ("kernels.cu", 5)]
    assert "unknown_thing" in error.diagnostics[0].message
    assert "    a[i] = unknown_thing(i);\n           ^" in str(error)
    assert "unknown_thing" in error.log


def test_without_a_compiler_the_error_says_which_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not has_compiler()
    with pytest.raises(NoCompilerError, match=r"c\+\+, g\+\+, clang\+\+ is not on PATH. Install g\+\+"):
        emulate(SCALE, ["scale"])


def test_a_compiler_that_cannot_compile_the_headers_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    compiler = tmp_path / "old-c++"
    compiler.write_text("#!/bin/sh\necho this is no C++17 compiler >&2\nexit 1\n")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(
        NoCompilerError, match="(?s)cannot compile the headers.*this is no C\\+\\+17 compiler"
    ):
        emulate(SCALE, ["scale"])


def test_headers_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    emulate(SCALE, ["scale"])
    commands: list[list[str]] = []
    run = emulation._run
    monkeypatch.setattr(
        emulation, "_run", lambda command, folder: commands.append(command) or run(command, folder)
    )
    emulate(SCALE, ["scale"])
    assert len(commands) == 1
    header = commands[0][commands[0].index("-include") + 1]
    done = run(
        [
            *commands[0][:1],
            *emulation.FLAGS,
            "-H",
            "-fsyntax-only",
            "-include",
            header,
            "-x",
            "c++",
            "/dev/null",
        ],
        emulation._HEADERS,
    )
    assert f"! {header}.gch" in done.stderr or "clang" in shutil.which("c++")


def test_names_of_kernels_are_found_in_any_spelling() -> None:
    source = """
    // __global__ void commented(int* a)
    extern "C" __global__ void __launch_bounds__(128, 2) first(float* a) {}
    extern "C" __global__ void
    second(void) { }
    __global__ __launch_bounds__(64) void third(const int* __restrict__ b);
    __global__ void third(const int* __restrict__ b) { first_call(b); }
    __device__ void no_kernel(int* a) {}
    """
    assert declared_kernels(source) == ["first", "second", "third"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("extern __shared__ float data[];", "float* const data = (float*)emulation::dynamic_shared;"),
        (
            "extern __shared__ __align__(16) unsigned char data[];",
            "unsigned char* const data = (unsigned char*)emulation::dynamic_shared;",
        ),
        (
            "extern __shared__ alignas(128) half data[ ];",
            "half* const data = (half*)emulation::dynamic_shared;",
        ),
        ("#include <mma.h>\nint a;", "\nint a;"),
        ('  #include "cuda_bf16.h"  // types', ""),
        ("#include <math.h>", "#include <math.h>"),
    ],
)
def test_what_is_rewritten(text: str, expected: str) -> None:
    assert to_cpp(text) == expected
