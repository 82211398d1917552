"""ScanThreads through the contract, and what it offers."""

from __future__ import annotations

import numpy as np
import pytest

from ir import te, topi
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.lower import lower
from schedules import ScheduleError
from schedules.dlight import default_schedule
from schedules.postproc import postprocess
from schedules.rule import ScanThreads, ScheduleRule
from schedules.space import PostOrderApply

from ..rule_contract import RuleContract

TARGET = Target("nvidia/nvidia-a100")


class TestScanThreads(RuleContract):
    def rule(self) -> ScheduleRule:
        return ScanThreads()


def cumsum(rows: int, columns: int) -> PrimFunc:
    x = te.placeholder((rows, columns), "float32", name="x")
    return te.create_prim_func([x, topi.cumsum(x, 1)])


@pytest.mark.parametrize(
    "target", ["nvidia/nvidia-t4", "nvidia/nvidia-a100", "nvidia/geforce-rtx-4090", "nvidia/nvidia-h200"]
)
@pytest.mark.parametrize(("rows", "columns"), [(128, 4096), (4, 30)])
def test_candidates_are_valid(rows: int, columns: int, target: str) -> None:
    func, device = cumsum(rows, columns), Target(target)
    sketches = PostOrderApply(sch_rules=[ScanThreads()]).generate_sketches(func, device)
    traces = [str(sketch.materialize(func, np.zeros(0, "int64")).trace) for sketch in sketches]
    assert sum("scan_threads" in text for text in traces) == len(sketches) - 1 >= 1
    for sketch in sketches[:-1]:
        assert postprocess(sketch.materialize(func, np.zeros(0, "int64")), device)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a"])
def test_the_default_spills_nothing(arch: str) -> None:
    source = generate(lower(default_schedule(cumsum(128, 4096), TARGET).mod, TARGET))
    assert "__shfl_up_sync" in source.text
    code = compile_cuda(source.text, arch)
    (kernel,) = code.resources.values()
    assert not code.warnings and kernel.spill_store_bytes == kernel.local_bytes == 0


def test_numbers_are_positive() -> None:
    with pytest.raises(ScheduleError, match="ScanThreads: threads and items must be positive"):
        ScanThreads(threads=[0])
