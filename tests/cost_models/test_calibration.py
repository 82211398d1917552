"""What was measured of a machine: values that are refused, and how the estimates follow the others."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cost_models import (
    AnalyticalPrior,
    Calibration,
    CostModelError,
    Machine,
    PerStoreFeature,
    estimate_seconds,
)
from cost_models.machine import CacheLevel
from cost_models.prior import analyze
from ir.target import Target
from schedules.population.sketch import Sketch
from schedules.space import PostOrderApply
from tests.programs.expressions import matmul, softmax

from .programs import TARGET, population

TYPICAL = Calibration.checked(
    {
        "hertz": 3e9,
        "fma_per_cycle": 2.0,
        "fma_latency": 4.0,
        "loads_per_cycle": 2.0,
        "stores_per_cycle": 1.0,
        "gathered_per_cycle": 1.5,
        "divide_cycles": 5.0,
        "elementary_cycles": 14.0,
        "l1_fill": 32.0,
        "l1_fill_all": 31.0,
        "l2_fill": 20.0,
        "l2_fill_all": 15.0,
        "l3_fill": 7.0,
        "l3_fill_all": 5.0,
        "l2_run_start": 8.0,
        "l3_run_start": 30.0,
        "parallel_launch": 4000.0,
        "job_overhead": 10.0,
    },
    cores=2,
)


@pytest.fixture(scope="module")
def sketch() -> Sketch:
    """A structure of a matmul of 1024."""
    return PostOrderApply().generate_sketches(matmul(1024), TARGET)[0]


@pytest.fixture(scope="module")
def matrix(sketch: Sketch) -> np.ndarray:
    return population(sketch, 300)


def ranks(seconds: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(seconds, kind="stable"))


def test_every_figure_changes_the_machine() -> None:
    """What nobody would read must not be measured."""
    machine = Machine.of(TARGET, TYPICAL)
    for figure in Calibration.figures():
        value = getattr(TYPICAL, figure.name)
        assert value is not None, figure.name
        assert Machine.of(TARGET, replace(TYPICAL, **{figure.name: 1.1 * value})) != machine, figure.name


def test_without_a_calibration_and_with_an_empty_one_the_machine_is_the_same() -> None:
    assert Machine.of(TARGET, Calibration(2)) == Machine.of(TARGET) != Machine.of(TARGET, TYPICAL)


def test_figures_that_are_missing_are_assumed() -> None:
    partly = Machine.of(TARGET, Calibration.checked({"hertz": 2e9, "l3_fill": 12.0}, cores=2))
    assumed = Machine.of(TARGET)
    assert partly.hertz == 2e9 and partly.fma_latency == assumed.fma_latency
    memory, before = partly.caches[2], assumed.caches[2]
    assert memory.bytes_per_cycle == 12.0
    # All cores together get as much more than one as was assumed.
    assert memory.total_bytes_per_cycle / 12.0 == before.total_bytes_per_cycle / before.bytes_per_cycle


def test_a_machine_with_a_slow_cache_ranks_what_reads_much_of_it_lower(
    sketch: Sketch, matrix: np.ndarray
) -> None:
    skeleton = sketch.skeleton(matrix)
    slow = replace(TYPICAL, l2_fill=1.0, l2_fill_all=0.8)
    traffic = sum(facts.traffic.lines[1].sum(axis=0) for facts in analyze(skeleton, Machine.of(TARGET)))
    assert isinstance(traffic, np.ndarray)
    usual, slowed = (estimate_seconds(skeleton, TARGET, found) for found in (TYPICAL, slow))
    assert (slowed >= usual).all()
    before, after = (np.corrcoef(ranks(item), ranks(traffic))[0, 1] for item in (usual, slowed))
    assert after > before + 0.01
    # Some candidate that reads much was faster than one that reads less, and is not any more.
    reads_more, was_faster = traffic[:, None] > traffic[None, :], usual[:, None] < usual[None, :]
    assert (reads_more & was_faster & (slowed[:, None] > slowed[None, :])).any()


def test_slow_exponentials_cost_softmax_and_not_matmul(sketch: Sketch, matrix: np.ndarray) -> None:
    slow = replace(TYPICAL, elementary_cycles=140.0)
    skeleton = sketch.skeleton(matrix)
    np.testing.assert_array_equal(
        estimate_seconds(skeleton, TARGET, TYPICAL), estimate_seconds(skeleton, TARGET, slow)
    )
    row = PostOrderApply().generate_sketches(softmax(64, 256), TARGET)[0]
    exponentials = row.skeleton(population(row, 50))
    assert (
        estimate_seconds(exponentials, TARGET, slow) > estimate_seconds(exponentials, TARGET, TYPICAL)
    ).all()


def test_regions_that_start_slowly_favour_candidates_without_one() -> None:
    small = PostOrderApply().generate_sketches(matmul(32), TARGET)[0]
    skeleton = small.skeleton(population(small, 200))
    parallel = sum(facts.loops.launches for facts in analyze(skeleton, Machine.of(TARGET))) > 0
    assert isinstance(parallel, np.ndarray) and parallel.all()
    launch = 1e6
    waited = estimate_seconds(skeleton, TARGET, replace(TYPICAL, parallel_launch=launch))
    assert (waited > launch / 3e9).all()
    # On one core a region is a call.
    alone = TARGET.replace(attrs={**TARGET.attrs, "num-cores": 1})
    assert (estimate_seconds(skeleton, alone, replace(TYPICAL, parallel_launch=launch)) < launch / 3e9).all()


def test_a_core_alone_gets_more_of_a_shared_memory() -> None:
    level = CacheLevel(1 << 20, 16, 8.0, 12.0)
    np.testing.assert_array_equal(level.rate(np.array([1.0, 2.0, 4.0])), [8.0, 6.0, 3.0])


def test_fewer_cores_than_were_measured_share_what_all_of_them_get() -> None:
    found = replace(TYPICAL, cores=16, l3_fill=8.0, l3_fill_all=2.0)
    four = TARGET.replace(attrs={**TARGET.attrs, "num-cores": 4})
    memory = Machine.of(four, found).caches[2]
    np.testing.assert_array_equal(memory.rate(np.array([1.0, 4.0])), [8.0, 8.0])
    np.testing.assert_array_equal(memory.rate(np.array([16.0])), [2.0])


def test_caches_are_facts_of_the_target() -> None:
    described = Target("llvm -mcpu=znver4 -num-cores=8 -l1-cache-bytes=49152 -l3-cache-bytes=67108864")
    l1, l2, l3 = Machine.of(described).caches
    assert (l1.capacity, l1.ways) == (49152, described.cache_ways[0])
    assert l2.ways == described.cache_ways[1]
    assert l3.capacity == 67108864 / described.l3_cache_cores


def test_the_feature_and_the_prior_see_the_same_machine(sketch: Sketch, matrix: np.ndarray) -> None:
    skeleton = sketch.skeleton(matrix)
    features = PerStoreFeature().features_of(skeleton, TARGET, TYPICAL)
    expected = AnalyticalPrior(TARGET, calibration=TYPICAL).seconds(skeleton)
    np.testing.assert_allclose(features.prior_seconds(), expected, rtol=1e-4)
    assert not np.allclose(PerStoreFeature().features_of(skeleton, TARGET).prior_seconds(), expected)


def test_features_of_schedules_go_by_the_context(sketch: Sketch, matrix: np.ndarray) -> None:
    mod = matmul(1024)
    schedule = SimpleNamespace(sch=sketch.materialize(mod, matrix[0]))
    context = SimpleNamespace(mod=mod, target=TARGET, calibration=TYPICAL)
    (found,) = PerStoreFeature().extract_from(context, [schedule])
    expected = PerStoreFeature().features_of(sketch.skeleton(matrix[:1]), TARGET, TYPICAL).values[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, -1.0, 1e6, float("nan"), float("inf")])
def test_nonsense_is_refused_with_a_note(value: float) -> None:
    found = Calibration.checked({"hertz": 3e9, "fma_latency": value}, cores=2)
    assert found.hertz == 3e9 and found.fma_latency is None
    assert (
        found.disturbed
        and "latency of a fused multiply-add: " in found.notes[0]
        and "beyond 1 to 20" in found.notes[0]
    )


def test_names_of_no_figure_are_refused() -> None:
    with pytest.raises(CostModelError, match=r"no figures \['speed'\]; it has hertz"):
        Calibration.checked({"speed": 1.0}, cores=1)


@pytest.mark.parametrize(
    "broken", [None, 3, {}, {"figures": [], "cores": 1, "notes": [], "disturbed": False}]
)
def test_what_is_no_calibration_is_refused(broken: object) -> None:
    with pytest.raises(CostModelError, match="not a calibration"):
        Calibration.from_json(broken)


def test_json_keeps_everything() -> None:
    partly = Calibration.checked({"hertz": 3e9}, cores=4, notes=("some",), disturbed=True)
    for item in (TYPICAL, partly):
        assert Calibration.from_json(item.as_json()) == item
