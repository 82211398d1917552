"""ReductionChain through the contract: which chains it finds, in which tiles, and that candidates are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import IRModule, te, topi
from ir.target import Target
from ir.tir import PrimFunc
from runners.native import build_native
from runners.verify import compute_reference
from schedules import Schedule, ScheduleError
from schedules.annotation import PARALLEL, VECTORIZE
from schedules.population.sketch import SketchSchedule
from schedules.postproc import postprocess
from schedules.rule import ReductionChain, ScheduleRule
from schedules.space import PostOrderApply
from tests.programs import chains
from tests.runners.verify.conftest import native, verdict

from ..checks import assert_replays, main_of, outputs_of
from ..rule_contract import RuleContract

ONE_CORE = Target("llvm -mcpu=x86-64-v3 -num-cores 1 -l1-cache-bytes 512 -l2-cache-bytes 4096")
"""Of caches so small that small programs have tiles."""


class TestReductionChain(RuleContract):
    def rule(self) -> ScheduleRule:
        return ReductionChain()


def offers(func: PrimFunc, block: str = "peak", target: Target = ONE_CORE, **options: int) -> list[Schedule]:
    rule = ReductionChain(**options)
    rule.initialize(target)
    start = SketchSchedule(func, seed=0)
    return rule.offers(start, start.get_block(block))


def loops_of(sch: Schedule, block: str) -> list[int]:
    return [int(sch.get(loop).extent.value) for loop in sch.get_loops(block)]


def fused(found: list[Schedule]) -> list[Schedule]:
    return [sch for sch in found if any(inst.kind.name == "RFactorChain" for inst in sch.trace.insts)]  # type: ignore[union-attr]


def test_a_row_is_looked_at_once_in_tiles_for_each_cache() -> None:
    found = offers(chains.log_sum_exp(4, 1024))
    *tiled, plain = found
    assert plain.trace is not None and not fused([plain])
    # an element of a key: 4 bytes of half of 512, and of half of 4096
    assert [loops_of(sch, "total_rf")[1] for sch in tiled] == [16, 2]
    for sch in tiled:
        assert [
            item is other for item, other in zip(loops_at(sch, "peak_rf"), loops_at(sch, "total_rf"))
        ] == [True] * 2
        assert loops_at(sch, "result")[0] is loops_at(sch, "total_rf")[0]  # all of a row in one iteration


def loops_at(sch: Schedule, block: str) -> list[Any]:
    """The loops over the rows and over the tiles."""
    return [sch._loop(loop) for loop in sch.get_loops(block)[:2]]


def test_short_rows_stay_in_one_piece() -> None:
    assert len(offers(chains.log_sum_exp(4, 48))) == 1


@pytest.mark.parametrize("mask", ["none", "causal", "added", "earlier"])
def test_attention_is_computed_tile_by_tile(mask: str) -> None:
    """Scores, their mask, weights and sums of some queries and keys share the loops over both."""
    *tiled, _ = offers(chains.attention(2, 64, 64, 8, mask), max_row_tile=8)
    assert tiled
    for sch in tiled:
        loop = sch._loop(sch.get_loops("mixed_rf")[2])
        for block in ("score", "peak_rf", "weight", "total_rf"):
            assert sch._loop(sch.get_loops(block)[2]) is loop, block
        assert sch._loop(sch.get_loops("attention")[1]) is sch._loop(sch.get_loops("mixed_rf")[1])


def test_tiles_of_the_keys_go_to_the_cores_where_there_are_few_rows() -> None:
    """Flash decoding: what combines the tiles stands behind the loops over all of them."""
    func = chains.attention(2, 1, 256, 8)
    many = Target("llvm -mcpu=x86-64-v3 -num-cores 16 -l1-cache-bytes 4096 -l2-cache-bytes 4096")
    whole, shared, *_ = offers(func, target=many)
    assert shares_rows(whole) and not shares_rows(shared)
    assert all(map(shares_rows, fused(offers(func))))  # one core has nobody to share with


def test_the_loops_over_rows_go_to_the_cores() -> None:
    (tiled, *_) = offers(chains.attention(2, 64, 64, 8), max_row_tile=8)
    marked = [PARALLEL in sch_loop.annotations for sch_loop in map(tiled._loop, tiled.get_loops("mixed_rf"))]
    assert marked[:3] == [True, True, False]


def shares_rows(sch: Schedule) -> bool:
    """Whether the loops over rows hold both the parts and what combines them."""
    return loops_at(sch, "mixed_rf")[0] is loops_at(sch, "mixed")[0]


def test_the_weights_of_a_softmax_are_kept_or_computed_again() -> None:
    *tiled, plain = offers(chains.softmax(2, 1024))
    kept, again = tiled[0], tiled[-1]
    assert loops_at(kept, "weight")[1] is loops_at(kept, "total_rf")[1]
    assert "weight_rf" in kept.mod.script() and "weight_rf" not in plain.mod.script()
    with pytest.raises(ScheduleError, match="no block named 'weight'"):
        again.get_block("weight")
    for sch in (kept, again):
        assert loops_at(sch, "result")[0] is loops_at(sch, "total_rf")[0]
    assert VECTORIZE in kept._loop(kept.get_loops("result")[-1]).annotations


@pytest.mark.parametrize(
    "build",
    [
        lambda x: topi.max(x, axis=1),
        lambda x: topi.argmax(x, axis=1),
        lambda x: topi.subtract(x, topi.max(x, axis=1, keepdims=True)),
    ],
)
def test_a_maximum_that_no_sum_depends_on_is_left_alone(build: Any) -> None:
    x = te.placeholder((4, 1024), "float32", name="x")
    func = te.create_prim_func([x, build(x)])
    sch = Schedule(func)
    for block in sch.get_child_blocks(sch.get_block("root")):
        assert len(offers(func, sch.get(block).name_hint)) == 1


def test_sums_that_are_no_multiples_of_themselves_are_left_alone() -> None:
    x = te.placeholder((4, 1024), "float32", name="x")
    k, r = te.reduce_axis((0, 1024), "k"), te.reduce_axis((0, 1024), "r")
    peak = te.compute((4,), lambda i: te.max(x[i, k], axis=k), name="peak")
    total = te.compute((4,), lambda i: te.sum(x[i, r] - peak[i], axis=r), name="total")
    assert len(offers(te.create_prim_func([x, total]))) == 1


def test_a_tile_of_no_rows_is_refused() -> None:
    with pytest.raises(ScheduleError, match="max_row_tile must be positive, got 0"):
        ReductionChain(max_row_tile=0)


CANDIDATES = {
    "log-sum-exp": chains.log_sum_exp(6, 1000),
    "softmax": chains.softmax(6, 1000),
    "cross entropy": chains.cross_entropy(6, 1000),
    "attention": chains.attention(2, 48, 64, 16),
    "causal attention": chains.attention(1, 64, 64, 16, "causal"),
    "attention to earlier keys": chains.attention(1, 64, 64, 16, "earlier"),
    "decoding": chains.attention(3, 1, 200, 8),
}


@pytest.mark.parametrize("name", CANDIDATES)
def test_candidates_of_the_space_pass_the_check(name: str) -> None:
    """With all other rules behind it: register tiles, lanes, parallel loops."""
    func = CANDIDATES[name]
    mod = IRModule({"main": func})
    reference = compute_reference(mod, native)
    sketches = PostOrderApply(max_sketches=64).generate_sketches(mod, ONE_CORE)
    found = [item for item in sketches if any(inst.kind.name == "RFactorChain" for inst in item.trace.insts)]
    assert found and len(found) < len(sketches)
    generator = np.random.default_rng(0)
    for sketch in found[:3]:
        for row in sketch.sample(2, generator):
            sch = sketch.materialize(mod, row)
            assert_replays(sch, func)
            assert postprocess(sch, ONE_CORE)
            assert verdict(reference, build_native(sch.mod, "llvm")) is None


def test_a_schedule_without_open_decisions_is_fused_too() -> None:
    func = chains.attention(1, 8, 64, 4)
    rule = ReductionChain(max_row_tile=4)
    rule.initialize(ONE_CORE)
    sch = Schedule(func, seed=0)
    first, *_ = rule.offers(sch, sch.get_block("peak"))
    arrays = [
        np.random.default_rng(0).standard_normal(shape).astype("float32")
        for shape in [(1, 8, 4)] + [(1, 64, 4)] * 2
    ]
    arrays.append(np.zeros((1, 8, 4), "float32"))
    np.testing.assert_allclose(
        outputs_of(main_of(first), arrays)[-1], outputs_of(func, arrays)[-1], rtol=1e-5, atol=1e-6
    )
