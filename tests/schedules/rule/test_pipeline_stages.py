"""Stages of pipelines are decisions of tensor-core tiles, within shared memory, and all of them compute the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from cost_models.gpu_accesses import shared_bytes, steps_ahead
from ir import IRModule
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.target import Target
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.tir.tensor_intrin import get_mma_intrin_group
from schedules import ScheduleError
from schedules.population import Sketch
from schedules.population.decision import CategoricalDecision
from schedules.postproc import postprocess
from schedules.rule import MultiLevelTilingTensorCore, ReuseType
from schedules.space import PostOrderApply
from tests.programs.products import dense

A100 = Target("nvidia/nvidia-a100")
AHEAD = [1, 2, 3]


def rule(stages: list[int]) -> MultiLevelTilingTensorCore:
    """The default's, for products by ``mma`` that lanes write out."""
    return MultiLevelTilingTensorCore(
        [get_mma_intrin_group("shared", "global", "float16", "float32", False, False)],
        "SSSRRSRS",
        tile_binds=["blockIdx.y", "blockIdx.x", "threadIdx.y"],
        max_innermost_factor=4,
        vector_load_lens=[8],
        reuse_read=ReuseType("must", [4], "shared"),
        reuse_write=ReuseType("must", [2], "shared"),
        use_software_pipeline=True,
        pipeline_stages=stages,
    )


def sketch_of(shape: tuple[int, int, int], target: Target = A100, stages: list[int] | None = None) -> Sketch:
    space = PostOrderApply(sch_rules=[rule(stages or [2, 3, 4])])
    (sketch,) = space.generate_sketches(IRModule({"main": dense(shape)}), target)
    return sketch


def stages_of(sketch: Sketch, rows: np.ndarray) -> np.ndarray:
    """Of the pipelines of some rows."""
    return 1 + np.asarray(AHEAD)[rows[:, column_of(sketch)]]


def column_of(sketch: Sketch) -> int:
    """The decision that says how far copies are ahead."""
    (column,) = [
        number
        for number, decision in enumerate(sketch.decisions)
        if isinstance(decision, CategoricalDecision) and decision.candidates == AHEAD
    ]
    return column


def test_all_numbers_of_stages_are_drawn() -> None:
    sketch = sketch_of((64, 64, 512))
    assert set(stages_of(sketch, sketch.sample(64, np.random.default_rng(0)))) == {2, 3, 4}


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_all_numbers_of_stages_compute_the_same(stages: int) -> None:
    """Exactly, in both emulations; as many copies are under way as there are stages beside the one that is computed with."""
    shape = (16, 16, 96)
    func = dense(shape)
    sketch = sketch_of(shape)
    rows = sketch.sample(64, np.random.default_rng(0))
    schedule = sketch.materialize(IRModule({"main": func}), rows[stages_of(sketch, rows) == stages][0])
    assert postprocess(schedule, A100)
    lowered = lower(schedule.mod, A100)
    source = generate(lowered)
    assert f"wait_group<{stages - 1}>" in source.text and f"wait_group<{stages}>" not in source.text
    generator = np.random.default_rng(1)
    x, y = (generator.integers(-3, 4, size).astype("float16") for size in ((16, 96), (96, 16)))
    ways: list[Callable[..., Any]] = [EmulatedProgram(lowered, source), partial(run, lowered)]
    for way in ways:
        found = np.zeros((16, 16), "float32")
        way(x, y, found)
        np.testing.assert_array_equal(found, x.astype("float32") @ y.astype("float32"))


def with_shared_memory(size: int) -> Target:
    return Target(
        {**A100.export(), "max_shared_memory_per_block": size, "max_shared_memory_per_block_optin": size}
    )


def test_shared_memory_bounds_the_stages() -> None:
    """Before anything is drawn: where there is room for two stages of the smallest tile, none has more."""
    smallest = 2 * 2 * 16 * 72  # bytes of a step of both operands, whose rows lie 72 elements apart
    for stages in (2, 3):
        narrow = sketch_of((16, 16, 512), with_shared_memory(stages * smallest + smallest // 2))
        found = stages_of(narrow, narrow.sample(128, np.random.default_rng(0)))
        assert set(found) == set(range(2, stages + 1))


def test_few_steps_have_few_stages() -> None:
    """Copies that are more steps ahead than there are would be the same pipeline in more memory."""
    found = sketch_of((64, 64, 32))
    assert set(stages_of(found, found.sample(64, np.random.default_rng(0)))) == {2}


def test_the_estimate_knows_the_stages() -> None:
    sketch = sketch_of((64, 64, 512))
    row = sketch.sample(64, np.random.default_rng(0))
    two = row[stages_of(sketch, row) == 2][:1]
    rows = np.concatenate([two, two, two])
    rows[:, column_of(sketch)] = [0, 1, 2]
    nests = sketch.skeleton(rows).nests
    held = shared_bytes(nests, 3)
    np.testing.assert_array_equal(held / held[0], [1, 1.5, 2])
    assert {tuple(steps_ahead(nest)) for nest in nests if np.any(steps_ahead(nest))} == {(1, 2, 3)}


def test_stages_are_two_at_least() -> None:
    with pytest.raises(ScheduleError, match="pipeline_stages must be numbers from 2 on, got \\[1, 2\\]"):
        rule([1, 2])
