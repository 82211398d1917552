"""LowerFloorDiv: divisions that are proved to need no correction, and those that are not."""

from __future__ import annotations

from ir.script import tir as T
from ir.tir.transform import LowerFloorDiv


def test_bounds_of_loops_prove_it(check):  # type: ignore[no-untyped-def]
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), O: T.Buffer((64,), "int32")):
        for i in range(64):
            O[i] = A[i // 3] + A[i % 9 * 2] + (i + 5) // 6

    @T.prim_func
    def after(A: T.Buffer((64,), "int32"), O: T.Buffer((64,), "int32")):
        for i in range(64):
            O[i] = A[T.truncdiv(i, 3)] + A[T.truncmod(i, 9) * 2] + T.truncdiv(i + 5, 6)

    check(LowerFloorDiv(), before, after)


def test_what_may_be_negative_stays(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(A: T.Buffer((64,), "int32"), O: T.Buffer((64,), "int32")):
        for i in range(64):
            O[i] = A[i] // 3 + (i - 5) // 7 + (i - 5) % 9

    assert apply(LowerFloorDiv(), main) is main


def test_a_divisor_that_may_be_negative_stays(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(A: T.Buffer((64,), "int32"), O: T.Buffer((64,), "int32")):
        for i in range(64):
            O[i] = i // (T.max(A[i], 0) - 9)

    assert apply(LowerFloorDiv(), main, same_results=False) is main


def test_variables_and_extents_of_buffers_have_bounds(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        for i in range(n):
            x: T.int32 = i * 2
            A[i] = x // 6 + n // 3

    text = apply(LowerFloorDiv(), main, same_results=False).script()
    assert "//" not in text


def test_powers_of_two_stay_shifts(apply):  # type: ignore[no-untyped-def]
    @T.prim_func
    def main(A: T.Buffer((64,), "int32"), O: T.Buffer((64,), "int32")):
        for i in range(64):
            O[i] = A[i // 8] + A[i % 16] + i // 1

    assert apply(LowerFloorDiv(), main) is main


def test_a_product_that_wraps_may_be_negative_also_where_it_is_cast(apply):  # type: ignore[no-untyped-def]
    """What is stored is data: the cast of it is no index arithmetic, the bounds of which say that it is not negative."""

    @T.prim_func
    def main(O: T.Buffer((8,), "int64")):
        for i in range(8):
            O[i] = T.cast(i * 1000000000, "int64") // T.int64(1000000000)

    assert apply(LowerFloorDiv(), main) is main
