"""RowAlgorithms through the contract, and all that it offers against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cost_models import estimate_seconds
from ir import IRModule, te, topi
from ir.target import Target
from ir.tir import PrimFunc
from runners.native import build_native
from schedules import Schedule
from schedules.dlight.cpu import default_schedule
from schedules.postproc import postprocess
from schedules.rule import RowAlgorithms, ScheduleRule
from schedules.space import PostOrderApply
from schedules.trace import Trace

from ..rule_contract import TARGET, RuleContract


class TestRowAlgorithms(RuleContract):
    def rule(self) -> ScheduleRule:
        return RowAlgorithms()


def topk(rows: int, columns: int, k: int) -> PrimFunc:
    source = te.placeholder((rows, columns), "float32", name="A")
    return te.create_prim_func([source, topi.topk(source, k, 1, "indices", False, "int64")])


def chosen(trace: Trace | None) -> tuple[Any, ...] | None:
    """The algorithm of a candidate and its numbers, None for the operator's own."""
    assert trace is not None
    found = [inst.attrs for inst in trace.insts if inst.kind.name == "OrderRows"]
    return (found[0][0], *found[0][1]) if found else None


@pytest.mark.parametrize(("columns", "k"), [(1000, 10), (200, 1), (64, 60), (9000, 40)])
def test_all_candidates_find_the_same(columns: int, k: int) -> None:
    func = topk(3, columns, k)
    data = np.random.default_rng(0).integers(0, columns // 2, (3, columns)).astype("float32")
    data[0] = np.sort(data[0])
    expected = np.argsort(-data, axis=1, kind="stable")[:, :k]
    seen = set()
    host = Target("cpu")
    for sketch in PostOrderApply().generate_sketches(func, host):
        (row,) = sketch.sample(1, np.random.default_rng(0))
        sch = sketch.materialize(func, row)
        assert postprocess(sch, host)
        seen.add(chosen(sch.trace))
        found = np.empty((3, k), "int64")
        build_native(sch.mod, host)(data, found)
        np.testing.assert_array_equal(found, expected)
    assert {None, ("radix", 8)} <= seen
    assert (("merge",) in seen) == (64 < columns <= 8192)  # of 64 it is the usual one
    assert any(item and item[0] == "threshold" for item in seen) == (k < 60)


def test_the_usual_algorithm_is_offered_once() -> None:
    names = [
        chosen(sketch.materialize(topk(2, 1000, 10), np.zeros(0, "int64")).trace)
        for sketch in PostOrderApply().generate_sketches(topk(2, 1000, 10), TARGET)
    ]
    assert ("threshold", 32, 32) not in names and ("threshold", 32, 16) in names
    assert len(set(names)) == len(names) > 5


def test_sorting_has_several_candidates() -> None:
    source = te.placeholder((3, 700), "float32", name="A")
    func = te.create_prim_func([source, topi.sort(source, 1)])
    data = np.random.default_rng(0).standard_normal((3, 700)).astype("float32")
    host = Target("cpu")
    sketches = PostOrderApply().generate_sketches(func, host)
    assert len(sketches) == 3
    for sketch in sketches:
        found = np.empty_like(data)
        sch = sketch.materialize(func, np.zeros(0, "int64"))
        assert postprocess(sch, host)
        build_native(sch.mod, host)(data, found)
        np.testing.assert_array_equal(found, np.sort(data, axis=1))


def test_rows_of_unknown_extents_have_the_operators_algorithm() -> None:
    from ir.tir import Var

    source = te.placeholder((2, Var("n", "int32")), "float32", name="A")
    func = te.create_prim_func([source, topi.sort(source, 1)])
    assert len(PostOrderApply(sch_rules=[RowAlgorithms()]).generate_sketches(func, TARGET)) == 1


@pytest.mark.parametrize(
    "declaration", [1, {}, {"axis": 7, "descending": True, "results": ["values", "indices"]}]
)
def test_blocks_that_declare_what_they_do_not_compute_stay_as_they_are(declaration: Any) -> None:
    """The annotation's name may be somebody else's."""
    sch = Schedule(topk(2, 1000, 10))
    sch.unannotate(sch.get_block("topk_cpu_row"), "row_order")
    sch.annotate(sch.get_block("topk_cpu_row"), "row_order", declaration)
    assert len(PostOrderApply(sch_rules=[RowAlgorithms()]).generate_sketches(sch.mod, TARGET)) == 1


def test_the_estimate_passes_over_what_is_seldom_done() -> None:
    """Sorting all of a long row costs more than to look for few of its elements, in which a full buffer is the exception."""
    func = topk(8, 32000, 16)
    seconds = {}
    for sketch in PostOrderApply().generate_sketches(func, TARGET):
        skeleton = sketch.skeleton(np.zeros((1, 0), dtype=np.int64))
        sch = sketch.materialize(func, np.zeros(0, "int64"))
        seconds[chosen(sch.trace)] = float(estimate_seconds(skeleton, TARGET)[0])
    sorting = [value for key, value in seconds.items() if key and key[0] in ("radix", "merge")]
    selecting = [value for key, value in seconds.items() if not key or key[0] in ("threshold", "buffer")]
    assert max(selecting) < min(sorting)


def test_a_default_schedule_has_the_operators_algorithm() -> None:
    """Nobody has measured the data."""
    func = topk(8, 5000, 16)
    for rank in (None, estimate_seconds):
        assert chosen(default_schedule(IRModule({"main": func}), TARGET, rank).trace) is None
