"""ApplyDefaultSchedule and DefaultGPUSchedule: which functions of a module they schedule, and by whom."""

from __future__ import annotations

import numpy as np
import pytest

import schedules.dlight as dl
from ir import IRModule, te, tir
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc
from schedules import Schedule, ScheduleError
from schedules.error import RuleError

from .gpu import programs
from .gpu.checks import TARGET, assert_computes


def small_sum(extent: int = 64) -> PrimFunc:
    x = te.placeholder((5, extent), "float32", "x")
    k = te.reduce_axis((0, extent), "k")
    return te.create_prim_func([x, te.compute((5,), lambda i: te.sum(x[i, k], axis=k), name="y")])


class Recorded(dl.ScheduleRule):
    """Knows all functions, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[PrimFunc, Target, bool]] = []

    def apply(self, func: PrimFunc, target: Target, tunable: bool = False) -> Schedule | None:
        self.asked.append((func, target, tunable))
        return Schedule(func)


def test_the_first_rule_that_knows_a_function_schedules_it() -> None:
    module = IRModule(
        {"sums": small_sum(), "product": programs.matmul().func, "copy": programs.elementwise().func}
    )
    last = Recorded()
    with TARGET:
        after = dl.ApplyDefaultSchedule(dl.gpu.Matmul(), dl.gpu.GEMV(), dl.gpu.Reduction(), last)(module)
    assert all(func.attrs["tir.is_scheduled"] for func in after.functions.values())
    assert "vthread" in after["product"].script() or "blockIdx.y" in after["product"].script()
    assert 'thread="threadIdx.x"' in after["sums"].script()
    assert [func for func, _, _ in last.asked] == [module["copy"]]
    assert last.asked[0][1:] == (TARGET, False)
    with TARGET:
        again = dl.ApplyDefaultSchedule(last)(after)
    assert len(last.asked) == 1 and again["sums"] is after["sums"]


def test_functions_that_no_rule_knows_stay() -> None:
    module = IRModule({"copy": programs.elementwise().func})
    with TARGET:
        assert dl.ApplyDefaultSchedule(dl.gpu.Matmul())(module)["copy"] is module["copy"]
    with Target("llvm"):
        assert dl.ApplyDefaultSchedule(dl.gpu.Fallback())(module)["copy"] is module["copy"]


def test_a_functions_own_target_counts() -> None:
    func = small_sum().with_attr("target", TARGET)
    rule = Recorded()
    with Target("llvm"):
        dl.ApplyDefaultSchedule(rule)(IRModule({"main": func}))
    assert rule.asked[0][1] == TARGET


def test_refusals() -> None:
    with pytest.raises(RuleError, match="was a rule not called"):
        dl.ApplyDefaultSchedule(dl.gpu.Matmul)  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match="ApplyDefaultSchedule needs a target"):
        dl.ApplyDefaultSchedule(dl.gpu.Fallback())(IRModule({"main": small_sum()}))
    with pytest.raises(ScheduleError, match="DefaultGPUSchedule needs a target"):
        tir.transform.DefaultGPUSchedule()(IRModule({"main": small_sum()}))


def test_default_gpu_schedule_binds_every_nest() -> None:
    program = programs.softmax()
    with TARGET:
        after = tir.transform.DefaultGPUSchedule()(IRModule({"main": program.func}))
    assert after["main"].attrs["tir.is_scheduled"]
    assert after["main"].script().count('thread="blockIdx.x"') == 4
    inputs = program.inputs(7)
    assert_computes(after, [(inputs, program.reference(*inputs))])


def test_default_gpu_schedule_leaves_other_targets_and_hosts_functions_alone() -> None:
    module = IRModule({"main": small_sum()})
    with Target("llvm"):
        assert tir.transform.DefaultGPUSchedule()(module)["main"] is module["main"]

    @T.prim_func
    def calls(A: T.Buffer((4,), "float32")):
        T.evaluate(T.tvm_call_packed("print_it", A.data))

    host = IRModule({"main": calls})
    with TARGET:
        assert tir.transform.DefaultGPUSchedule()(host)["main"] is host["main"]


def test_tunable_numbers_are_decisions_of_the_trace() -> None:
    func = small_sum(2048)
    fixed = dl.gpu.Reduction().apply(func, TARGET)
    tunable = dl.gpu.Reduction().apply(func, TARGET, tunable=True)
    assert fixed is not None and tunable is not None
    assert fixed.mod["main"].script() == tunable.mod["main"].script()
    assert fixed.trace is not None and not fixed.trace.decisions
    assert tunable.trace is not None and len(tunable.trace.decisions) == 1
    ((instruction, decision),) = tunable.trace.decisions.items()
    changed = tunable.trace.with_decision(instruction, int(decision == 0), remove_postproc=False)
    again = Schedule(func)
    changed.apply_to_schedule(again, remove_postproc=False)
    data = np.random.default_rng(0).standard_normal((5, 2048)).astype("float32")
    assert again.mod["main"].script() != fixed.mod["main"].script()
    assert_computes(again.mod, [([data], data.sum(1))])
