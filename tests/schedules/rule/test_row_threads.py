"""RowThreads through the contract, and all that it offers against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cost_models import estimate_seconds
from ir import te, topi
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.target import Target
from ir.tir import PrimFunc, Var
from ir.tir.lower import lower
from schedules.postproc import postprocess
from schedules.rule import RowThreads, ScheduleRule
from schedules.space import PostOrderApply

from ..checks import assert_replays
from ..rule_contract import RuleContract

TARGETS = [
    Target(name)
    for name in ("nvidia/nvidia-t4", "nvidia/nvidia-a100", "nvidia/geforce-rtx-4090", "nvidia/nvidia-h200")
]


class TestRowThreads(RuleContract):
    def rule(self) -> ScheduleRule:
        return RowThreads()


def topk(rows: int, columns: Any, k: int, axis: int = 1) -> PrimFunc:
    shape = (rows, columns) if axis else (columns, rows)
    source = te.placeholder(shape, "float32", name="A")
    return te.create_prim_func([source, topi.topk(source, k, axis, "indices", False, "int64")])


@pytest.mark.parametrize(
    ("rows", "columns", "k"), [(2, 500, 10), (1, 200, 1), (2, 64, 60), (1, 2048, 0), (1, 4200, 40)]
)
def test_all_candidates_find_the_same(rows: int, columns: int, k: int) -> None:
    func = topk(rows, columns, k)
    data = np.random.default_rng(0).integers(0, columns // 2, (rows, columns)).astype("float32")
    expected = np.argsort(-data, axis=1, kind="stable")[:, : k or columns]
    sketches = PostOrderApply().generate_sketches(func, TARGETS[1])
    assert sketches
    seen = set()
    for sketch in sketches:
        (seconds,) = estimate_seconds(sketch.skeleton(np.zeros((1, 0), "int64")), TARGETS[1])
        assert seconds > 0, "candidates have features in array form"
        sch = sketch.materialize(func, np.zeros(0, "int64"))
        assert_replays(sch, func)
        assert postprocess(sch, TARGETS[1])
        lowered = lower(sch.mod, TARGETS[1])
        source = generate(lowered)
        seen.add(source.text)
        found = np.empty(expected.shape, "int64")
        EmulatedProgram(lowered, source)(data, found)
        np.testing.assert_array_equal(found, expected)
    assert len(seen) == len(sketches)
    assert all("threadIdx.x" in text for text in seen)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_candidates_are_valid_on_every_target(target: Target) -> None:
    for func in (topk(8, 32000, 128), topk(64, 4096, 0), topk(4, 300, 300, axis=0)):
        for sketch in PostOrderApply().generate_sketches(func, target):
            assert postprocess(sketch.materialize(func, np.zeros(0, "int64")), target)


@pytest.mark.parametrize("columns", [37, 600])
def test_rows_that_are_no_power_of_two_have_candidates(columns: int) -> None:
    """Threads have several records each, some of them behind the row's end."""
    source = te.placeholder((1, columns), "float32", name="A")
    func = te.create_prim_func([source, topi.sort(source)])
    schedules = [
        sketch.materialize(func, np.zeros(0, "int64"))
        for sketch in PostOrderApply().generate_sketches(func, TARGETS[0])
    ]
    assert all(postprocess(sch, TARGETS[0]) for sch in schedules)
    data = np.random.default_rng(0).permutation(columns).astype("float32")[None]
    if columns == 37:  # longer rows are compiled for seconds
        lowered = lower(schedules[0].mod, TARGETS[0])
        found = np.empty((1, columns), "float32")
        EmulatedProgram(lowered, generate(lowered))(data, found)
        np.testing.assert_array_equal(found, np.sort(data))


def test_rows_may_lie_along_any_axis() -> None:
    func = topk(3, 100, 7, axis=0)
    data = np.random.default_rng(0).permutation(300).reshape(100, 3).astype("float32")
    sketch = PostOrderApply().generate_sketches(func, TARGETS[1])[0]
    lowered = lower(sketch.materialize(func, np.zeros(0, "int64")).mod, TARGETS[1])
    found = np.empty((7, 3), "int64")
    EmulatedProgram(lowered, generate(lowered))(data, found)
    np.testing.assert_array_equal(found, np.argsort(-data, axis=0)[:7])


@pytest.mark.parametrize("columns", [Var("n", "int32"), 1 << 16])
def test_rows_that_no_block_holds_have_the_operators_algorithm(columns: Any) -> None:
    func = topk(2, columns, 0)
    (sketch,) = PostOrderApply(sch_rules=[RowThreads()]).generate_sketches(func, TARGETS[1])
    assert "order_rows" not in str(sketch.materialize(func, np.zeros(0, "int64")).trace)
