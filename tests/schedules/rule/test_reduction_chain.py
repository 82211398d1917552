"""ReductionChain through the contract: which chains it finds, in which tiles, and that candidates are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import IRModule, relax, te, topi
from ir.target import Target
from ir.tir import PrimFunc
from runners.native import build_native
from runners.verify import compute_reference
from schedules import Schedule, ScheduleError
from schedules.annotation import PARALLEL, SKIP_MASKED, VECTORIZE
from schedules.population.sketch import Sketch, SketchSchedule
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


def test_tiles_of_small_divisors_only_are_powers_of_two() -> None:
    """Of 8 * 127 keys 8 would be a whole number of tiles, but use an eighth of the cache; what is left over is a shorter tile."""
    *tiled, _ = offers(chains.log_sum_exp(4, 1016))
    assert [loops_of(sch, "total_rf")[1:] for sch in tiled] == [[16, 64], [2, 512]]


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


def last_tile(func: PrimFunc) -> list[int]:
    """Of the largest tile that is offered, the extents of the loops over tiles of keys, over its rows and over its keys."""
    target = Target("llvm -mcpu=x86-64-v3 -num-cores 1 -l1-cache-bytes 512 -l2-cache-bytes 16384")
    largest = offers(func, target=target, max_row_tile=8)[-2]
    return loops_of(largest, "weight")[2:]


def test_keys_that_fill_no_vectors_are_taken_all_together() -> None:
    """Of 62 keys no tile of whole vectors divides: so few rows that all keys fit, and where none fit, one row with what does."""
    assert last_tile(chains.attention(2, 60, 128, 8)) == [2, 6, 64]
    assert last_tile(chains.attention(2, 60, 62, 8)) == [1, 6, 62]
    assert last_tile(chains.attention(2, 60, 194, 8)) == [4, 64]


def test_scores_beside_all_keys_are_computed_in_whole_vectors() -> None:
    """18 columns are 24, of which 6 are cut off: a register tile has one vector of them, or all three."""
    func = chains.attention(2, 8, 18, 8)
    sketches = PostOrderApply(max_sketches=64).generate_sketches(func, ONE_CORE)
    widths = set()
    for sketch in sketches:
        if any(inst.kind.name == "RFactorChain" for inst in sketch.trace.insts):
            for row in sketch.sample(8, np.random.default_rng(0)):
                sch = sketch.materialize(IRModule({"main": func}), row)
                if loops_of(sch, "weight")[-1] == 18:
                    widths.add(loops_of(sch, "score")[-1])
    assert widths == {8, 24}


def test_tiles_of_the_keys_go_to_the_cores_where_there_are_few_rows() -> None:
    """Flash decoding: what combines the tiles stands behind the loops over all of them."""
    func = chains.attention(2, 1, 256, 8)
    many = Target("llvm -mcpu=x86-64-v3 -num-cores 16 -l1-cache-bytes 4096 -l2-cache-bytes 4096")
    whole, shared, *_ = offers(func, target=many)
    assert shares_rows(whole) and not shares_rows(shared)
    assert all(map(shares_rows, fused(offers(func))))  # one core has nobody to share with


@pytest.mark.parametrize("rows_and_keys", [(1, 16), (64, 256)])
def test_keys_are_not_shared_out_in_one_tile_nor_beside_many_rows(rows_and_keys: tuple[int, int]) -> None:
    many = Target("llvm -mcpu=x86-64-v3 -num-cores 16 -l1-cache-bytes 4096 -l2-cache-bytes 4096")
    found = fused(offers(chains.attention(2, *rows_and_keys, 8), target=many, max_row_tile=1))
    assert found and all(map(shares_rows, found))


def log_softmax_of_shifted(rows: int = 4, keys: int = 1024) -> PrimFunc:
    """Blocks ``bias``, ``shifted``, ``peak``, ``total`` and ``result``: the result reads what is shifted, too."""
    x, b = te.placeholder((rows, keys), name="x"), te.placeholder((keys,), name="b")
    m, s = (te.reduce_axis((0, keys), name) for name in "ms")
    bias = te.compute((keys,), lambda j: te.exp(b[j]), name="bias")
    shifted = te.compute((rows, keys), lambda i, j: x[i, j] + bias[j], name="shifted")
    peak = te.compute((rows,), lambda i: te.max(shifted[i, m], axis=m), name="peak")
    total = te.compute((rows,), lambda i: te.sum(te.exp(shifted[i, s] - peak[i]), axis=s), name="total")
    result = te.compute((rows, keys), lambda i, j: shifted[i, j] - te.log(total[i]), name="result")
    return te.create_prim_func([x, b, result])


def test_what_others_read_too_and_what_all_rows_read_stays_before_the_tiles() -> None:
    tiled = fused(offers(log_softmax_of_shifted()))
    assert tiled
    for sch in tiled:
        assert loops_of(sch, "bias") == [1024] and loops_of(sch, "shifted") == [4, 1024]


def test_what_all_rows_read_is_not_computed_for_each() -> None:
    x, b = te.placeholder((4, 1024), name="x"), te.placeholder((1024,), name="b")
    m, s = (te.reduce_axis((0, 1024), name) for name in "ms")
    bias = te.compute((1024,), lambda j: te.exp(b[j]), name="bias")
    peak = te.compute((4,), lambda i: te.max(x[i, m] + bias[m], axis=m), name="peak")
    total = te.compute((4,), lambda i: te.sum(te.exp(x[i, s] + bias[s] - peak[i]), axis=s), name="total")
    tiled = fused(offers(te.create_prim_func([x, b, total])))
    assert tiled
    for sch in tiled:
        assert loops_of(sch, "bias") == [1024]


def test_a_sum_over_other_keys_is_no_member() -> None:
    x = te.placeholder((4, 1024), name="x")
    m, s = te.reduce_axis((0, 1024), "m"), te.reduce_axis((0, 512), "s")
    peak = te.compute((4,), lambda i: te.max(x[i, m], axis=m), name="peak")
    total = te.compute((4,), lambda i: te.sum(te.exp(x[i, s] - peak[i]), axis=s), name="total")
    assert len(offers(te.create_prim_func([x, total]))) == 1


def test_weights_that_the_function_returns_are_no_members() -> None:
    x = te.placeholder((4, 1024), name="x")
    m, s = (te.reduce_axis((0, 1024), name) for name in "ms")
    peak = te.compute((4,), lambda i: te.max(x[i, m], axis=m), name="peak")
    weight = te.compute((4, 1024), lambda i, j: te.exp(x[i, j] - peak[i]), name="weight")
    total = te.compute((4,), lambda i: te.sum(weight[i, s], axis=s), name="total")
    assert len(offers(te.create_prim_func([x, weight, total]))) == 1


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


def one_query(keys: int = 200, dim: int = 8) -> PrimFunc:
    """Attention without an axis of rows: blocks ``score`` and those of ``topi.nn.softmax_matmul``."""
    query, key, value = (
        te.placeholder(shape, name=name)
        for name, shape in (("query", (dim,)), ("key", (keys, dim)), ("value", (keys, dim)))
    )
    d = te.reduce_axis((0, dim), "d")
    score = te.compute((keys,), lambda j: te.sum(query[d] * key[j, d], axis=d), name="score")
    return te.create_prim_func([query, key, value, topi.nn.softmax_matmul(score, value)])


@pytest.mark.parametrize("n_cores", [1, 16])
def test_a_chain_without_rows_is_offered_once_in_each_tile(n_cores: int) -> None:
    """Its tiles of keys are the jobs, however many cores there are."""
    target = Target(f"llvm -mcpu=x86-64-v3 -num-cores {n_cores} -l1-cache-bytes 512 -l2-cache-bytes 4096")
    *tiled, _ = offers(one_query(), "T_softmax_maxelem", target)
    assert [loops_of(sch, "T_softmax_mix_rf") for sch in tiled] == [[100, 8, 2], [13, 8, 16]]
    for sch in tiled:
        assert PARALLEL in sch._loop(sch.get_loops("T_softmax_mix_rf")[0]).annotations


CANDIDATES = {
    "log-sum-exp": chains.log_sum_exp(6, 1000),
    "softmax": chains.softmax(6, 1000),
    "cross entropy": chains.cross_entropy(6, 1000),
    "attention": chains.attention(2, 48, 64, 16),
    "causal attention": chains.attention(1, 64, 64, 16, "causal"),
    "attention to earlier keys": chains.attention(1, 64, 64, 16, "earlier"),
    "attention that hides later keys": chains.attention(1, 64, 64, 16, "hidden"),
    "attention to a window": chains.attention(1, 48, 64, 16, "window"),
    "attention to keys that fill no vectors": chains.attention(2, 8, 18, 8),
    "decoding": chains.attention(3, 1, 200, 8),
    "decoding of one head without an axis": one_query(),
}


def skips(sch: Schedule | Sketch) -> bool:
    """Whether hidden tiles are to be left out."""
    return any(inst.kind.name == "Annotate" and SKIP_MASKED in inst.attrs for inst in sch.trace.insts)  # type: ignore[union-attr]


@pytest.mark.parametrize(("mask", "left"), [("hidden", 57), ("window", 24), ("causal", None), ("none", None)])
def test_tiles_that_a_mask_hides_are_left_out(mask: str, left: int | None) -> None:
    """Where hidden values are zeros, not where they are multiplied by zero: as often with as without."""
    *tiled, plain = offers(chains.attention(2, 64, 64, 8, mask), max_row_tile=8)
    assert not skips(plain)
    assert [skips(sch) for sch in tiled] == (
        [True, False] * (len(tiled) // 2) if left else [False] * len(tiled)
    )
    if left:
        assert loops_of(tiled[2], "mixed_rf")[1:3] == [8, 8]  # tiles of 8 queries and 8 keys
        assert tiles_of_keys(tiled[2]).annotations[SKIP_MASKED] == left  # so many percent of 64


def test_of_masked_chains_square_tiles_are_offered_too() -> None:
    larger = Target("llvm -mcpu=x86-64-v3 -num-cores 1 -l1-cache-bytes 512 -l2-cache-bytes 16384")
    found = {
        mask: [
            loops_of(sch, "mixed_rf")[3:]
            for sch in offers(chains.attention(2, 64, 64, 8, mask), target=larger, max_row_tile=8)[:-1]
        ]
        for mask in ("hidden", "none")
    }
    assert [8, 8, 32] in found["none"] and [8, 8, 8] not in found["none"]
    assert (
        found["hidden"].count([8, 8, 32]) == 2 and found["hidden"].count([8, 8, 8]) == 1
    )  # without what is hidden only


def test_scores_of_a_single_head_are_computed_in_the_tile_too() -> None:
    (tiled, *_) = offers(chains.attention(1, 64, 64, 8), max_row_tile=8)
    assert tiles_of_keys(tiled) is tiled._loop(tiled.get_loops("score")[2])


def tiles_of_keys(sch: Schedule) -> Any:
    """The loop over tiles of keys."""
    return sch._loop(sch.get_loops("mixed_rf")[2])


def test_attention_of_relax_hides_in_a_way_that_leaves_tiles_out() -> None:
    query, key, value = (relax.Var(name, relax.TensorStructInfo((1, 64, 2, 16), "float32")) for name in "qkv")
    builder = relax.BlockBuilder()
    with builder.function("main", [query, key, value]):
        attended = relax.op.nn.attention(query, key, value, causal_mask="BottomRight", window_size=16)
        builder.emit_func_output(builder.emit(attended))
    mod = relax.transform.LegalizeOps()(builder.finalize())
    (func,) = [item for item in mod.functions.values() if isinstance(item, PrimFunc)]
    sch = SketchSchedule(func, seed=0)
    sch.compute_inline("attention_masked")
    rule = ReductionChain()
    rule.initialize(ONE_CORE)
    assert any(map(skips, rule.offers(sch, sch.get_block("attention_max"))))


@pytest.mark.parametrize("mask", ["hidden", "window"])
def test_candidates_that_leave_tiles_out_take_no_notice_of_what_is_hidden(mask: str) -> None:
    """By numpy, beside infinities and NaN in keys and values that some queries do not see, with all other rules behind it."""
    func = chains.attention(1, 48, 64, 16, mask)
    mod = IRModule({"main": func})
    generator = np.random.default_rng(0)
    query, key, value = (generator.standard_normal((1, n, 16)).astype("float32") for n in (48, 64, 64))
    for place, number in ((5, np.inf), (20, np.nan), (33, -np.inf), (40, np.nan), (60, np.nan)):
        key[0, place], value[0, place] = number, number
    rows, columns = np.arange(48)[:, None], np.arange(64)[None]
    seen = columns <= rows if mask == "hidden" else (columns < rows) & (columns > rows - 4)
    expected = np.zeros((1, 48, 16), "float32")
    with np.errstate(invalid="ignore"):
        for row in range(48):
            if seen[row].any():
                score = key[0, seen[row]] @ query[0, row] / 4
                weight = np.exp(score - score.max())
                expected[0, row] = weight @ value[0, seen[row]] / weight.sum()
    assert 0 < np.isfinite(expected).all(2).sum() < 48
    sketches = [
        item for item in PostOrderApply(max_sketches=64).generate_sketches(mod, ONE_CORE) if skips(item)
    ]
    assert sketches
    for sketch in sketches[:3]:
        for row in sketch.sample(2, generator):
            sch = sketch.materialize(mod, row)
            assert postprocess(sch, ONE_CORE)
            assert any(inst.kind.name == "SkipMasked" for inst in sch.trace.insts)  # type: ignore[union-attr]
            found = np.full((1, 48, 16), 7, "float32")
            build_native(sch.mod, "llvm")(query, key, value, found)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


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
