"""The contract that every schedule rule keeps; a test class per rule inherits it and supplies the rule."""

from __future__ import annotations

import numpy as np
import pytest

from ir.target import Target
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.population import Sketch
from schedules.population.sketch import SketchSchedule
from schedules.rule import ScheduleRule
from tests.programs.expressions import elementwise, matmul_bias, row_sum

from .checks import assert_replays, assert_same_meaning

TARGET = Target("llvm -mcpu=skylake-avx512 -num-cores 2")


PROGRAMS = {"matmul_bias": matmul_bias, "elementwise": elementwise, "row_sum": row_sum}


class RuleContract:
    """What holds for every rule on every program."""

    def rule(self) -> ScheduleRule:
        """The rule under test."""
        raise AssertionError("a subclass supplies the rule")

    def ready(self) -> ScheduleRule:
        rule = self.rule()
        rule.initialize(TARGET)
        return rule

    @pytest.mark.parametrize("name", sorted(PROGRAMS))
    def test_gives_schedules_that_mean_the_same(self, name: str) -> None:
        func = PROGRAMS[name]()
        for block in self.blocks(func):
            sch = Schedule(func, seed=0, error_render_level="none")
            found = self.ready().offers(sch, sch.get_block(block))
            assert found and all(isinstance(item, Schedule) for item in found)
            for item in found[:2]:
                assert_replays(item, func)
                if name != "row_sum":  # too long for the interpreter
                    assert_same_meaning(func, item)

    @pytest.mark.parametrize("name", sorted(PROGRAMS))
    def test_works_on_sketches(self, name: str) -> None:
        func = PROGRAMS[name]()
        for block in self.blocks(func):
            start = SketchSchedule(func, seed=0)
            for item in self.ready().offers(start, start.get_block(block)):
                assert isinstance(item, SketchSchedule)
                sketch = Sketch(item)
                rows = sketch.sample(2, np.random.default_rng(0))
                assert len(rows)
                for row in rows:
                    sch = sketch.materialize(func, row)
                    assert_replays(sch, func)
                if name != "row_sum":  # too long for the interpreter
                    assert_same_meaning(func, sch)

    def test_a_clone_does_the_same(self) -> None:
        func = matmul_bias()
        texts = []
        rule = self.ready()
        for item in (rule, rule.clone()):
            sch = Schedule(func, seed=0, error_render_level="none")
            texts.append([found.mod.script() for found in item.apply(sch, sch.get_block("C"))])
        assert texts[0] == texts[1]

    def test_a_block_that_is_marked_already_is_no_error(self) -> None:
        func = elementwise()
        sch = Schedule(func, seed=0, error_render_level="none")
        loop = sch.get_loops("C")[0]
        sch.annotate(loop, "meta_schedule.parallel", 1)
        found = self.ready().offers(sch, sch.get_block("C"))
        assert found
        for item in found:
            assert_replays(item, func)
            assert_same_meaning(func, item)

    @staticmethod
    def blocks(func: PrimFunc) -> list[str]:
        sch = Schedule(func)
        return [sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_block("root"))]
