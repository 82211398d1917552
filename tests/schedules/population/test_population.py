"""The arrays of a population equal the materialized programs, for every sketch of the operator suite."""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np
import pytest

from experiments.operators.suite import workload
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from schedules import Trace
from schedules.population import Extraction, Nest, Sketch, TileDecision
from schedules.population.decision import CategoricalDecision
from schedules.population.sketch import SketchSchedule
from schedules.postproc import postprocess
from schedules.space import PostOrderApply
from schedules.tree import tree_of

from ..checks import arrays_for, outputs_of

TARGET = Target("llvm -mcpu=skylake-avx512 -num-cores 2")

SHAPES = {
    "C1D": (1, 16, 8, 16, 3, 2, 1),
    "C2D": (1, 8, 8, 8, 16, 3, 1, 1),
    "C3D": (1, 4, 6, 6, 4, 16, 3, 1, 1),
    "GRP": (1, 8, 8, 8, 16, 3, 2, 1, 1, 2),
    "DIL": (1, 8, 8, 8, 16, 3, 1, 1, 2),
    "DEP": (1, 8, 8, 16, 3, 1, 1),
    "T2D": (1, 4, 4, 8, 16, 4, 2, 1),
    "CAP": (1, 4, 4, 4, 4, 3, 1, 1),
    "GMM": (1, 32, 32, 32),
    "TBG": (1, 16, 4, 16),
    "NRM": (1, 64, 96),
    "SFM": (16, 64),
    "CBR": (1, 8, 8, 8, 16, 3, 1, 1),
    "avg_pool_nchw": (1, 4, 10, 10, 3, 2, 1),
    "concat": (6, 20, 12),
    "cumsum": (8, 20),
    "embedding": (30, 48, 8),
    "gather": (6, 40, 32),
    "gelu": (6, 96),
    "max_pool_nhwc": (1, 10, 10, 16, 3, 2, 1),
    "nchw_to_nhwc": (1, 24, 5, 20),
    "resize": (1, 2, 5, 8, 2),
    "scatter_add": (20, 16, 6),
    "topk": (4, 16, 2),
    "transpose": (37, 48),
}


@lru_cache(maxsize=None)
def space(name: str) -> tuple[PrimFunc, tuple[Sketch, ...]]:
    """A small workload and its sketches."""
    func = workload(name, SHAPES[name])
    return func, tuple(PostOrderApply().generate_sketches(func, TARGET))


def some(sketches: tuple[Sketch, ...]) -> tuple[Sketch, ...]:
    """Up to nine of a space's structures, from its first to its last choices."""
    return sketches[:: 1 + (len(sketches) - 1) // 8]


def population(sketch: Sketch, count: int, seed: int = 0) -> np.ndarray:
    """Random valid candidates, and some of their mutants and children."""
    generator = np.random.default_rng(seed)
    rows = sketch.sample(count, generator)
    if not len(rows) or not sketch.n_columns:
        return rows
    mutants = sketch.mutate(rows, generator)
    children = sketch.crossover(rows, mutants[::-1], generator)
    rows = np.concatenate([rows, mutants, children])
    return rows[sketch.valid(rows)]


def assert_same_nest(found: Nest, row: int, expected: Nest) -> None:
    """Row ``row`` of a nest of a population equals the nest of one program."""
    assert found.name == expected.name
    assert [loop.name for loop in found.loops] == [loop.name for loop in expected.loops]
    assert [loop.mark for loop in found.loops] == [loop.mark for loop in expected.loops]
    assert [int(loop.extent[row]) for loop in found.loops] == [int(loop.extent[0]) for loop in expected.loops]
    runs = [int(loop.extent[0]) > 1 for loop in expected.loops]
    assert [loop.is_reduction and run for loop, run in zip(found.loops, runs, strict=True)] == [
        loop.is_reduction and run for loop, run in zip(expected.loops, runs, strict=True)
    ]
    assert found.operations == expected.operations
    assert accesses_of(found, row) == accesses_of(expected, 0)


def assert_arrays_equal_programs(func: PrimFunc, sketch: Sketch, rows: np.ndarray) -> None:
    """The nests of a population equal those of each of its programs."""
    skeleton = sketch.skeleton(rows)
    for number, row in enumerate(rows):
        materialized = Extraction(sketch.materialize(func, row)._root("main")).evaluate({}, 1)
        assert len(skeleton.nests) == len(materialized.nests)
        for found, expected in zip(skeleton.nests, materialized.nests, strict=True):
            assert_same_nest(found, number, expected)


def accesses_of(nest: Nest, row: int) -> list[object]:
    """Buffer, direction, shape, strides and reach of each access; equal ones are counted together."""
    counts: dict[tuple[object, ...], int] = {}
    for access in nest.accesses:
        key = (
            access.name,
            access.is_write,
            access.scope,
            tuple(int(extent[row]) for extent in access.shape),
            tuple(access.strides[:, row].tolist()),
            tuple(map(tuple, access.reach[:, :, row].tolist())),
        )
        counts[key] = counts.get(key, 0) + access.count
    return sorted(counts.items(), key=repr)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_arrays_equal_materialized_programs(name: str) -> None:
    func, sketches = space(name)
    assert sketches
    for sketch in some(sketches):
        rows = population(sketch, 4)
        assert len(rows)
        assert_arrays_equal_programs(func, sketch, rows[:8])


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_valid_rows_replay_and_pass_the_postprocessors(name: str) -> None:
    func, sketches = space(name)
    for sketch in some(sketches):
        rows = population(sketch, 3, seed=1)[:6]
        assert len(rows)
        for row in rows:
            assert postprocess(sketch.materialize(func, row), TARGET)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_rows_survive_traces_and_json(name: str) -> None:
    func, sketches = space(name)
    for sketch in some(sketches):
        rows = population(sketch, 3, seed=2)[:4]
        assert len(rows)
        for row in rows:
            used = np.array([decision.size > 1 for decision in sketch.decisions], dtype=bool)
            trace = sketch.trace_of(row)
            found = sketch.row_of(trace)
            assert found is not None and (found[used] == row[used]).all()
            sch = sketch.materialize(func, row)
            assert postprocess(sch, TARGET) and sch.trace is not None
            stored = Trace.from_json(json.loads(json.dumps(sch.trace.simplified(True).as_json())))
            again = sketch.row_of(stored)
            assert again is not None and (again[used] == row[used]).all()
            # Sketches may differ in nothing but the loop under which something is computed.
            assert all(other.row_of(stored) is None for other in sketches if other is not sketch)


@pytest.mark.parametrize("name", ["C2D", "GMM", "SFM", "DEP", "CBR"])
def test_candidates_keep_the_meaning(name: str) -> None:
    func, sketches = space(name)
    small = {
        "C2D": (1, 2, 2, 2, 16, 3, 1, 1),
        "GMM": (1, 8, 16, 8),
        "SFM": (4, 32),
        "DEP": (1, 3, 3, 16, 3, 1, 1),
        "CBR": (1, 2, 2, 2, 16, 3, 1, 1),
    }
    func = workload(name, small[name])
    for sketch in some(tuple(PostOrderApply().generate_sketches(func, TARGET))):
        rows = population(sketch, 2, seed=3)
        assert len(rows)
        sch = sketch.materialize(func, rows[-1])
        assert postprocess(sch, TARGET)
        _assert_close(func, sch.mod["main"])


def _assert_close(before: PrimFunc, after: PrimFunc) -> None:
    arrays = arrays_for(before)
    for expected, found in zip(outputs_of(before, arrays), outputs_of(after, arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_same_seed_same_population() -> None:
    _, sketches = space("C2D")
    for sketch in sketches:
        first, second = population(sketch, 8, seed=5), population(sketch, 8, seed=5)
        np.testing.assert_array_equal(first, second)
        assert len(first) >= 8 and not np.array_equal(first[:8], population(sketch, 8, seed=6)[:8])


def test_neighbours_differ_and_stay_in_the_table() -> None:
    _, sketches = space("C2D")
    generator = np.random.default_rng(0)
    for sketch in sketches:
        for decision in sketch.decisions:
            column = generator.integers(decision.size, size=50)
            near = decision.neighbours(column, generator)
            assert ((near >= 0) & (near < decision.size)).all()
            moved = near != column
            if isinstance(decision, TileDecision):
                changed = (decision.table[near] != decision.table[column]).sum(axis=1)
                assert decision.size == 1 or np.isin(changed[moved], [2]).mean() > 0.9
                assert decision.size < 4 or moved.mean() > 0.7
            else:
                assert decision.size == 1 or moved.all()


def test_choices_are_drawn_by_their_probabilities() -> None:
    generator = np.random.default_rng(0)
    counts = np.bincount(
        CategoricalDecision.create("c", [1, 2, 4], [0.0, 3.0, 1.0]).draw(4000, generator), minlength=3
    )
    assert counts[0] == 0 and 0.7 < counts[1] / 4000 < 0.8
    same = CategoricalDecision.create("c", [1, 2, 4], [1 / 3] * 3).draw(9, np.random.default_rng(1))
    np.testing.assert_array_equal(same, np.random.default_rng(1).integers(3, size=9))


def test_a_given_decision_of_a_sketch_is_taken() -> None:
    sch = SketchSchedule(space("GMM")[0])
    assert sch.get(sch.sample_categorical([3, 5], [0.5, 0.5], decision=1)) == 5 and not sch.columns
    sch.sample_categorical([3, 5], [0.5, 0.5])
    assert len(sch.columns) == 1


def test_what_names_stand_for_changes_with_its_loops() -> None:
    """A value that a name is bound to is no constant of the nest: what is computed of it is computed in each iteration."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8, 4)), B: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            row: T.float32 = A[vi, 0] * T.float32(2)
            element: T.float32 = row + A[vi, vj]
            B[vi, vj] = row * T.float32(3)
            C[vi, vj] = element * T.float32(3)
""")
    (nest,) = Extraction(tree_of(func.body)).evaluate({}, 1).nests
    assert {group.moved: group.counts for group in nest.groups} == {
        (True, False): {"float_mul": 2},
        (True, True): {"float_addsub": 1, "float_mul": 1},
    }


@pytest.mark.parametrize(
    ("condition", "is_counted"),
    [("C[0] == 8", False), ("C[0] >= 8", True), ("i == 7", True)],
)
def test_what_runs_where_data_are_equal_does_not_count_beside_the_rest(
    condition: str, is_counted: bool
) -> None:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8, 9), "int32"), B: T.Buffer((9,), "int32"), C: T.Buffer((1,), "int32")):
    for i in range(8):
        with T.block("step"):
            T.reads(C[0])
            T.writes(C[0])
            C[0] = C[0] + 1
        if {condition}:
            with T.block("seldom"):
                T.reads(A[i, 0:9], B[0:9])
                T.writes(B[0:9])
                for k in range(9):
                    B[k] = B[k] + A[i, k]
""")
    names = [nest.name for nest in Extraction(tree_of(func.body)).evaluate({}, 1).nests]
    assert names == (["step", "seldom"] if is_counted else ["step"])


def test_of_loops_with_masked_iterations_those_count_that_are_left() -> None:
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8, 40))):
    for i in range(8):
        for j in T.serial(40, annotations={"meta_schedule.skip_masked": 52}):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(0)
""")
    (nest,) = Extraction(tree_of(func.body)).evaluate({}, 1).nests
    assert [int(loop.extent[0]) for loop in nest.loops] == [8, 21]
