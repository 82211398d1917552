"""What loops, conditions, bindings and lets around a block load."""

from __future__ import annotations

import pytest

from ir.script import from_source
from schedules import Schedule, ScheduleError
from schedules.surroundings import loads_around

PROGRAM = """@T.prim_func
def main(J: T.Buffer((8,), "int32"), A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
{lines}
{indent}with T.block("C"):
{indent}    vi = T.axis.spatial(8, {binding})
{indent}    T.where({predicate})
{indent}    T.reads(A[vi])
{indent}    T.writes(C[vi])
{indent}    C[vi] = A[vi]
"""


@pytest.mark.parametrize(
    ("around", "binding", "predicate"),
    [
        ("if J[i] > 0:", "i", "i < 8"),
        ("for k in range(J[i]):", "i", "k < 8"),
        ("x: T.int32 = J[i]", "i", "x < 8"),
        ("while J[i] > 0:", "i", "i < 8"),
        ("if i > 0:", "J[i]", "i < 8"),
        ("if i > 0:", "i", "J[i] < 8"),
    ],
)
def test_loads_that_no_block_states(around: str, binding: str, predicate: str) -> None:
    indent = " " * (12 if around.endswith(":") else 8)
    lines = " " * 8 + around
    text = PROGRAM.format(lines=lines, indent=indent, binding=binding, predicate=predicate)
    sch = Schedule(from_source(text))
    found = loads_around(sch._block(sch.get_block("C")))
    assert [str(item.load) for item in found] == ["J[i]"]


def test_what_stands_around_the_scope_is_not_around_the_block() -> None:
    text = """@T.prim_func
def main(J: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        if J[i] > 0:
            with T.block("outer"):
                T.reads()
                T.writes(C[i])
                with T.block("C"):
                    vi = T.axis.spatial(8, i)
                    C[vi] = 1
"""
    sch = Schedule(from_source(text))
    assert not loads_around(sch._block(sch.get_block("C")))
    assert len(loads_around(sch._block(sch.get_block("outer")))) == 1


VECTORS = """@T.prim_func
def main(A: T.Buffer((32,), "int32")):
    for i in range(4):
        if T.Shuffle([A[RAMP]], [3]) > 0:
            with T.block("A"):
                vi = T.axis.spatial(4, i)
                T.reads()
                T.writes(A[vi * 4 + 4])
                A[vi * 4 + 4] = vi
"""


@pytest.mark.parametrize(
    ("ramp", "is_own"),
    [
        ("T.Ramp(i * 4 + 4, 1, 4)", True),
        ("T.Ramp(i * 4 + 7, -1, 4)", True),
        ("T.Ramp(i * 4 + 4, 4, 4)", False),
        ("T.Ramp(i * 4 + 4, -1, 5)", False),
        ("T.Ramp(i * 4 + 4, -1, 4)", True),
    ],
)
def test_vectors_are_loaded_in_their_strides(ramp: str, is_own: bool) -> None:
    sch = Schedule(from_source(VECTORS.replace("RAMP", ramp)), error_render_level="none")
    if is_own:
        sch.parallel(sch.get_loops("A")[0])
    else:
        with pytest.raises(ScheduleError):
            sch.parallel(sch.get_loops("A")[0])
