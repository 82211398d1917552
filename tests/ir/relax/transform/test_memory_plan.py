"""Placing buffers in one arena: nothing that is live at once overlaps, and little is wasted."""

from __future__ import annotations

import random

import pytest

from ir.relax.transform.memory_plan import ALIGNMENT, Lifetime, aligned, plan_memory


def _lower_bound(buffers):
    """The largest sum of sizes that are live at one step."""
    steps = range(max(life.last for _, life in buffers) + 1)
    return max(
        sum(aligned(size) for size, life in buffers if life.first <= step <= life.last) for step in steps
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_lives_at_once_lies_apart(seed):
    rng = random.Random(seed)
    buffers = []
    for _ in range(rng.randrange(1, 40)):
        first = rng.randrange(30)
        buffers.append((rng.choice([0, 1, 63, 64, 1000, 4096]), Lifetime(first, first + rng.randrange(6))))
    plan = plan_memory(buffers)
    placed = [(at, at + size, life) for at, (size, life) in zip(plan.offsets, buffers, strict=True)]
    for number, (begin, end, life) in enumerate(placed):
        assert begin % ALIGNMENT == 0 and end <= plan.arena_bytes
        for other_begin, other_end, other in placed[:number]:
            if life.first <= other.last and other.first <= life.last:
                assert end <= other_begin or other_end <= begin
    bound = _lower_bound(buffers)
    assert bound <= plan.arena_bytes <= 1.3 * bound


def test_a_chain_needs_two_neighbours():
    sizes = [256, 128, 512, 64, 512]
    chain = [(size, Lifetime(step, step + 1)) for step, size in enumerate(sizes)]
    assert plan_memory(chain).arena_bytes == _lower_bound(chain) == 640


def test_no_buffers():
    assert plan_memory([]).offsets == () and plan_memory([]).arena_bytes == 0
