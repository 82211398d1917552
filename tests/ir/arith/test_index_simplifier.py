"""IndexSimplifier: known rewrites, and agreement with evaluation on random expressions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import tir
from ir.arith.index_simplifier import IndexSimplifier
from ir.tir.evaluate import evaluate

I, J, N = tir.Var("i"), tir.Var("j"), tir.Var("n")


def simplifier():
    found = IndexSimplifier()
    found.bind(I, 0, 7)
    found.bind(J, 0, 15)
    return found


def text(expr):
    return simplifier().simplify(expr).script()


def test_rewrites():
    assert text((I * 16 + J) // 16) == "i"
    assert text((I * 16 + J) % 16) == "j"
    assert text((I * 16 + J) // 32) == "i // 2"
    assert text((N // 4) * 4 + N % 4) == "n"
    assert text((N // 4) // 8) == "n // 32"
    assert text(tir.min(I, 20) if hasattr(tir, "min") else I) == "i"
    assert text(I + J - I) == "j"
    assert text((I * 8 + J * 2 + 1) // 2) == "i * 4 + j"


def test_remainders_and_truncated_divisions():
    assert text(tir.FloorMod(N, tir.const(1))) == "0"
    assert text(tir.Div(I * 16 + J, tir.const(16))) == "i"
    assert text(tir.Mod(I * 16 + J, tir.const(16))) == "j"
    assert text(tir.Mod(N, tir.const(16))) == str(tir.Mod(N, tir.const(16)))


def test_coefficients_of_a_remainder_are_reduced_where_the_sum_stays_in_range():
    x, y, z = tir.Var("x", "int64"), tir.Var("y", "int64"), tir.Var("z", "int64")
    simplifier = IndexSimplifier()
    simplifier.bind(z, 0, 99)

    def simplified(value):
        return simplifier.simplify(value).script()

    assert simplified((x * 17) % 16) == (x % 16).script()
    assert simplified((z * 18 - z * 35) % 16) == ((z * 15) % 16).script()
    # x - y is a number of int64 where x + 4 y need not be one
    for value in ((x - y) % 5, (tir.shift_left(x, 63) - y) % 5):
        assert simplified(value) == value.script()


def test_divisors_that_are_not_numbers():
    """A cast has a value too, which is no number."""
    quotient = tir.FloorDiv(N, tir.Cast("int32", tir.Var("data", "int8")))
    assert text(tir.FloorDiv(quotient, tir.const(3))) == str(tir.FloorDiv(quotient, tir.const(3)))


def test_bounds():
    found = simplifier()
    assert found.bounds(tir.FloorMod(N, tir.const(-6))) == (-5, 0)
    assert found.bounds(I * 4 + J) == (0, 43)
    assert found.bounds(I - J) == (-15, 7)
    assert found.bounds(N % 6) == (0, 5)
    assert found.truth(tir.LT(I * 4, tir.const(32))) is True
    assert found.truth(tir.LT(I * 4, tir.const(20))) is None
    assert found.truth(tir.GT(I, tir.const(9))) is False


def test_quotients_of_quotients_whose_divisors_make_no_number_of_the_type():
    """Each stays as it is written, and is an atom with bounds of its own."""
    found = IndexSimplifier()
    found.bind(I, -(10**9), 10**9)
    unknown = tir.FloorDiv(tir.FloorDiv(N, tir.const(2**31 - 1)), tir.const(2))
    assert text(unknown) == "n // 2147483647 // 2"
    quotient = tir.FloorDiv(tir.FloorDiv(I, tir.const(2**31 - 1)), tir.const(2))
    assert found.bounds(quotient) == (-1, 0)
    assert found.truth(tir.LT(quotient, tir.const(1))) is True
    wide = tir.Var("w", "int64")
    nested = tir.FloorDiv(tir.FloorDiv(wide, tir.const(2**40, "int64")), tir.const(2**40, "int64"))
    assert found.truth(tir.LT(nested, tir.const(7, "int64"))) is None
    remainder = tir.FloorMod(nested, tir.const(6, "int64"))
    assert found.bounds(remainder) == (0, 5)
    of_remainder = tir.FloorDiv(tir.FloorMod(quotient, tir.const(2**31 - 1)), tir.const(2**31 - 1))
    assert found.bounds(of_remainder) == (0, 0)


divisors = st.integers(-12, 12).filter(bool)
expressions = st.recursive(
    st.sampled_from([I, J, N]) | st.integers(-20, 20).map(tir.const),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: tir.Add(*p)),
        st.tuples(inner, inner).map(lambda p: tir.Sub(*p)),
        st.tuples(inner, st.integers(-6, 6)).map(lambda p: tir.Mul(p[0], tir.const(p[1]))),
        st.tuples(inner, divisors).map(lambda p: tir.FloorDiv(p[0], tir.const(p[1]))),
        st.tuples(inner, divisors).map(lambda p: tir.FloorMod(p[0], tir.const(p[1]))),
        st.tuples(inner, divisors).map(lambda p: tir.Div(p[0], tir.const(p[1]))),
        st.tuples(inner, divisors).map(lambda p: tir.Mod(p[0], tir.const(p[1]))),
        st.tuples(inner, inner).map(lambda p: tir.Min(*p)),
        st.tuples(inner, inner).map(lambda p: tir.Max(*p)),
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(expressions)
def test_simplified_expressions_are_equal_and_bounded(expr):
    found = simplifier()
    short = found.simplify(expr)
    low, high = found.bounds(expr)
    i, j, n = np.meshgrid(np.arange(8), np.arange(16), np.array([-100, -7, 0, 5, 33]), indexing="ij")
    values = {I: i, J: j, N: n}
    exact = np.broadcast_to(evaluate(expr, values), i.shape)
    np.testing.assert_array_equal(exact, np.broadcast_to(evaluate(short, values), i.shape))
    assert low <= exact.min() and exact.max() <= high


def test_the_factor_of_a_remainder_does_not_grow_beyond_its_type():
    """``x * -1 % 3`` is ``x * 2 % 3`` in numbers of any size; of int32 the second is another one from 2**30 on."""
    number = tir.Var("x", "int32")
    remainder = tir.FloorMod(tir.Mul(number, tir.const(-1)), tir.const(3))
    found = IndexSimplifier().simplify(remainder)
    values = np.array([2**30 + 1, 2**31 - 1], np.int32)
    assert (evaluate(found, {number: values}) == -values % 3).all()


def test_quotients_and_remainders_of_numbers_that_differ_by_a_multiple_are_one_number():
    assert text((I + 8) // 7 * 7 + (I + 1) % 7) == "i + 8"
    assert text((I * 32 + J * 8) // 7 * 21 + (I * 4 + J) % 7 * 3) == "i * 96 + j * 24"
    assert text((I + 15) // 7 * 7 + (I + 2) % 7) != "i + 15"
    assert text((I * 9 + J) // 7 * 7 + (I + J) % 7) != "i * 9 + j"


def test_remainders_of_quotients_and_remainders_are_one_digit():
    assert text(N // 2 % 4 * 32 + N % 2 * 16) == text(N % 8 * 16)
    assert text(N % 8 // 2 * 2 + N % 2) == text(N % 8)
    assert text(N // 2 % 4 * 2 + (N + 1) % 2) != text(N % 8)


_STEPS = st.integers(-12, 12)


@settings(max_examples=200)
@given(
    divisor=st.sampled_from([2, 3, 7, 8]),
    first=st.tuples(_STEPS, _STEPS, _STEPS),
    apart=st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)),
    off=st.integers(0, 1),
    factor=st.sampled_from([-2, 1, 3]),
)
def test_random_quotients_and_remainders_keep_their_sum(divisor, first, apart, off, factor):
    """The remainder is of the same number, of one that differs by a multiple of the divisor, or of another one."""

    def linear(steps):
        return I * steps[0] + J * steps[1] + steps[2]

    second = [step + divisor * more for step, more in zip(first, apart)]
    second[2] += off
    whole = linear(first) // divisor * (divisor * factor) + linear(second) % divisor * factor
    simplified = simplifier().simplify(whole)
    for i in range(8):
        for j in (0, 1, 5, 15):
            values = {I: i, J: j}
            assert evaluate(simplified, values) == evaluate(whole, values)


@settings(max_examples=200)
@given(
    divisor=st.sampled_from([2, 3, 8]),
    outer=st.sampled_from([2, 4, 5]),
    first=st.tuples(_STEPS, _STEPS, _STEPS),
    apart=st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)),
    factor=st.sampled_from([-2, 1, 3]),
)
def test_random_digits_of_two_parts_keep_their_sum(divisor, outer, first, apart, factor):
    def linear(steps):
        return I * steps[0] + J * steps[1] + steps[2]

    second = [step + divisor * more for step, more in zip(first, apart)]
    upper = linear(first) // divisor % outer
    whole = upper * (divisor * factor) + linear(second) % divisor * factor
    simplified = simplifier().simplify(whole)
    for i in range(8):
        for j in (0, 1, 5, 15):
            values = {I: i, J: j}
            assert evaluate(simplified, values) == evaluate(whole, values)
