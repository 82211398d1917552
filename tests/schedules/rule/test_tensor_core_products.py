"""Products on the tensor cores of CUDA targets: random candidates of the default rules compile, have the instructions, and are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import IRModule, te, tir
from ir import dtype as dt
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
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

T4, A100 = "nvidia/nvidia-t4", "nvidia/nvidia-a100"


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
]


@needs_both
@pytest.mark.parametrize(("name", "options", "layout", "tolerance"), CASES)
def test_candidates(name: str, options: dict[str, Any], layout: str, tolerance: float) -> None:
    target, func = Target(name), product(**options)
    module = IRModule({"main": func})
    sketches = tensor_core_sketches(func, target)
    assert len(sketches) == (1 if name == T4 else 2)
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
        assert f"wmma.mma.sync.aligned.row.{layout}" in code.ptx
        assert ("cp.async" in code.ptx) == (position == 1)
        for compute in (
            EmulatedProgram(lowered, source),
            lambda *given, lowered=lowered: run(lowered, *given),
        ):
            found = np.zeros(expected.shape, expected.dtype)
            compute(*arrays, found)
            difference = np.abs(found.astype("float64") - expected.astype("float64")).max()
            assert difference <= tolerance * max(1.0, np.abs(expected.astype("float64")).max())


def test_float32_is_not_rounded_unless_the_program_says_so() -> None:
    assert not tensor_core_sketches(product("float32", "float32"), Target(A100))
    assert tensor_core_sketches(product("float32", "float32", asks_tf32=True), Target(A100))
    assert not tensor_core_sketches(product("float32", "float32", asks_tf32=True), Target(T4))


def test_the_rules_of_a_target_have_what_its_architecture_multiplies() -> None:
    def kinds(name: str) -> set[str]:
        rules = [rule for rule in default_rules(Target(name)) if isinstance(rule, MultiLevelTilingTensorCore)]
        return {group["compute"].rpartition("_")[2] for rule in rules for group in rule.intrin_groups} - {
            "trans"
        }

    assert kinds(T4) == {"f16f16f32", "f16f16f16", "s8s8s32", "u8u8s32"}
    assert kinds(A100) == kinds(T4) | {"bf16bf16f32", "tf32tf32f32"}


def test_a_row_times_a_matrix_is_not_padded_to_tiles() -> None:
    assert not tensor_core_sketches(product("float16", "float32", shape=(1, 64, 64)), Target(A100))
    assert tensor_core_sketches(product("float16", "float32", shape=(15, 64, 64)), Target(A100))


def test_other_structures_stay() -> None:
    func = product("float16", "float32")
    every = PostOrderApply().generate_sketches(IRModule({"main": func}), Target(A100))
    assert len(every) > len(tensor_core_sketches(func, Target(A100)))
