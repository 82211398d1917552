"""LoopPartition: interiors without guards, borders with what is left of them."""

import numpy as np
import pytest

from ir import IRModule, tir
from ir.node import post_order_visit
from ir.script import from_source
from ir.script import tir as T
from ir.tir.interpreter import run


def guards(func):
    found = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, tir.IfThenElse) else None)
    return len(found)


def test_tile_with_a_tail(check):
    @T.prim_func
    def before(A: T.Buffer((64,), "float32")):
        for i, j in T.grid(5, 14):
            if i * 14 + j < 64:
                A[i * 14 + j] = T.float32(0)

    @T.prim_func
    def after(A: T.Buffer((64,), "float32")):
        for i, j in T.grid(4, 14):
            A[i * 14 + j] = T.float32(0)
        for j in range(8):
            A[j + 56] = T.float32(0)

    check(tir.transform.LoopPartition(), before, after)


@pytest.mark.parametrize(
    ("guard", "end"), [("i // 4 < 3", 12), ("i // 4 <= 3", 16), ("(i + 2) // 4 * 2 < 5", 10)]
)
def test_a_quotient_has_the_borders_of_its_numerator(apply, guard, end):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((20,), "float32")):
    for i in range(20):
        if {guard}:
            A[i] = A[i] + T.float32(1)
""")
    after = apply(tir.transform.LoopPartition(), func)
    assert guards(after) == 0 and f"range({end})" in after.script()


@pytest.mark.parametrize("kind", ["serial", "parallel", "unroll"])
@pytest.mark.parametrize(("n", "m"), [(30, 17), (32, 16), (1, 1), (13, 40)])
def test_two_guarded_dimensions(apply, kind, n, m):
    source = f"""
@T.prim_func
def main(A: T.Buffer(({n}, {m}), "float32"), B: T.Buffer(({n}, {m}), "float32")):
    for i0 in T.{kind}({-(-n // 8)}):
        for j0 in range({-(-m // 8)}):
            for i1, j1 in T.grid(8, 8):
                if i0 * 8 + i1 < {n} and j0 * 8 + j1 < {m}:
                    B[i0 * 8 + i1, j0 * 8 + j1] = A[i0 * 8 + i1, j0 * 8 + j1] + T.float32(1)
"""
    simplified = apply(tir.transform.Simplify(), from_source(source))
    after = apply(tir.transform.LoopPartition(), simplified)
    if kind != "parallel":
        assert guards(after) == 0


def test_lower_and_upper_bound(apply):
    @T.prim_func
    def window(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            for j in range(3):
                if i + j >= 1 and i + j < 17:
                    B[i] = B[i] + A[i + j - 1]

    apply(tir.transform.LoopPartition(), window)


def test_first_step_of_a_reduction_is_peeled(apply):
    @T.prim_func
    def reduction(A: T.Buffer((4, 6, 5), "float32"), C: T.Buffer((4,), "float32")):
        for i, r, s in T.grid(4, 6, 5):
            if r == 0 and s == 0:
                C[i] = T.float32(0)
            C[i] = C[i] + A[i, r, s]

    after = apply(tir.transform.LoopPartition(), reduction)
    assert guards(after) == 0


def test_fused_variable_chooses_inside(apply):
    @T.prim_func
    def fused(A: T.Buffer((30, 4), "float32")):
        for f in T.parallel(16):
            for j in range(8):
                if f // 4 * 8 + j < 30:
                    A[f // 4 * 8 + j, f % 4] = T.float32(1)

    after = apply(tir.transform.LoopPartition(), fused)
    text = after.script()
    assert text.count("T.parallel") == 1
    assert guards(after) == 2  # the choice, and the guard of the border


def test_function_without_guards_is_the_same_object(apply):
    @T.prim_func
    def plain(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.float32(0)

    assert apply(tir.transform.LoopPartition(), plain) is plain


TILED = """
@T.prim_func
def main(A: T.Buffer(({n}, {m}), "float32"), B: T.Buffer(({n}, {m}), "float32")):
    for f in T.parallel({rows} * {columns}):
        for i1, j1 in T.grid(2, 2):
            for k, i2 in T.grid(2, 4):
                for j2 in T.vectorized(16):
                    if f // {columns} * 8 + i1 * 4 + i2 < {n} and f % {columns} * 32 + j1 * 16 + j2 < {m}:
                        B[f // {columns} * 8 + i1 * 4 + i2, f % {columns} * 32 + j1 * 16 + j2] = (
                            B[f // {columns} * 8 + i1 * 4 + i2, f % {columns} * 32 + j1 * 16 + j2]
                            + A[f // {columns} * 8 + i1 * 4 + i2, f % {columns} * 32 + j1 * 16 + j2]
                        )
"""


@pytest.mark.parametrize(
    ("n", "m", "branches"),
    [
        (16, 64, 0),  # everything is inside
        (14, 64, 1),  # the last tile of rows
        (16, 56, 1),  # the last tile of columns
        (16, 58, 2),  # of which the last vector is masked
        (14, 56, 3),  # both: the lanes of the tile in the corner keep their condition
        (12, 64, 1),  # the last tile has no row at all
        (9, 33, 5),  # tiles of both axes are outside, too
        (3, 5, 6),
    ],
)
def test_tiles_are_whole_or_have_a_known_border(apply, n, m, branches):
    rows, columns = 2, 2
    source = TILED.format(n=n, m=m, rows=rows, columns=columns)
    simplified = apply(tir.transform.Simplify(), from_source(source))
    after = apply(tir.transform.LoopPartition(), simplified)
    assert guards(after) <= branches
    apply(tir.transform.VectorizeLoop(), after)


def test_the_innermost_tile_is_copied_and_no_loop_around_it(apply):
    source = TILED.format(n=14, m=64, rows=2, columns=2)
    after = apply(tir.transform.LoopPartition(), apply(tir.transform.Simplify(), from_source(source)))
    stores = []
    post_order_visit(after.body, lambda n: stores.append(n) if isinstance(n, tir.BufferStore) else None)
    assert len(stores) == 2


GUARDS_OF_DATA = {
    "what the loop changes": """
        if A[0] + i + j < 12:
            A[0] = A[0] + 2
            B[i] = B[i] + 1""",
    "what is defined in the loop": """
        with T.LetStmt(A[i] + 1) as x:
            if x + i + j < 9:
                B[i] = B[i] + x""",
    "what may overflow": """
        if L[i] - 4 <= 0 - i - j:
            B[i] = B[i] + 1""",
}


@pytest.mark.parametrize("body", GUARDS_OF_DATA.values(), ids=GUARDS_OF_DATA)
def test_guards_that_say_something_else_around_the_loop_stay(body):
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), L: T.Buffer((4,), "int32"), n: T.int32):
    for i, j in T.grid(4, 8):{body}
""")
    after = tir.transform.LoopPartition()(IRModule({"main": func}))["main"]
    large = np.array([2**31 - 1, 2**31 - 2, -5, 2**31 - 4], "int32")
    before, found = ([np.array([1, 3, 0, 2], "int32"), np.zeros(4, "int32"), large, 0] for _ in range(2))
    run(func, *before)
    run(after, *found)
    np.testing.assert_array_equal(found[1], before[1])


def test_a_guard_that_may_divide_by_zero_stays_behind_its_own_guard(apply):
    @T.prim_func
    def main(B: T.Buffer((4,), "int32"), n: T.int32):
        for i, j in T.grid(4, 8):
            if n > 0:
                if 12 // n + i + j < 9:
                    B[i] = B[i] + j

    text = apply(tir.transform.LoopPartition(), main).script()
    assert text.index("n > 0") < text.index("12 // n")


def test_a_condition_that_is_marked_stays_where_it_is(apply):
    @T.prim_func
    def main(A: T.Buffer((64,), "float32")):
        for i, j in T.grid(5, 14):
            if T.ignore_loop_partition(i * 14 + j < 64):
                A[i * 14 + j] = T.float32(0)

    assert apply(tir.transform.LoopPartition(), main) is main


def test_marks_stay_where_other_guards_are_split_off(apply):
    @T.prim_func
    def main(A: T.Buffer((64, 64), "float32")):
        for i, j in T.grid(5, 14):
            for k in range(64):
                if i * 14 + j < 64 and T.ignore_loop_partition(k <= i):
                    A[i * 14 + j, k] = T.float32(0)

    after = apply(tir.transform.LoopPartition(), main)
    assert guards(after) == 2 == after.script().count("if T.ignore_loop_partition(k <= ")
    found, expected = (np.ones((64, 64), "float32") for _ in "ab")
    run(after, found)
    run(main, expected)
    np.testing.assert_array_equal(found, expected)
