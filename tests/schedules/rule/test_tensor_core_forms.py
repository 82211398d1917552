"""Products of all kinds on tensor cores: operands in either order, convolutions, groups, split sums, persistent blocks, epilogues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from cost_models import estimate_seconds
from cost_models.feature import skeleton_of_schedule
from ir import IRModule
from ir import dtype as dt
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.target import Target
from ir.tir import PrimFunc, TensorIntrin
from ir.tir.interpreter import run
from ir.tir.kernel_launch import is_kernel, kernel_launch
from ir.tir.lower import lower
from runners.native import build_native
from schedules.postproc import postprocess
from schedules.rule import MultiLevelTilingTensorCore
from schedules.rule.default import tensor_core_rules
from schedules.rule.tile_form import described_form
from schedules.space import PostOrderApply
from tests.programs.products import convolution, dense, transposed_convolution

from .test_tensor_core_products import needs_both, tensor_core_sketches

A100 = Target("nvidia/nvidia-a100")
SMALL_CARD = Target({**A100.export(), "multi_processor_count": 4})
"""Few multiprocessors, for which small products have many tiles."""


@dataclass(frozen=True)
class Case:
    """A program, and the layouts of its operands in the instructions that multiply it."""

    func: Callable[[], PrimFunc]
    layouts: str
    target: Target = A100
    copies_ahead: bool = False
    """Whether the second structure has asynchronous copies."""


CASES = {
    "first operand by columns": Case(lambda: dense(trans_a=True), "col.row", copies_ahead=True),
    "both by columns": Case(
        lambda: dense(dtype="bfloat16", trans_a=True, trans_b=True), "col.col", copies_ahead=True
    ),
    "int8 by columns": Case(
        lambda: dense(dtype="int8", total="int32", trans_a=True), "col.row", copies_ahead=True
    ),
    "batches": Case(lambda: dense((16, 32, 32), batch=(2, 3), trans_b=True), "row.col", copies_ahead=True),
    "channels last": Case(lambda: convolution("NHWC"), "row.row", copies_ahead=True),
    "channels first": Case(lambda: convolution("NCHW"), "row.row", copies_ahead=True),
    "channels last, int8": Case(
        lambda: convolution("NHWC", "int8", "int32", channels=(16, 32)), "row.row", copies_ahead=True
    ),
    "channels first, int8, images": Case(lambda: convolution("NCHW", "int8", "int32", batch=2), "row.row"),
    "stride": Case(lambda: convolution("NHWC", "bfloat16", image=9, stride=2), "row.row", copies_ahead=True),
    "padded": Case(lambda: convolution("NHWC", image=7, channels=(12, 28)), "row.row", copies_ahead=True),
    "groups": Case(lambda: convolution("NHWC", channels=(32, 32), groups=2), "row.row", copies_ahead=True),
    "groups, channels first": Case(
        lambda: convolution("NCHW", channels=(32, 32), groups=2), "row.row", copies_ahead=True
    ),
    "transposed convolution": Case(transposed_convolution, "row.row", copies_ahead=True),
}

INTERPRETED = ("first operand by columns", "channels last", "groups, channels first")
"""Cases that run in the interpreter, too, which looks for races and takes long."""


def prepared(func: PrimFunc) -> tuple[list[np.ndarray], np.ndarray]:
    """Small integers, whose sums are exact in any order, and what the unscheduled program makes of them."""
    generator = np.random.default_rng(0)
    *inputs, out = [
        np.zeros([int(extent) for extent in buffer.shape], dt.to_numpy(buffer.dtype))
        for buffer in func.buffer_map.values()
    ]
    arrays = [generator.integers(-2, 3, item.shape).astype(item.dtype) for item in inputs]
    build_native(func, "llvm")(*arrays, out)
    return arrays, out


def computed(func: PrimFunc, sketch: Any, target: Target, seed: int = 0, interprets: bool = False) -> Any:
    """A candidate's source and code, after it has computed what the program does."""
    module = IRModule({"main": func})
    schedule = sketch.materialize(module, sketch.sample(1, np.random.default_rng(seed))[0])
    assert postprocess(schedule, target)
    lowered = lower(schedule.mod, target)
    source = generate(lowered)
    code = compile_cuda(source.text, str(target.attrs["arch"]))
    assert not code.warnings
    arrays, expected = prepared(func)
    ways: list[Callable[..., Any]] = [EmulatedProgram(lowered, source)]
    for compute in ways + ([lambda *given: run(lowered, *given)] if interprets else []):
        found = np.zeros_like(expected)
        compute(*arrays, found)
        np.testing.assert_array_equal(found.astype("float64"), expected.astype("float64"))
    return source, code


@needs_both
@pytest.mark.parametrize("name", sorted(CASES))
def test_products_are_right_and_use_tensor_cores(name: str) -> None:
    case = CASES[name]
    func = case.func()
    sketches = tensor_core_sketches(func, case.target)
    assert len(sketches) >= 2
    for position, sketch in enumerate(sketches[:2]):
        _, code = computed(
            func, sketch, case.target, position, interprets=position == 1 and name in INTERPRETED
        )
        assert f"wmma.mma.sync.aligned.{case.layouts}" in code.ptx
        assert ("cp.async" in code.ptx) == (case.copies_ahead and position == 1)


@needs_both
@pytest.mark.parametrize("kind", ["rfactor", "SSSSRRSRS"])
def test_split_sums_and_persistent_blocks_are_right(kind: str) -> None:
    func = dense((32, 32, 512)) if kind == "rfactor" else dense((64, 96, 32), has_epilogue=True)
    sketches = [item for item in tensor_core_sketches(func, SMALL_CARD) if kind in _text(item)]
    assert len(sketches) >= 2
    for sketch in sketches[:2]:
        _, code = computed(func, sketch, SMALL_CARD)
        assert "mma.sync" in code.ptx


def _text(sketch: Any) -> str:
    return str(sketch.trace).replace("RFactor", "rfactor")


@needs_both
@pytest.mark.parametrize(
    "func",
    [
        dense(has_epilogue=True),
        convolution("NHWC", has_epilogue=True),
        convolution("NCHW", has_epilogue=True),
        convolution("NHWC", image=7, channels=(16, 27), has_epilogue=True),
    ],
    ids=["dense", "channels last", "channels first", "padded"],
)
def test_epilogues_are_in_the_kernel(func: PrimFunc) -> None:
    first, second = tensor_core_sketches(func, A100)[:2]
    for sketch in (first, second):
        source, _ = computed(func, sketch, A100)
        assert source.text.count("__global__") == 1
        (memory,) = [buffer for buffer in _stored(source.text)]
        assert memory == "out"


def _stored(text: str) -> set[str]:
    """The arguments of a kernel that are not constant."""
    arguments = text[text.index("main_kernel(") :].partition(")")[0].partition("(")[2].split(",")
    return {item.split()[-1] for item in arguments if "const" not in item}


@needs_both
def test_tiles_of_more_than_48_kib_ask_for_them() -> None:
    func = dense((512, 512, 512))
    module = IRModule({"main": func})
    asked = []
    for sketch in tensor_core_sketches(func, A100)[:2]:
        for row in sketch.sample(12, np.random.default_rng(0)):
            schedule = sketch.materialize(module, row)
            assert postprocess(schedule, A100)
            lowered = lower(schedule.mod, A100)
            # the first one multiplies; of a split sum a second one adds the parts up
            kernel = next(item for item in lowered.functions.values() if is_kernel(item))
            dynamic = kernel_launch(kernel).dynamic_bytes
            asked.append(0 if dynamic is None else int(dynamic))
            if dynamic is not None and len([item for item in asked if item]) == 1:
                code = compile_cuda(generate(lowered).text, "sm_80")
                assert all(item.static_shared_bytes == 0 for item in code.resources.values())
    assert max(asked) > 48 << 10 and max(asked) <= A100.max_shared_memory_per_block_optin
    assert min(asked) == 0


@pytest.mark.parametrize("name", ["channels first", "first operand by columns", "groups"])
def test_arrays_and_programs_agree(name: str) -> None:
    func = CASES[name].func()
    module = IRModule({"main": func})
    for sketch in PostOrderApply().generate_sketches(module, SMALL_CARD)[:8]:
        rows = sketch.sample(2, np.random.default_rng(0))
        found = estimate_seconds(sketch.skeleton(rows), SMALL_CARD)
        for row, seconds in zip(rows, found, strict=True):
            program = skeleton_of_schedule(sketch.materialize(module, row))
            assert estimate_seconds(program, SMALL_CARD) == pytest.approx([seconds])


@pytest.mark.parametrize("name", ["nvidia/nvidia-h200", "nvidia/geforce-rtx-4090", "nvidia/nvidia-t4"])
def test_candidates_are_valid(name: str) -> None:
    """Masks know what staged results, rows that lie apart, and the stages of a pipeline take."""
    target = Target(name)
    for func in (dense((512, 512, 512)), convolution("NCHW", image=28, channels=(64, 64))):
        module = IRModule({"main": func})
        for sketch in tensor_core_sketches(func, target)[:4]:
            for row in sketch.sample(5, np.random.default_rng(1)):
                assert postprocess(sketch.materialize(module, row), target)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_rules_have_intrinsics_for_each_order_of_operands(trans_a: bool, trans_b: bool) -> None:
    """Of each dtype that the architecture multiplies."""
    rule = next(item for item in tensor_core_rules(A100) if isinstance(item, MultiLevelTilingTensorCore))
    dtypes = set()
    for group in rule.intrin_groups:
        compute = TensorIntrin.get(group["compute"])
        form = None if compute is None else described_form(compute.desc)
        if form is not None and (form.trans_a, form.trans_b) == (trans_a, trans_b):
            dtypes.add(form.dtypes[1])
    assert dtypes == {"float16", "bfloat16", "float32", "int8", "uint8"}
