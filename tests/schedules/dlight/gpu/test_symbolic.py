"""Default schedules of functions with symbolic shapes: one program for all sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schedules.dlight import default_schedule

from . import programs
from .checks import TARGET, assert_computes, rule_of
from .programs import Program

_CASES: dict[str, tuple[Callable[[], Program], str]] = {
    "matmul": (programs.matmul, "Matmul"),
    "matmul, transposed, with an epilogue": (lambda: programs.matmul(True, True), "Matmul"),
    "softmax of n rows": (programs.softmax, "GeneralReduction"),
    "softmax of rows of n": (lambda: programs.softmax(rows=False), "GeneralReduction"),
    "rms norm": (programs.rms_norm, "RMSNorm"),
    "gemv of n rows": (programs.gemv, "GEMV"),
    "gemv of rows of n": (lambda: programs.gemv(rows=False), "Reduction"),
    "three vectors, n rows": (lambda: programs.gemv(few=3), "LowBatchGEMV"),
    "three vectors, rows of n": (lambda: programs.gemv(rows=False, few=3), "Fallback"),
    "sums of columns": (programs.column_sum, "Reduction"),
    "transpose": (programs.transpose, "Transpose"),
    "elementwise": (programs.elementwise, "Fallback"),
}


@pytest.mark.parametrize("name", _CASES)
def test_one_program_computes_all_sizes(name: str) -> None:
    make, rule = _CASES[name]
    program = make()
    assert rule_of(program.func) == rule
    cases = []
    for extent in (7, 1, 64, 130):
        inputs = program.inputs(extent)
        cases.append((inputs, program.reference(*[item.astype("float64") for item in inputs])))
    assert_computes(default_schedule(program.func, TARGET).mod, cases)
