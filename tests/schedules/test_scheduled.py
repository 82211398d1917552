"""What schedules rest on is still said of the functions that passes put back into a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ir
from database import MemoryDatabase, MetaScheduleApplyDatabase
from ir import IRModule
from ir.codegen.entry import KernelError
from ir.script import tir as T
from ir.target import Target
from schedules.dlight import ApplyDefaultSchedule, DefaultGPUSchedule, gpu_rules

GPU, CPU = Target("nvidia/nvidia-a100"), Target("llvm -num-cores 2")


@T.prim_func
def exponentials(A: T.Buffer((65536,), "float32"), B: T.Buffer((65536,), "float32")):
    for i in range(65536):
        with T.block("add"):
            vi = T.axis.spatial(65536, i)
            A[vi] = T.exp(B[65535 - vi])


@T.prim_func
def add(A: T.Buffer((65536,), "float32"), B: T.Buffer((65536,), "float32")):
    for i in range(65536):
        with T.block("add"):
            vi = T.axis.spatial(65536, i)
            A[vi] = A[vi] + B[vi]


@pytest.mark.meaning("schedule-noalias")
@pytest.mark.parametrize(
    ("make", "target"),
    [
        (lambda: ApplyDefaultSchedule(*gpu_rules()), GPU),
        (DefaultGPUSchedule, GPU),
        (MetaScheduleApplyDatabase, GPU),
        (MetaScheduleApplyDatabase, CPU),
    ],
    ids=["dlight", "loops on threads", "records for a GPU", "records for a processor"],
)
def test_parameters_of_scheduled_functions_are_different_memory(
    make: Callable[[], Any], target: Target
) -> None:
    with target, MemoryDatabase():
        func = make()(IRModule({"main": exponentials}))["main"]
        denied = make()(IRModule({"main": add.with_attr("tir.noalias", False)}))["main"]
    assert func.attrs["tir.is_scheduled"] and func.attrs["tir.noalias"] is True
    assert func.attrs["global_symbol"] == "exponentials"
    assert denied.attrs["tir.is_scheduled"] and denied.attrs["tir.noalias"] is False


def test_one_array_for_both_is_refused() -> None:
    """Of iterations that run at one time one would read what another one writes."""
    with CPU, MemoryDatabase():
        mod = MetaScheduleApplyDatabase()(IRModule({"main": exponentials}))
    values = np.arange(65536, dtype="float32")
    with pytest.raises(KernelError, match="arguments A and B overlap and A is written"):
        ir.build(mod, CPU)["exponentials"](values, values)
