"""Which iterations touch elements of their own where extents are symbolic: what makes a race is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from ir import tir
from ir.script import from_source
from ir.tir.evaluate import evaluate
from schedules import Schedule, ScheduleError
from schedules.disjoint import is_one_to_one

HEADER = """@T.prim_func
def main(b: T.handle, n: T.int32, m: T.int32):
    B = T.match_buffer(b, (SHAPE,), "int32")
"""
STEPS_OF_TWO = """
    for i, j in T.grid(n, WIDTH):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(B[vi * 2 + vj])
            B[vi * 2 + vj] = vi
"""
REGIONS_IN_STEPS_OF_TWO = """
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            T.reads()
            T.writes(B[vi * 2:vi * 2 + WIDTH])
            for j in range(WIDTH):
                B[vi * 2 + j] = vi
"""
DIGITS = """
    for i, j in T.grid(4, WIDTH):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(WIDTH, j)
            T.where(i * 4 + j < n * m)
            T.reads()
            T.writes(B[(vi * 4 + vj) // m, (vi * 4 + vj) % m])
            B[(vi * 4 + vj) // m, (vi * 4 + vj) % m] = vi
"""


@pytest.mark.parametrize(
    ("program", "shape", "width"),
    [(STEPS_OF_TWO, "n * 2 + 1", 2), (REGIONS_IN_STEPS_OF_TWO, "n * 2 + 1", 2), (DIGITS, "n, m", 4)],
)
@pytest.mark.parametrize("overlap", [0, 1])
def test_iterations_that_reach_into_the_next_one_are_a_race(
    program: str, shape: str, width: int, overlap: int
) -> None:
    text = (HEADER + program).replace("SHAPE", shape).replace("WIDTH", str(width + overlap))
    sch = Schedule(from_source(text), error_render_level="none")
    (loop, *_) = sch.get_loops("B")
    if overlap:
        with pytest.raises(ScheduleError, match="may write to B"):
            sch.parallel(loop)
    else:
        sch.parallel(loop)


N, M, I, J = (tir.Var(name, "int64") for name in "nmij")
HEIGHT, WIDTH = (N - 1) // 2 + 1, (M - 1) // 2 + 1


def _digits(number: Any, *extents: Any) -> list[Any]:
    """The digits of a number to some bases, as fusing loops leaves them."""
    height, width = extents
    return [number // (width * height), number % (width * height) // width, number % width]


@pytest.mark.parametrize(
    ("exprs", "extents", "expected"),
    [
        (_digits(I, N, M), {I: 2 * N * M}, True),
        (_digits(I, HEIGHT, WIDTH), {I: 2 * HEIGHT * WIDTH}, True),
        (_digits(I, HEIGHT, WIDTH)[1:], {I: 2 * HEIGHT * WIDTH}, False),
        (_digits(I, HEIGHT, WIDTH)[::2], {I: 2 * HEIGHT * WIDTH}, False),
        (_digits(I, WIDTH, HEIGHT)[:2] + [I % WIDTH], {I: 2 * HEIGHT * WIDTH}, False),
        ([I // (N + 2), I % (N + 1)], {I: (N + 2) * 3}, False),
        ([I // (N + 1), J % (N + 1)], {I: N + 1, J: N + 1}, False),
    ],
)  # fmt: skip
def test_digits_to_bases_that_are_sums(exprs: list[Any], extents: dict[Any, Any], expected: bool) -> None:
    """What is recognized is so for all sizes; what is not for some must not be."""
    assert is_one_to_one(exprs, {var: tir.Range(extent) for var, extent in extents.items()}) == expected
    holds = True
    for n, m in product(range(1, 7), repeat=2):
        sizes = {N: n, M: m}
        ranges = [range(int(evaluate(extent, sizes))) for extent in extents.values()]
        points = [{**sizes, **dict(zip(extents, values))} for values in product(*ranges)]
        images = {tuple(int(evaluate(expr, point)) for expr in exprs) for point in points}
        holds = holds and len(images) == len(points)
    assert holds == expected


GROUPS = """@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, 2, STEP, 3), "float32")
    B = T.match_buffer(b, (n, 2 * STEP), "float32")
    for i, g, c, k in T.grid(n, 2, WIDTH, 3):
        with T.block("B"):
            vi, vg, vc, vk = T.axis.remap("SSSR", [i, g, c, k])
            T.reads(A[vi, vg, vc % STEP, vk])
            T.writes(B[vi, vg * STEP + vc])
            with T.init():
                B[vi, vg * STEP + vc] = T.float32(0)
            B[vi, vg * STEP + vc] = B[vi, vg * STEP + vc] + A[vi, vg, vc % STEP, vk]
"""


@pytest.mark.parametrize("overlap", [0, 1])
def test_sums_of_groups_on_threads_that_a_symbolic_loop_is_part_of(overlap: int) -> None:
    """Of a fused loop the channel is two digits, one of which goes in steps that the other does not make up for."""
    text = GROUPS.replace("STEP", "4").replace("WIDTH", str(4 + overlap))
    sch = Schedule(from_source(text), error_render_level="none")
    *results, _ = sch.get_loops("B")
    blocks, threads = sch.split(sch.fuse(*results), [None, 32])
    if overlap:
        with pytest.raises(ScheduleError, match="may write to B"):
            sch.bind(blocks, "blockIdx.x")
    else:
        sch.bind(blocks, "blockIdx.x")
        sch.bind(threads, "threadIdx.x")
