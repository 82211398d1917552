"""The CPU's default schedules, as code."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cost_models import estimate_seconds
from ir import IRModule, te, tir, topi
from ir.target import Target
from runners.native import build_native
from schedules.dlight.cpu import default_schedule
from schedules.space import PostOrderApply


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


def test_of_independent_nests_each_has_its_best_decisions() -> None:
    """A sample of their joint decisions holds hardly a row that is best in all of them."""
    x = te.placeholder((96, 1024), "float32", "x")
    e = te.compute(x.shape, lambda i, j: tir.exp(x[i, j]), name="e")
    results = [te.compute(x.shape, lambda i, j, n=n: e[i, j] * n, name=f"r{n}") for n in (2.0, 3.0, 5.0)]
    mod = IRModule({"main": te.create_prim_func([x, *results])})
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -num-cores 2")
    (sketch,) = PostOrderApply().generate_sketches(mod, target)
    assert sketch.size() > 100_000
    chosen = default_schedule(mod, target, estimate_seconds)
    assert chosen.trace is not None
    row = sketch.row_of(chosen.trace)
    assert row is not None
    assert (
        estimate_seconds(sketch.skeleton(row[None]), target)[0]
        <= estimate_seconds(sketch.skeleton(sketch.neighbours(row)), target).min()
    )
