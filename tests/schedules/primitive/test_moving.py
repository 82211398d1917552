"""What holds for compute_at and for reverse_compute_at."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir.script import from_source
from ir.script import tir as T
from schedules import Schedule, ScheduleError
from tests.programs import kernels

from ..checks import assert_refused, assert_replays, assert_same_meaning
from .test_compute_at import pooling
from .test_reverse_compute_at import divided


@settings(max_examples=20)
@given(st.data())
def test_random_tiles_and_places_keep_the_meaning(data: st.DataObject) -> None:
    program, producer, consumer = data.draw(
        st.sampled_from(
            [
                (kernels.chain(), "B", "C"),
                (kernels.stencil(16), "B", "C"),
                (pooling, "cache", "compute"),
                (kernels.matmul_relu(8, 8, 6), "C", "D"),
                (divided, "A", "B"),
            ]
        )
    )
    sch = Schedule(program)
    reverse = data.draw(st.booleans())
    fixed, moved = (producer, consumer) if reverse else (consumer, producer)
    for _ in range(data.draw(st.integers(0, 2))):
        loops = sch.get_loops(fixed)
        at = data.draw(st.integers(0, len(loops) - 1))
        sch.split(loops[at], [None, data.draw(st.integers(1, 5))])
    loops = sch.get_loops(fixed)
    loop = loops[data.draw(st.integers(0, len(loops) - 1))]
    before = sch.mod.script()
    preserve = data.draw(st.booleans())
    try:
        (sch.reverse_compute_at if reverse else sch.compute_at)(moved, loop, preserve)
    except ScheduleError:
        assert sch.mod.script() == before
    assert_same_meaning(program, sch)
    assert_replays(sch, program)


@T.prim_func
def triangle(A: T.Buffer((6, 6), "int32"), B: T.Buffer((6, 6), "int32")):
    """B is written above its diagonal only, which the loops say and the domains of its block do not."""
    P = T.alloc_buffer((6, 6), "int32")
    for i, j in T.grid(6, 6):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = A[vi, vj] * 2
    for i in range(6):
        for j in range(6 - i):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                vj = T.axis.spatial(6, i + j)
                B[vi, vj] = P[vi, vj] + 1


def test_a_block_that_runs_for_a_part_of_its_domain_gets_no_new_loops() -> None:
    """They would run over all of it: the lower half of B would be written too."""
    sch = Schedule(triangle)
    words = ("'B' does not run over all values of its variables",)
    assert_refused(sch, lambda: sch.reverse_compute_at("B", sch.get_loops("P")[0]), *words)
    assert_refused(sch, lambda: sch.reverse_compute_inline("B"), *words)
    sch.compute_at("P", sch.get_loops("B")[1])
    assert_same_meaning(triangle, sch)


@pytest.mark.parametrize(
    ("loops", "binding"),
    [("4", "3 - l0"), ("8", "l0 // 2"), ("4, 2", "l0")],
)
def test_new_loops_run_each_instance_of_a_reduction_once_and_its_init_first(loops: str, binding: str) -> None:
    """So a reduction whose loops repeat instances, or come late to the one with the init, keeps these loops."""
    names = ", ".join(f"l{position}" for position in range(loops.count(",") + 1))
    program = from_source(f"""
@T.prim_func
def main(A: T.Buffer((2, 4), "int32"), D: T.Buffer((2,), "int32")):
    C = T.alloc_buffer((2,), "int32")
    for i in range(2):
        for {names} in T.grid({loops}):
            with T.block("C"):
                v, k = T.axis.spatial(2, i), T.axis.reduce(4, {binding})
                with T.init():
                    C[v] = 0
                C[v] = C[v] + A[v, k]
    for i in range(2):
        with T.block("D"):
            v = T.axis.spatial(2, i)
            D[v] = C[v]
""")
    sch = Schedule(program, error_render_level="none")
    assert_refused(sch, lambda: sch.compute_at("C", sch.get_loops("D")[0]), "compute_at", "initialise")
    assert_refused(sch, lambda: sch.reverse_compute_at("C", sch.get_loops("D")[0]), "initialise")
