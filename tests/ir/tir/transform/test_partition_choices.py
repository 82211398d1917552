"""PartitionChoices: a loop for each source of a concatenation, and what is left as it is."""

import re

import pytest

from ir import tir
from ir.script import from_source
from ir.script import tir as T
from ir.transform import PassContext

PASS = tir.transform.PartitionChoices()


def chosen(value, loop="range(96)", outer="range(1)"):
    """C[i] is chosen between elements of A and B."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32"), C: T.Buffer((4, 96), "float32")):
    for p in {outer}:
        for i in {loop}:
            C[p, i] = {value}
""")


def loops(func):
    """The heads of the loops in a function's text, but for those over ``p``."""
    heads = [line.strip() for line in func.script().splitlines() if line.strip().startswith("for ")]
    heads = [re.sub(r"for p, i in T\.grid\(1, (\d+)\)", r"for i in range(\1)", head) for head in heads]
    return [head for head in heads if not head.startswith("for p ")]


def test_each_source_has_a_loop(check):
    @T.prim_func
    def before(
        A: T.Buffer((32,), "float32"),
        B: T.Buffer((32,), "float32"),
        D: T.Buffer((32,), "float32"),
        C: T.Buffer((96,), "float32"),
    ):
        for i in range(96):
            C[i] = T.if_then_else(i < 32, A[i], T.if_then_else(i < 64, B[i - 32], D[i - 64])) + T.float32(1)

    @T.prim_func
    def after(
        A: T.Buffer((32,), "float32"),
        B: T.Buffer((32,), "float32"),
        D: T.Buffer((32,), "float32"),
        C: T.Buffer((96,), "float32"),
    ):
        for i in range(32):
            C[i] = A[i] + T.float32(1)
        for i in range(32, 64):
            C[i] = B[i - 32] + T.float32(1)
        for i in range(64, 96):
            C[i] = D[i - 64] + T.float32(1)

    check(PASS, before, after)


@pytest.mark.parametrize(
    ("condition", "cuts"),
    [
        ("i < 40", ["range(40)", "range(40, 96)"]),
        ("i <= 40", ["range(41)", "range(41, 96)"]),
        ("40 > i", ["range(40)", "range(40, 96)"]),
        ("i >= 1", ["range(1, 96)"]),
        ("i * 3 < 100", ["range(34)", "range(34, 96)"]),
        ("95 - i < 40", ["range(56)", "range(56, 96)"]),
        ("i >= 10 and i < 20", ["range(10)", "range(10, 20)", "range(20, 96)"]),
        ("i < 10 or i >= 20", ["range(10)", "range(10, 20)", "range(20, 96)"]),
        ("not (i >= 10 and T.likely(i < 20))", ["range(10)", "range(10, 20)", "range(20, 96)"]),
        ("i // 7 < 3", ["range(21)", "range(21, 96)"]),
        ("i // 7 >= 3", ["range(21)", "range(21, 96)"]),
        ("i // 7 <= 3", ["range(28)", "range(28, 96)"]),
        ("i // 7 > 3", ["range(28)", "range(28, 96)"]),
        ("5 - (95 - i) // 4 * 2 >= -14", ["range(56)", "range(56, 96)"]),
        ("(i // 5 + 1) // 3 * 2 < 9", ["range(70)", "range(70, 96)"]),
        ("i < 0", ["range(96)"]),
        ("i < 96", ["range(96)"]),
    ],
)
def test_where_loops_are_cut(apply, condition, cuts):
    after = apply(PASS, chosen(f"T.if_then_else({condition}, A[i], B[95 - i])"))
    assert loops(after) == [f"for i in {cut}:" for cut in cuts]
    assert ("if_then_else" in after.script()) == (cuts == ["range(96)"])


@pytest.mark.parametrize("loop", ["T.unroll(96)", "T.serial(20, 96)", "T.vectorized(96)"])
def test_loops_of_each_kind(apply, loop):
    after = apply(PASS, chosen("T.if_then_else(i < 40, A[i], B[95 - i])", loop))
    assert len(loops(after)) == 2 and "if_then_else" not in after.script()


@pytest.mark.parametrize(
    ("first", "pieces"),
    [
        (32, ["range(2)", "range(2, 6)"]),  # whole vectors
        (40, ["range(2)", "range(3, 6)"]),  # one vector is of both sources
        (8, ["range(1, 6)"]),
    ],
)
def test_loops_over_vectors(apply, first, pieces):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32"), C: T.Buffer((96,), "float32")):
    for i0 in range(6):
        for i1 in T.vectorized(16):
            C[i0 * 16 + i1] = T.if_then_else(i0 * 16 + i1 < {first}, A[i0 * 16 + i1], B[95 - i0 * 16 - i1])
""")
    after = apply(PASS, func)
    assert "if_then_else" not in after.script()
    assert [head for head in loops(after) if "i0" in head] == [f"for i0 in {piece}:" for piece in pieces]


def test_choices_inside_of_other_loops(apply):
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32"), C: T.Buffer((8, 16), "float32")):
    for i in range(8):
        for j in range(16):
            C[i, j] = T.if_then_else(i < 4, T.if_then_else(j < 8, A[i % 4, j % 8], B[i % 4, j % 8]), B[i % 4, 7 - j % 8])
""")
    after = apply(PASS, func)
    assert "if_then_else" not in after.script()
    assert after.script().count("C[i, j] =") == 3


@pytest.mark.parametrize(
    "func",
    [
        chosen("T.if_then_else(i < 40, A[i], T.float32(0))"),  # padding, which is masked
        chosen("T.if_then_else(i < 40, A[i], B[95 - i])", "T.parallel(96)"),
        chosen("T.if_then_else(i < 40, A[i], B[95 - i])", "T.thread_binding(96, thread='threadIdx.x')"),
        chosen("T.if_then_else(A[i] < T.float32(0), A[i], B[i])"),
        chosen("T.if_then_else(i % 7 < 3, A[i], B[95 - i])"),
        chosen("T.if_then_else(i < 20 + p, A[i], B[95 - i])", outer="T.parallel(4)"),
        chosen("T.Select(i < 40, A[i], B[95 - i])"),
    ],
)
def test_what_stays_in_one_loop(apply, func):
    assert len(loops(apply(PASS, func))) == len(loops(func))


def test_rows_that_grow(apply):
    """How far an inner loop goes is known by the loop around it."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32"), C: T.Buffer((96, 96), "float32")):
    for i in range(96):
        for j in range(i + 1):
            for k in range(j + 1):
                C[i, k] = T.if_then_else(i + k < 40, A[(i + k) % 96], B[k])
""")
    after = apply(PASS, func)
    # The first row is a single element; from the 41st on nothing is of A.
    heads = [head for head in loops(after) if head.startswith("for i in")]
    assert heads == ["for i in range(1, 40):", "for i in range(40, 96):"]


def test_pieces_are_counted_over_the_whole_function(apply):
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32"), C: T.Buffer((2, 96), "float32")):
    for i in range(96):
        C[0, i] = T.if_then_else(i < 40, A[i], B[95 - i])
    for i in range(96):
        C[1, i] = T.if_then_else(i < 50, A[i], B[95 - i])
""")
    assert len(loops(apply(tir.transform.PartitionChoices(most_pieces=1), func))) == 3
    assert len(loops(apply(tir.transform.PartitionChoices(most_pieces=2), func))) == 4


def test_there_may_be_too_many_sources(apply):
    value = "A[i]"
    for cut in range(80, 0, -8):
        value = f"T.if_then_else(i < {cut}, B[{cut} + 15 - i], {value})"
    assert len(loops(apply(PASS, chosen(value)))) == 11
    assert len(loops(apply(tir.transform.PartitionChoices(most_pieces=9), chosen(value)))) == 1
    with PassContext(config={"tir.PartitionChoices": {"most_pieces": 9}}):
        assert len(loops(apply(PASS, chosen(value)))) == 1
