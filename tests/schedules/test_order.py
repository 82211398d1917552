"""Blocks that move stay on their side of whatever touches the same memory, and under the conditions that they run under."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ir.script import from_source
from schedules import Schedule

from .checks import assert_refused, assert_same_meaning

_HEADER = """
@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32"), C: T.Buffer((4, 4), "int32")):
    P = T.alloc_buffer((4, 4), "int32")
"""


def nest(name: str, statement: str, depth: int = 1, loops: str = "i, j in T.grid(4, 4)") -> str:
    """Two loops around a block of two variables."""
    text = f"""for {loops}:
    with T.block("{name}"):
        vi, vj = T.axis.remap("SS", [i, j])
        {statement}
"""
    return "".join("    " * depth + line + "\n" for line in text.splitlines())


def rows(*blocks: tuple[str, str]) -> str:
    """One loop around nests over columns."""
    return "    for i in range(4):\n" + "".join(
        nest(name, statement, 2, "j in range(4)") for name, statement in blocks
    )


IN_PLACE = nest("P", "P[vi, vj] = A[vj, vi] * 2") + nest("C", "A[vi, vj] = P[vi, vj] + 1")
"""A transpose through an intermediate into what it was made of."""
ELEMENTWISE = nest("P", "P[vi, vj] = A[vi, vj] * 2") + nest("C", "A[vi, vj] = P[vi, vj] + 1")
OVERWRITTEN = (
    nest("P", "P[vi, vj] = A[vi, vj] * 2")
    + nest("D", "A[vj, vi] = 5")
    + nest("C", "C[vi, vj] = P[vi, vj] + A[vi, vj]")
)
READ_BETWEEN = (
    nest("P", "P[vi, vj] = A[vi, vj] * 2")
    + nest("D", "B[vi, vj] = C[vi, vj]")
    + nest("C", "C[vi, vj] = P[vi, vj]")
)
OTHER_ROWS = rows(("B", "B[vi, vj] = A[vi, vj] + 1"), ("C", "C[vi, vj] = B[3 - vi, vj]"))
"""The first rows of C are what B held before."""
LATER_ROWS = nest("P", "P[vi, vj] = A[3 - vi, vj]") + rows(
    ("C", "C[vi, vj] = P[vi, vj]"), ("D", "A[vi, vj] = 0")
)


@pytest.mark.parametrize(
    ("body", "step", "words"),
    [
        (IN_PLACE, lambda s: s.reverse_compute_at("C", s.get_loops("P")[0]), "overwrite too early"),
        (IN_PLACE, lambda s: s.reverse_compute_inline("C"), "overwritten too early"),
        (IN_PLACE, lambda s: s.compute_at("P", s.get_loops("C")[0]), "access too late"),
        (IN_PLACE, lambda s: s.compute_inline("P"), "access too late"),
        (OVERWRITTEN, lambda s: s.compute_at("P", s.get_loops("C")[0]), "block 'D' accesses A"),
        (OVERWRITTEN, lambda s: s.compute_inline("P"), "block 'D' accesses A"),
        (OVERWRITTEN, lambda s: s.reverse_compute_at("P", s.get_loops("C")[0]), "block 'D' accesses A"),
        (READ_BETWEEN, lambda s: s.reverse_compute_at("C", s.get_loops("P")[0]), "block 'D' accesses C"),
        (READ_BETWEEN, lambda s: s.reverse_compute_inline("C"), "block 'D' accesses C"),
        (OTHER_ROWS, lambda s: s.reverse_compute_at("B", s.get_loops("C")[1]), "in another"),
        (LATER_ROWS, lambda s: s.compute_at("P", s.get_loops("C")[0]), "block 'D' accesses A"),
        (LATER_ROWS, lambda s: s.compute_inline("P"), "block 'D' accesses A"),
    ],
)
def test_a_block_crosses_nothing_that_touches_its_memory(
    body: str, step: Callable[[Schedule], None], words: str
) -> None:
    sch = Schedule(from_source(_HEADER + body))
    assert_refused(sch, lambda: step(sch), words)


@pytest.mark.parametrize(
    ("body", "step"),
    [
        (ELEMENTWISE, lambda s: s.reverse_compute_inline("C")),
        (READ_BETWEEN, lambda s: s.reverse_compute_at("D", s.get_loops("P")[0])),
    ],
)
def test_what_nothing_stands_in_the_way_of_moves(body: str, step: Callable[[Schedule], None]) -> None:
    program = from_source(_HEADER + body)
    sch = Schedule(program)
    try:
        step(sch)
    except Exception as error:
        pytest.fail(f"refused: {error}")
    assert_same_meaning(program, sch)


def test_what_an_iteration_keeps_to_itself_does_not_leave_it() -> None:
    """S is another number in each iteration of k; behind the loop it is the last one."""
    program = from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    B = T.alloc_buffer((4,), "int32")
    Q = T.alloc_buffer((1,), "int32")
    S = T.alloc_buffer((1,), "int32")
    for k in range(4):
        with T.block("Q"):
            vk = T.axis.spatial(4, k)
            Q[0] = A[vk]
        with T.block("S"):
            vz = T.axis.spatial(1, 0)
            S[vz] = Q[vz]
        with T.block("B"):
            vk = T.axis.spatial(4, k)
            B[vk] = S[0]
    for j in range(4):
        with T.block("C"):
            vj = T.axis.spatial(4, j)
            C[vj] = B[vj]
""")
    sch = Schedule(program)
    assert_refused(sch, lambda: sch.compute_at("B", sch.get_loops("C")[0]), "loop 'k' may write to S")
    assert_refused(sch, lambda: sch.compute_inline("B"), "loop 'k' may write to S")
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    assert_same_meaning(program, sch)


def test_variables_that_shared_loops_say_keep_their_values() -> None:
    """S is the sum of one row; its index does not say of which, the loop around does."""
    program = from_source("""
@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4, 4), "int32")):
    S = T.alloc_buffer((1,), "int32")
    for i in range(4):
        for k in range(4):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[0] = 0
                S[0] = S[0] + A[vi, vk]
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = S[0] + vj
""")
    sch = Schedule(program)
    sch.compute_at("S", sch.get_loops("C")[1])
    assert_same_meaning(program, sch)


def test_a_producer_of_two_outputs_computes_all_that_either_needs() -> None:
    program = from_source("""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    M = T.alloc_buffer((8,), "int32")
    S = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("W"):
            vi = T.axis.spatial(8, i)
            M[vi] = A[vi]
            S[7 - vi] = A[vi] * 2
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = M[vi] + S[vi]
""")
    sch = Schedule(program)
    sch.compute_at("W", sch.get_loops("C")[0])
    assert_same_meaning(program, sch)


_CONDITION = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2
    for i in range(8):
        if {condition}:
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = {value}
"""


def test_a_block_below_a_condition_stays_there() -> None:
    sch = Schedule(from_source(_CONDITION.format(condition="i < 4", value="B[vi]")))
    assert_refused(
        sch, lambda: sch.reverse_compute_at("C", sch.get_loops("B")[0]), "'C' is below a statement"
    )
    assert_refused(sch, lambda: sch.reverse_compute_inline("C"), "'C'", "IfThenElse")


def test_what_a_condition_reads_is_there_before_it() -> None:
    sch = Schedule(from_source(_CONDITION.format(condition="B[7 - i] > 0", value="B[vi]")))
    words = ("whether block 'C' runs depends on B",)
    assert_refused(sch, lambda: sch.compute_at("B", sch.get_loops("C")[0]), *words)
    assert_refused(sch, lambda: sch.compute_inline("B"), *words)


def test_where_data_says_what_is_needed_it_is_asked_only_when_it_stands_still() -> None:
    """Before I is written the part of B that an iteration reads is not known: all of it is computed."""
    program = from_source("""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), J: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    I = T.alloc_buffer((1,), "int32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * 2
    for i in range(8):
        with T.block("I"):
            vi = T.axis.spatial(8, i)
            I[0] = T.max(T.min(J[vi], 8), 0)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[I[0] + vi]
""")
    sch = Schedule(program)
    sch.compute_at("B", sch.get_loops("C")[0], index=-2)
    assert_same_meaning(program, sch)


@pytest.mark.parametrize("is_legal", [True, False])
def test_a_block_that_runs_for_some_values_moves_where_those_are_read(is_legal: bool) -> None:
    """Every other column of P is computed; where a consumer's box holds others, nothing says that they could be."""
    program = from_source("""
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 4), "int32")):
    P = T.alloc_buffer((4, 8), "int32")
    for i, j in T.grid(4, 4):
        with T.block("P"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(8, j * 2)
            P[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = P[vi, vj * 2]
""")
    sch = Schedule(program)
    i, j = sch.get_loops("C")
    if is_legal:
        sch.compute_at("P", j)
        assert_same_meaning(program, sch)
    else:
        assert_refused(sch, lambda: sch.compute_at("P", i), "does not run over all values")


def test_what_blocks_read_of_each_other_is_asked_once() -> None:
    """Each of many blocks in one loop reads the two before it."""
    count = 60
    names = ["A", *(f"Q{number}" for number in range(count))]
    buffers = "".join(f'    {name} = T.alloc_buffer((4, 4), "int32")\n' for name in names[1:])
    sums = [
        (name, f"{name}[vi, vj] = {names[n]}[vi, vj] - {names[max(n - 1, 0)]}[vi, vj] + 1")
        for n, name in enumerate(names[1:])
    ]
    func = from_source(_HEADER + buffers + rows(*sums) + nest("C", f"C[vi, vj] = {names[-1]}[vi, vj] * 2"))
    sch = Schedule(func)
    sch.reverse_compute_at("C", sch.get_loops("Q0")[0])
    assert_same_meaning(func, sch)


def test_blocks_that_read_each_other_do_not_keep_their_values() -> None:
    """Each iteration goes on with what the one before left, which is not what the last one leaves."""
    text = """@T.prim_func
def main(A: T.Buffer((3, 4), "int32"), D: T.Buffer((3, 4), "int32")):
    B = T.alloc_buffer((3, 4), "int32")
    C = T.alloc_buffer((4,), "int32")
    K = T.alloc_buffer((4,), "int32")
    for j in range(4):
        with T.block("begin"):
            vj = T.axis.spatial(4, j)
            K[vj] = A[0, vj]
    for i in range(3):
        for j in range(4):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(4):
            with T.block("C"):
                vj = T.axis.spatial(4, j)
                C[vj] = K[vj] + 1
        for j in range(4):
            with T.block("K"):
                vj = T.axis.spatial(4, j)
                K[vj] = C[vj] * 2
    for i, j in T.grid(3, 4):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vj] + B[vi, vj]
"""
    sch = Schedule(from_source(text), error_render_level="none")
    place = sch.get_loops("S")[0]
    assert_refused(sch, lambda: sch.reverse_compute_at("E", place), "reverse_compute_at", "overwrite")
