"""RowReductions through the contract: chains of reductions over rows as one kernel, beside the kernels that there are otherwise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from experiments.operators import suite
from ir import IRModule, te, tir, topi
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.error import CudaToolkitError
from ir.target import Target
from ir.tir import PrimFunc, Var
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules import Schedule, ScheduleError
from schedules.block_facts import node_of
from schedules.dlight import default_schedule
from schedules.postproc import postprocess
from schedules.rule import RowReductions, ScheduleRule
from schedules.rule.row_kernel import RowNumbers, compute_rows, rows_of
from schedules.rule.row_reductions import chain_before
from schedules.space import PostOrderApply
from schedules.tree import all_blocks, loops_around

from ..rule_contract import RuleContract

A100 = Target("nvidia/nvidia-a100")
TARGETS = {
    "nvidia/nvidia-t4": "sm_75",
    "nvidia/nvidia-a100": "sm_80",
    "nvidia/geforce-rtx-4090": "sm_89",
    "nvidia/nvidia-h200": "sm_90a",
}


def has_nvrtc() -> bool:
    try:
        return toolkit().has_headers
    except CudaToolkitError:
        return False


needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC with headers")
needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")


class TestRowReductions(RuleContract):
    def rule(self) -> ScheduleRule:
        return RowReductions()


def log_sum_exp(rows: Any, columns: int, dtype: str = "float32") -> PrimFunc:
    x = te.placeholder((rows, columns), dtype, name="x")
    k, n = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "n")
    largest = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="largest")
    total = te.compute((rows,), lambda i: te.sum(tir.exp(x[i, n] - largest[i]), axis=n), name="total")
    return te.create_prim_func([x, te.compute((rows,), lambda i: tir.log(total[i]) + largest[i], name="y")])


def half_softmax(rows: int, columns: int) -> PrimFunc:
    x = te.placeholder((rows, columns), "float16", name="x")
    return te.create_prim_func([x, topi.nn.softmax(x, 1)])


def as_rows(func: PrimFunc, target: Target = A100) -> list[Any]:
    """The sketches in which blocks of threads compute rows."""
    sketches = PostOrderApply().generate_sketches(IRModule({"main": func}), target)
    return [sketch for sketch in sketches if "threadIdx.y" in str(sketch.trace)]


def drawn(func: PrimFunc, sketch: Any, count: int, target: Target = A100) -> list[Schedule]:
    found = []
    module = IRModule({"main": func})
    for row in sketch.sample(count, np.random.default_rng(1)):
        sch = sketch.materialize(module, row)
        assert postprocess(sch, target)
        found.append(sch)
    return found


CASES: dict[str, tuple[str, tuple[int, ...]]] = {
    "softmax": ("softmax", (4, 48)),
    "layer_norm": ("layer_norm", (6, 32)),
    "layer_norm of an odd length": ("layer_norm", (4, 37)),
    "rms_norm": ("rms_norm", (3, 40)),
    "group_norm": ("group_norm", (2, 4, 2, 4, 2)),
}


@needs_compiler
@pytest.mark.parametrize("case", list(CASES))
def test_candidates_compute_what_the_operator_does(case: str) -> None:
    name, shape = CASES[case]
    func, inputs = suite.workload(name, shape), suite.inputs(name, shape)
    assert_candidates_compute(func, inputs, np.asarray(suite.reference(name, inputs, shape), "float32"))


@needs_compiler
def test_log_sum_exp_is_one_kernel() -> None:
    x = np.random.default_rng(0).standard_normal((6, 64)).astype("float32")
    assert_candidates_compute(log_sum_exp(6, 64), [x], np.log(np.exp(x.astype("float64")).sum(1)))


@needs_compiler
def test_rows_of_half_floats() -> None:
    x = np.random.default_rng(0).standard_normal((4, 64)).astype("float16")
    exponents = np.exp(x.astype("float64"))
    expected = exponents / exponents.sum(1, keepdims=True)
    assert_candidates_compute(half_softmax(4, 64), [x], expected.astype("float16"), 2e-3)


def assert_candidates_compute(
    func: PrimFunc, inputs: list[np.ndarray], expected: np.ndarray, tolerance: float = 1e-5
) -> None:
    """One of each structure: in the emulation, and in the interpreter, which looks for races."""
    sketches = as_rows(func)
    assert sketches
    dtype = func.buffer_map[func.params[-1]].dtype
    for sketch in sketches:
        (sch,) = drawn(func, sketch, 1)
        lowered = lower(sch.mod, A100)
        source = generate(lowered)
        assert len(source.kernels) == 1
        ways: list[Callable[..., Any]] = [EmulatedProgram(lowered, source), partial(run, lowered)]
        for way in ways:
            found = np.full(expected.shape, 77, dtype)
            way(*inputs, found)
            np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@needs_nvrtc
@pytest.mark.parametrize("target", list(TARGETS))
@pytest.mark.parametrize(
    ("name", "shape"),
    [("softmax", (512, 1024)), ("layer_norm", (64, 12288)), ("group_norm", (2, 64, 32, 32, 8))],
)
def test_large_rows_spill_nothing(name: str, shape: tuple[int, int], target: str) -> None:
    device, func = Target(target), suite.workload(name, shape)
    for sketch in as_rows(func, device):
        for sch in drawn(func, sketch, 1, device):
            code = compile_cuda(generate(lower(sch.mod, device)).text, TARGETS[target])
            (kernel,) = code.resources.values()
            assert not code.warnings and kernel.spill_store_bytes == kernel.local_bytes == 0


def numbers_of(sch: Schedule) -> tuple[int, int, bool]:
    """Threads of a row, rows of a block, and whether rows are kept in registers."""
    func = sch.func_working_on
    assert func is not None
    nodes = all_blocks(sch._root(func))
    extents = {
        loop.thread_binding.thread_tag: int(loop.extent)  # type: ignore[call-overload]
        for loop in loops_around(nodes[-1])
        if loop.thread_binding is not None
    }
    return extents["threadIdx.x"], extents["threadIdx.y"], any(node.name.endswith("_local") for node in nodes)


def test_numbers_are_masked_before_they_are_drawn() -> None:
    func = suite.workload("softmax", (48, 2048))
    kept, read_again = as_rows(func)
    for sketch in (kept, read_again):
        found = {numbers_of(sch) for sch in drawn(func, sketch, 12)}
        assert len(found) > 3
        for threads, rows, is_kept in found:
            assert 32 <= threads * rows <= 1024 and 48 % rows == 0
            assert is_kept == (sketch is kept) and (not is_kept or 2048 // threads <= 32)
        assert any(rows > 1 for _, rows, _ in found)


def test_the_rows_that_no_threads_hold_are_read_again() -> None:
    func = suite.workload("softmax", (4, 50000))
    (sketch,) = as_rows(func)
    assert all(not numbers_of(sch)[2] for sch in drawn(func, sketch, 4))


def test_a_group_s_channels_are_one_row() -> None:
    """Blocks of threads have neighbouring groups, and registers what a thread has of one, in a piece."""
    func = suite.workload("group_norm", (2, 12, 8, 8, 4))
    kept, _ = as_rows(func)
    for sch in drawn(func, kept, 4):
        threads, rows, _ = numbers_of(sch)
        assert 4 % rows == 0 and 192 % threads == 0
        node = next(node for node in all_blocks(sch._root(sch.func_working_on)) if node.name == "x_red")  # type: ignore[arg-type]
        extents = [int(loop.extent) for loop in loops_around(node)]  # type: ignore[call-overload]
        assert extents[:2] == [8 // rows, rows] and np.prod(extents[2:]) == 192


def test_how_far_loops_are_unrolled_is_sampled_once() -> None:
    """By the rule: what the root block would say is nothing that changes this nest."""
    kept, *_ = as_rows(suite.workload("softmax", (48, 2048)))
    assert str(kept.trace).count("unroll") == 2 and "meta_schedule.unroll" not in str(kept.trace)


def test_default_and_space_make_the_same_kernel() -> None:
    """The default's numbers are one row of the space."""
    func = suite.workload("layer_norm", (8, 512))
    sch = Schedule(func)
    sch.compute_inline("mean")
    last = sch.get_block("T_layer_norm")
    nodes = chain_before(node_of(sch, last))
    rows = rows_of(nodes)
    assert rows is not None and rows.count == 8 and rows.length == 512
    compute_rows(sch, [sch.get_block(node.name) for node in nodes], rows, RowNumbers(128, 4, keeps=True))
    expected = default_schedule(func, A100)
    assert generate(lower(sch.mod, A100)).text == generate(lower(expected.mod, A100)).text


@pytest.mark.parametrize("name", ["softmax over columns", "mean", "symbolic rows", "parts of rows"])
def test_what_has_no_common_rows_is_left_alone(name: str) -> None:
    x = te.placeholder((64, 48), "float32", name="x")
    n = Var("n", "int32")
    k = te.reduce_axis((0, 48), "k")
    part = te.reduce_axis((0, 4), "part")
    within = te.reduce_axis((0, 12), "within")
    parts = te.compute((64, 4), lambda i, p: te.sum(x[i, p * 12 + within], axis=within), name="parts")
    total = te.compute((64,), lambda i: te.sum(parts[i, part], axis=part), name="total")
    programs = {
        "softmax over columns": lambda: te.create_prim_func([x, topi.nn.softmax(x, 0)]),
        "mean": lambda: te.create_prim_func(
            [
                x,
                te.compute(
                    (64,),
                    lambda i: te.compute((64,), lambda r: te.sum(x[r, k], axis=k), name="sum")[i] / 48.0,
                    name="mean",
                ),
            ]
        ),
        "symbolic rows": lambda: log_sum_exp(n, 64),
        "parts of rows": lambda: te.create_prim_func(
            [x, te.compute((64, 48), lambda i, j: x[i, j] - total[i], name="y")]
        ),
    }
    assert not as_rows(programs[name]())


def test_numbers_are_positive() -> None:
    with pytest.raises(ScheduleError, match="thread_extents and most_rows must be positive"):
        RowReductions(most_rows=0)
