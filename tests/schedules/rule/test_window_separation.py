"""WindowSeparation through the contract; which windows it separates."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te, topi
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.postproc import postprocess
from schedules.rule import ScheduleRule, WindowSeparation
from schedules.space import PostOrderApply

from ..checks import assert_same_meaning
from ..rule_contract import TARGET, RuleContract


class TestWindowSeparation(RuleContract):
    def rule(self) -> ScheduleRule:
        return WindowSeparation()


def pool(layout: str, size: int, stride: int) -> PrimFunc:
    shape = (1, 4, 11, 21) if layout == "NCHW" else (1, 11, 21, 4)
    data = te.placeholder(shape, "float32", name="A")
    made = topi.nn.pool2d(data, [size, size], [stride, stride], [1, 1], [0, 0, 0, 0], "max", False, layout)
    return te.create_prim_func([data, made])


@pytest.mark.parametrize(
    ("layout", "size", "stride", "count"),
    [("NCHW", 3, 2, 2), ("NCHW", 3, 1, 1), ("NCHW", 2, 2, 1), ("NHWC", 3, 2, 1)],
)
def test_overlapping_windows_with_lanes_apart_are_separated(
    layout: str, size: int, stride: int, count: int
) -> None:
    rule = WindowSeparation()
    rule.initialize(TARGET)
    sch = Schedule(pool(layout, size, stride), seed=0)
    assert len(rule.apply(sch, sch.get_block("pool_max"))) == count


def test_separated_windows_are_structures_beside_the_whole_ones() -> None:
    func = pool("NCHW", 3, 2)
    sketches = PostOrderApply().generate_sketches(func, TARGET)
    separated = ["Separate" in [inst.kind.name for inst in sketch.trace.insts] for sketch in sketches]
    assert not separated[0] and any(separated)
    for sketch in [item for item, made in zip(sketches, separated, strict=True) if made]:
        sch = sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0])
        assert postprocess(sch, TARGET)
        assert_same_meaning(func, sch)
