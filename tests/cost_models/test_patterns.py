"""What is said of a candidate does not depend on the others of its population."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cost_models import AnalyticalPrior, PerStoreFeature
from cost_models.patterns import by_patterns
from ir import te, topi
from ir.target import Target
from ir.tir import PrimFunc
from schedules.population.skeleton import OperationGroup, Skeleton
from schedules.space import PostOrderApply

from .nests import nest
from .programs import TARGET

GPU = Target("nvidia/nvidia-a100")


def assert_each_as_alone(
    skeleton: Skeleton, alone: list[Skeleton] | None = None, target: Target = TARGET
) -> None:
    """Estimates and features of a population are those of its candidates one by one, taken of it or given."""
    prior, extractor = AnalyticalPrior(target), PerStoreFeature()
    alone = alone or [skeleton.take(np.array([number])) for number in range(skeleton.size)]
    np.testing.assert_allclose(
        prior.seconds(skeleton), np.concatenate([prior.seconds(one) for one in alone]), rtol=1e-9
    )
    np.testing.assert_allclose(
        extractor.features_of(skeleton, target).values,
        np.concatenate([extractor.features_of(one, target).values for one in alone]),
        rtol=1e-5,
    )


def two_reads(*rows: int) -> Skeleton:
    """``A`` is read once by rows, and once not: alike in candidates of one row."""
    return nest(
        [("r", tuple(rows)), ("j", 4096)],
        [
            ("A", [64, 4096], [[1, 0], [0, 1]], False),
            ("A", [64, 4096], [[0, 0], [0, 1]], False),
            ("B", [64, 4096], [[1, 0], [0, 1]], True),
        ],
    )


def test_reads_that_go_alike_in_some_candidates_count_once_there() -> None:
    skeleton = two_reads(1, 64, 1, 8)
    seen = []

    def measure(part: Skeleton) -> np.ndarray:
        extents = part.nests[0].loops[0].extent
        seen.append(extents.tolist())
        return 10 * extents

    np.testing.assert_array_equal(by_patterns(skeleton, measure), [10, 640, 10, 80])
    assert sorted(seen) == [[1, 1], [64, 8]]
    assert_each_as_alone(skeleton)


@pytest.mark.parametrize("rows", [(1, 1), (64, 8), ()])
def test_a_population_of_one_kind_is_measured_at_once(rows: tuple[int, ...]) -> None:
    skeleton, seen = two_reads(1).take(np.zeros(0, dtype=np.int64)) if not rows else two_reads(*rows), []

    def measure(part: Skeleton) -> np.ndarray:
        seen.append(part)
        return np.zeros(part.size)

    assert len(by_patterns(skeleton, measure)) == len(rows)
    assert len(seen) == 1 and seen[0] is skeleton


def test_a_vector_loop_that_runs_once_is_no_body_where_it_runs_more_often_for_others() -> None:
    """There the compiler makes vectors of the loop around it."""
    skeleton = nest(
        [("i", (64, 4)), ("v", (1, 16))],
        [("A", [64], [[1, 1]], False), ("B", [64], [[1, 1]], True)],
        {"v": "vectorize"},
    )
    groups = [OperationGroup({"float_addsub": 1}, (True, True))]
    nests = [replace(item, operations={"float_addsub": 1}, groups=groups) for item in skeleton.nests]
    assert_each_as_alone(Skeleton(2, nests))


def half_rows() -> PrimFunc:
    """Steps of ``i`` move one read of A, and every second or fourth the others, as tiles have it."""
    a = te.placeholder((64, 512), name="A")
    return te.create_prim_func(
        [a, te.compute((64, 512), lambda i, j: a[i, j] + a[i // 2, j] + a[i // 4, j], name="B")]
    )


def test_candidates_of_a_sketch_are_estimated_alone_as_together() -> None:
    (sketch, *_) = PostOrderApply().generate_sketches(half_rows(), TARGET)
    rows = sketch.sample(32, np.random.default_rng(0))
    assert_each_as_alone(sketch.skeleton(rows))


def mirrored() -> PrimFunc:
    """Two reads that a fused loop of threads moves by the same first step, and then elsewhere."""
    a = te.placeholder((32, 32), name="A")
    return te.create_prim_func([a, te.compute((32, 32), lambda i, j: a[j, i] + a[i, j], name="B")])


def shifted() -> PrimFunc:
    """Three reads, two of which go alike in all candidates, and the third in some."""
    a = te.placeholder((20, 30), name="A")
    return te.create_prim_func(
        [a, te.compute((16, 16), lambda i, j: a[j, i] + a[j, i + 1] + a[i, j], name="B")]
    )


def odd_rows() -> PrimFunc:
    """Rows of a length that no number of threads divides: a block begins within a row in some candidates."""
    a = te.placeholder((7, 131), name="A")
    return te.create_prim_func([a, te.compute((7, 131), lambda i, j: a[i, j] * 2.0, name="B")])


def total() -> PrimFunc:
    """A sum without dimensions."""
    a = te.placeholder((7, 33), name="A")
    return te.create_prim_func([a, topi.sum(a)])


@pytest.mark.parametrize("target", [TARGET, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("program", [half_rows, mirrored, shifted, odd_rows, total])
def test_candidates_extracted_alone_are_estimated_as_in_a_population(
    program: Callable[[], PrimFunc], target: Target
) -> None:
    for sketch in PostOrderApply().generate_sketches(program(), target):
        rows = sketch.sample(60, np.random.default_rng(0))
        alone = [sketch.skeleton(rows[number : number + 1]) for number in range(len(rows))]
        assert_each_as_alone(sketch.skeleton(rows), alone, target)


def test_of_no_candidates_there_are_no_estimates() -> None:
    """Rows at powers of two, which share sets, too."""
    nothing = two_reads(64).take(np.zeros(0, dtype=np.int64))
    assert AnalyticalPrior(TARGET).seconds(nothing).shape == (0,)
    assert len(PerStoreFeature().features_of(nothing, TARGET)) == 0
