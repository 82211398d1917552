"""The default schedule of a decoder's attention: two kernels, of all forms that an operator legalizes to."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from experiments.operators import suite
from ir import relax
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.relax.op.nn.attention import attention, np_attention
from ir.relax.transform import LegalizeOps
from ir.tir import PrimFunc
from ir.tir.lower import lower
from schedules.dlight import default_schedule

from .checks import TARGET, assert_computes, kernels_of, rule_of


@pytest.mark.parametrize("shape", [(2, 6, 8), (2, 64, 32), (1, 96, 16)])
def test_one_query_is_two_kernels(shape: tuple[int, int, int]) -> None:
    func = suite.workload("decode_attention", shape)
    assert rule_of(func) == "DecodeAttention"
    sch = default_schedule(func, TARGET)
    assert len(kernels_of(sch.mod)) == 2
    inputs = suite.inputs("decode_attention", shape)
    assert_computes(sch.mod, [(inputs, suite.reference("decode_attention", inputs, shape))])


def legalized(dtype: str, heads: int, few: int, keys: int, dim: int, **options: Any) -> PrimFunc:
    """The kernel of ``relax.nn.attention`` of one query."""
    builder = relax.BlockBuilder()
    infos = [
        relax.TensorStructInfo(shape, dtype)
        for shape in ((1, 1, heads, dim), (1, keys, few, dim), (1, keys, few, dim))
    ]
    params = [relax.Var(name, info) for name, info in zip("qkv", infos, strict=True)]
    with builder.function("main", params):
        with builder.dataflow():
            query, key, value = params
            out = builder.emit_output(attention(query, key, value, **options))
        builder.emit_func_output(out)
    mod = LegalizeOps()(builder.get())
    (func,) = [func for func in mod.functions.values() if isinstance(func, PrimFunc)]
    return func


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 2e-3), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("options", [{}, {"causal_mask": "BottomRight", "window_size": 40}], ids=str)
def test_what_the_operator_legalizes_to(dtype: str, tolerance: float, options: dict[str, Any]) -> None:
    """Heads that share keys, whole rows or a window of the latest keys; sums are float32 in any dtype."""
    func = legalized(dtype, 4, 2, 64, 8, **options)
    assert rule_of(func) == "DecodeAttention"
    rng = np.random.default_rng(0)
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    inputs = [
        rng.standard_normal(shape).astype(kind) for shape in ((1, 1, 4, 8), (1, 64, 2, 8), (1, 64, 2, 8))
    ]
    query, key, value = (item.astype("float32") for item in inputs)
    expected = np_attention(query, key, value, **options)
    assert_computes(default_schedule(func, TARGET).mod, [(inputs, expected)], tolerance=tolerance)


@pytest.mark.parametrize("name", ["decode_attention", "float16_decode_attention"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a"])
def test_nothing_is_spilled(arch: str, name: str) -> None:
    sch = default_schedule(suite.workload(name), TARGET)
    code = compile_cuda(generate(lower(sch.mod, TARGET)).text, arch)
    assert not code.warnings
    assert all(item.spill_store_bytes == item.local_bytes == 0 for item in code.resources.values())
