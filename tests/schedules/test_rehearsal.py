"""Loops that run at once stay free of conflicts, whatever primitives move into them or out of them."""

from __future__ import annotations

import pytest

from ir.script import from_source
from schedules import Schedule, ScheduleError
from tests.schedules.checks import assert_refused, assert_same_meaning

UNRELATED = """@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((4,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    T.func_attr({"tir.noalias": True})
    for i in T.KIND(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for j in range(8):
        with T.block("D"):
            vj = T.axis.spatial(8, j)
            D[vj] = C[vj]
"""


@pytest.mark.parametrize("kind", ["parallel", "vectorized"])
def test_a_block_that_every_iteration_would_repeat_does_not_go_where_they_run_at_once(kind: str) -> None:
    sch = Schedule(from_source(UNRELATED.replace("KIND", kind)), error_render_level="none")
    loop = sch.get_loops("B")[0]
    assert_refused(sch, lambda: sch.reverse_compute_at("D", loop), "reverse_compute_at", "may write to D")
    serial = Schedule(from_source(UNRELATED.replace("KIND", "serial")))
    serial.reverse_compute_at("D", serial.get_loops("B")[0])
    assert_same_meaning(from_source(UNRELATED.replace("KIND", "serial")), serial)


@pytest.mark.parametrize("axis", ["blockIdx.x", "threadIdx.x"])
def test_threads_run_at_once_too(axis: str) -> None:
    sch = Schedule(from_source(UNRELATED.replace("KIND", "serial")), error_render_level="none")
    loop = sch.get_loops("B")[0]
    sch.bind(loop, axis)
    assert_refused(sch, lambda: sch.reverse_compute_at("D", loop), "reverse_compute_at", "may write to D")


def test_a_conflict_that_the_program_has_excuses_no_other() -> None:
    """Its writer claims that I is a permutation, and nothing of D."""
    text = UNRELATED.replace("KIND", "parallel").replace("def main(", "def main(J: T.Buffer((4,), 'int32'), ")
    sch = Schedule(from_source(text.replace("B[vi]", "B[J[vi]]")), error_render_level="none")
    loop = sch.get_loops("B")[0]
    assert_refused(sch, lambda: sch.reverse_compute_at("D", loop), "reverse_compute_at", "may write to D")


PRIVATE = """@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    T.func_attr({"tir.noalias": True})
    P = T.alloc_buffer((4,))
    Q = T.alloc_buffer((8, 4))
    for i in T.KIND(8):
        for j in range(4):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(P[vj])
                P[vj] = A[vi, vj] * T.float32(2)
        for j in range(4):
            with T.block("Q"):
                vi, vj = T.axis.remap("SS", [i, j])
                Q[vi, vj] = P[vj] + T.float32(1)
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = Q[vi, vj]
"""
OUT = {
    "cache_write": lambda sch: sch.cache_write("P", 0, "local", ["Q"]),
    "compute_inline": lambda sch: sch.compute_inline("Q"),
    "compute_at": lambda sch: sch.compute_at("Q", sch.get_loops("C")[0]),
}


@pytest.mark.parametrize("primitive", list(OUT))
def test_memory_of_an_iteration_stays_its_own(primitive: str) -> None:
    """P is written by every iteration, and read by nobody else: a reader outside would see the row of any of them."""
    sch = Schedule(from_source(PRIVATE.replace("KIND", "parallel")), error_render_level="none")
    with pytest.raises(ScheduleError, match=primitive):
        OUT[primitive](sch)


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_legal_steps_beside_loops_that_run_at_once(kind: str) -> None:
    text = PRIVATE.replace("KIND", kind)
    sch = Schedule(from_source(text))
    sch.cache_read("P", 0, "local")
    sch.reverse_compute_at("C", sch.get_loops("Q")[0])
    sch.compute_inline("Q")
    assert_same_meaning(from_source(text), sch)


def test_a_loop_of_which_nothing_was_known_stays_its_writers_claim() -> None:
    """The program says that the permutation has no element twice."""
    text = """@T.prim_func
def main(I: T.Buffer((4,), "int32"), A: T.Buffer((4,)), B: T.Buffer((4,)), C: T.Buffer((4,))):
    T.func_attr({"tir.noalias": True})
    for i in T.parallel(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(I[vi], A[vi])
            T.writes(B[I[vi]])
            B[I[vi]] = A[vi]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi]
"""
    sch = Schedule(from_source(text))
    sch.cache_read("B", 1, "local")
    assert "A_local" in sch.mod.script()


VIEWED = """@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    with T.block("outer"):
        T.reads(A[0:8], C[0:8])
        T.writes(C[0:8], A[0:8])
        V = T.match_buffer(C[1:8], (7,), "float32", offset_factor=1)
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                T.reads(V[vi], A[vi])
                T.writes(C[vi])
                C[vi] = V[vi] + A[vi]
        for i in range(7):
            with T.block("A"):
                vi = T.axis.spatial(7, i)
                A[vi] = T.float32(1)
"""


@pytest.mark.parametrize("primitive", ["vectorize", "parallel", "cache_read", "cache_write", "reindex"])
def test_memory_of_two_names_is_one(primitive: str) -> None:
    sch = Schedule(from_source(VIEWED), error_render_level="none")
    steps = {
        "vectorize": lambda: sch.vectorize(sch.get_loops("C")[0]),
        "parallel": lambda: sch.parallel(sch.get_loops("C")[0]),
        "cache_read": lambda: sch.cache_read("C", 0, "local"),
        "cache_write": lambda: sch.cache_write("C", 0, "local"),
        "reindex": lambda: sch.reindex("C", ("read", 0)),
    }
    assert_refused(sch, steps[primitive], "touches memory that is both")
    sch.vectorize(sch.get_loops("A")[0])
    assert_same_meaning(from_source(VIEWED), sch)


@pytest.mark.parametrize("axis", ["blockIdx.x", "threadIdx.x"])
def test_threads_that_fill_shared_memory_with_the_same_values_do_not_conflict(axis: str) -> None:
    """Each block has its own; the threads of one share the work later."""
    text = """@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((16, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    program = from_source(text)
    sch = Schedule(program)
    i, j, k = sch.get_loops("C")
    sch.reorder(j, i)
    sch.bind(j, axis)
    sch.cache_read("C", 0, "shared")
    sch.compute_at("A_shared", j)
    assert_same_meaning(program, sch)


@pytest.mark.parametrize(("axis", "is_shared"), [("threadIdx.x", True), ("blockIdx.x", False)])
def test_threads_of_one_block_share_a_reduction(axis: str, is_shared: bool) -> None:
    """The copy is summed up by all of them, as what it is a copy of; blocks do not wait for each other."""
    text = f"""@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    T.func_attr({{"tir.noalias": True}})
    for i in range(4):
        for k in T.thread_binding(8, "{axis}"):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
"""
    program = from_source(text)
    sch = Schedule(program, error_render_level="none")
    if is_shared:
        sch.cache_write("C", 0, "shared")
        assert_same_meaning(program, sch)
    else:
        assert_refused(sch, lambda: sch.cache_write("C", 0, "global"), "cache_write", "may write to C_global")
