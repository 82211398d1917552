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


def pool(layout: str, size: int, stride: int, padding: int = 0) -> PrimFunc:
    shape = (1, 4, 11, 21) if layout == "NCHW" else (1, 11, 21, 4)
    data = te.placeholder(shape, "float32", name="A")
    made = topi.nn.pool2d(data, [size, size], [stride, stride], [1, 1], [padding] * 4, "max", False, layout)
    return te.create_prim_func([data, made])


@pytest.mark.parametrize(
    ("layout", "size", "stride", "count"),
    [("NCHW", 3, 2, 3), ("NCHW", 3, 1, 1), ("NCHW", 2, 2, 1), ("NHWC", 3, 2, 1)],
)
def test_overlapping_windows_with_lanes_apart_are_separated(
    layout: str, size: int, stride: int, count: int
) -> None:
    rule = WindowSeparation()
    rule.initialize(TARGET)
    sch = Schedule(pool(layout, size, stride), seed=0)
    assert len(rule.apply(sch, sch.get_block("pool_max"))) == count


def test_windows_are_separated_row_by_row_with_the_padded_image_or_without() -> None:
    """What is computed for one row of windows is all that is kept of the rows."""
    func = pool("NCHW", 3, 2, padding=1)
    rule = WindowSeparation()
    rule.initialize(TARGET)
    sch = Schedule(func, seed=0)
    whole, separate, row_by_row, inlined = rule.apply(sch, sch.get_block("pool_max"))

    def shared(sch: Schedule) -> int:
        rows, windows = (
            map(sch.get, sch.get_loops(sch.get_block(name))) for name in ("pool_max_rv0", "pool_max")
        )
        return sum(one.loop_var is other.loop_var for one, other in zip(rows, windows, strict=False))

    assert [shared(sch) for sch in (separate, row_by_row, inlined)] == [0, 3, 3]
    assert ["pad_temp" in sch.mod.script() for sch in (whole, row_by_row, inlined)] == [True, True, False]
    for sch in (separate, row_by_row, inlined):
        assert_same_meaning(func, sch)


def test_separated_windows_are_structures_beside_the_whole_ones() -> None:
    func = pool("NCHW", 3, 2)
    sketches = PostOrderApply().generate_sketches(func, TARGET)
    separated = ["Separate" in [inst.kind.name for inst in sketch.trace.insts] for sketch in sketches]
    assert not separated[0] and any(separated)
    for sketch in [item for item, made in zip(sketches, separated, strict=True) if made]:
        sch = sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0])
        assert postprocess(sch, TARGET)
        assert_same_meaning(func, sch)
