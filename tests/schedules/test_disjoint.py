"""Which iterations touch elements of their own where extents are symbolic: what makes a race is refused."""

from __future__ import annotations

import pytest

from ir.script import from_source
from schedules import Schedule, ScheduleError

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
