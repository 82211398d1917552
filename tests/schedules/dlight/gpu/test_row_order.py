"""The default schedule of sorting and top-k."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import te, topi
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.tir import PrimFunc, Var
from ir.tir.lower import lower
from schedules.dlight import default_schedule

from .checks import TARGET, rule_of


def sort(rows: Any, columns: Any) -> PrimFunc:
    source = te.placeholder((rows, columns), "float32", name="A")
    return te.create_prim_func([source, topi.sort(source, 1)])


@pytest.mark.parametrize("rows", [1, 3])
def test_a_row_is_sorted_by_a_block_of_threads(rows: int) -> None:
    func = sort(rows, 1000)
    assert rule_of(func) == "RowOrder"
    lowered = lower(default_schedule(func, TARGET).mod, TARGET)
    source = generate(lowered)
    assert "__launch_bounds__(128)" in source.text
    data = np.random.default_rng(0).standard_normal((rows, 1000)).astype("float32")
    found = np.empty_like(data)
    EmulatedProgram(lowered, source)(data, found)
    np.testing.assert_array_equal(found, np.sort(data, 1))


def test_what_is_made_of_the_elements_is_a_kernel_of_its_own() -> None:
    source = te.placeholder((3, 100), "float32", name="A")
    made = te.compute((3, 100), lambda i, j: topi.sort(source, 1)[i, j] * 2.0, name="twice")
    lowered = lower(default_schedule(te.create_prim_func([source, made]), TARGET).mod, TARGET)
    assert len(generate(lowered).kernels) == 2
    data = np.random.default_rng(0).standard_normal((3, 100)).astype("float32")
    found = np.empty_like(data)
    EmulatedProgram(lowered, generate(lowered))(data, found)
    np.testing.assert_array_equal(found, np.sort(data, 1) * 2)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("columns", [30, 4096])
def test_nothing_is_spilled(columns: int, arch: str) -> None:
    code = compile_cuda(generate(lower(default_schedule(sort(4, columns), TARGET).mod, TARGET)).text, arch)
    assert not code.warnings
    assert all(item.spill_store_bytes == item.local_bytes == 0 for item in code.resources.values())


def test_rows_of_unknown_lengths_are_a_threads() -> None:
    assert rule_of(sort(4, Var("n", "int32"))) == "Fallback"
    assert rule_of(sort(Var("m", "int32"), 64)) == "RowOrder"
