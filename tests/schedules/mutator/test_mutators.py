"""Mutators: one decision changes, legally, reproducibly."""

from __future__ import annotations

import numpy as np
import pytest

from ir.tir import PrimFunc
from schedules import Schedule, Trace
from schedules.mutator import (
    MutateComputeLocation,
    MutateParallel,
    MutateThreadBinding,
    MutateTileSize,
    MutateUnroll,
    Mutator,
)
from schedules.population import Sketch, SketchSchedule, TileDecision
from tests.programs import kernels
from tests.programs.expressions import matmul
from tuner import TuneContext

from ..checks import assert_same_meaning

program = kernels.chain(16, 24)


def trace_of_program() -> Trace:
    sch = Schedule(program, seed=0)
    block = sch.get_block("C")
    i, j = sch.get_loops(block)
    outer, _ = sch.split(i, sch.sample_perfect_tile(i, 2, decision=[4, 4]))
    threads = sch.sample_categorical([2, 4, 8], [0.3, 0.3, 0.4], decision=1)
    _, inner = sch.split(j, [None, threads])
    sch.annotate(outer, "meta_schedule.parallel", 1)
    sch.annotate(
        block,
        "meta_schedule.unroll_explicit",
        sch.sample_categorical([0, 16, 64], [0.3, 0.3, 0.4], decision=0),
    )
    producer = sch.get_block("B")
    sch.compute_at(producer, sch.sample_compute_location(producer, decision=1))
    sch.bind(inner, "threadIdx.x")
    sch.enter_postproc()
    assert sch.trace is not None
    return sch.trace


EXPECTED = {
    "MutateTileSize": "SamplePerfectTile",
    "MutateParallel": "SamplePerfectTile",
    "MutateUnroll": "SampleCategorical",
    "MutateThreadBinding": "SampleCategorical",
    "MutateComputeLocation": "SampleComputeLocation",
}


def mutators(seed: int = 0) -> list[Mutator]:
    return [
        MutateTileSize(seed=seed),
        MutateParallel(seed=seed),
        MutateUnroll(seed=seed),
        MutateThreadBinding(seed=seed),
        MutateComputeLocation(program, seed=seed),
    ]


@pytest.mark.parametrize("position", range(5))
def test_one_decision_changes_and_the_program_means_the_same(position: int) -> None:
    trace = trace_of_program()
    before = trace.as_json()
    mutator = mutators()[position]
    seen = set()
    for _ in range(8):
        found = mutator.apply(trace)
        assert found is not None
        changed = [
            inst
            for inst in found.insts
            if inst.kind.takes_decision and found.get_decision(inst) != trace.get_decision(inst)
        ]
        assert [inst.kind.name for inst in changed] == [EXPECTED[type(mutator).__name__]]
        assert not any(inst.kind.is_postproc for inst in found.insts)
        seen.add(str(found.get_decision(changed[0])))
        sch = Schedule(program)
        found.apply_to_schedule(sch, remove_postproc=False)
        assert_same_meaning(program, sch)
    assert seen and trace.as_json() == before


@pytest.mark.parametrize("position", range(5))
def test_same_seed_same_mutations(position: int) -> None:
    trace = trace_of_program()

    def run(mutator: Mutator) -> list[str]:
        return [
            str(found.as_json()) for found in (mutator.apply(trace) for _ in range(5)) if found is not None
        ]

    assert run(mutators(7)[position]) == run(mutators(7)[position])
    fresh = mutators(7)[position]
    assert run(fresh.clone()) == run(fresh)


@pytest.mark.parametrize("position", range(5))
def test_nothing_to_change(position: int) -> None:
    sch = Schedule(program)
    sch.parallel(sch.get_loops("C")[0])
    assert sch.trace is not None
    assert mutators()[position].apply(sch.trace) is None


@pytest.mark.parametrize(
    ("mutator", "func"),
    [(MutateTileSize(), matmul(64)), (MutateUnroll(), matmul(64)), (MutateThreadBinding(), program)],
    ids=lambda item: type(item).__name__,
)
def test_rows_change_where_traces_do(mutator: Mutator, func: PrimFunc) -> None:
    sketch = TuneContext(func, "nvidia/nvidia-a100").sketches()[0]
    rows = sketch.sample(4, np.random.default_rng(0))
    changed: set[int] = set()
    for row in rows.repeat(40, axis=0):
        trace = mutator.apply(sketch.trace_of(row))
        assert trace is not None
        found = sketch.row_of(trace)
        assert found is not None
        (column,) = np.flatnonzero(found != row)
        changed.add(int(column))
    assert changed and changed == set(mutator.columns(sketch) or ())


def test_create() -> None:
    found = Mutator.create("llvm")
    assert {type(item) for item in found} >= {
        MutateTileSize,
        MutateUnroll,
        MutateParallel,
        MutateComputeLocation,
    }
    assert all(0 < probability <= 1 for probability in found.values())
    assert any(isinstance(item, MutateThreadBinding) for item in Mutator.create("cuda"))


def test_context_gives_program_and_seed() -> None:
    class Context:
        mod: PrimFunc = program
        seed = 3

    mutator = MutateComputeLocation()
    assert mutator.apply(trace_of_program()) is None  # it does not know the program
    mutator.initialize_with_tune_context(Context())
    found = mutator.apply(trace_of_program())
    assert found is not None and isinstance(np.random.default_rng(3), np.random.Generator)


def test_there_are_no_more_jobs_than_a_core_may_have() -> None:
    """The tile is (4, 4): with two jobs for each of two cores its outer factor may become smaller, not larger."""
    trace = trace_of_program()

    def outer_factors(max_jobs_per_core: int) -> set[int]:
        mutator = MutateParallel(max_jobs_per_core)
        mutator.initialize_with_tune_context(TuneContext(program, "llvm -num-cores 2", seed=0))
        made = [mutator.apply(trace) for _ in range(30)]
        return {
            int(item.get_decision(inst)[0])
            for item in made
            if item is not None
            for inst in item.insts
            if inst.kind.name == "SamplePerfectTile"
        }

    assert outer_factors(2) == {2}
    assert outer_factors(4) == {2, 8}


def test_rows_have_no_more_jobs_than_a_core_may_have() -> None:
    """As traces; of a row all tiles are near that differ in the outer factor and the next."""
    sch = SketchSchedule(program)
    loop = sch.get_loops("C")[0]
    outer, _ = sch.split(loop, sch.sample_perfect_tile(loop, 2))
    sch.annotate(outer, "meta_schedule.parallel", 1)
    sketch = Sketch(sch)
    (tile,) = sketch.decisions
    assert isinstance(tile, TileDecision)
    rows = np.full((60, 1), tile.number_of([4, 4]))

    def outer_factors(max_jobs_per_core: int) -> set[int]:
        mutator = MutateParallel(max_jobs_per_core)
        mutator.initialize_with_tune_context(TuneContext(program, "llvm -num-cores 2", seed=0))
        made = mutator.mutate_rows(sketch, rows, np.random.default_rng(0))
        return set(tile.table[made[:, 0], 0].tolist())

    assert outer_factors(2) == {1, 2}
    assert outer_factors(4) == {1, 2, 8}
    assert outer_factors(8) == {1, 2, 8, 16}
