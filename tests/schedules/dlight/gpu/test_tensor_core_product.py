"""Default schedules of products on tensor cores: instructions, resources, and results, for static and symbolic shapes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ir import dtype as dt
from ir import te, tir
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.codegen.cuda.resources import resource_usage
from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.error import CudaToolkitError
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules.dlight import default_schedule
from tests.programs.tensor_cores import drawn

T4, A100, ADA, HOPPER = (
    "nvidia/nvidia-t4",
    "nvidia/nvidia-a100",
    "nvidia/geforce-rtx-4090",
    "nvidia/nvidia-h200",
)


def has_nvrtc() -> bool:
    try:
        return toolkit().has_headers
    except CudaToolkitError:
        return False


needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC with headers")
needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")


def product(
    dtype: str, sums: str, shape: tuple[Any, int, int], trans: tuple[bool, bool] = (False, False), batch: int = 0, epilogue: str = "",
) -> PrimFunc:  # fmt: skip
    """Of (m, k) or (k, m), and (k, n) or (n, k); the epilogue is a cast to a dtype behind a bias."""
    m, n, k = shape
    outer = (batch,) if batch else ()
    trans_a, trans_b = trans
    x = te.placeholder((*outer, k, m) if trans_a else (*outer, m, k), dtype, "x")
    y = te.placeholder((*outer, n, k) if trans_b else (*outer, k, n), dtype, "y")
    r = te.reduce_axis((0, k), "r")

    def term(*index: Any) -> Any:
        *b, i, j = index
        left = x[(*b, r, i)] if trans_a else x[(*b, i, r)]
        right = y[(*b, j, r)] if trans_b else y[(*b, r, j)]
        return te.sum(left.astype(sums) * right.astype(sums), axis=r)

    z = te.compute((*outer, m, n), term, name="z")
    if not epilogue:
        return te.create_prim_func([x, y, z])
    bias = te.placeholder((n,), sums, "bias")
    out = te.compute(
        z.shape, lambda *i: tir.max(z[i] + bias[i[-1]], tir.const(0, sums)).astype(epilogue), name="out"
    )
    return te.create_prim_func([x, y, bias, out])


def shapes_of(func: PrimFunc, m: int) -> list[tuple[tuple[int, ...], str]]:
    """Of the inputs and the output, given the symbolic extent."""
    buffers = func.buffer_map.values()
    return [
        (tuple(int(item) if isinstance(item, tir.IntImm) else m for item in buffer.shape), buffer.dtype)
        for buffer in buffers
    ]


def expected_of(arrays: list[np.ndarray], trans: tuple[bool, bool], dtype: str) -> np.ndarray:
    wide = "int64" if dt.is_integral(arrays[0].dtype.name) else "float64"
    x, y, *bias = (item.astype(wide) for item in arrays)
    x, y = (np.swapaxes(a, -1, -2) if by else a for a, by in zip((x, y), trans, strict=True))
    total = x @ y
    if bias:
        total = np.maximum(total + bias[0], 0)
    return total.astype(dt.to_numpy(dtype))


def check(
    func: PrimFunc, target: Target, trans: tuple[bool, bool], m: int = 0, tolerance: float = 0.0
) -> None:
    """In the emulation, and where nothing is transposed in the interpreter, which looks for races and takes its time."""
    lowered = lower(default_schedule(func, target).mod, target)
    *inputs, (shape, dtype) = shapes_of(func, m)
    arrays = [drawn(*item, seed) for seed, item in enumerate(inputs)]
    expected = expected_of(arrays, trans, dtype)
    source = generate(lowered)
    assert ("wmma::mma_sync" if target.attrs["arch"] == "sm_75" else "ptx_mma") in source.text
    ways: list[Any] = [EmulatedProgram(lowered, source)]
    if not any(trans):
        ways.append(lambda *given: run(lowered, *given))
    for compute in ways:
        found = np.zeros(shape, expected.dtype)
        compute(*arrays, found)
        difference = np.abs(found.astype("float64") - expected.astype("float64")).max()
        assert difference <= tolerance * max(1.0, np.abs(expected.astype("float64")).max())


KINDS = [
    (T4, "float16", "float32", "float16"), (T4, "int8", "int32", ""),
    (A100, "float16", "float32", "float16"), (A100, "float16", "float16", ""), (A100, "bfloat16", "float32", "bfloat16"),
    (A100, "int8", "int32", ""), (A100, "uint8", "int32", "float32"), (ADA, "float8_e4m3fn", "float32", "float16"),
    (ADA, "float8_e5m2", "float32", ""), (HOPPER, "float8_e4m3fn", "float16", ""), (HOPPER, "float8_e5m2", "float32", "float8_e5m2"),
]  # fmt: skip
TOLERANCES = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-2, "float8_e5m2": 0.3, "int32": 0.0}


@needs_compiler
@pytest.mark.parametrize(("name", "dtype", "sums", "epilogue"), KINDS)
@pytest.mark.parametrize("trans", [(False, False), (True, True)])
def test_results(name: str, dtype: str, sums: str, epilogue: str, trans: tuple[bool, bool]) -> None:
    """Extents that are no multiples of any tile; several steps of a pipeline."""
    func = product(dtype, sums, (24, 40, 160), trans, epilogue=epilogue)
    check(func, Target(name), trans, tolerance=max(TOLERANCES[sums], TOLERANCES[epilogue or sums]))


@needs_compiler
@pytest.mark.parametrize("trans", [(True, False), (False, True)])
def test_batches(trans: tuple[bool, bool]) -> None:
    check(product("float16", "float32", (16, 64, 32), trans, batch=3), Target(A100), trans, tolerance=1e-5)


@needs_compiler
@pytest.mark.parametrize("m", [1, 130])
def test_one_program_computes_all_sizes(m: int) -> None:
    func = product(
        "float16", "float32", (tir.SizeVar("n", "int32"), 64, 96), (False, True), epilogue="float16"
    )
    check(func, Target(A100), (False, True), m, 1e-2)


@needs_nvrtc
@pytest.mark.parametrize(("name", "dtype", "sums", "epilogue"), KINDS)
@pytest.mark.parametrize("trans", [(False, False), (True, True)])
def test_large_products_have_the_instructions_and_no_spills(
    name: str, dtype: str, sums: str, epilogue: str, trans: tuple[bool, bool]
) -> None:
    target = Target(name)
    func = product(dtype, sums, (4096, 4096, 4096), trans, epilogue=epilogue)
    code = compile_cuda(
        generate(lower(default_schedule(func, target).mod, target)).text, str(target.attrs["arch"])
    )
    assert not code.warnings
    if name == T4:
        assert "wmma.mma.sync.aligned" in code.ptx
    else:
        assert "ldmatrix.sync" in code.ptx
        assert "cp.async.c" in code.ptx
        assert len(re.findall(r"mma\.sync\.aligned\.m16n8", code.ptx)) >= 16
    (usage,) = resource_usage(code.cubin).values()
    assert usage.local_bytes == 0
    assert usage.static_shared_bytes <= target.max_shared_memory_per_block


def test_products_that_tensor_cores_would_round_are_left_to_others() -> None:
    func = product("float32", "float32", (256, 256, 256))
    target = Target(A100)
    assert "mma" not in generate(lower(default_schedule(func, target).mod, target)).text
    float8 = product("float8_e4m3fn", "float32", (256, 256, 256))
    assert "mma" not in generate(lower(default_schedule(float8, target).mod, target)).text  # not before sm_89
