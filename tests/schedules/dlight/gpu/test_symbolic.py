"""Default schedules of functions with symbolic shapes: one program for all sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schedules.dlight import default_schedule

from . import programs
from .checks import TARGET, assert_computes, kernels_of, rule_of
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


@pytest.mark.parametrize("heads", [False, True])
def test_rows_of_scores_are_computed_by_a_block_of_threads_each(heads: bool) -> None:
    """Which row, of which head, are a quotient and a remainder by n, that is not zero where there is a row."""
    program = programs.scores_softmax(heads)
    mod = default_schedule(program.func, TARGET).mod
    inputs = [program.inputs(extent) for extent in (5, 1, 33)]
    assert_computes(mod, [(item, program.reference(item[0].astype("float64"))) for item in inputs])
    assert len(kernels_of(mod)) == 1


@pytest.mark.parametrize(
    "make",
    [programs.group_convolution, lambda: programs.pool("max", 2), lambda: programs.pool("avg", 1)],
    ids=["convolution of groups", "maxima of windows", "means of windows"],
)
def test_results_of_windows_are_of_a_thread_each(make: Callable[[], Program]) -> None:
    """Channels are two digits of the fused loop, extents are sums that others are divided by."""
    program = make()
    inputs = [program.inputs(extent) for extent in (1, 4, 9)]
    cases = [(item, program.reference(*[array.astype("float64") for array in item])) for item in inputs]
    mod = default_schedule(program.func, TARGET).mod
    assert_computes(mod, cases)
    assert len(kernels_of(mod)) == 1
