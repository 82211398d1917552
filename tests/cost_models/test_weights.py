"""Weights of nests made by hand: panels, what is read again, and what nobody fetches in time."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models.machine import Machine
from cost_models.memory import traffic_of
from cost_models.prior import analyze
from cost_models.weights import Weights, constants_of, weights_of
from ir import IRModule, te, topi
from ir.tir import PrimFunc
from schedules.space import PostOrderApply

from .nests import facts, nest
from .programs import TARGET

PANELS, STEPS, WIDTH = 64, 512, 32
"""64 panels of 64 KiB, 4 MiB of weights."""


def of_product(*loops: tuple[str, int]) -> Weights:
    """Loops ``i`` go over rows, ``j`` over panels, ``k`` over steps, from the outside in; ``pi``, ``pj`` are parallel, ``ui`` unrolled."""
    every = [*loops, ("v", WIDTH)]
    reach = []
    for dimension in "jkv":
        distance, row = 1, []
        for name, extent in reversed(every):
            row.append(distance if dimension in name else 0)
            distance *= extent if dimension in name else 1
        reach.append(row[::-1])
    around, slots = facts(
        nest(
            every,
            [("W", [PANELS, STEPS, WIDTH], reach, False)],
            {"p": "parallel", "u": "unroll", "v": "vectorize"},
        )
    )
    (found,) = weights_of(slots, around, 64, {0})
    return found


def test_a_panel_is_what_the_rows_share() -> None:
    found = of_product(("pj", 4), ("j", 16), ("i", 8), ("k", STEPS))
    assert found.is_reused.all() and found.level == 2 and found.steps == 16
    assert found.bytes == 4 << 20 and found.more == 0
    ahead = found.ahead(6, 64)
    assert ahead[:3, 0].tolist() == [64 << 10] * 3 and not ahead[3:].any()


def test_of_the_panels_of_a_job_the_first_is_waited_for_and_all_where_there_is_no_room() -> None:
    found = of_product(("pj", 4), ("j", 16), ("i", 8), ("k", STEPS))
    assert found.exposed(np.array([2])) == pytest.approx(1 / 16)
    assert found.exposed(np.array([0])) == pytest.approx(1 / 16)
    assert found.exposed(np.array([3])) == 1


def test_panels_of_other_jobs_are_fetched_by_nobody() -> None:
    """The core that takes the next job is another one."""
    found = of_product(("pj", 64), ("i", 8), ("k", STEPS))
    assert found.level == 1 and found.steps == 1
    assert found.exposed(np.array([0])) == 1


def test_several_panels_beside_each_other_are_one_where_rows_go_around_them() -> None:
    found = of_product(("pj", 4), ("j", 4), ("i", 8), ("jj", 4), ("k", STEPS))
    assert found.level == 2 and found.steps == 4
    assert found.ahead(7, 64)[0, 0] == 4 * (64 << 10)


def test_what_is_used_once_is_read_ahead_and_needs_no_room() -> None:
    found = of_product(("pj", 4), ("j", 16), ("k", STEPS))
    assert not found.is_reused.any() and not found.ahead(5, 64).any()
    assert found.exposed(np.array([4])) == 0


def test_what_the_rows_of_a_register_tile_use_again_is_used_once() -> None:
    found = of_product(("pj", 4), ("j", 16), ("k", STEPS), ("ui", 8))
    assert not found.is_reused.any() and found.exposed(np.array([5])) == 0


def test_beside_candidates_of_large_ones_small_constants_count_nothing() -> None:
    """1 MiB of one candidate, 4 MiB of the other; rows use both again, in jobs that read all of it once more."""
    loops, slots = facts(
        nest(
            [("pi", (4, 4)), ("j", (16, 64)), ("i", (8, 8)), ("k", (512, 512)), ("v", (32, 32))],
            [("W", [64, 512, 32], [[0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], False)],
        )
    )
    (found,) = weights_of(slots, loops, 64, {0})
    assert found.bytes.tolist() == [0, 4 << 20] and found.more.tolist() == [0, 3 * (4 << 20)]
    assert found.is_reused.tolist() == [False, True]
    assert not found.ahead(6, 64)[:, 0].any() and found.ahead(6, 64)[0, 1] == 64 << 10


def test_jobs_that_take_other_rows_read_all_of_it_again() -> None:
    found = of_product(("pi", 4), ("j", 64), ("i", 2), ("k", STEPS))
    assert found.bytes == 4 << 20 and found.more == 3 * (4 << 20)


def test_small_constants_and_what_is_no_constant_do_not_count() -> None:
    loops, slots = facts(nest([("i", 8), ("j", 512)], [("W", [8, 512], [[1, 0], [0, 1]], False)]))
    assert weights_of(slots, loops, 64, {0}) == []
    loops, slots = facts(nest([("i", 2048), ("j", 512)], [("W", [2048, 512], [[1, 0], [0, 1]], False)]))
    assert len(weights_of(slots, loops, 64, {0})) == 1 and weights_of(slots, loops, 64, set()) == []


def test_operands_without_elements_and_windows_count_no_bytes_below_zero() -> None:
    """Windows that overlap touch less from further outside than the sum of what is touched inside, and the other way round."""
    reach = [[16, 8, 0], [0, 0, 1]]
    loops, slots = facts(nest([("y", 64), ("r", 9), ("v", 4096)], [("W", [1088, 4096], reach, False)]))
    for item in weights_of(slots, loops, 64, {0}):
        assert (item.more >= 0).all() and np.isfinite(item.bytes).all()


def linear() -> PrimFunc:
    """64 x 1024 numbers by 1024 x 2048 weights."""
    x, w = te.placeholder((64, 1024), name="x"), te.placeholder((1024, 2048), name="w")
    return te.create_prim_func([x, w, topi.nn.matmul(x, w)]).with_attr("layout_free_buffers", [1])


def test_panels_that_are_packed_when_a_model_is_compiled_are_constants() -> None:
    mod = IRModule({"main": linear()})
    sketch = PostOrderApply().generate_sketches(mod, TARGET)[0]
    skeleton = sketch.skeleton(sketch.sample(8, np.random.default_rng(0)))
    (buffer,) = constants_of(skeleton)
    assert any(
        access.buffer == buffer
        for nest in skeleton.nests
        for access in nest.accesses
        if not nest.is_preprocessing
    )


def test_panels_in_turn_with_rows_are_estimated_faster_than_all_panels_for_each_row() -> None:
    """Of two orders of one register tile, that in which the next panel is fetched beside the present one."""
    mod = IRModule({"main": linear()})
    sketch = PostOrderApply().generate_sketches(mod, TARGET)[0]
    rows = sketch.sample(512, np.random.default_rng(0))
    skeleton = sketch.skeleton(rows)
    facts_of = max(analyze(skeleton, Machine.of(TARGET)), key=lambda item: item.estimate.compute_cycles.sum())
    (item,) = weights_of(facts_of.slots, facts_of.loops, 64, constants_of(skeleton))
    exposed = item.exposed(facts_of.traffic.fitting[1])
    # beside each other: candidates of equal arithmetic
    alike = facts_of.estimate.compute_cycles < 1.1 * facts_of.estimate.compute_cycles.min()
    waits, seconds = exposed[alike], facts_of.estimate.seconds[alike]
    assert waits.min() < 0.2 and waits.max() > 0.9
    assert np.median(seconds[waits > 0.9]) > np.median(seconds[waits < 0.2])


def test_the_next_panel_takes_room_in_the_second_cache() -> None:
    """Two of 640 KiB do not fit 1 MiB; one does, so that rows find it there."""
    loops, slots = facts(
        nest(
            [("j", 8), ("i", 8), ("k", 5120), ("v", WIDTH)],
            [("W", [8, 5120, WIDTH], [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], False)],
        )
    )
    machine, resident = Machine.of(TARGET), [np.zeros(1, dtype=bool)]
    (item,) = weights_of(slots, loops, 64, {0})
    alone = traffic_of(slots, loops, machine, resident).fitting[1]
    beside = traffic_of(slots, loops, machine, resident, ahead=item.ahead(5, 64)).fitting[1]
    assert item.exposed(alone) < 1 and item.exposed(beside) == 1
