"""The default schedule of attention: one kernel."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.operators import suite
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.target import Target
from ir.tir.lower import lower
from schedules.dlight import default_schedule

from .checks import TARGET, assert_computes, rule_of


@pytest.mark.parametrize("name", ["attention", "causal_attention"])
@pytest.mark.parametrize("shape", [(2, 6, 8), (2, 64, 32), (1, 96, 16)])
def test_attention_is_one_kernel(name: str, shape: tuple[int, int, int]) -> None:
    func = suite.workload(name, shape)
    assert rule_of(func) == "Attention"
    lowered = lower(default_schedule(func, TARGET).mod, TARGET)
    source = generate(lowered)
    assert len(source.kernels) == 1
    inputs = suite.inputs(name, shape)
    found = np.zeros(shape, "float32")
    EmulatedProgram(lowered, source)(*inputs, found)
    np.testing.assert_allclose(found, suite.reference(name, inputs, shape), atol=1e-5)


@pytest.mark.parametrize("name", ["float16_attention", "float16_causal_attention"])
def test_float16_is_summed_in_float32(name: str) -> None:
    shape = (2, 64, 16)
    func = suite.workload(name, shape)
    assert rule_of(func) == "Attention"
    inputs = suite.inputs(name, shape)
    expected = suite.reference(name, inputs, shape)
    # the weights and the result are rounded once
    assert_computes(default_schedule(func, TARGET).mod, [(inputs, expected)], tolerance=1e-3)


def test_float16_in_parts_of_tiles_is_for_other_units() -> None:
    shape = (2, 24, 12)
    func = suite.workload("float16_causal_attention", shape)
    assert rule_of(func) == "Attention"
    sch = default_schedule(func, TARGET)
    assert "ptx_mma" not in generate(lower(sch.mod, TARGET)).text.split("__global__")[1]
    inputs = suite.inputs("float16_causal_attention", shape)
    expected = suite.reference("float16_causal_attention", inputs, shape)
    assert_computes(sch.mod, [(inputs, expected)], tolerance=1e-3)


CARDS = {
    "sm_75": "nvidia/nvidia-t4",
    "sm_80": "nvidia/nvidia-a100",
    "sm_89": "nvidia/geforce-rtx-4090",
    "sm_90a": "nvidia/nvidia-h200",
}


@pytest.mark.parametrize("name", ["float16_attention", "float16_causal_attention"])
@pytest.mark.parametrize("shape", [(12, 512, 64), (32, 1024, 128)])
@pytest.mark.parametrize("arch", CARDS)
def test_float16_is_multiplied_by_tensor_cores(arch: str, shape: tuple[int, int, int], name: str) -> None:
    target = Target(CARDS[arch])
    sch = default_schedule(suite.workload(name, shape), target)
    code = compile_cuda(generate(lower(sch.mod, target)).text, arch)
    (kernel,) = code.resources.values()
    assert not code.warnings
    assert kernel.spill_store_bytes == kernel.local_bytes == 0
    assert "mma.sync.aligned.m16n8k" in code.ptx
    assert ("cp.async" in code.ptx) == (arch != "sm_75")


@pytest.mark.parametrize("name", ["causal_attention"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a"])
def test_nothing_is_spilled(arch: str, name: str) -> None:
    sch = default_schedule(suite.workload(name), TARGET)
    code = compile_cuda(generate(lower(sch.mod, TARGET)).text, arch)
    assert not code.warnings
    assert all(item.spill_store_bytes == item.local_bytes == 0 for item in code.resources.values())


def test_one_query_is_for_other_rules() -> None:
    """A tile of a row would leave a block with a warp, and a device with a block for each head: DecodeAttention splits the keys."""
    assert rule_of(suite.workload("decode_attention", (2, 64, 16))) != "Attention"


def test_a_softmax_alone_is_for_other_rules() -> None:
    assert rule_of(suite.workload("softmax", (4, 30))) == "GeneralReduction"
