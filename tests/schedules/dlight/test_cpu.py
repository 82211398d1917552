"""The CPU's default schedules, as code."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ir import IRModule, te, topi
from ir.target import Target
from runners.native import build_native
from schedules.dlight.cpu import default_schedule


@pytest.mark.parametrize("extent", [20, 49, 64, 1000])
def test_rows_of_a_softmax_are_vectors(extent: int) -> None:
    """LLVM copies a short loop as a whole before it thinks of vectors, unless it is told not to."""
    x = te.placeholder((64, extent), "float32", "x")
    mod = IRModule({"main": te.create_prim_func([x, topi.nn.softmax(x)])})
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3")
    assembly = build_native(default_schedule(mod, target).mod, target)._module.assembly
    assert re.search(r"vmaxps\s+.*%ymm", assembly) and re.search(r"vaddps\s+.*%ymm", assembly)
    scalar = len(re.findall(r"vmaxss", assembly))
    assert scalar < 8, f"{scalar} maxima of single numbers"

    data = np.random.default_rng(0).standard_normal((64, extent)).astype("float32")
    found = np.empty_like(data)
    build_native(default_schedule(mod, Target("cpu")).mod, "cpu")(data, found)
    e = np.exp(data.astype("float64") - data.max(1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-5)
