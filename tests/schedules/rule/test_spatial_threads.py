"""SpatialThreads: what the threads of a GPU compute, how wide they access memory, and which operands pass through shared memory."""

from __future__ import annotations

from itertools import islice
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models import estimate_seconds
from cost_models.gpu import Gpu, kernels_of
from ir import te, tir, topi
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC
from schedules import Schedule, ScheduleError
from schedules.population import Sketch, TileDecision
from schedules.population.sketch import SketchSchedule
from schedules.postproc import postprocess
from schedules.rule import ScheduleRule, SpatialThreads
from schedules.space import PostOrderApply

from ..checks import assert_same_meaning
from ..rule_contract import RuleContract

GPU = Target("nvidia/nvidia-a100")


class TestSpatialThreads(RuleContract):
    def rule(self) -> ScheduleRule:
        return SpatialThreads(thread_extents=(32, 64))

    def ready(self) -> ScheduleRule:
        rule = self.rule()
        rule.initialize(GPU)
        return rule


def elementwise(*shape: int, dtype: str = "float32") -> PrimFunc:
    source = te.placeholder(shape, dtype, name="A")
    return te.create_prim_func([source, te.compute(shape, lambda *i: source(*i) + source(*i), name="B")])


def permuted(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str = "float32") -> PrimFunc:
    source = te.placeholder(shape, dtype, name="A")
    return te.create_prim_func([source, topi.transpose(source, list(axes))])


def structures(func: PrimFunc, name: str = "B", rule: ScheduleRule | None = None) -> list[Sketch]:
    made = rule or SpatialThreads()
    made.initialize(GPU)
    start = SketchSchedule(func, seed=0)
    found = made.apply(start, start.get_block(name))
    return [Sketch(item) for item in found if isinstance(item, SketchSchedule)]


def loops_of(sch: Schedule, name: str = "B") -> list[tuple[str, int]]:
    """Mark and extent of each loop around a block, the outermost first."""
    found = []
    for loop in map(sch.get, sch.get_loops(name)):
        kind = loop.thread_binding.thread_tag if loop.thread_binding is not None else loop.kind.name.lower()
        found.append((kind, loop.extent.value))
    return found


def candidates(sketch: Sketch, func: PrimFunc, count: int) -> list[Schedule]:
    rows = np.unique(sketch.sample(4 * count, np.random.default_rng(0)), axis=0)
    return [sketch.materialize(func, row) for row in islice(rows, count)]


def sectors_of(sketch: Sketch, rows: np.ndarray | None = None) -> list[float]:
    """Sectors that the only kernel of each candidate asks for."""
    rows = sketch.sample(40, np.random.default_rng(0)) if rows is None else rows
    ((_, kernel),) = kernels_of(sketch.skeleton(rows), Gpu.of(GPU))
    return kernel.sectors.tolist()


def test_neighbouring_threads_compute_neighbouring_vectors() -> None:
    func = elementwise(64, 512)
    (sketch,) = structures(func)
    assert sketch.size() == 6 * 3 * 4  # threads, elements of 16 bytes at most, and vectors
    for sch in candidates(sketch, func, 20):
        loops = loops_of(sch)
        kinds = [kind for kind, _ in loops]
        assert kinds[0] == "blockIdx.x" and kinds[2] == "threadIdx.x" and kinds[3] == "vectorized"
        assert prod(extent for _, extent in loops) >= 64 * 512
        assert loops[3][1] * 4 <= 16


@pytest.mark.parametrize(("dtype", "lengths"), [("float64", 2), ("float32", 3), ("float16", 4), ("int8", 5)])
def test_a_thread_accesses_sixteen_bytes_at_most(dtype: str, lengths: int) -> None:
    assert structures(elementwise(64, 1024, dtype=dtype))[0].size() == 6 * 4 * lengths


def test_the_widest_operand_says_how_long_a_vector_is() -> None:
    wide = te.placeholder((64, 1024), "float64", name="A")
    narrow = te.compute((64, 1024), lambda i, j: wide[i, j].astype("float16"), name="B")
    assert structures(te.create_prim_func([wide, narrow]))[0].size() == 6 * 4 * 2


def test_a_small_result_has_fewer_threads_and_vectors() -> None:
    """Of 128 elements: 32, 64 or 128 threads, and up to four vectors for each of 32."""
    assert structures(elementwise(8, 16))[0].size() == 3 * 3 * 3


def test_a_block_has_as_many_threads_as_the_target_allows() -> None:
    small = Target({"kind": "cuda", "max_threads_per_block": 128})
    rule = SpatialThreads()
    rule.initialize(small)
    start = SketchSchedule(elementwise(64, 512), seed=0)
    (found,) = rule.apply(start, start.get_block("B"))
    assert isinstance(found, SketchSchedule) and Sketch(found).size() == 3 * 3 * 4
    none = SpatialThreads(thread_extents=(256,))
    none.initialize(small)
    assert none.apply(start, start.get_block("B")) == [start]


def test_weights_that_are_prepared_before_the_kernel_runs_are_left_alone() -> None:
    sch = Schedule(elementwise(64, 512))
    sch.annotate(sch.get_block("B"), LAYOUT_REWRITE_PREPROC, 1)
    before = sch.mod.script()
    rule = SpatialThreads()
    rule.initialize(GPU)
    assert [item.mod.script() for item in rule.apply(sch, sch.get_block("B"))] == [before]


def test_threads_follow_the_results_order_in_memory() -> None:
    """Whatever the order of the loops: a warp writes, and reads, whole sectors."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((256, 512), "float32"), B: T.Buffer((256, 512), "float32")):
    for j, i in T.grid(512, 256):
        with T.block("B"):
            vj, vi = T.axis.remap("SS", [j, i])
            B[vi, vj] = A[vi, vj] * 2.0
""")
    (sketch,) = structures(func)
    for sch in candidates(sketch, func, 4):
        assert_same_meaning(func, sch)
    assert set(sectors_of(sketch)) == {2 * 4 * 256 * 512 // 32}


def test_a_warp_writes_whole_sectors_of_a_transposed_tile() -> None:
    """Neighbouring threads are neighbours in the result, where a row of a tile has a warp's threads; the copy fills it along its source."""
    _, shared = structures(permuted((2048, 2048), (1, 0)), "T_transpose")
    rows = shared.sample(400, np.random.default_rng(0))
    columns = shared.values(rows)[shared.decisions[1].variables[1]]  # type: ignore[union-attr]
    assert set(sectors_of(shared, rows[columns % 32 == 0])) == {2 * 4 * 2048**2 // 32}


def test_the_threads_of_a_tile_are_neither_few_nor_many() -> None:
    _, shared = structures(permuted((2048, 2048), (1, 0)), "T_transpose")
    values = shared.values(shared.sample(400, np.random.default_rng(0)))
    rows, columns = (decision.variables for decision in shared.decisions)  # type: ignore[union-attr]
    threads = values[rows[2]] * values[columns[1]]
    assert threads.min() >= 32 and 512 < threads.max() <= 1024


def test_sides_of_tiles_are_neither_short_nor_long() -> None:
    _, shared = structures(permuted((2048, 2048), (1, 0)), "T_transpose", SpatialThreads(sides=(16, 32)))
    for decision in shared.decisions:
        assert isinstance(decision, TileDecision)
        assert set(decision.table[:, 1:].prod(axis=1)) == {16, 32}


def test_a_row_that_is_no_whole_vectors_is_computed_one_by_one() -> None:
    """A vector would reach into the next row of another operand."""
    func = elementwise(33, 7)
    (sketch,) = structures(func)
    assert all("vectorized" not in dict(loops_of(sch)) for sch in candidates(sketch, func, 12))


@pytest.mark.parametrize("shape", [(1,), (3,), (31, 3), (5, 40), (4, 8, 12)])
def test_all_elements_are_computed_once(shape: tuple[int, ...]) -> None:
    func = elementwise(*shape)
    (sketch,) = structures(func, rule=SpatialThreads(thread_extents=(32, 64)))
    for sch in candidates(sketch, func, 8):
        assert postprocess(sch, GPU)
        assert_same_meaning(func, sch)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((48, 64), (1, 0)), ((2, 40, 16), (0, 2, 1)), ((3, 16, 24, 2), (0, 2, 1, 3)), ((24, 16, 8), (2, 1, 0))],
)
def test_what_is_transposed_passes_through_shared_memory(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    func = permuted(shape, axes)
    found = structures(func, "T_transpose", SpatialThreads(thread_extents=(32, 64)))
    assert len(found) == (1 if axes[-1] == len(axes) - 1 else 2)
    for sketch in found:
        for sch in candidates(sketch, func, 6):
            assert postprocess(sch, GPU)
            assert_same_meaning(func, sch)
    for sketch in found[1:]:
        for sch in candidates(sketch, func, 6):
            shared = sch.get(sch.get_block("A_shared"))
            assert shared.writes[0].buffer.scope() == "shared"
            threads = dict(loops_of(sch, "T_transpose"))["threadIdx.x"]
            assert 32 <= threads <= 1024


def test_transpositions_beside_a_product_are_no_structures_of_their_own() -> None:
    """Two ways of each would be eight structures."""
    a, b = (te.placeholder((64, 64), name=name) for name in "AB")
    k = te.reduce_axis((0, 64), "k")
    product = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    outputs = [topi.transpose(topi.multiply(product, float(n)), [1, 0]) for n in (2, 3, 4)]
    func = te.create_prim_func([a, b, *outputs])
    (sketch,) = PostOrderApply().generate_sketches(func, GPU)
    (sch,) = candidates(sketch, func, 1)
    assert sch.mod.script().count('scope="shared"') >= 4  # tiles of both operands, and of what is transposed
    assert postprocess(sch, GPU)


@pytest.mark.parametrize("extent", [7, 67, 149])
def test_sides_that_nothing_divides_stay_in_one_order(extent: int) -> None:
    assert len(structures(permuted((extent, 64), (1, 0)), "T_transpose")) == 1


def test_what_lies_between_reads_is_not_copied() -> None:
    """At positions that are data, or at two places, a tile would read far more than a tile: no card has the memory."""
    data, places = te.placeholder((64, 400, 32), name="A"), te.placeholder((64,), "int32", name="I")
    gathered = te.compute((32, 64), lambda i, j: data[j, places[j], i], name="B")
    assert len(structures(te.create_prim_func([data, places, gathered]))) == 1
    wide = te.placeholder((64, 1064), name="A")
    apart = te.compute((64, 64), lambda i, j: wide[j, i] + wide[j, i + 1000], name="B")
    assert len(structures(te.create_prim_func([wide, apart]))) == 1


def test_rows_are_padded_where_they_end_in_dimensions_of_one() -> None:
    func = permuted((48, 64, 1), (1, 0, 2))
    _, shared = structures(func, "T_transpose")
    (sch,) = candidates(shared, func, 1)
    assert sch.get(sch.get_block("A_shared")).annotations["buffer_dim_align"][0][1] == 0
    assert postprocess(sch, GPU)
    assert_same_meaning(func, sch)


def test_where_no_vector_fits_elements_are_computed_one_by_one() -> None:
    (sketch,) = structures(elementwise(33, 7), rule=SpatialThreads(vector_lengths=(4, 8)))
    assert sketch.size() == structures(elementwise(33, 7))[0].size()


@pytest.mark.parametrize("option", ["thread_extents", "vector_lengths", "items", "sides"])
def test_options_that_are_no_positive_numbers_are_refused(option: str) -> None:
    for numbers in ((), (0, 8)):
        with pytest.raises(ScheduleError, match=f"SpatialThreads: {option} must be positive"):
            SpatialThreads(**{option: numbers})


def test_the_estimate_likes_shared_memory_for_transpositions() -> None:
    """Of one order, every warp reads or writes 32 sectors for four that it uses; a column of a padded tile has no conflicts."""
    func = permuted((2048, 2048), (1, 0))
    plain, shared = structures(func, "T_transpose")
    generator = np.random.default_rng(0)
    seconds = [estimate_seconds(item.skeleton(item.sample(64, generator)), GPU) for item in (plain, shared)]
    assert 1.4 * seconds[1].min() < seconds[0].min()


def test_the_estimate_likes_vectors() -> None:
    """Of a chain that fits the caches: fewer instructions for the same bytes."""
    func = elementwise(256, 1024, dtype="float16")
    (sketch,) = structures(func)
    rows = sketch.sample(500, np.random.default_rng(0))
    lengths = np.array([dict(loops_of(sketch.materialize(func, row)))["vectorized"] for row in rows[:60]])
    seconds = estimate_seconds(sketch.skeleton(rows[:60]), GPU)
    assert seconds[lengths > 1].min() < seconds[lengths == 1].min()


def test_bound_loops_and_reductions_are_left_alone() -> None:
    source = te.placeholder((8, 32), name="A")
    k = te.reduce_axis((0, 32), name="k")
    func = te.create_prim_func([source, te.compute((8,), lambda i: te.sum(source[i, k], axis=k), name="B")])
    sch = Schedule(func)
    rule = SpatialThreads()
    rule.initialize(GPU)
    before = sch.mod.script()
    assert [item.mod.script() for item in rule.apply(sch, sch.get_block("B"))] == [before]
    bound = Schedule(elementwise(8, 32))
    bound.bind(bound.get_loops("B")[0], "threadIdx.x")
    before = bound.mod.script()
    assert [item.mod.script() for item in rule.apply(bound, bound.get_block("B"))] == [before]


@pytest.mark.parametrize("name", ["nvidia/nvidia-h200", "nvidia/geforce-rtx-4090", "nvidia/nvidia-t4"])
@pytest.mark.parametrize(
    "func", [elementwise(128, 3072), permuted((64, 3136), (1, 0)), permuted((8, 4096), (1, 0))]
)
def test_all_candidates_are_within_the_limits_of_a_card(name: str, func: PrimFunc) -> None:
    target = Target(name)
    for sketch in PostOrderApply().generate_sketches(func, target):
        assert all(postprocess(sch, target) for sch in candidates(sketch, func, 12))


@settings(deadline=None, max_examples=12)
@given(
    shape=st.sampled_from([(8, 16), (16, 24), (5, 32), (32, 3)]),
    flip=st.booleans(),
    step=st.integers(1, 2),
    offset=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_random_indices_mean_the_same(
    shape: tuple[int, int], flip: bool, step: int, offset: int, seed: int
) -> None:
    """Reads that are transposed, strided, shifted and cut off at the border, in random candidates of every structure."""
    rows, columns = shape
    source = te.placeholder((80, 80), name="A")

    def value(i: tir.PrimExpr, j: tir.PrimExpr) -> tir.PrimExpr:
        read = source[j * step + offset, i] if flip else source[i * step + offset, j]
        return tir.if_then_else(i + j < rows, read, 0.0)

    func = te.create_prim_func([source, te.compute((rows, columns), value, name="B")])
    for sketch in structures(func, rule=SpatialThreads(thread_extents=(32, 64))):
        for row in sketch.sample(2, np.random.default_rng(seed)):
            sch = sketch.materialize(func, row)
            assert postprocess(sch, GPU)
            assert_same_meaning(func, sch)
