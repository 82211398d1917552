"""Design spaces of programs that are no tensor expressions."""

from __future__ import annotations

import numpy as np
import pytest

from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.analysis import verify_well_formed
from schedules import Schedule, ScheduleError
from schedules.population import Sketch, flops_of
from schedules.space import PostOrderApply
from tests.programs.irregular import IRREGULAR

from ..checks import main_of, outputs_of

TARGETS = {
    "cpu": Target("llvm -mcpu=x86-64-v3 -num-cores 2"),
    "gpu": Target("nvidia/nvidia-h100"),
}
CANDIDATES = 3


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("name", list(IRREGULAR))
def test_a_space_has_structures_and_its_candidates_mean_the_program(name: str, target: str) -> None:
    """Rules leave a block alone where a primitive refuses them, and what they do make is right; on CPUs there is always something."""
    program, chosen = IRREGULAR[name], TARGETS[target]
    func, space = program.func(), PostOrderApply()
    arrays = program.arrays()
    expected = outputs_of(func, arrays)
    assert space.generate_design_space(func, chosen)
    sketches = space.generate_sketches(func, chosen)
    assert sketches
    made = 0
    for sketch in sketches:
        rows = sketch.sample(CANDIDATES, np.random.default_rng(0))
        assert sketch.skeleton(rows).size == len(rows)
        for row in rows:
            sch = _candidate(space, sketch, row, func, chosen)
            if sch is not None:
                made += 1
                assert verify_well_formed(sch.mod)
                _assert_same(outputs_of(main_of(sch), arrays), expected)
    assert made or target == "gpu"


@pytest.mark.parametrize("name", list(IRREGULAR))
def test_the_operations_of_a_program_can_be_counted(name: str) -> None:
    """Extents that are data count as typical ones; a count is a number for every program."""
    assert np.isfinite(flops_of(IRREGULAR[name].func()))


def _candidate(
    space: PostOrderApply, sketch: Sketch, row: np.ndarray, func: PrimFunc, target: Target
) -> Schedule | None:
    """A postprocessed candidate; None where its numbers turn out to be illegal, which a search counts as a failed trial."""
    try:
        sch = sketch.materialize(func, row)
        return sch if space.postprocess(sch, target) else None
    except ScheduleError:
        return None


def _assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def _sum_to(extent: str) -> PrimFunc:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), I: T.Buffer((8,), "int32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        for k in range({extent}):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.opaque(8, k)
                C[vi] = C[vi] + A[vi, vk]
""")
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(("extent", "expected"), [("8", 64), ("I[i]", 128), ("i", 56), ("8 - i", 64)])
def test_an_extent_counts_as_its_largest_or_a_typical_one(extent: str, expected: float) -> None:
    """A triangle counts its longest row, and a loop to a number in memory sixteen iterations."""
    assert flops_of(_sum_to(extent)) == expected
