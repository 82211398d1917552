"""On a real device: values, errors, and memory that is shared with other libraries. Skipped without one."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import runners
from ir.target import Target
from runners.cuda import build_module, time_evaluator
from tests.runners.cuda import programs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not runners.cuda(0).exist, reason="needs a CUDA device"),
]
VALUES = np.arange(128, dtype=np.float32)


def test_a_program_is_called_and_timed():
    module = build_module(
        programs.bound(programs.turned, "twice", "turn"), Target.from_device(runners.cuda(0))
    )
    a, c = runners.array(VALUES, runners.cuda(0)), runners.empty((128,), "float32", runners.cuda(0))
    module["turned"](a, c)
    np.testing.assert_array_equal(c.numpy(), programs.turned_values(VALUES))
    assert all(1e-7 < secs < 1e-2 for secs in time_evaluator(module["turned"], a, c))


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_memory_is_shared_both_ways(library):
    other = pytest.importorskip(library)
    if library == "torch" and not other.cuda.is_available():
        pytest.skip("needs PyTorch with CUDA")
    there = runners.array(VALUES, runners.cuda(0))
    shared = other.from_dlpack(there)
    shared += 1
    np.testing.assert_array_equal(there.numpy(), VALUES + 1)
    back = runners.from_dlpack(shared)
    assert back.ptr == there.ptr
    back[0] = 9
    assert float(shared[0]) == 9


def test_an_illegal_access_loses_the_process():
    program = (
        "from runners.cuda.context import context\nfrom runners.cuda.driver import CudaContextLost\n"
        "from ir.codegen.cuda.nvrtc import compile_cuda\nfrom ir.target import Target\nimport ctypes\n"
        "of = context(0)\n"
        "text = 'extern \"C\" __global__ void stray() { *(volatile float*)(1ull << 40) = 1.0f; }'\n"
        "code = compile_cuda(text, Target.from_device('cuda:0').arch).cubin\n"
        "module = of.driver.handle('cuModuleLoadData', code)\n"
        "kernel = of.driver.handle('cuModuleGetFunction', module, b'stray')\n"
        "none = (ctypes.c_void_p * 1)()\n"
        "of.driver.check(of.driver.launch(kernel, 1, 1, 1, 1, 1, 1, 0, of.stream.handle, none, None), 'launch')\n"
        "try:\n    of.stream.synchronize()\nexcept CudaContextLost as error:\n    print(error.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "CUDA_ERROR_ILLEGAL_ADDRESS", done.stderr
