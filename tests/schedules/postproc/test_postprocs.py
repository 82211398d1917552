"""The contract of postprocessors, and each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ir import te, tir
from ir.script import from_source
from schedules import Schedule, ScheduleError
from schedules.annotation import SKIP_MASKED
from schedules.postproc import (
    DisallowDynamicLoop,
    ParallelizeMarked,
    Postproc,
    RewriteParallelVectorizeUnroll,
    RewriteReductionBlock,
    RewriteTensorize,
    SkipMasked,
    postprocess,
)
from tests.programs import kernels
from tests.programs.expressions import elementwise, matmul_bias
from tests.programs.irregular import IRREGULAR

from ..checks import assert_replays, assert_same_meaning, main_of
from ..rule_contract import TARGET

ALL = [
    DisallowDynamicLoop,
    ParallelizeMarked,
    RewriteParallelVectorizeUnroll,
    RewriteReductionBlock,
    RewriteTensorize,
    SkipMasked,
]


def marked() -> Schedule:
    """A matmul with all the marks that rules leave."""
    sch = Schedule(matmul_bias(), seed=0)
    for name in ("C", "D"):
        loops = sch.get_loops(name)
        sch.annotate(loops[0], "meta_schedule.parallel", 1)
        if name == "D":
            sch.annotate(loops[1], "meta_schedule.vectorize", 1)
        else:
            sch.annotate(loops[2], "meta_schedule.unroll", 1)
    return sch


@pytest.mark.parametrize("kind", ALL)
def test_contract(kind: type[Postproc]) -> None:
    sch = marked()
    for postproc in (kind(), kind().clone()):
        postproc.initialize(TARGET)
        copy = sch.copy()
        assert postproc.apply(copy) is True
        assert_same_meaning(matmul_bias(), copy)
        assert_replays(copy, matmul_bias())
        assert postproc.apply(copy) is True  # again: nothing is left to do
    unmarked = Schedule(elementwise())
    before = unmarked.mod.script()
    postproc = kind()
    postproc.initialize(TARGET)
    assert postproc.apply(unmarked) and unmarked.mod.script() == before


def test_all_together() -> None:
    sch = marked()
    assert postprocess(sch, TARGET)
    text = sch.mod.script()
    assert (
        "T.parallel" in text and "T.vectorized" in text and "C_init" in text and "meta_schedule" not in text
    )
    assert_same_meaning(matmul_bias(), sch)


def test_dynamic_loops_are_refused() -> None:
    n = te.var("n")
    a = te.placeholder((n,), "float32", name="A")
    func = te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0, name="B")])
    assert not DisallowDynamicLoop().apply(_looked_at(func))


def _looked_at(func: object) -> Schedule:
    sch = Schedule(func)
    sch.get_block("B")
    return sch


def test_a_tile_that_does_not_match_is_refused() -> None:
    program = kernels.copy(4)

    sch = Schedule(program)
    sch.annotate(sch.get_block("B"), "meta_schedule.auto_tensorize", "test.not_registered")
    assert not RewriteTensorize().apply(sch)


def test_create() -> None:
    assert [type(item) for item in Postproc.create("llvm")]
    with pytest.raises(ScheduleError, match="'abacus'"):
        Postproc.create("abacus")


@pytest.mark.parametrize(("width", "vectors"), [(3, 0), (7, 1), (32, 1), (40, 1), (48, 1), (197, 1)])
def test_odd_loops_are_vectorized_too(width: int, vectors: int) -> None:
    func = elementwise(4, width)
    sch = Schedule(func)
    sch.annotate(sch.get_loops("C")[1], "meta_schedule.vectorize", 1)
    postproc = RewriteParallelVectorizeUnroll()
    postproc.initialize(TARGET)
    assert postproc.apply(sch)
    assert sch.mod.script().count("T.vectorized") == vectors
    assert_same_meaning(func, sch)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3)])
def test_a_reduction_over_no_elements_keeps_its_initialisation(shape: tuple[int, int]) -> None:
    a = te.placeholder(shape)
    i, k = te.reduce_axis((0, shape[0]), "i"), te.reduce_axis((0, shape[1]), "k")
    func = te.create_prim_func([a, te.compute((2,), lambda j: te.sum(a[i, k], axis=[i, k]), name="B")])
    sch = Schedule(func)
    before = sch.mod.script()
    assert RewriteReductionBlock().apply(sch)
    assert sch.mod.script() == before


def test_a_reduction_over_rows_that_may_be_empty_keeps_its_init() -> None:
    """Rows without elements are not initialised, and other candidates than none are left."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((8,))):
    for i in range(8):
        for k in range(i):
            with T.block("C"):
                vi, vk = T.axis.spatial(8, i), T.axis.reduce(8, k)
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
""")
    sch = Schedule(func)
    before = sch.mod.script()
    assert RewriteReductionBlock().apply(sch)
    assert sch.mod.script() == before


def test_a_loop_that_is_unrolled_and_vectorized_is_split() -> None:
    a = te.placeholder((48,))
    func = te.create_prim_func([a, te.compute((48,), lambda i: a[i] * 2.0, name="B")])
    sch = Schedule(func, seed=0)
    sch.annotate(sch.get_block("root"), "meta_schedule.unroll_explicit", 4)
    sch.annotate(sch.get_loops("B")[0], "meta_schedule.vectorize", 1)
    rule = RewriteParallelVectorizeUnroll()
    rule.initialize(TARGET)
    assert rule.apply(sch)
    outer, inner = sch.get_loops("B")
    assert sch.get(inner).extent.value == 16
    assert "pragma_auto_unroll_max_step" in sch.get(outer).annotations
    assert_same_meaning(func, sch)
    assert_replays(sch, func)


@pytest.mark.parametrize(("function", "lanes"), [(tir.exp, 32), (tir.sqrt, 16)])
def test_vectors_of_long_chains_come_in_pairs(function: Callable[..., Any], lanes: int) -> None:
    a = te.placeholder((192,))
    func = te.create_prim_func([a, te.compute((192,), lambda i: function(a[i]), name="B")])
    sch = Schedule(func)
    sch.annotate(sch.get_loops("B")[0], "meta_schedule.vectorize", 1)
    rule = RewriteParallelVectorizeUnroll()
    rule.initialize(TARGET)
    assert rule.apply(sch)
    assert sch.get(sch.get_loops("B")[-1]).extent.value == lanes
    assert_same_meaning(func, sch)


def test_a_marked_loop_whose_iterations_may_conflict_stays_serial() -> None:
    """What a rule marks too hopefully costs time and not the candidate."""
    func = IRREGULAR["running sums"].func()
    sch = Schedule(func)
    sch.annotate(sch.get_loops("C")[0], "meta_schedule.parallel", 1)
    assert postprocess(sch, TARGET)
    assert "T.parallel" not in sch.mod.script()
    assert_same_meaning(func, sch)


INTERIOR = """@T.prim_func
def main(A: T.Buffer((6, 50)), B: T.Buffer((6, 50))):
    for i in range(6):
        with T.block("check"):
            vi = T.axis.spatial(6, i)
            assert A[vi, 0] < T.float32(100), "too large"
            T.evaluate(0)
    for i in range(1, 5):
        for j in range(1, 49):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi - 1, vj] + A[vi, vj + 1]
"""


def test_loops_that_begin_elsewhere_are_vectorized_whole() -> None:
    """Of 48 lanes that begin at 1 there is no loop over vectors, which would be of a split loop: there was no candidate."""
    func = from_source(INTERIOR)
    sch = Schedule(func)
    sch.annotate(sch.get_loops("B")[1], "meta_schedule.vectorize", 1)
    assert postprocess(sch, TARGET)
    assert "T.vectorized(1, 49)" in sch.mod.script()
    assert_same_meaning(func, sch)


@pytest.mark.parametrize("key", ["parallel", "vectorize", "unroll_explicit"])
def test_root_annotations_leave_alone_what_they_do_not_fit(key: str) -> None:
    """Loops that cannot be fused, and blocks that write nothing."""
    func = from_source(INTERIOR)
    sch = Schedule(func)
    sch.annotate(sch.get_block("root"), f"meta_schedule.{key}", 1000)
    assert postprocess(sch, TARGET)
    assert ("T.parallel(1, 5)" in sch.mod.script()) == (key == "parallel")
    assert_same_meaning(func, sch)


def test_a_root_annotation_parallelizes_no_iterations_that_conflict() -> None:
    func = from_source("""@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), B: T.Buffer((8,), "int32")):
    for j, i in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi + vj] = A[vi, vj]
""")
    sch = Schedule(func)
    sch.annotate(sch.get_block("root"), "meta_schedule.parallel", 1000)
    assert postprocess(sch, TARGET)
    assert "T.parallel" not in sch.mod.script()
    assert_same_meaning(func, sch)


def marked_triangle(hidden: float) -> Schedule:
    """Sums of rows of a triangle in tiles, which are marked to be left out where they are hidden."""
    a, k = te.placeholder((8, 8), name="A"), te.reduce_axis((0, 8), "k")
    c = te.compute((8,), lambda i: te.sum(te.if_then_else(k <= i, a[i, k], hidden), axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, c]), seed=0)
    tiles, _ = sch.split(sch.get_loops("C")[1], [None, 4])
    sch.annotate(tiles, SKIP_MASKED, 75)
    return sch


def test_marked_tiles_that_a_mask_hides_are_left_out() -> None:
    sch = marked_triangle(0.0)
    before = main_of(sch)
    assert postprocess(sch, TARGET)
    text = sch.mod.script()
    assert "T.where(T.ignore_loop_partition(i - k_0 * 4 >= 0))" in text and SKIP_MASKED not in text
    assert_same_meaning(before, sch)


def test_tiles_that_may_change_something_are_computed() -> None:
    sch = marked_triangle(1.0)
    assert postprocess(sch, TARGET)
    text = sch.mod.script()
    assert "T.where" not in text and SKIP_MASKED not in text
