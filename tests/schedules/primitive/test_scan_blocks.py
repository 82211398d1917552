"""scan_blocks: running reductions in blocks, and what is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import te, topi
from ir.script import from_source
from ir.tir import PrimFunc
from schedules import Schedule

from ..checks import assert_program, assert_refused, assert_replays, assert_same_meaning, main_of, outputs_of

ROWS = """@T.prim_func
def main(A: T.Buffer((3, 12), "{dtype}"), B: T.Buffer((3, 12), "{dtype}")):
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("sums"):
            T.reads(A[0:3, 0:12])
            T.writes(B[0:3, 0:12])
            for i in {rows}:
                with T.block("row"):
                    T.reads(A[0:3, 0:12])
                    T.writes(B[0:3, 0:12])
                    s = T.alloc_buffer((1,), "{dtype}", scope="local")
                    s[0] = {start}
                    for k in {columns}:
                        {first}
                        {second}
"""

BLOCKS = """@T.prim_func
def main(A: T.Buffer((3, 12), "int32"), B: T.Buffer((3, 12), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("sums"):
            T.reads(A[0:3, 0:12])
            T.writes(B[0:3, 0:12])
            totals = T.alloc_buffer((3, 2), "int32")
            for i in T.parallel(6):
                with T.block("row_sums"):
                    T.reads(A[0:3, 0:12], totals[i // 2, i % 2])
                    T.writes(totals[i // 2, i % 2])
                    s = T.alloc_buffer((3,), "int32", scope="local")
                    for lane in T.vectorized(3):
                        s[lane] = 0
                    for k in range(2):
                        for lane in T.vectorized(3):
                            s[lane] = s[lane] + A[i // 2, i % 2 * 6 + (k * 3 + lane)]
                    totals[i // 2, i % 2] = 0
                    for lane in range(3):
                        totals[i // 2, i % 2] = totals[i // 2, i % 2] + s[lane]
            for i in T.parallel(3):
                with T.block("row_before"):
                    T.reads(totals[i, 0:2])
                    T.writes(totals[i, 0:2])
                    s = T.alloc_buffer((1,), "int32", scope="local")
                    s[0] = 0
                    for part in range(2):
                        mine: T.int32 = totals[i, part]
                        totals[i, part] = s[0]
                        s[0] = s[0] + mine
            for i in T.parallel(6):
                with T.block("row"):
                    T.reads(A[0:3, 0:12], totals[i // 2, i % 2])
                    T.writes(B[0:3, i % 2 * 6:i % 2 * 6 + 6])
                    s = T.alloc_buffer((1,), "int32", scope="local")
                    s[0] = totals[i // 2, i % 2]
                    for k in range(6):
                        s[0] = s[0] + A[i // 2, i % 2 * 6 + k]
                        B[i // 2, i % 2 * 6 + k] = s[0]
"""


def rows(
    first: str = "s[0] = s[0] + A[i, k]",
    second: str = "B[i, k] = s[0]",
    start: str = "0",
    dtype: str = "int32",
    parallel: str = "T.parallel(3)",
    columns: str = "range(12)",
    where: str = "T.where(True)",
    view: bool = False,
) -> PrimFunc:
    text = ROWS.format(first=first, second=second, start=start, dtype=dtype, rows=parallel, columns=columns)
    text = text.replace('T.block("row"):', f'T.block("row"):\n                    {where}')
    if view:
        loop = "            for i in"
        text = text.replace(loop, f'            W = T.match_buffer(B[0:3, 0:12], (3, 12), "{dtype}")\n{loop}')
    return from_source(text)


def in_blocks(func: PrimFunc, parts: int, lanes: int = 1, block: str = "row") -> Schedule:
    sch = Schedule(func)
    sch.scan_blocks(sch.get_loops(sch.get_block(block))[-1], parts, lanes)
    return sch


def test_blocks_of_rows() -> None:
    sch = in_blocks(rows(), 2, 3)
    assert_program(sch, from_source(BLOCKS))
    assert_replays(sch, rows())
    assert_same_meaning(rows(), sch)


def test_the_blocks_that_it_returns_can_be_interleaved() -> None:
    sch = Schedule(rows())
    made = sch.scan_blocks(sch.get_loops("row")[-1], 4)
    assert [sch.get(block).name_hint for block in made] == ["row_sums", "row_before", "row"]
    for block, factor in zip(made, (6, 3, 2), strict=True):
        sch.interleave(sch.get_loops(block)[-1], factor)
    assert_replays(sch, rows())
    assert_same_meaning(rows(), sch)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["s[0] + {x}", "{x} + s[0]", "s[0] * {x}", "T.max(s[0], {x})", "T.min({x}, s[0])"]),
    st.sampled_from(["A[i, k]", "A[i, 11 - k] - k", "A[2 - i, k] * 2 + i"]),
    st.sampled_from(["B[i, k] = s[0]", "B[i, k] = s[0] * 2 - A[i, k]", "B[2 - i, k] = s[0] + k"]),
    st.sampled_from(["0", "1", "i - 2", "A[i, 3]"]),
    st.booleans(),
    st.sampled_from([(1, 1), (1, 12), (2, 3), (3, 2), (4, 1), (4, 3), (6, 2), (12, 1)]),
)
def test_any_running_reduction(
    step: str, term: str, result: str, start: str, exclusive: bool, numbers: tuple[int, int]
) -> None:
    advance = "s[0] = " + step.format(x=f"({term})")
    func = rows(*((result, advance) if exclusive else (advance, result)), start=start)
    sch = in_blocks(func, *numbers)
    assert_replays(sch, func)
    assert_same_meaning(func, sch)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("exclusive", [False, True])
def test_the_operator_along_any_axis(dtype: str, axis: int, exclusive: bool) -> None:
    source = te.placeholder((4, 6, 2), dtype, name="A")
    func = te.create_prim_func([source, topi.cumsum(source, axis=axis, exclusive=exclusive)])
    for parts in (2, 1):
        sch = in_blocks(func, parts, 1, "cumsum_generic_row")
        assert_replays(sch, func)
        assert_same_meaning(func, sch)


@pytest.mark.parametrize(("name", "sign"), [("T.max", -1), ("T.min", 1)])
def test_the_begin_of_an_extremum_of_floats_changes_no_infinity(name: str, sign: int) -> None:
    func = rows(f"s[0] = {name}(s[0], A[i, k])", start=f'T.float32({sign} * float("inf"))', dtype="float32")
    data = np.full((3, 12), sign * np.inf, "float32")
    data[1, 7], data[2, 5] = 3.0, np.nan
    expected, found = (
        outputs_of(item, [data, np.zeros_like(data)])[1] for item in (func, main_of(in_blocks(func, 4)))
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("name", "start"), [("T.max", -9.0), ("T.min", 9.0)])
def test_the_begin_of_an_extremum_of_a_type_without_infinities_is_its_end(name: str, start: float) -> None:
    dtype = "float8_e4m3fn"  # in which infinity would be NaN
    func = rows(f"s[0] = {name}(s[0], A[i, k])", start=f'T.cast({start}, "{dtype}")', dtype=dtype)
    assert_same_meaning(func, in_blocks(func, 4, 3))


def test_negative_zeros_add_up_to_one() -> None:
    func = rows(start="T.float32(-0.0)", dtype="float32")
    sch = Schedule(func)
    sch.annotate(sch.get_block("row"), "running_reduction", 1)
    sch.scan_blocks(sch.get_loops("row")[-1], 4, 3)
    zeros = np.full((3, 12), -0.0, "float32")
    assert np.signbit(outputs_of(main_of(sch), [zeros, np.ones_like(zeros)])[1]).all()


PART = """@T.prim_func
def main(A: T.Buffer((3, 12), "int32"), B: T.Buffer((3, 24), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        for i in T.parallel(3):
            with T.block("row"):
                T.reads(A[i, 0:12])
                T.writes(B[i, 0:12])
                s = T.alloc_buffer((1,), "int32", scope="local")
                s[0] = 0
                for k in range(12):
                    s[0] = s[0] + A[i, k]
                    B[i, k] = s[0]
"""


def test_blocks_state_what_the_row_did_and_no_more_than_their_results() -> None:
    func = from_source(PART)
    sch = in_blocks(func, 4)
    for name in ("row_sums", "row"):
        block = sch.get(sch.get_block(name))
        assert str(block.reads[0]) == "A[i // 4, 0:12]"
    assert str(block.writes[0]) == "B[i // 4, i % 4 * 3:i % 4 * 3 + 3]"
    assert_same_meaning(func, sch)


def test_floats_are_added_in_another_order_only_where_that_is_declared() -> None:
    func = rows(start="T.float32(0)", dtype="float32")
    sch = Schedule(func)
    loop = sch.get_loops("row")[-1]
    assert_refused(sch, lambda: sch.scan_blocks(loop, 2), "scan_blocks", "'row' adds or multiplies floats")
    sch.annotate(sch.get_block("row"), "running_reduction", 1)
    sch.scan_blocks(loop, 2)
    assert_same_meaning(func, sch)


@pytest.mark.parametrize(
    ("program", "numbers", "message"),
    [
        (rows(), (5, 1), "5 blocks do not divide an extent of 12"),
        (rows(), (0, 1), "0 blocks do not divide"),
        (rows(), (3, 3), "3 lanes do not divide an extent of 4"),
        (rows(parallel="range(3)"), (2, 1), "loop 'i' is neither parallel nor runs once"),
        (rows(parallel="T.parallel(1, 3)"), (2, 1), "loop 'i' is neither parallel nor runs once"),
        (
            from_source(
                ROWS.format(
                    first="s[0] = s[0] + A[i, k]",
                    second="B[i, k] = s[0]",
                    start="0",
                    dtype="int32",
                    rows="T.parallel(3)",
                    columns="range(12)",
                ).replace("for i in", "for again in range(2):\n              for i in")
            ),
            (2, 1),
            "loop 'i' runs several times",
        ),
        (rows(columns="range(i + 1)"), (2, 1), "block 'row' is no running reduction"),
        (rows("s[0] = s[0] - A[i, k]"), (2, 1), "block 'row' is no running reduction"),
        (rows("s[0] = s[0] + A[i, k] * s[0]"), (2, 1), "block 'row' is no running reduction"),
        (
            rows("s[0] = s.vload([0], predicate=k > 3) + A[i, k]"),
            (2, 1),
            "block 'row' is no running reduction",
        ),
        (
            rows("s.vstore([0], s[0] + A[i, k], predicate=k > 3)"),
            (2, 1),
            "block 'row' is no running reduction",
        ),
        (
            rows(second="B.vstore([i, k], s[0], predicate=k > 3)"),
            (2, 1),
            "block 'row' is no running reduction",
        ),
        (rows("s[0] = A[i, k] + 1"), (2, 1), "block 'row' is no running reduction"),
        (rows(second="s[0] = s[0] + 1"), (2, 1), "block 'row' is no running reduction"),
        (rows(second="B[i, 0] = s[0]"), (2, 1), "do not lie one behind the other along a dimension of B"),
        (rows(second="B[(i + k) % 3, k] = s[0]"), (2, 1), "do not lie one behind the other"),
        (rows(second="B[i, k // 2] = s[0]"), (2, 1), "do not lie one behind the other"),
        (rows(second="B[T.max(T.min(B[i, 0], 2), 0), k] = s[0]"), (2, 1), "do not lie one behind the other"),
        (
            rows(columns='T.serial(12, annotations={"told": 1})'),
            (2, 1),
            "block 'row' is no running reduction",
        ),
        (rows(where='T.block_attr({"told": 1})'), (2, 1), "one buffer and without variables and annotations"),
        (
            rows(where='V = T.match_buffer(A[0:3, 0:12], (3, 12), "int32")'),
            (2, 1),
            "does not hold one block with one buffer and without variables",
        ),
        (rows(parallel='T.parallel(3, annotations={"told": 1})'), (2, 1), "or has annotations"),
        (rows(second="B[i, k] = s[0] + B[i, 0]"), (2, 1), "block 'row' reads B, which it writes"),
        (rows("s[0] = s[0] + B[i, k]"), (2, 1), "block 'row' reads B, which it writes"),
        (
            rows("s[0] = s[0] + W[i, T.max(k - 1, 0)]", view=True),
            (2, 1),
            "block 'row' reads B, which it writes",
        ),
        (rows(where="T.where(False)"), (2, 1), "does not hold one block with one buffer and without"),
        (rows(), (True, 1), "True blocks do not divide"),
        (rows('s[0] = s[0] + T.call_extern("int32", "f", k)'), (2, 1), "calls"),
    ],
)
def test_refusals(program: PrimFunc, numbers: tuple[int, int], message: str) -> None:
    sch = Schedule(program)
    loop = sch.get_loops("row")[-1]
    assert_refused(sch, lambda: sch.scan_blocks(loop, *numbers), "scan_blocks", message)


def test_more_blocks_than_the_loop_counts_are_refused() -> None:
    func = from_source(PART.replace("(3", "(1048576").replace("12", "4096").replace("24", "4096"))
    sch = Schedule(func)
    loop = sch.get_loops("row")[-1]
    assert_refused(
        sch, lambda: sch.scan_blocks(loop, 4096), "4096 blocks each of 1048576 rows are more than int32"
    )


def test_rows_with_variables_are_refused() -> None:
    func = te.create_prim_func(
        [(a := te.placeholder((3, 4), name="A")), te.compute((3, 4), lambda i, j: a[i, j] + 1, "B")]
    )
    sch = Schedule(func)
    sch.parallel(sch.get_loops("B")[0])
    loop = sch.get_loops("B")[0]
    assert_refused(sch, lambda: sch.scan_blocks(loop, 2), "does not hold one block with one buffer")
