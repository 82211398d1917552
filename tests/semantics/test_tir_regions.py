"""What blocks state to read and write: the interpreter refuses accesses of anything else."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from ir import GlobalVar, IRModule, tir
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import InterpreterError, run

from .running import refused, script

pytestmark = pytest.mark.meaning("region")

TWO = {"A": ((4, 8), "int32"), "B": ((4, 8), "int32")}


def block(*lines: str, head: str = "vi, vj = T.axis.remap('SS', [i, j])") -> tir.PrimFunc:
    """A block of two loops with a body."""
    return script(
        TWO,
        "for i, j in T.grid(4, 8):",
        '    with T.block("C"):',
        *[f"        {line}" for line in (head, *lines)],
    )


def arrays() -> list[np.ndarray[Any, Any]]:
    return [np.arange(32, dtype="int32").reshape(4, 8), np.zeros((4, 8), "int32")]


@pytest.mark.parametrize(
    ("stated", "body"),
    [
        (("A[vi, vj]", "B[vi, vj]"), "B[vi, 7 - vj] = A[vi, vj]"),
        (("A[vi, vj]", "B[vi, vj]"), "B[vi, vj] = A[vi, 7 - vj]"),
        (("A[vi, vj]", "B[vi, 0:8]"), "B[vi, vj] = A[3 - vi, vj]"),
        (("A[vi, 0:4]", "B[vi, vj]"), "B[vi, vj] = A[vi, vj]"),
        (("", "B[vi, vj]"), "B[vi, vj] = A[vi, vj]"),
        (("A[vi, vj]", ""), "B[vi, vj] = A[vi, vj]"),
        (("A[vi, vj]", "B[vi, vj]"), "B[vi, vj] = B[vi, vj] + A[vi, vj]"),
    ],
)
def test_an_access_that_is_not_stated_is_refused(stated: tuple[str, str], body: str) -> None:
    refused(block(f"T.reads({stated[0]})", f"T.writes({stated[1]})", body), arrays(), "region")


@pytest.mark.parametrize(
    ("stated", "body"),
    [
        (("A[vi, 0:8]", "B[0:4, 0:8]"), "B[vi, 7 - vj] = A[vi, vj]"),
        (("A[vi, vj:8]", "B[vi, vj]"), "if vj < 7: B[vi, vj] = A[vi, vj + 1]"),
        (("A[0:4, 0:8]", "B[vi, vj]"), "B[vi, vj] = A[A[0, vi % 4], vj]"),
        (("A[0:4, 0:8]", "B[vi, vj]"), "pass"),
    ],
)
def test_more_may_be_stated_than_is_accessed(stated: tuple[str, str], body: str) -> None:
    run(block(f"T.reads({stated[0]})", f"T.writes({stated[1]})", body), *arrays())


def test_script_fills_in_regions_that_hold() -> None:
    run(block("if A[vi, vj] > 4: B[vi, vj] = A[A[vi, 0] % 4, vj] + B[vi, 7 - vj]"), *arrays())


def test_every_block_around_must_state_an_access() -> None:
    def nested(rows: str) -> tir.PrimFunc:
        return script(
            TWO,
            "for i in range(2):",
            '    with T.block("tile"):',
            "        vo = T.axis.spatial(2, i)",
            f"        T.reads(A[{rows}, 0:8])",
            "        T.writes(B[vo * 2:vo * 2 + 2, 0:8])",
            "        for k, j in T.grid(2, 8):",
            '            with T.block("C"):',
            "                vi, vj = T.axis.remap('SS', [k, j])",
            "                T.reads(A[vo * 2 + vi, vj])",
            "                T.writes(B[vo * 2 + vi, vj])",
            "                B[vo * 2 + vi, vj] = A[vo * 2 + vi, vj]",
        )

    run(nested("vo * 2:vo * 2 + 2"), *arrays())
    refused(nested("vo * 2"), arrays(), "region")
    refused(nested("vo * 2 + 1"), arrays(), "region")


def test_what_a_block_allocates_is_its_own() -> None:
    def cached(reads: str) -> tir.PrimFunc:
        return script(
            TWO,
            "for i in range(4):",
            '    with T.block("row"):',
            "        vi = T.axis.spatial(4, i)",
            "        T.reads(A[vi, 0:8])",
            "        T.writes(B[vi, 0:8])",
            '        L = T.alloc_buffer((8,), "int32")',
            "        for j in range(8):",
            "            L[j] = A[vi, j]",
            "        for j in range(8):",
            '            with T.block("inner"):',
            "                vj = T.axis.spatial(8, j)",
            f"                T.reads({reads})",
            "                T.writes(B[vi, vj])",
            "                B[vi, vj] = L[vj]",
        )

    run(cached("L[vj]"), *arrays())
    refused(cached("A[vi, vj]"), arrays(), "region")


def test_an_init_comes_first_for_the_blocks_around_too() -> None:
    def summed(writes: str) -> tir.PrimFunc:
        return script(
            TWO,
            "for i in range(4):",
            '    with T.block("outer"):',
            "        vo = T.axis.spatial(4, i)",
            "        T.reads(A[vo, 0:8])",
            f"        T.writes({writes})",
            "        for k in range(8):",
            '            with T.block("C"):',
            "                vk = T.axis.reduce(8, k)",
            "                T.reads(A[vo, vk])",
            "                T.writes(B[vo, 0])",
            "                with T.init():",
            "                    B[vo, 0] = 0",
            "                B[vo, 0] = B[vo, 0] + A[vo, vk]",
        )

    a, b = arrays()
    run(summed("B[vo, 0]"), a, b)
    assert b[:, 0].tolist() == a.sum(1).tolist()
    refused(summed("B[0, 0]"), arrays(), "region")
    lowered = tir.transform.LowerInitBlock()(IRModule({"main": summed("B[vo, 0]")}))
    run(lowered, *arrays())


def test_a_matched_region_counts_as_its_source() -> None:
    def matched(row: str, column: str) -> tir.PrimFunc:
        return script(
            TWO,
            "for i in range(4):",
            '    with T.block("row"):',
            "        vi = T.axis.spatial(4, i)",
            f"        T.reads(A[{row}, 0:8])",
            "        T.writes(B[vi, 0:8])",
            "        V = T.match_buffer(A[vi, 4:8], (4,))",
            "        for j in range(4):",
            '            with T.block("inner"):',
            "                vj = T.axis.spatial(4, j)",
            f"                T.reads(V[{column}])",
            "                T.writes(B[vi, vj])",
            "                B[vi, vj] = V[vj]",
        )

    run(matched("vi", "vj"), *arrays())
    refused(matched("3 - vi", "vj"), arrays(), "region")
    refused(matched("vi", "3 - vj"), arrays(), "region")


def test_where_a_matched_region_lies_may_be_read_by_the_block() -> None:
    func = script(
        TWO,
        "for i in range(4):",
        '    with T.block("row"):',
        "        vi = T.axis.spatial(4, i)",
        "        T.reads(A[0:4, vi])",
        "        T.writes(B[0:4, vi])",
        "        V = T.match_buffer(B[A[vi, vi] % 4, vi], (1,), 'int32')",
        "        V[0] = A[vi, vi]",
    )
    a, b = arrays()
    run(func, a, b)
    assert b.sum() == np.trace(a[:, :4])


def test_what_binds_and_guards_a_block_is_read_around_it() -> None:
    func = block(
        "T.where(A[i, j] > 3)",
        "T.reads()",
        "T.writes(B[vi, vj])",
        "B[vi, vj] = 1",
        head="vi = T.axis.spatial(4, A[0, i]); vj = T.axis.spatial(8, j)",
    )
    a, b = arrays()
    run(func, a, b)
    assert b.sum() == 28


def test_regions_are_those_where_the_block_begins() -> None:
    """Also where their expressions load; a region that is not asked for is not computed."""
    guarded = block(
        "T.reads(A[vi, vj], A[A[vi, vj], 0])",
        "T.writes(B[vi, vj])",
        "if A[vi, vj] < 4:",
        "    B[vi, vj] = A[A[vi, vj], 0]",
    )
    run(guarded, *arrays())


def test_what_a_block_stores_does_not_move_its_regions() -> None:
    main = """@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((1,), "int32")):
    with T.block("W"):
        T.reads(A[0], B[A[0]])
        T.writes(A[0], C[0])
        BODY
"""
    later = main.replace("BODY", "A[0] = 3\n        C[0] = B[A[0]]")
    refused(from_source(later), [np.zeros(4, "int32"), np.zeros(4, "int32"), np.zeros(1, "int32")], "region")
    before = main.replace("BODY", "with T.LetStmt(A[0]) as x:\n            A[0] = 3\n            C[0] = B[x]")
    result = np.zeros(1, "int32")
    run(from_source(before), np.zeros(4, "int32"), np.arange(5, 9, dtype="int32"), result)
    assert result[0] == 5


def test_a_region_without_a_value_matters_where_it_is_accessed() -> None:
    """The index of the region lies beyond its array; the condition keeps the access away."""
    main = from_source("""@T.prim_func
def main(I: T.Buffer((2,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            T.reads(I[0:2], B[I[vi]])
            T.writes(C[vi])
            C[vi] = T.if_then_else(vi < 2, B[I[vi]], 0)
""")
    result = np.zeros(4, "int32")
    run(main, np.array([3, 1], "int32"), np.arange(4, dtype="int32"), result)
    np.testing.assert_array_equal(result, [3, 1, 0, 0])


def test_a_block_around_states_what_a_block_with_an_init_reads_of_others() -> None:
    main = from_source("""@T.prim_func
def main(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("O"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:4])
            T.writes(B[vi], C[vi])
            C[vi] = 1
            for k in range(4):
                with T.block("I"):
                    vk = T.axis.reduce(4, k)
                    T.reads(A[vi, vk], C[vi])
                    T.writes(B[vi])
                    with T.init():
                        B[vi] = 0
                    B[vi] = B[vi] + A[vi, vk] * C[vi]
""")
    refused(main, [np.ones((4, 4), "int32"), np.zeros(4, "int32"), np.zeros(4, "int32")], "region")


def test_atomic_additions_and_lanes_are_looked_at() -> None:
    def added(region: str) -> tir.PrimFunc:
        return block(
            f"T.reads({region})",
            f"T.writes({region})",
            'T.evaluate(T.call_intrin("int32", "tir.atomic_add", T.address_of(B[vi, vj]), 1))',
        )

    run(added("B[vi, vj]"), *arrays())
    refused(added("B[vi, 0:4]"), arrays(), "region")

    def lanes(width: int) -> tir.PrimFunc:
        return script(
            TWO,
            "for i in range(4):",
            '    with T.block("C"):',
            "        vi = T.axis.spatial(4, i)",
            "        T.reads(A[vi, 0:8])",
            f"        T.writes(B[vi, 0:{width}])",
            "        B[vi, T.Ramp(0, 1, 8)] = A[vi, T.Ramp(0, 1, 8)]",
        )

    run(lanes(8), *arrays())
    refused(lanes(7), arrays(), "region")


def test_memory_by_another_name_needs_some_region_of_it() -> None:
    def renamed(writes: str) -> tir.PrimFunc:
        return block(
            "T.reads(A[vi, vj])",
            f"T.writes({writes})",
            'with T.decl_buffer((32,), "int32", data=B.data) as F:',
            "    F[vi * 8 + vj] = A[vi, vj]",
        )

    run(renamed("B[vi, vj]"), *arrays())
    refused(renamed(""), arrays(), "region")


def test_the_root_promises_nothing() -> None:
    func = from_source(
        '@T.prim_func\ndef main(A: T.Buffer((4,), "int32")):\n'
        '    with T.block("root"):\n        T.reads()\n        T.writes()\n        A[0] = 1\n'
    )
    run(func, np.zeros(4, "int32"))


# ---- where errors happen -----------------------------------------------------------------------------------------


def message(program: Any, *args: Any) -> list[str]:
    """The lines of the error that a program ends with."""
    with pytest.raises(InterpreterError) as caught:
        run(program, *args)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return str(caught.value).splitlines()


PLACE = ["  in block C: vi = 1, vj = 2", "  in block root", "  for i = 1, j = 2"]


def test_an_error_of_regions_names_block_buffer_and_element() -> None:
    func = block(
        "T.reads(A[vi, vj])", "T.writes(B[vi, vj])", "if vi * 8 + vj == 10:", "    B[vi, 5] = A[vi, vj]"
    )
    assert message(func, *arrays()) == [
        "block C writes B[1, 5], which is not in what it states, T.writes(B[vi, vj]) [region]",
        "  at B[vi, 5] = A[vi, vj]",
        *PLACE,
    ]


@pytest.mark.parametrize(
    ("body", "first"),
    [
        ("B[vi, vj] = A[vi, vj + 6]", "index 8 of dimension 1 of A is not in [0, 8): A[1, 8] [bounds]"),
        ("B[vi, vj] = A[vi, vj] // (A[vi, vj] - 10)", "[div-zero]"),
        ("B[vi, vj] = T.shift_left(1, A[vi, vj] * 4)", "a shift of int32 by 40"),
        ("B[(vi * 8 + vj) * 1073741824 % 4, vj] = 1", "[index-overflow]"),
    ],
)
def test_an_error_names_statement_block_and_variables(body: str, first: str) -> None:
    """Each of these goes wrong in no iteration before."""
    found = message(block(f"if vi * 8 + vj == 10: {body}"), *arrays())
    assert first in found[0]
    assert found[2:] == PLACE


def test_an_element_that_nobody_wrote_is_named_by_its_indices() -> None:
    func = script(
        {"A": ((4, 8), "int32")},
        'with T.decl_buffer((4, 8), "int32") as L:',
        "    for i, j in T.grid(4, 8):",
        "        L[i, 7 - j] = i",
        "        A[i, j] = L[i, j]",
    )
    assert message(func, np.zeros((4, 8), "int32")) == [
        "L[0, 0] is read, which nobody wrote [unwritten]",
        "  at A[i, j] = L[i, j]",
        "  for i = 0, j = 0",
    ]
    lanes = script(
        {"A": ((8,), "int32")},
        'with T.decl_buffer((2, 8), "int32") as L:',
        "    L[1, T.Ramp(0, 1, 4)] = T.Broadcast(1, 4)",
        "    A[T.Ramp(0, 1, 8)] = L[1, T.Ramp(0, 1, 8)]",
    )
    assert message(lanes, np.zeros(8, "int32"))[0] == "L[1, 4] is read, which nobody wrote [unwritten]"


def test_a_race_names_element_and_iterations() -> None:
    func = script(TWO, "for i in T.parallel(4):", "    for j in range(8):", "        A[i // 2, 3] = j")
    assert message(func, *arrays()) == [
        "iteration 1 of the parallel loop over i writes A[0, 3], which iteration 0 uses, and one of them writes it [parallel]",
        "  at A[i // 2, 3] = j",
        "  for i = 1, j = 0",
    ]


def test_conditions_lets_and_assertions_have_places() -> None:
    for line, place in (
        ("if A[i, 9] > 0: B[i, 0] = 1", "if A[i, 9] > 0"),
        ("assert i < 1, 'small'; B[i, 0] = 1", "assert i < 1"),
        ("x: T.int32 = A[i, 9]; B[i, x] = x + x", "x = A[i, 9]"),
        ("for j in range(A[i, 9]): B[i, j] = 1", "the bounds of the loop over j"),
    ):
        func = script(TWO, "for i in range(4):", *[f"    {part}" for part in line.split("; ")])
        assert f"  at {place}" in message(func, *arrays())


def test_an_error_in_a_called_function_names_both_places() -> None:
    @T.prim_func(private=True)
    def callee(A: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(n):
            A[i] = i

    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        for j in range(3, 6):
            T.evaluate(0)

    call = tir.Call(
        "void", GlobalVar("callee"), [next(iter(main.buffer_map.values())).data, main.body.loop_var]
    )
    main = main.replace(body=main.body.replace(body=tir.Evaluate(call)))
    found = message(IRModule({"main": main, "callee": callee}), np.zeros(4, "int32"))
    assert found[1:5] == ["  at A[i] = i", "  for i = 4", "  in function callee", f"  at {call}"]
    assert found[5] == "  for j = 5"


@pytest.mark.meaning("reduce-empty")
def test_regions_of_reduction_variables_say_nothing_over_nothing() -> None:
    text = """
def main(B: T.Buffer((3, 9), "int32"), C: T.Buffer((3,), "int32")):
    for i in range(3):
        for k in range(0):
            with T.block("sum"):
                v = T.axis.spatial(3, i)
                r = T.axis.reduce(0, k)
                with T.init():
                    C[v] = B[v, 2]
                C[v] = C[v] + B[v, r]
"""
    given, found = np.arange(27, dtype="int32").reshape(3, 9), np.zeros(3, "int32")
    run(from_source("@T.prim_func" + text), given, found)
    assert found.tolist() == [2, 11, 20]


@pytest.mark.parametrize(
    "lines",
    [
        ("V = T.match_buffer(B[A[vi, vi] % 4, vj], (1,), 'int32')", "V[0] = 1"),  # where a view lies is read
        ("B[vi, vj] = A[T.if_then_else(vi != 0, T.truncmod(3, vi), 0), vj]",),
        ("B[vi, vj] = A[T.if_then_else(vi < 3, A[(vi + 1) * 4 // 4, 0] % 4, 0), vj]",),
        ("for k in range(4):", "    B[vi, vj] = A[T.if_then_else(k != 0, T.truncmod(3, k), 0), vj]"),
        ("for k in range(5):", "    B[vi, vj] = A[T.if_then_else(k < 4, A[T.min(k, 3), 0] % 4, vi), vj]"),
    ],
)
def test_regions_that_script_fills_in_are_defined_and_enough(lines: tuple[str, ...]) -> None:
    """Also where what an index is made of is evaluated under a condition alone."""
    run(block(*lines), *arrays())
