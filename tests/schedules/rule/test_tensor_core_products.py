"""Products on the tensor cores of CUDA targets: random candidates of the default rules compile, have the instructions, and are right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from ir import IRModule, te, tir
from ir import dtype as dt
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
from schedules.postproc import postprocess
from schedules.rule import MultiLevelTilingTensorCore
from schedules.rule.default import default_rules
from schedules.space import PostOrderApply
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


needs_both = pytest.mark.skipif(
    not (has_nvrtc() and has_compiler()), reason="no NVRTC with headers, or no C++ compiler"
)


def product(
    dtype: str, total: str, out: str | None = None, transposed: bool = False, batch: int = 0, asks_tf32: bool = False,
    shape: tuple[int, int, int] = (32, 48, 64),
) -> PrimFunc:  # fmt: skip
    m, n, k = shape
    outer = (batch,) if batch else ()
    x = te.placeholder((*outer, m, k), dtype, "x")
    y = te.placeholder((*outer, n, k) if transposed else (*outer, k, n), dtype, "y")
    r = te.reduce_axis((0, k), "r")
    as_factor: Callable[[Any], Any] = tir.round_to_tf32 if asks_tf32 else (lambda value: value.astype(total))

    def term(*index: Any) -> Any:
        *b, i, j = index
        right = y[(*b, j, r)] if transposed else y[(*b, r, j)]
        return te.sum(as_factor(x[(*b, i, r)]) * as_factor(right), axis=r)

    z = te.compute((*outer, m, n), term, name="z")
    if out is None:
        return te.create_prim_func([x, y, z])
    return te.create_prim_func([x, y, te.compute(z.shape, lambda *i: z[i].astype(out), name="rounded")])


def tensor_core_sketches(func: PrimFunc, target: Target) -> list[Any]:
    sketches = PostOrderApply().generate_sketches(IRModule({"main": func}), target)
    return [item for item in sketches if "auto_tensorize" in str(item.trace)]


def expected_of(func: PrimFunc, arrays: list[np.ndarray], asks_tf32: bool, transposed: bool) -> np.ndarray:
    out = list(func.buffer_map.values())[-1].dtype
    a, b = (_as_tf32(item) if asks_tf32 else item for item in arrays)
    wide = "int64" if dt.is_integral(out) else "float64"
    b = np.swapaxes(b, -1, -2) if transposed else b
    return (a.astype(wide) @ b.astype(wide)).astype(dt.to_numpy(out))


def _as_tf32(values: np.ndarray) -> np.ndarray:
    return ((values.view("uint32") + 0x1000) & 0xFFFFE000).view("float32")


CASES: list[tuple[str, dict[str, Any], str, float]] = [
    (T4, {"dtype": "float16", "total": "float32", "out": "float16"}, "row", 2e-3),
    (A100, {"dtype": "float16", "total": "float16"}, "row", 1e-2),
    (A100, {"dtype": "bfloat16", "total": "float32", "out": "bfloat16", "transposed": True}, "col", 2e-2),
    (A100, {"dtype": "float32", "total": "float32", "asks_tf32": True}, "row", 1e-5),
    (A100, {"dtype": "int8", "total": "int32"}, "row", 0),
    (A100, {"dtype": "float16", "total": "float32", "batch": 2}, "row", 1e-5),
    (A100, {"dtype": "int8", "total": "int32", "shape": (30, 47, 60)}, "row", 0),
    (ADA, {"dtype": "float8_e4m3fn", "total": "float32", "out": "float16", "transposed": True}, "", 2e-3),
    (HOPPER, {"dtype": "float8_e5m2", "total": "float16"}, "", 2e-2),
]


def structures(name: str, options: dict[str, Any]) -> set[tuple[str, str, bool]]:
    """Which tensor cores, where results leave registers to, and whether copies are asynchronous."""
    if name == T4:
        return {("wmma", "shared", False)}
    families = {("mma", "shared")} | ({("wmma", "shared")} if "float8" not in options["dtype"] else set())
    if "out" not in options:  # nothing reads what is written
        families.add(("mma", "global"))
    return {(*family, is_pipelined) for family in families for is_pipelined in (False, True)}


def structure_of(trace: str) -> tuple[str, str, bool]:
    kind = "mma" if "mma_ldmatrix" in trace else "wmma"
    return kind, "global" if "_global" in trace else "shared", "software_pipeline_async_stages" in trace


@needs_both
@pytest.mark.parametrize(("name", "options", "layout", "tolerance"), CASES)
def test_candidates(name: str, options: dict[str, Any], layout: str, tolerance: float) -> None:
    target, func = Target(name), product(**options)
    module = IRModule({"main": func})
    sketches = tensor_core_sketches(func, target)
    found_structures = [structure_of(str(sketch.trace)) for sketch in sketches]
    assert sorted(found_structures) == sorted(structures(name, options))
    *inputs, out = func.buffer_map.values()
    arrays = [
        drawn(tuple(int(item) for item in buffer.shape), buffer.dtype, seed)
        for seed, buffer in enumerate(inputs)
    ]
    expected = expected_of(func, arrays, options.get("asks_tf32", False), options.get("transposed", False))
    for position, sketch in enumerate(sketches):
        row = sketch.sample(1, np.random.default_rng(position))[0]
        schedule = sketch.materialize(module, row)
        assert postprocess(schedule, target)
        lowered = lower(schedule.mod, target)
        source = generate(lowered)
        code = compile_cuda(source.text, str(target.attrs["arch"]))
        assert not code.warnings
        kind, _, is_pipelined = found_structures[position]
        if kind == "wmma":
            assert f"wmma.mma.sync.aligned.row.{layout}" in code.ptx
        else:
            assert "ldmatrix.sync.aligned" in code.ptx and "mma.sync.aligned.m16n8k" in code.ptx
            assert max(item.local_bytes for item in resource_usage(code.cubin).values()) == 0
        if not is_pipelined or "shape" not in options:  # else rows may be no multiples of what is copied so
            assert ("cp.async" in code.ptx) == is_pipelined
        ways: list[Any] = [EmulatedProgram(lowered, source)]
        if is_pipelined or name == T4:  # which looks for races, and takes its time
            ways.append(partial(run, lowered))
        for compute in ways:
            found = np.zeros(expected.shape, expected.dtype)
            compute(*arrays, found)
            difference = np.abs(found.astype("float64") - expected.astype("float64")).max()
            assert difference <= tolerance * max(1.0, np.abs(expected.astype("float64")).max())


def test_float32_is_not_rounded_unless_the_program_says_so() -> None:
    assert not tensor_core_sketches(product("float32", "float32"), Target(A100))
    assert tensor_core_sketches(product("float32", "float32", asks_tf32=True), Target(A100))
    assert not tensor_core_sketches(product("float32", "float32", asks_tf32=True), Target(T4))


def test_the_rules_of_a_target_have_what_its_architecture_multiplies() -> None:
    def kinds(name: str, prefix: str) -> set[str]:
        rules = [rule for rule in default_rules(Target(name)) if isinstance(rule, MultiLevelTilingTensorCore)]
        names = {group["compute"] for rule in rules for group in rule.intrin_groups}
        return {
            item.removeprefix(prefix).partition("_trans")[0].removesuffix("_a").rpartition("_")[2]
            for item in names
            if item.startswith(prefix)
        }

    assert kinds(T4, "wmma_sync_") == {"f16f16f32", "f16f16f16", "s8s8s32", "u8u8s32"}
    assert kinds(T4, "mma_") == set()  # whose products have half the depth there
    assert kinds(A100, "wmma_sync_") == kinds(T4, "wmma_sync_") | {"bf16bf16f32", "tf32tf32f32"}
    of_a100 = {"f16f16f32", "f16f16f16", "bf16bf16f32", "tf32tf32f32", "i8i8i32", "u8u8i32"}
    assert kinds(A100, "mma_") == of_a100
    of_float8 = {f"{a}{a}{c}" for a in ("e4m3", "e5m2") for c in ("f16", "f32")}
    assert kinds(ADA, "mma_") == kinds(HOPPER, "mma_") == of_a100 | of_float8


def test_a_row_times_a_matrix_is_not_padded_to_tiles() -> None:
    assert not tensor_core_sketches(product("float16", "float32", shape=(1, 64, 64)), Target(A100))
    assert tensor_core_sketches(product("float16", "float32", shape=(15, 64, 64)), Target(A100))


def test_other_structures_stay() -> None:
    func = product("float16", "float32")
    every = PostOrderApply().generate_sketches(IRModule({"main": func}), Target(A100))
    assert len(every) > len(tensor_core_sketches(func, Target(A100)))
