"""SplitReduction through the contract: parts by a kernel of their own, where results leave multiprocessors idle."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ir import IRModule
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.lower import lower
from schedules import Schedule, ScheduleError
from schedules.block_facts import node_of
from schedules.dlight import default_schedule
from schedules.postproc import postprocess
from schedules.rule import ScheduleRule, SplitReduction
from schedules.rule.split_reduction import numbers_of_parts
from schedules.space import PostOrderApply
from tests.programs.expressions import row_sum
from tests.programs.products import dense, norm

from ..checks import assert_replays, assert_same_meaning
from ..rule_contract import RuleContract

A100 = Target("nvidia/nvidia-a100")
TINY = Target({**A100.export(), "multi_processor_count": 4, "max_threads_per_block": 32})


class TestSplitReduction(RuleContract):
    def rule(self) -> ScheduleRule:
        rule = SplitReduction()
        rule.initialize(TINY)
        return rule

    def ready(self) -> ScheduleRule:
        return self.rule()


def parts_of(func: PrimFunc, block: str, target: Target = A100) -> list[int]:
    sch = Schedule(func)
    return numbers_of_parts(node_of(sch, sch.get_block(block)), target)


def offers(func: PrimFunc, block: str, target: Target) -> list[Schedule]:
    rule = SplitReduction()
    rule.initialize(target)
    start = Schedule(func)
    return rule.apply(start, start.get_block(block))


def test_parts_are_as_many_as_multiprocessors_about() -> None:
    first, *_ = parts_of(norm(1024, 1024), "C")
    assert first == 128  # of 1024 rows, beside 108 multiprocessors
    assert parts_of(dense((64, 64, 8192)), "z")[0] == 128


def test_results_that_are_many_are_not_split() -> None:
    assert not parts_of(dense((1024, 1024, 8192)), "z")
    assert not parts_of(row_sum(256, 8192), "B")


def test_parts_are_no_shorter_than_what_threads_do_at_a_time() -> None:
    assert not parts_of(norm(8, 8), "C")
    assert max(parts_of(norm(64, 256), "C")) * 4 * 1024 <= 64 * 256


@pytest.mark.parametrize(
    ("func", "block"), [(dense((8, 6, 256), "int32", "int32"), "z"), (norm(16, 64), "C")]
)
def test_sums_of_parts_are_the_same(func: PrimFunc, block: str) -> None:
    whole, *parts = offers(func, block, TINY)
    assert whole.mod.script() == Schedule(func).mod.script()
    assert 1 <= len(parts) <= 3
    for sch in parts:
        assert f"{block}_rf" in sch.mod.script()
        assert_replays(sch, func)
        assert_same_meaning(func, sch)


def test_reductions_keep_the_order_of_memory() -> None:
    """The loops of a part stand as those of the whole did: neighbours are neighbours for threads."""
    sch = offers(norm(512, 512), "C", A100)[1]
    part = sch.get_block("C_rf")
    assert [sch.get(loop).extent.value for loop in sch.get_loops(part)[-1:]] == [512]


def test_numbers_must_be_positive() -> None:
    with pytest.raises(ScheduleError, match="most_waves"):
        SplitReduction(most_waves=0)


def test_the_default_kernels_of_a_norm_are_two() -> None:
    sch = default_schedule(norm(), A100)
    blocks = [
        int(extent) for extent in re.findall(r'thread_binding\((\d+), thread="blockIdx', sch.mod.script())
    ]
    assert len(blocks) == 2 and blocks[0] > 32 and blocks[1] == 1


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
def test_kernels_of_a_norm_compute_it() -> None:
    func = norm(128, 128)
    module = IRModule({"main": func})
    sketches = PostOrderApply().generate_sketches(module, A100)
    split = [sketch for sketch in sketches if "rfactor" in str(sketch.trace)]
    assert split and len(split) < len(sketches)
    given = np.random.default_rng(0).random((1, 128, 128), "float32")
    programs = [default_schedule(func, A100).mod]
    for sketch in split[:4]:
        schedule = sketch.materialize(module, sketch.sample(1, np.random.default_rng(0))[0])
        assert postprocess(schedule, A100)
        programs.append(schedule.mod)
    for program in programs:
        lowered = lower(program, A100)
        found = np.zeros(1, "float32")
        EmulatedProgram(lowered, generate(lowered))(given, found)
        np.testing.assert_allclose(found, np.sqrt((given.astype("float64") ** 2).sum((1, 2))), rtol=1e-5)
