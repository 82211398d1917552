"""PairTiling: two reductions in one tile mean the same, keep a register tile each, and fit the caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import te, tir, topi
from ir.target import Target
from ir.tir.kernel_attributes import LAYOUT_FREE_BUFFERS
from schedules import Schedule
from schedules.annotation import PARALLEL, VECTORIZE
from schedules.block_facts import node_of, reduce_vars
from schedules.population import Sketch
from schedules.population.sketch import SketchSchedule
from schedules.postproc import postprocess
from schedules.rule import AutoInline, PairTiling, ScheduleRule
from schedules.space import PostOrderApply
from schedules.tree import all_blocks, loops_around

from ..checks import assert_replays, assert_same_meaning
from ..rule_contract import RuleContract


def cpu(l1: int = 2048, l2: int = 8192) -> Target:
    return Target(f"llvm -mcpu=haswell -num-cores 2 -l1-cache-bytes={l1} -l2-cache-bytes={l2}")


class TestPairTiling(RuleContract):
    def rule(self) -> ScheduleRule:
        return PairTiling()


def pair(
    order: str = "depthwise first",
    image: tuple[int, int] = (8, 6),
    channels: int = 16,
    filters: int = 8,
    stride: int = 1,
    dtype: str = "int32",
    batch: int = 1,
) -> tir.PrimFunc:
    """Two convolutions with what is computed of the results of each, weights free in their layout."""
    wide = channels if order == "depthwise first" else filters
    data = te.placeholder((batch, *image, channels), dtype, "D")
    windows = te.placeholder((3, 3, 1, wide), dtype, "V")
    weights = te.placeholder((1, 1, channels, filters), dtype, "W")

    def depthwise(value: Any) -> Any:
        return topi.nn.relu(topi.nn.group_conv2d_nhwc(value, windows, stride, 1, 1, wide))

    def pointwise(value: Any) -> Any:
        return topi.nn.relu(topi.nn.conv2d_nhwc(value, weights, 1, 0, 1))

    result = pointwise(depthwise(data)) if order == "depthwise first" else depthwise(pointwise(data))
    return te.create_prim_func([data, windows, weights, result]).with_attr(LAYOUT_FREE_BUFFERS, [1, 2])


def inlined(func: tir.PrimFunc, target: Target, sketch: bool = False) -> Schedule:
    sch = SketchSchedule(func, seed=0) if sketch else Schedule(func, seed=0)
    rule = AutoInline()
    rule.initialize(target)
    for name in reversed([sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_block("root"))]):
        (sch,) = rule.apply(sch, sch.get_block(name))  # type: ignore[assignment]
    return sch


def second(sch: Schedule) -> Any:
    reducing = [item.name for item in all_blocks(sch._root("main")) if reduce_vars(item)]
    return sch.get_block(reducing[-1])


def offers(func: tir.PrimFunc, target: Target, sketch: bool = False) -> list[Schedule]:
    rule = PairTiling()
    rule.initialize(target)
    sch = inlined(func, target, sketch)
    return rule.offers(sch, second(sch))


def shared_loops(sch: Schedule) -> list[int]:
    """Extents of the loops that both reductions run in."""
    nests = [loops_around(item) for item in all_blocks(sch._root("main")) if reduce_vars(item)]
    return [
        int(one.extent.value)
        for one, other in zip(*nests, strict=False)
        if one is other  # type: ignore[attr-defined]
    ]


@settings(max_examples=6, deadline=None)
@given(
    order=st.sampled_from(["depthwise first", "pointwise first"]),
    image=st.tuples(st.sampled_from([4, 6, 7]), st.sampled_from([4, 5])),
    stride=st.integers(1, 2),
    batch=st.integers(1, 2),
    seed=st.integers(0, 9),
)
def test_every_tile_means_the_same(
    order: str, image: tuple[int, int], stride: int, batch: int, seed: int
) -> None:
    func = pair(order, image, 16, 16, stride, batch=batch)
    target = cpu()
    *tiles, apart = offers(func, target, sketch=True)
    assert second(apart) is not None
    for found in tiles:
        sketch = Sketch(found)  # type: ignore[arg-type]
        rows = sketch.sample(1, np.random.default_rng(seed))
        for row in rows:
            sch = sketch.materialize(func, row)
            assert_replays(sch, func)
            assert_same_meaning(func, sch)
            assert postprocess(sch, target)
            assert_same_meaning(func, sch)


def test_one_tile_for_each_cache_and_the_pair_as_it_was() -> None:
    first_cache, second_cache, apart = offers(pair(image=(32, 16)), cpu())
    # 1 KiB is one row of 16 pixels and 16 channels, 4 KiB are four
    assert shared_loops(first_cache) == [32]
    assert shared_loops(second_cache) == [8]
    assert shared_loops(apart) == []
    for sch in (first_cache, second_cache):
        for block in (item for item in all_blocks(sch._root("main")) if reduce_vars(item)):
            marks = [loop.annotations for loop in loops_around(block)]
            assert PARALLEL in marks[0] and VECTORIZE in marks[-1]
            assert not any(PARALLEL in item for item in marks[1:])


def test_windows_of_which_tiles_would_compute_too_much_again_are_left_alone() -> None:
    func = pair("pointwise first", (8, 8), 16, 8)
    # 2 KiB are the three rows that one row of the result needs, 4 KiB the six for four rows
    assert len(offers(func, cpu(2048, 4096))) == 1
    *tiles, _ = offers(func, cpu(2048, 8192))
    assert [shared_loops(sch) for sch in tiles] == [[2]]


def test_channels_are_cut_where_nothing_is_computed_twice() -> None:
    func = pair("pointwise first", (8, 8), 8, 64)
    *tiles, _ = offers(func, cpu(2048, 32768))
    assert [shared_loops(sch) for sch in tiles] == [[4]]  # whole images of 16 channels


def reads_twice(again: bool) -> tir.PrimFunc:
    """Two products; with ``again`` what follows reads the first one's results, too."""
    a, b, c = (te.placeholder((16, 16), "int32", name) for name in "ABC")
    i, j = te.reduce_axis((0, 16), "i"), te.reduce_axis((0, 16), "j")
    first = te.compute((16, 16), lambda y, x: te.sum(a[y, i] * b[i, x], axis=i), name="first")
    last = te.compute((16, 16), lambda y, x: te.sum(first[y, j] * c[j, x], axis=j), name="last")
    result = te.compute((16, 16), lambda y, x: last[y, x] + (first[y, x] if again else 1), name="result")
    return te.create_prim_func([a, b, c, result])


def test_what_others_read_too_is_not_taken_into_the_tile() -> None:
    rule = PairTiling()
    rule.initialize(cpu(512, 1024))
    for again, expected in ((False, 1), (True, 0)):
        sch = Schedule(reads_twice(again))
        tiles = rule.offers(sch, sch.get_block("last"))[:-1]
        assert (len(tiles) > 0) == bool(expected)


def test_what_ends_a_register_tile_is_no_part_of_the_next_product() -> None:
    for order in ("depthwise first", "pointwise first"):
        sch = inlined(pair(order), cpu())
        first = next(item for item in all_blocks(sch._root("main")) if reduce_vars(item))
        (epilogue,) = sch.get_consumers(sch.get_block(first.name))
        assert not reduce_vars(node_of(sch, epilogue))
        store = node_of(sch, epilogue).block().body
        assert isinstance(store, tir.BufferStore) and isinstance(store.value, tir.Max)


def test_a_space_has_both_forms() -> None:
    func = pair(image=(16, 16), dtype="float32")
    shared = []
    for sketch in PostOrderApply(max_sketches=8).generate_sketches(func, cpu()):
        (row,) = sketch.sample(1, np.random.default_rng(0))
        shared.append(len(shared_loops(sketch.materialize(func, row))))
    assert min(shared) == 0 < max(shared)


@pytest.mark.parametrize("order", ["depthwise first", "pointwise first"])
def test_blocks_that_are_scheduled_are_left_alone(order: str) -> None:
    target = cpu()
    sch = inlined(pair(order, (16, 16)), target)
    rule = PairTiling()
    rule.initialize(target)
    block = second(sch)
    sch.annotate(sch.get_loops(block)[0], PARALLEL, 1)
    assert rule.apply(sch, block) == [sch]
