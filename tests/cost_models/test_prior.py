"""The analytical estimate: what must be faster is, by as much as it must be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cost_models import AnalyticalPrior, estimate_seconds
from cost_models.arithmetic import _vectors
from cost_models.machine import Machine
from cost_models.prior import _body_cycles, _estimate, analyze
from cost_models.weights import Weights
from ir import te, tir, topi
from ir.script import tir as T
from schedules.population.decision import TileDecision
from schedules.population.sketch import Sketch, SketchSchedule
from schedules.space import PostOrderApply
from tests.programs.expressions import conv2d, matmul

from .nests import nest
from .programs import TARGET, population, sketches

MACHINE = Machine.of(TARGET)


@pytest.fixture(scope="module")
def large() -> list[Sketch]:
    """Sketches of a matmul of 1024: operands in place, and the right one packed."""
    return PostOrderApply().generate_sketches(matmul(1024), TARGET)


def seconds_of(sketch: Sketch, *tiles: list[int]) -> float:
    """The estimate for given tiles of i, j and k."""
    row = []
    for decision, tile in zip(sketch.decisions, tiles, strict=True):
        assert isinstance(decision, TileDecision)
        number = decision.number_of(tile)
        assert number is not None, f"{tile} is not in the table of {decision.name}"
        row.append(number)
    return float(estimate_seconds(sketch.skeleton(np.array([row])), TARGET)[0])


def test_a_register_tile_beats_a_single_vector(large: list[Sketch]) -> None:
    good = seconds_of(large[1], [2, 1, 64, 8], [1, 2, 16, 32], [64, 16])
    poor = seconds_of(large[0], [2, 1, 512, 1], [1, 2, 32, 16], [64, 16])
    assert poor > 5 * good
    # Close to the peak of two cores with two pipes of 16 lanes, and not beyond it.
    peak = 1024**3 / (2 * 2 * 16 * MACHINE.hertz)
    assert peak < good < 2 * peak


def test_packing_pays_for_wide_strides(large: list[Sketch]) -> None:
    tiles = [2, 1, 64, 8], [1, 2, 16, 32], [64, 16]
    assert seconds_of(large[1], *tiles) < seconds_of(large[0], *tiles)


def test_jobs_that_cores_cannot_share_evenly_take_longer(large: list[Sketch]) -> None:
    facts = analyze(large[1].skeleton(population(large[1], 200)), MACHINE)[1]
    jobs = facts.loops.jobs
    np.testing.assert_allclose(facts.estimate.balance, np.ceil(jobs / 2) / jobs)
    one_core = Machine.of(TARGET.replace(attrs={**TARGET.attrs, "num-cores": 1}))
    alone = analyze(large[1].skeleton(population(large[1], 200)), one_core)[1]
    np.testing.assert_allclose(alone.estimate.balance, 1.0)


def test_more_than_the_registers_spills(large: list[Sketch]) -> None:
    skeleton = large[1].skeleton(population(large[1], 300))
    facts = next(item for item in analyze(skeleton, MACHINE) if item.nest.is_reduction)
    tile = [loop for loop in facts.nest.loops if loop.name in ("i_3", "j_3")]
    vectors = tile[0].extent * tile[1].extent / 16
    np.testing.assert_array_equal(facts.tile.accumulators, np.maximum(vectors, 1))
    few = Machine.of(TARGET.replace(attrs={**TARGET.attrs, "vector-registers": 8}))
    crowded = next(item for item in analyze(skeleton, few) if item.nest.is_reduction)
    assert ((crowded.tile.spilled > 0) == (facts.tile.accumulators + facts.tile.operands > 8)).all()
    spilling = crowded.tile.spilled > 0
    assert (crowded.estimate.body_cycles[spilling] >= facts.estimate.body_cycles[spilling]).all()
    assert (crowded.estimate.body_cycles[spilling] > 1.2 * facts.estimate.body_cycles[spilling]).any()


def test_overlapping_windows_in_unrolled_code_are_reloaded() -> None:
    sketch = PostOrderApply().generate_sketches(conv2d(56, 64), TARGET)[0]
    skeleton = sketch.skeleton(population(sketch, 2000))
    facts = next(item for item in analyze(skeleton, MACHINE) if item.nest.is_reduction)
    extents = {loop.name: loop.extent for loop in facts.nest.loops}
    unrolled_window = (extents["rx_1"] == 3) & (extents["xx_3"] >= 7) & (facts.tile.accumulators >= 14)
    unrolled_window &= extents["rc_1"] > 1
    plain = (extents["rx_1"] == 1) & (extents["ry_1"] == 1) & (facts.tile.vector_iterations <= 112)
    assert unrolled_window.any() and plain.any()
    assert (facts.tile.reloads[plain] == 0).all()
    assert (facts.tile.reloads[unrolled_window] > 0).any()


def test_all_terms_are_positive_and_finite() -> None:
    for name in ("matmul", "conv2d", "grouped", "softmax"):
        for sketch in sketches(name):
            seconds = estimate_seconds(sketch.skeleton(population(sketch, 200)), TARGET)
            assert np.isfinite(seconds).all() and (seconds > 0).all()


def test_larger_caches_and_more_cores_never_hurt(large: list[Sketch]) -> None:
    skeleton = large[0].skeleton(population(large[0], 200))
    base = AnalyticalPrior(TARGET).seconds(skeleton)
    roomy = TARGET.replace(attrs={**TARGET.attrs, "l1-cache-bytes": 4 * 49152, "l2-cache-bytes": 4 << 20})
    assert (AnalyticalPrior(roomy).seconds(skeleton) <= base * 1.0001).all()


@pytest.mark.parametrize("more", [0.5, 1.0, 8.0])
@pytest.mark.parametrize("field", ["loads", "stores", "spilled", "gathered", "scattered", "reloads"])
def test_whatever_moves_more_takes_longer(large: list[Sketch], field: str, more: float) -> None:
    skeleton = large[1].skeleton(population(large[1], 50))
    facts = next(item for item in analyze(skeleton, MACHINE) if item.nest.is_reduction)
    base = replace(facts.tile, stores=facts.tile.stores + 20.0)  # no part of a body is free of others
    tile = replace(base, **{field: getattr(base, field) + more})
    before, after = (
        _body_cycles(facts.nest, facts.loops, facts.slots, item, MACHINE) for item in (base, tile)
    )
    assert (after > before).all()


def facts_of_reduction(sketch: Sketch) -> Any:
    """What the estimate knows of the nest that reduces."""
    skeleton = sketch.skeleton(population(sketch, 50))
    return next(item for item in analyze(skeleton, MACHINE) if item.nest.is_reduction)


def test_broadcasts_are_cheaper_than_other_loads(large: list[Sketch]) -> None:
    facts = facts_of_reduction(large[1])
    tile = replace(facts.tile, loads=facts.tile.loads + 16.0)
    folded = replace(tile, broadcasts=tile.broadcasts + 16.0)
    plain, cheap = (
        _body_cycles(facts.nest, facts.loops, facts.slots, item, MACHINE) for item in (tile, folded)
    )
    assert (cheap < plain).all()


def regions(outer: int, jobs: int) -> Sketch:
    """A parallel region of so many jobs, entered by an outer loop, around rows of four vectors."""
    a = te.placeholder((outer, jobs, 64), "float32", name="A")
    sch = SketchSchedule(
        te.create_prim_func([a, te.compute((outer, jobs, 64), lambda *i: a(*i) + 1.0, name="B")])
    )
    _, shared, row = sch.get_loops("B")
    sch.vectorize(sch.split(row, [None, 16])[1])
    sch.parallel(shared)
    return Sketch(sch)


def facts_of(sketch: Sketch, **machine: Any) -> Any:
    (facts,) = analyze(sketch.skeleton(np.zeros((1, 0), dtype=np.int64)), replace(MACHINE, **machine))
    return facts


@pytest.mark.parametrize(
    ("jobs", "field", "times"),
    [
        (16, "parallel_launch", 8),  # once for each iteration of the loop around the region
        (16, "job_overhead", 8 * 16 // 2),  # two cores share the jobs
        (15, "job_overhead", 8 * 8),  # the last of which only one has
        (1, "region_call", 8),
        (1, "parallel_launch", 0),
    ],
)
def test_what_regions_cost_counts_as_often_as_it_happens(jobs: int, field: str, times: int) -> None:
    more = 1000.0
    before, after = (
        facts_of(regions(8, jobs), **{field: getattr(MACHINE, field) + extra}) for extra in (0.0, more)
    )
    slower = (after.estimate.seconds - before.estimate.seconds) * MACHINE.hertz
    np.testing.assert_allclose(slower, times * more, atol=1e-3)


def test_each_end_of_an_innermost_loop_costs() -> None:
    """The loop over the vectors of a row ends once for each row."""
    before, after = (facts_of(regions(8, 16), loop_exit=cycles) for cycles in (0.0, 10.0))
    np.testing.assert_allclose(after.estimate.compute_cycles - before.estimate.compute_cycles, 8 * 16 * 10.0)


def test_a_core_that_works_alone_has_all_of_the_memory_to_itself() -> None:
    """The cores share what two of them draw; a single job draws as much as one core can."""
    last = replace(MACHINE.caches[2], bytes_per_cycle=8.0, total_bytes_per_cycle=8.0)
    caches = (*MACHINE.caches[:2], last)
    for jobs, rate in ((1, 8.0), (2, 4.0), (16, 4.0)):
        facts = facts_of(regions(8, jobs), caches=caches)
        cycles = facts.traffic.lines[2].sum(axis=0) * 64 / rate + facts.traffic.runs[2] * last.run_start
        assert facts.traffic.fitting[2] == 0  # all of it fits, and comes once: read ahead
        np.testing.assert_allclose(facts.estimate.memory_cycles[2], 0.25 * cycles)


def test_movement_is_not_hidden_wholly_behind_computation(large: list[Sketch]) -> None:
    skeleton = large[1].skeleton(population(large[1], 50))
    for level in range(3):
        slow = replace(MACHINE.caches[level], bytes_per_cycle=MACHINE.caches[level].bytes_per_cycle / 2)
        caches = tuple(slow if number == level else cache for number, cache in enumerate(MACHINE.caches))
        slower = AnalyticalPrior(TARGET, replace(MACHINE, caches=caches)).seconds(skeleton)  # type: ignore[arg-type]
        assert (slower > AnalyticalPrior(TARGET, MACHINE).seconds(skeleton)).all()


def test_gathering_waits_for_shuffles(large: list[Sketch]) -> None:
    facts = facts_of_reduction(large[1])
    tile = replace(facts.tile, gathered=facts.tile.gathered + 64.0)
    fast, slow = (
        _body_cycles(facts.nest, facts.loops, facts.slots, tile, replace(MACHINE, shuffles_per_cycle=rate))
        for rate in (2.0, 1.0)
    )
    assert (slow > fast).all()


def test_vectors_that_are_stored_along_another_axis_are_scattered() -> None:
    @T.prim_func
    def copies(
        A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")
    ):  # type: ignore[no-untyped-def]
        for i, j in T.grid(64, 64):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for i, j in T.grid(64, 64):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vj, vi] = A[vi, vj]

    sch = SketchSchedule(copies)
    for name in ("B", "C"):
        sch.vectorize(sch.split(sch.get_loops(name)[1], [None, 16])[1])
    along, across = (facts.tile for facts in analyze(Sketch(sch).skeleton(np.zeros((1, 0), int)), MACHINE))
    assert (along.stores, along.scattered) == (1, 0)
    assert (across.stores, across.scattered) == (0, 16)  # one by one


def test_the_compiler_makes_vectors_of_what_lies_in_a_row() -> None:
    @T.prim_func
    def program(
        A: T.Buffer((64, 64), "float32"),
        B: T.Buffer((64, 64), "float32"),
        C: T.Buffer((64, 64), "float32"),
        D: T.Buffer((64,), "float32"),
    ):  # type: ignore[no-untyped-def]
        for i, j in T.grid(64, 64):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for i, j in T.grid(64, 64):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vj, vi]
        for i, j in T.grid(64, 64):
            with T.block("D"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    D[vi] = T.float32(0)
                D[vi] = D[vi] + A[vi, vj]

    skeleton = Sketch(SketchSchedule(program)).skeleton(np.zeros((1, 0), int))
    lanes = {facts.nest.name: int(facts.tile.lanes[0]) for facts in analyze(skeleton, MACHINE)}
    assert lanes == {"B": 16, "C": 1, "D": 16}


def test_hand_made_machines_are_used(large: list[Sketch]) -> None:
    skeleton = large[1].skeleton(population(large[1], 50))
    slow = replace(MACHINE, hertz=MACHINE.hertz / 10)
    np.testing.assert_allclose(
        AnalyticalPrior(TARGET, slow).seconds(skeleton), 10 * AnalyticalPrior(TARGET).seconds(skeleton)
    )


def test_sums_of_columns_come_faster_from_whole_rows_than_from_columns_of_tiles() -> None:
    a = te.placeholder((4096, 1024), "float32", name="A")
    tiled, plain, *_ = PostOrderApply().generate_sketches(
        te.create_prim_func([a, topi.sum(a, axis=0)]), TARGET
    )
    assert not plain.decisions
    narrow = [
        row for row in population(tiled, 400) if int(tiled.decisions[0].trace_decision(int(row[0]))[-1]) <= 32
    ]
    rows = estimate_seconds(plain.skeleton(np.zeros((1, 0), dtype=np.int64)), TARGET)[0]
    assert len(narrow) and rows < estimate_seconds(tiled.skeleton(np.array(narrow)), TARGET).min()


def test_uneven_loops_run_in_whole_vectors_and_narrower_ones() -> None:
    lanes = MACHINE.vector_bytes // 4
    for extent, expected in (
        (4 * lanes, 4),
        (4 * lanes + 1, 5),
        (4 * lanes + 3, 6),
        (lanes // 2, 1),
        (lanes // 2 + 1, 2),
    ):
        assert _vectors(np.array([extent]), lanes).tolist() == [expected]


def test_what_a_loop_does_not_change_is_computed_before_it() -> None:
    """The square root and the division of a row are one of each for the row, not one for each of its elements."""
    A = te.placeholder((64, 256), name="A")
    S = te.placeholder((64,), name="S")
    invariant = te.compute((64, 256), lambda i, j: A[i, j] * (1.0 / te.sqrt(S[i])), name="B")
    varying = te.compute((64, 256), lambda i, j: A[i, j] * (1.0 / te.sqrt(A[i, j])), name="B")
    seconds = []
    for result in (invariant, varying):
        sch = SketchSchedule(te.create_prim_func([A, S, result]), seed=0)
        _, j = sch.get_loops(sch.get_block("B"))
        _, lanes = sch.split(j, [None, 16])
        sch.vectorize(lanes)
        skeleton = Sketch(sch).skeleton(np.zeros((1, 0), dtype=np.int64))
        (nest,) = skeleton.nests
        by_group = {frozenset(group.counts): group.moved for group in nest.groups}
        if result is invariant:
            assert by_group[frozenset({"float_divmod", "float_math"})] == (True, False, False)
        assert sum(sum(group.counts.values()) for group in nest.groups) == sum(nest.operations.values())
        seconds.append(estimate_seconds(skeleton, TARGET)[0])
    assert seconds[1] > 3 * seconds[0]


def test_what_is_stored_changes_with_every_loop() -> None:
    (nest,) = (
        item
        for item in sketches("matmul")[0].skeleton(population(sketches("matmul")[0], 4)).nests
        if item.is_reduction
    )
    (group,) = nest.groups
    assert all(group.moved) and group.counts == nest.operations


def _elementwise(rows: int, columns: int, costly: bool) -> Sketch:
    a = te.placeholder((rows, columns), "float32", name="A")

    def value(i: Any, j: Any) -> Any:
        return tir.exp(a[i, j]) if costly else a[i, j] + 1.0

    (sketch,) = PostOrderApply().generate_sketches(
        te.create_prim_func([a, te.compute((rows, columns), value)]), TARGET
    )
    return sketch


def _by_factor(sketch: Sketch, column: int, factor: int) -> dict[int, float]:
    """The estimates of all rows that begin with the first choice of other columns, by a factor of one column's tile."""
    size = sketch.decisions[column].size
    rows = np.zeros((size, sketch.n_columns), dtype=np.int64)
    rows[:, column] = np.arange(size)
    seconds = estimate_seconds(sketch.skeleton(rows), TARGET)
    tiles = [sketch.decisions[column].trace_decision(number) for number in range(size)]
    return {tile[factor]: float(item) for tile, item in zip(tiles, seconds, strict=True)}  # type: ignore[index]


def test_polynomials_side_by_side_share_the_registers() -> None:
    seconds = _by_factor(_elementwise(16, 4096, costly=True), 1, 1)
    assert seconds[8] > seconds[2]
    cheap = _by_factor(_elementwise(16, 4096, costly=False), 1, 1)
    assert cheap[8] <= cheap[2]


def test_a_parallel_region_of_one_job_is_a_call() -> None:
    short, long = (_by_factor(_elementwise(16, columns, costly=True), 0, 0) for columns in (64, 65536))
    assert short[1] < min(short[2], short[16]) and long[2] < long[1]


def test_short_chains_of_additions_overlap() -> None:
    """A core looks ahead to the sums behind a short one, not behind a long one."""

    def per_addition(rows: int, length: int) -> float:
        a, k = te.placeholder((rows, 2 * length), "float32", name="A"), te.reduce_axis((0, length), name="k")
        func = te.create_prim_func([a, te.compute((rows,), lambda i: te.sum(a[i, 2 * k], axis=k))])
        skeleton = Sketch(SketchSchedule(func)).skeleton(np.zeros((1, 0), dtype=np.int64))
        (facts,) = analyze(skeleton, MACHINE)
        return float(facts.estimate.body_cycles[0])

    assert per_addition(1024, 16) < 0.7 * per_addition(16, 1024)


def transposed(rows: int, side: str) -> Any:
    """The body of a transposition's copy with vectors along the result, inside of a loop along the source."""

    @T.prim_func
    def copy(A: T.Buffer((64, rows), "float32"), B: T.Buffer((rows, 64), "float32")):  # type: ignore[no-untyped-def,valid-type]
        for i, j in T.grid(rows, 64):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vj, vi]

    sch = SketchSchedule(copy)
    i, j = sch.get_loops("B")
    if side == "parallel":
        sch.parallel(i)
    sch.vectorize(sch.split(j, [None, 16])[1])
    return analyze(Sketch(sch).skeleton(np.zeros((1, 0), int)), MACHINE)[0].tile


def test_a_transposition_is_turned_in_registers() -> None:
    """Squares of 16: each vector is loaded whole, and shuffled four times; of 20 rows four are left."""
    whole, partly, jobs = transposed(64, ""), transposed(20, ""), transposed(64, "parallel")
    assert (whole.loads, whole.gathered) == (1, 4)
    assert (partly.loads, partly.gathered) == (
        pytest.approx(0.8 * 1 + 0.2 * 16),
        pytest.approx(0.8 * 4 + 0.2 * 16),
    )
    assert (jobs.loads, jobs.gathered) == (16, 16)  # each row is a job of its own


def cycles_with_weights(read: float = 0.0, more: float = 0.0, is_awaited: bool = False) -> tuple[float, ...]:
    """Cycles of a nest on one core without and with weights, and those in which it computes.

    Args:
        read: cycles in which the weights come from memory.
        more: cycles in which they come again, from the last cache.
        is_awaited: whether nobody fetches them before.
    """
    (facts,) = analyze(nest([("i", 64), ("j", 100)], [("A", [64, 200], [[1, 0], [0, 2]], False)]), MACHINE)
    one, zero = np.ones(1), np.zeros(1, dtype=np.int64)
    found = Weights(
        facts.slots[0],
        read * MACHINE.caches[2].rate(one),
        more * MACHINE.caches[1].rate(one),
        zero - 1,
        one,
        np.array([is_awaited]),
    )
    nothing, weights = (
        _estimate(facts.nest, facts.loops, facts.slots, facts.tile, facts.traffic, item, MACHINE)
        for item in ([], [found])
    )
    return (
        float(nothing.seconds[0] * MACHINE.hertz),
        float(weights.seconds[0] * MACHINE.hertz),
        float(nothing.compute_cycles[0]),
    )


def test_nothing_is_faster_than_its_weights_come() -> None:
    """All of them from memory, and what is read again from the last cache."""
    plain, few, _ = cycles_with_weights(read=1.0)
    assert few == plain
    assert cycles_with_weights(read=1e6)[1] == pytest.approx(1e6)
    assert cycles_with_weights(read=1e6, more=5e5)[1] == pytest.approx(1.5e6)
    assert cycles_with_weights(more=1e6)[1] == pytest.approx(1e6)


def test_the_wait_for_weights_is_for_what_the_core_could_compute_meanwhile() -> None:
    plain, waiting, computing = cycles_with_weights(read=100.0, is_awaited=True)
    assert computing > 100 and waiting == pytest.approx(plain + 50)
    assert cycles_with_weights(read=1e6, is_awaited=True)[1] == pytest.approx(1e6 + computing / 2)
