"""What kernels take of a multiprocessor: the cubin against ptxas's own words, occupancy against the toolkit's header."""

from __future__ import annotations

import random
import re
import shutil
import subprocess

import pytest

from ir.codegen.cuda.nvrtc import compile_cuda
from ir.codegen.cuda.resources import KernelResources, Occupancy, occupancy, resource_usage
from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.error import CodegenError
from ir.target.gpu_facts import multiprocessor_facts

PROGRAM = """
__constant__ float table[64];
__device__ float kept[64];
__device__ __noinline__ float picked(float x, int n) {
  float a[8];
  for (int i = 0; i < 8; ++i) a[i] = x * i;
  return a[n];
}
extern "C" __global__ void calling(float* a, int n) {
  extern __shared__ float dynamic[];
  __shared__ float fixed[16];
  dynamic[threadIdx.x] = a[threadIdx.x];
  fixed[threadIdx.x] = 1.5e10f * a[5];
  __syncthreads();
  a[0] = dynamic[n] + fixed[n] + table[n] * kept[n] + 1.23e-7;
  a[1] = picked(a[2], n) + picked(a[5], n);
}
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float* a, const float* b, int n) {
  float x[48];
#pragma unroll
  for (int i = 0; i < 48; ++i) x[i] = b[i * n + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 48; ++i) a[i * n + threadIdx.x] = x[i] * x[(i + 7) % 48];
}
extern "C" __global__ void __launch_bounds__(64) small(float* a) { a[threadIdx.x] = 1; }
extern "C" __global__ void wide(float* a, int n) {
  float x[180];
#pragma unroll
  for (int i = 0; i < 180; ++i) x[i] = a[i * n + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 180; ++i) a[i * n + threadIdx.x] = x[i] * x[(i + 7) % 180];
}
template <class T> __global__ void scale(T* a) { a[0] *= 2; }
template __global__ void scale<double>(double*);
"""
_USED = re.compile(r"Used (\d+) registers(.*)")


def _told_by_ptxas(log: str) -> dict[str, dict[str, int]]:
    """Numbers of each kernel in ptxas's words."""
    found: dict[str, dict[str, int]] = {}
    kernel = ""
    for line in log.splitlines():
        if (begun := re.search(r"Compiling entry function '(\S+)'", line)) is not None:
            kernel = begun[1]
        elif (used := _USED.search(line)) is not None:
            shared = re.search(r"(\d+) bytes smem", used[2])
            stack = re.search(r"(\d+) bytes cumulative stack size", used[2])
            found[kernel] = {
                "registers": int(used[1]),
                "static_shared_bytes": int(shared[1]) if shared else 0,
                "local_bytes": int(stack[1]) if stack else 0,
            }
            if banks := re.findall(r"(\d+) bytes cmem\[[02]\]", used[2]):  # not told from sm_90 on
                found[kernel]["constant_bytes"] = sum(map(int, banks))
    return found


@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_90a", "sm_100", "sm_120"])
def test_the_cubin_says_what_ptxas_says(arch):
    compiled = compile_cuda(PROGRAM, arch)
    told = _told_by_ptxas(compiled.log)
    assert set(told) == set(compiled.resources) and len(told) == 5
    for kernel, expected in told.items():
        found = compiled.resources[kernel]
        assert {name: getattr(found, name) for name in expected} == expected, kernel


@pytest.mark.usefixtures("nvrtc")
def test_spills_are_told_apart_from_other_stack():
    resources = compile_cuda(PROGRAM, "sm_80").resources
    assert resources["spilling"].spill_store_bytes > 0 and resources["spilling"].spill_load_bytes > 0
    assert resources["spilling"].registers == 32 and resources["spilling"].local_bytes > 0
    assert resources["calling"].spill_store_bytes == 0 and resources["calling"].local_bytes == 32
    assert resources["calling"].static_shared_bytes == 64


@pytest.mark.usefixtures("nvrtc")
def test_without_the_log_spills_are_not_known():
    compiled = compile_cuda(PROGRAM, "sm_80")
    found = resource_usage(compiled.cubin)["spilling"]
    assert found.spill_store_bytes is None and found.spill_load_bytes is None
    assert found.registers == compiled.resources["spilling"].registers


@pytest.mark.usefixtures("nvrtc")
def test_a_block_may_have_the_threads_that_are_promised_and_have_registers():
    resources = compile_cuda(PROGRAM, "sm_80").resources
    assert resources["spilling"].max_threads == 1024 and resources["small"].max_threads == 64
    assert resources["wide"].registers > 180 and resources["wide"].max_threads == 256


def test_what_is_no_cubin_is_refused():
    for data in (b"", b"\x7fELF\x01" + bytes(200), b"\x7fELF\x02" + bytes(10), b"\x7fELF\x02" + bytes(200)):
        with pytest.raises(CodegenError, match=f"the {len(data)} bytes are no cubin"):
            resource_usage(data)


@pytest.mark.usefixtures("nvrtc")
def test_a_cubin_that_is_cut_off_is_refused():
    cubin = compile_cuda(PROGRAM, "sm_80").cubin
    for size in (64, 1000, len(cubin) // 2):
        with pytest.raises(CodegenError, match="no cubin"):
            resource_usage(cubin[:size])


def _kernel(registers: int = 32, shared: int = 0, threads: int = 1024) -> KernelResources:
    return KernelResources(registers, shared, 0, 0, 0, 0, threads)


@pytest.mark.parametrize(
    ("resources", "threads", "dynamic", "arch", "expected"),
    [
        (_kernel(32), 256, 0, "sm_80", Occupancy(8, 64, "threads")),
        (_kernel(32), 32, 0, "sm_80", Occupancy(32, 32, "blocks")),
        (_kernel(128), 256, 0, "sm_80", Occupancy(2, 16, "registers")),
        (_kernel(32, 48 << 10), 256, 0, "sm_80", Occupancy(3, 24, "shared memory")),
        (_kernel(32, 1 << 10), 256, 162 << 10, "sm_80", Occupancy(1, 8, "shared memory")),
        (_kernel(32, 1 << 10), 256, 163 << 10, "sm_80", Occupancy(0, 0, "shared memory")),
        (_kernel(32, 0, 128), 256, 0, "sm_80", Occupancy(0, 0, "threads")),
        (_kernel(32), 1024, 0, "sm_75", Occupancy(1, 32, "threads")),
        (_kernel(32), 1024, 0, "sm_86", Occupancy(1, 32, "threads")),
        (_kernel(255), 288, 0, "sm_80", Occupancy(0, 0, "registers")),
    ],
)
def test_occupancy_is_what_there_is_least_of(resources, threads, dynamic, arch, expected):
    assert occupancy(resources, threads, dynamic, arch) == expected


_REFERENCE = """
#include <cuda_occupancy.h>
#include <stdio.h>
int main(void) {
  int a[13];
  for (;;) {
    for (int i = 0; i < 13; ++i) if (scanf("%d", &a[i]) != 1) return 0;
    cudaOccDeviceProp device = {};
    device.computeMajor = a[0]; device.computeMinor = a[1]; device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = a[2]; device.regsPerBlock = 65536; device.regsPerMultiprocessor = a[3];
    device.warpSize = 32; device.sharedMemPerBlock = 49152; device.sharedMemPerMultiprocessor = a[4]; device.numSms = 1;
    device.sharedMemPerBlockOptin = a[5]; device.reservedSharedMemPerBlock = a[6];
    cudaOccFuncAttributes kernel = {};
    kernel.maxThreadsPerBlock = a[7]; kernel.numRegs = a[8]; kernel.sharedSizeBytes = a[9];
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; kernel.maxDynamicSharedSizeBytes = a[10];
    cudaOccDeviceState state = {};
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result = {};
    int status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, a[11], a[10]);
    printf("%d\\n", status ? -status : result.activeBlocksPerMultiprocessor);
  }
}
"""


@pytest.mark.usefixtures("nvrtc")
def test_occupancy_is_that_of_the_toolkits_own_header(tmp_path):
    compiler = shutil.which("g++")
    include = next((f for f in toolkit().include_folders if (f / "cuda_occupancy.h").is_file()), None)
    if compiler is None or include is None:
        pytest.skip("needs g++ and the header cuda_occupancy.h")
    (tmp_path / "reference.cpp").write_text(_REFERENCE)
    reference = tmp_path / "reference"
    subprocess.run([compiler, f"-I{include}", tmp_path / "reference.cpp", "-o", reference], check=True)
    chance = random.Random(7)
    cases = []
    for number in (60, 61, 70, 75, 80, 86, 87, 89, 90, 100, 120):
        facts = multiprocessor_facts(f"sm_{number}")
        for _ in range(200):
            threads = chance.choice([1, 31, 32, 33, 64, 96, 128, 160, 256, 288, 384, 512, 768, 1000, 1024])
            static = chance.choice([0, 0, 1, 1000, 1024, 8192, chance.randrange(48 << 10)])
            dynamic = chance.choice([0, 0, chance.randrange(facts.shared_memory_per_block_optin)])
            bound = chance.choice([1024, max(threads, 512)])
            registers = chance.randint(1, 255)
            cases.append((number, facts, threads, static, dynamic, bound, registers))
    lines = [
        f"{n // 10} {n % 10} {f.threads} {f.registers} {f.shared_memory_bytes} {f.shared_memory_per_block_optin}"
        f" {f.reserved_shared_memory_bytes} {bound} {registers} {static} {dynamic} {threads} 0"
        for n, f, threads, static, dynamic, bound, registers in cases
    ]
    done = subprocess.run([reference], input="\n".join(lines), capture_output=True, text=True, check=True)
    expected = [int(line) for line in done.stdout.split()]
    found = [
        occupancy(_kernel(registers, static, bound), threads, dynamic, f"sm_{n}").blocks
        for n, _, threads, static, dynamic, bound, registers in cases
    ]
    wrong = [(case[0], case[2:], a, b) for case, a, b in zip(cases, found, expected) if a != b]
    assert len(expected) == len(cases) and not wrong, wrong[:3]
    assert sum(blocks > 0 for blocks in found) > 1000
