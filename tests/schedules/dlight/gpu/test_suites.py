"""Every operator of both suites has a default schedule for GPUs: valid, replayed from its trace, and right."""

from __future__ import annotations

import pytest

from experiments.cuda.coverage import Computed, cover_default
from experiments.operators import suite
from experiments.operators.small_shapes import SMALL
from ir.target import Target
from schedules.dlight import default_schedule

from .checks import TARGET, assert_replays, rule_of

_LARGE = {
    "C2D": "Matmul",
    "T2D": "Matmul",
    "GMM": "Matmul",
    "TBG": "Matmul",
    "attention": "Attention",
    "matvec": "GEMV",
    "global_pool_nchw": "Reduction",
    "argmax": "Reduction",
    "softmax": "GeneralReduction",
    "layer_norm": "GeneralReduction",
    "group_norm": "GeneralReduction",
    "rms_norm": "RMSNorm",
    "transpose": "Transpose",
    "gelu": "Fallback",
    "sort": "RowOrder",
    "cumsum": "Scan",
}
"""Who schedules operators at the suites' own shapes."""


@pytest.mark.parametrize("name", SMALL)
def test_default_schedules_compile_and_compute(name: str) -> None:
    counts = cover_default(name, Target("nvidia/nvidia-t4"), Computed(name), at_suite_shapes=False)
    assert not counts.failures
    assert (counts.candidates, counts.refused, counts.emulated, counts.interpreted) == (1, 0, 1, 1)
    assert counts.compiled == 1 and not counts.warnings and not counts.spilled


@pytest.mark.parametrize("name", _LARGE)
def test_rules_know_operators_by_their_structure(name: str) -> None:
    func = suite.workload(name)
    assert rule_of(func) == _LARGE[name]
    assert_replays(default_schedule(func, TARGET), func)
