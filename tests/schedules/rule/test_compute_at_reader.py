"""ComputeAtReader through the contract: short reductions in registers of the threads that go on with them."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, te, tir
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.lower import lower
from schedules import Schedule, ScheduleError
from schedules.postproc import postprocess
from schedules.rule import ComputeAtReader, ScheduleRule
from schedules.space import PostOrderApply

from ..checks import assert_replays, assert_same_meaning
from ..rule_contract import TARGET, RuleContract


class TestComputeAtReader(RuleContract):
    def rule(self) -> ScheduleRule:
        return ComputeAtReader()


def sums(parts: int = 4, dtype: str = "int32") -> PrimFunc:
    """The sum of some matrices, and a function of it."""
    a = te.placeholder((parts, 6, 8), dtype, "A")
    p = te.reduce_axis((0, parts), "p")
    b = te.compute((6, 8), lambda i, j: te.sum(a[p, i, j], axis=p), name="B")
    return te.create_prim_func(
        [a, te.compute((6, 8), lambda i, j: tir.max(b[i, j], tir.const(0, dtype)), name="C")]
    )


def offers(func: PrimFunc, rule: ComputeAtReader) -> list[Schedule]:
    rule.initialize(TARGET)
    start = Schedule(func)
    return rule.apply(start, start.get_block("B"))


def test_a_short_sum_goes_to_its_reader() -> None:
    func = sums()
    moved, stays = offers(func, ComputeAtReader())
    assert stays.mod.script() == Schedule(func).mod.script()
    assert len(moved.get_loops("B")) == 3
    assert [moved.get(a) for a in moved.get_loops("B")[:2]] == [moved.get(a) for a in moved.get_loops("C")]
    assert_replays(moved, func)
    assert_same_meaning(func, moved)


def test_long_sums_stay() -> None:
    assert len(offers(sums(5), ComputeAtReader(most_elements=4))) == 1


def test_the_number_of_elements_must_be_positive() -> None:
    with pytest.raises(ScheduleError, match="most_elements"):
        ComputeAtReader(0)


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
def test_one_kernel_sums_and_goes_on() -> None:
    target, func = Target("nvidia/nvidia-a100"), sums(dtype="float32")
    module = IRModule({"main": func})
    given = np.random.default_rng(0).integers(-3, 4, (4, 6, 8)).astype("float32")
    kernels = []
    for sketch in PostOrderApply().generate_sketches(module, target):
        schedule = sketch.materialize(module, sketch.sample(1, np.random.default_rng(0))[0])
        assert postprocess(schedule, target)
        lowered = lower(schedule.mod, target)
        source = generate(lowered)
        kernels.append(source.text.count("__global__"))
        found = np.zeros((6, 8), "float32")
        EmulatedProgram(lowered, source)(given, found)
        np.testing.assert_array_equal(found, np.maximum(given.sum(0), 0))
    assert 1 in kernels
