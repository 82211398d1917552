"""Features: the same for a row of a population and its materialized schedule, and right where they can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cost_models import CostModelError, FeatureMatrix, PerStoreFeature, estimate_seconds
from cost_models.feature import LOG_SECONDS, feature_names, skeleton_of_schedule
from ir import IRModule
from schedules import Schedule
from schedules.population.skeleton import Skeleton
from schedules.postproc import postprocess
from tests.programs.expressions import matmul

from .contract import Candidate, Context
from .programs import PROGRAMS, TARGET, population, program, sketches

EXTRACTOR = PerStoreFeature()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_row_has_the_features_of_its_schedule(name: str) -> None:
    func = program(name)
    for number, sketch in enumerate(sketches(name)):
        rows = population(sketch, 40, seed=number)
        features = EXTRACTOR.features_of(sketch.skeleton(rows), TARGET)
        assert np.isfinite(features.values).all()
        for position in range(0, len(rows), 13):
            schedule = sketch.materialize(func, rows[position])
            (alone,) = EXTRACTOR.extract_from(Context(func), [Candidate(schedule)])
            differing = ~np.isclose(alone, features.values[position], rtol=1e-6, atol=1e-6)
            assert not differing.any(), [
                (sketch.name, features.nests[nest], features.names[column])
                for nest, column in np.argwhere(differing)
            ]


def test_postprocessing_does_not_change_features() -> None:
    func, sketch = program("matmul"), sketches("matmul")[1]
    (row,) = population(sketch, 1)
    plain, done = sketch.materialize(func, row), sketch.materialize(func, row)
    assert postprocess(done, TARGET)
    before, after = EXTRACTOR.extract_from(Context(func), [Candidate(plain), Candidate(done)])
    np.testing.assert_array_equal(before, after)


def test_loops_that_run_once_change_nothing() -> None:
    sketch = sketches("conv2d")[0]
    rows = population(sketch, 30)
    skeleton = sketch.skeleton(rows)
    whole = EXTRACTOR.features_of(skeleton, TARGET)
    for position in (0, 11, 29):
        alone = EXTRACTOR.features_of(_without_unit_loops(_row_of(skeleton, position)), TARGET)
        np.testing.assert_array_equal(alone.values[0], whole.values[position])


def _row_of(skeleton: Skeleton, row: int) -> Skeleton:
    def cut(array: np.ndarray) -> np.ndarray:
        return array[..., row : row + 1]

    return Skeleton(
        1,
        [
            replace(
                nest,
                loops=[replace(loop, extent=cut(loop.extent)) for loop in nest.loops],
                accesses=[
                    replace(
                        access,
                        shape=[cut(item) for item in access.shape],
                        strides=cut(access.strides),
                        reach=cut(access.reach),
                    )
                    for access in nest.accesses
                ],
            )
            for nest in skeleton.nests
        ],
    )


def _without_unit_loops(skeleton: Skeleton) -> Skeleton:
    nests = []
    for nest in skeleton.nests:
        keep = [position for position, loop in enumerate(nest.loops) if loop.extent[0] != 1]
        accesses = [
            replace(access, strides=access.strides[keep], reach=access.reach[:, keep])
            for access in nest.accesses
        ]
        groups = [
            replace(group, moved=tuple(group.moved[position] for position in keep)) for group in nest.groups
        ]
        loops = [nest.loops[position] for position in keep]
        nests.append(replace(nest, loops=loops, accesses=accesses, groups=groups))
    return Skeleton(skeleton.size, nests)


def _naive(n: int) -> FeatureMatrix:
    """Features of an unscheduled matmul."""
    return EXTRACTOR.features_of(skeleton_of_schedule(Schedule(matmul(n))), TARGET)


def _value(features: FeatureMatrix, name: str) -> float:
    """A column of the first nest of the first candidate, its logarithm undone."""
    return float(np.exp2(features.column(name)[0, 0].astype(np.float64)) - 1)


def test_counts_of_a_naive_matmul() -> None:
    n = 64
    features = _naive(n)
    assert features.nests == ("C",)
    assert features.column("ops.float_mad")[0, 0] == 1
    assert _value(features, "ops.total.float_mad") == pytest.approx(n**3, rel=1e-5)
    assert _value(features, "loop.iterations") == pytest.approx(n**3, rel=1e-5)
    assert _value(features, "loop.reduction") == pytest.approx(n, rel=1e-5)
    assert features.column("loop.count")[0, 0] == 3
    assert features.column("loop.opens_region")[0, 0] == 0


def test_loops_around_an_unrolled_body() -> None:
    sch = Schedule(matmul(64))
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [None, 2])
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(i_0, j, k_0, k_1, i_1)
    for loop in (k_1, i_1):
        sch.unroll(loop)
    features = EXTRACTOR.features_of(skeleton_of_schedule(sch), TARGET)
    assert _value(features, "loop.reduction") == pytest.approx(64, rel=1e-5)
    assert _value(features, "loop.reduction_outside_body") == pytest.approx(16, rel=1e-5)
    assert _value(features, "loop.spatial_outside_body") == pytest.approx(32 * 64, rel=1e-5)


def test_buffers_of_a_naive_matmul() -> None:
    n = 64
    features = _naive(n)
    matrix_bytes, line = 4 * n * n, 64
    # Buffers in the order in which the statement reads them: the output, A, B.
    for slot, (reads, writes) in enumerate(((1, 1), (1, 0), (1, 0))):
        assert features.column(f"buffer{slot}.reads")[0, 0] == reads
        assert features.column(f"buffer{slot}.writes")[0, 0] == writes
        assert _value(features, f"buffer{slot}.unique_bytes") == pytest.approx(matrix_bytes, rel=1e-5)
        assert _value(features, f"buffer{slot}.lines") == pytest.approx(matrix_bytes / line, rel=1e-5)
    innermost = [_value(features, f"buffer{slot}.innermost_stride") for slot in range(3)]
    np.testing.assert_allclose(innermost, [0, 1, n], atol=1e-4)
    # B is used again when the outermost loop moves on, after all of B and one row of A and C.
    assert _value(features, "buffer2.invariant_iterations") == pytest.approx(n, rel=1e-5)
    assert _value(features, "buffer2.reuse_distance_iterations") == pytest.approx(n * n, rel=1e-5)
    assert features.column("buffer3.bytes")[0, 0] == 0


def test_intensity_grows_from_one_operation_to_the_whole_nest() -> None:
    n = 64
    features = _naive(n)
    curve = [float(features.column(f"intensity.{i}")[0, 0]) for i in range(10)]
    assert curve == sorted(curve)
    assert curve[0] == pytest.approx(np.log2(1 + 2 / 12), abs=1e-4)
    assert curve[-1] == pytest.approx(np.log2(1 + 2 * n**3 / (3 * 4 * n * n)), abs=1e-4)


def test_names_are_distinct_and_follow_the_options() -> None:
    names = EXTRACTOR.names
    assert len(set(names)) == len(names) == EXTRACTOR.feature_vector_length
    assert LOG_SECONDS in names
    small = PerStoreFeature(buffers_per_store=2, arith_intensity_curve_num_samples=3, extract_workload=True)
    assert "buffer2.bytes" not in small.names and "intensity.3" not in small.names
    skeleton = sketches("conv2d")[0].skeleton(population(sketches("conv2d")[0], 3))
    values = small.features_of(skeleton, TARGET)
    assert values.values.shape == (3, len(skeleton.nests), len(small.names))
    assert (values.column("workload.nests") == len(skeleton.nests)).all()
    assert feature_names(2, 3, True) == small.names


def test_lines_are_as_long_as_somebody_says() -> None:
    n = 64
    skeleton = skeleton_of_schedule(Schedule(matmul(n)))
    for line in (32, 128):
        features = PerStoreFeature(cache_line_bytes=line).features_of(skeleton, TARGET)
        for slot in range(3):
            assert _value(features, f"buffer{slot}.lines") == pytest.approx(4 * n * n / line, rel=1e-5)
    same = PerStoreFeature(cache_line_bytes=TARGET.cache_line_bytes).features_of(skeleton, TARGET)
    np.testing.assert_array_equal(same.values, EXTRACTOR.features_of(skeleton, TARGET).values)
    with pytest.raises(CostModelError, match="cache_line_bytes is a positive number, got 0"):
        PerStoreFeature(cache_line_bytes=0)


def test_of_many_buffers_those_that_touch_most_bytes_get_columns() -> None:
    skeleton = sketches("matmul")[0].skeleton(population(sketches("matmul")[0], 5))
    all_columns = EXTRACTOR.features_of(skeleton, TARGET)
    one = PerStoreFeature(buffers_per_store=1).features_of(skeleton, TARGET)
    widest = np.max([all_columns.column(f"buffer{i}.unique_bytes") for i in range(5)], axis=0)
    np.testing.assert_array_equal(one.column("buffer0.unique_bytes"), widest)


def test_preprocessing_nests_are_left_out() -> None:
    skeleton = sketches("matmul")[1].skeleton(population(sketches("matmul")[1], 4))
    packed = [nest.name for nest in skeleton.nests]
    skeleton.nests[0] = replace(skeleton.nests[0], is_preprocessing=True)
    features = EXTRACTOR.features_of(skeleton, TARGET)
    assert list(features.nests) == packed[1:]


def test_steps_that_combine_the_lanes_of_a_vector_are_part_of_the_nest_before() -> None:
    """They have no row of their own, and the estimates of the rows add up to that of the program."""
    merged = 0
    for number, sketch in enumerate(sketches("softmax")):
        skeleton = sketch.skeleton(population(sketch, 40, seed=number))
        features = EXTRACTOR.features_of(skeleton, TARGET)
        steps = [nest.name for nest in skeleton.nests if nest.is_last_step]
        assert list(features.nests) == [nest.name for nest in skeleton.nests if not nest.is_last_step]
        assert features.values.shape == (40, len(skeleton.nests) - len(steps), len(features.names))
        np.testing.assert_allclose(features.prior_seconds(), estimate_seconds(skeleton, TARGET), rtol=1e-5)
        merged += len(steps)
    assert merged


def test_a_schedule_without_a_function_is_refused() -> None:
    schedule = Schedule(IRModule({"first": matmul(16), "second": matmul(16)}))
    with pytest.raises(CostModelError, match="work_on"):
        skeleton_of_schedule(schedule)
