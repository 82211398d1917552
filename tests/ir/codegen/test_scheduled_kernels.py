"""Randomly scheduled kernels, with tiles that do not divide, computed natively: exact on small integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ir import tir
from ir.codegen.build import build
from schedules import Schedule, ScheduleError
from tests.programs.expressions import convolution, matmul_relu


def scheduled(func: tir.PrimFunc, rng: random.Random) -> Schedule:
    """Random tiles, orders and kinds of loops; steps that the schedule refuses are left out."""
    sch = Schedule(func, error_render_level="none", seed=rng.randrange(1 << 30))

    def attempt(action: object) -> None:
        try:
            action()  # type: ignore[operator]
        except ScheduleError:
            pass

    block = sch.get_block("C")
    loops = sch.get_loops(block)
    tiles = []
    for loop in loops:
        factor = rng.choice([1, 3, 4, 7, 8, 14, 16])
        tiles.append(sch.split(loop, [None, factor]))
    spatial = len(loops) - (1 if len(loops) == 3 else 3)
    outer = [t[0] for t in tiles[:spatial]]
    reduction = [part for t in tiles[spatial:] for part in t]
    inner = [t[1] for t in tiles[:spatial]]
    rng.shuffle(reduction)
    sch.reorder(*outer, *reduction, *inner)
    if rng.random() < 0.6:
        copy = sch.cache_write(block, 0, rng.choice(["local", "global"]))
        attempt(lambda: sch.reverse_compute_at(copy, outer[-1]))
    elif rng.random() < 0.5 and len(loops) == 3:
        attempt(lambda: sch.reverse_compute_at(sch.get_block("D"), outer[-1]))
    if len(loops) == 6 and rng.random() < 0.7:
        attempt(lambda: sch.compute_at(sch.get_block("pad"), outer[rng.randrange(len(outer))]))
    if rng.random() < 0.7:
        attempt(lambda: sch.vectorize(inner[-1]))
    for loop in inner[:-1]:
        if rng.random() < 0.6:
            attempt(lambda loop=loop: sch.unroll(loop))
    if rng.random() < 0.5:
        attempt(lambda: sch.parallel(sch.fuse(*outer)))
    elif rng.random() < 0.5:
        attempt(lambda: sch.parallel(outer[0]))
    if rng.random() < 0.7:
        attempt(lambda: sch.decompose_reduction(block, reduction[0]))
    if rng.random() < 0.3:
        attempt(lambda: sch.annotate(sch.get_loops(block)[0], "pragma_auto_unroll_max_step", 16))
    return sch


@pytest.mark.parametrize("seed", range(24))
def test_matmul(seed: int) -> None:
    rng = random.Random(seed)
    n, m, k = (rng.choice([5, 16, 30, 33]) for _ in range(3))
    sch = scheduled(matmul_relu(n, m, k), rng)
    data = np.random.default_rng(seed)
    a = data.integers(-4, 5, (n, k)).astype("float32")
    b = data.integers(-4, 5, (k, m)).astype("float32")
    out = np.full((n, m), np.nan, "float32")
    build(sch.mod)["main"](a, b, out)
    np.testing.assert_array_equal(out, np.maximum(a @ b, 0), str(sch.trace))


@pytest.mark.parametrize("seed", range(24))
def test_convolution(seed: int) -> None:
    rng = random.Random(1000 + seed)
    h, ci, co, stride = (
        rng.choice([5, 8, 14]),
        rng.choice([3, 8]),
        rng.choice([4, 16, 17]),
        rng.choice([1, 2]),
    )
    sch = scheduled(convolution(h, ci, co, stride), rng)
    data = np.random.default_rng(seed)
    a = data.integers(-4, 5, (h, h, ci)).astype("float32")
    w = data.integers(-4, 5, (3, 3, ci, co)).astype("float32")
    padded = np.pad(a, ((1, 1), (1, 1), (0, 0)))
    size = (h - 1) // stride + 1
    expected = np.zeros((size, size, co), "float32")
    for r in range(3):
        for s in range(3):
            view = padded[r : r + stride * (size - 1) + 1 : stride, s : s + stride * (size - 1) + 1 : stride]
            expected += view @ w[r, s]
    out = np.full_like(expected, np.nan)
    build(sch.mod)["main"](a, w, out)
    np.testing.assert_array_equal(out, expected, str(sch.trace))
