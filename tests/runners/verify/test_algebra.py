"""The algebra of errors: whatever operands within their errors make of an operation lies within the error of its result."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir.node import Mutator
from ir.script import from_source
from ir.tir.buffer import decl_buffer
from ir.tir.evaluate import evaluate
from ir.tir.expr import (
    EQ,
    LT,
    Add,
    And,
    Call,
    Div,
    FloatImm,
    FloorDiv,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from ir.tir.op import cos, exp, floor, sin
from ir.tir.stmt_functor import substitute
from runners.verify import compute_reference
from runners.verify.algebra import Algebra
from runners.verify.estimate import NEVER, WIDE, ZERO, Estimate, or_zero
from runners.verify.expressions import Expressions
from runners.verify.rounding import format_of, growth
from tests.programs.nodes import matmul

from .conftest import native, verdict

VALUES = [-3.0, -0.25, 0.0, 0.125, 1.0, 40.0]
ERRORS = [0.0, 0.125, 2.0]
INSIDE = np.array([-1.0, -0.5, 0.0, 0.3, 1.0])
"""Where in its interval an operand may lie."""


NUMBERS: dict[Any, Any] = {}
"""Values of the operands, which are variables: numbers of Python would trap where those of IEEE 754 do not."""


def number(value: float) -> PrimExpr:
    variable = Var("number", WIDE)
    NUMBERS[variable] = np.float64(value)
    return variable


def inexact(value: float, error: float) -> Estimate:
    return Estimate(number(value), number(error) if error else None)


def error_of(make: Callable[[Algebra], Estimate]) -> float:
    """The error of an estimate as a number, after the names that were given on the way."""
    algebra = Algebra(EQ(ZERO, number(1.0)))
    with algebra.scope() as names:
        found = algebra.error(make(algebra))
        values = dict(NUMBERS)
        with np.errstate(all="ignore"):
            for name, value in names:
                values[name] = evaluate(value, values)
            return float(evaluate(or_zero(found), values))


def binary(kind: Any) -> tuple[Callable[..., Estimate], Callable[..., Any]]:
    rule = {Add: "add", Sub: "add", Mul: "multiply", Div: "divide", Min: "extreme", Max: "extreme"}[kind]
    compute = {
        Add: np.add,
        Sub: np.subtract,
        Mul: np.multiply,
        Div: np.divide,
        Min: np.minimum,
        Max: np.maximum,
    }

    def make(algebra: Algebra, a: Estimate, b: Estimate) -> Estimate:
        dtype = () if rule == "extreme" else ("float32",)
        return getattr(algebra, rule)(kind(a.value, b.value), *dtype, a, b)

    return make, compute[kind]


@pytest.mark.parametrize("kind", [Add, Sub, Mul, Div, Min, Max])
def test_operands_within_their_errors_give_results_within_theirs(kind: Any) -> None:
    make, compute = binary(kind)
    for value, other, error, error_other in itertools.product(VALUES, VALUES, ERRORS, ERRORS):
        a, b = inexact(value, error), inexact(other, error_other)
        with np.errstate(all="ignore"):
            bound = error_of(lambda algebra: make(algebra, a, b))
            results = compute((value + error * INSIDE)[:, None], (other + error_other * INSIDE)[None])
            apart = np.abs(results - compute(value, other))
        if np.isfinite(apart).all():
            assert apart.max() <= bound, (value, error, other, error_other)


def test_a_quotient_is_open_where_the_divisor_may_be_zero() -> None:
    for divisor, error in ((0.125, 0.125), (0.125, 2.0), (-0.25, 2.0)):
        of_quotient = lambda algebra: algebra.divide(
            Div(number(1.0), number(divisor)), "float32", inexact(1.0, 0.0), inexact(divisor, error)
        )
        assert error_of(of_quotient) == np.inf


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("error", ERRORS)
def test_functions_and_steps_move_as_far_as_their_intervals_reach(value: float, error: float) -> None:
    of_exp = error_of(lambda algebra: algebra.function(exp, "float32", [inexact(value, error)]))
    assert np.abs(np.exp(value + error * INSIDE) - np.exp(value)).max() <= of_exp
    of_floor = error_of(lambda algebra: algebra.step(floor, inexact(value, error)))
    assert np.abs(np.floor(value + error * INSIDE) - np.floor(value)).max() <= of_floor
    if error == 0:
        assert of_floor == 0


@pytest.mark.parametrize("kind", [Add, Sub, Mul, Min, Max])
def test_integers_that_rounded_floats_decide_have_errors(kind: Any) -> None:
    compute = {Add: np.add, Sub: np.subtract, Mul: np.multiply, Min: np.minimum, Max: np.maximum}[kind]
    for value, other, error, error_other in itertools.product((-3, 0, 4), (-2, 5), (0, 2), (0, 1)):
        a, b = IntImm("int32", value), IntImm("int32", other)
        bound = error_of(
            lambda algebra: algebra.integer(
                kind(a, b),
                Estimate(a, number(error) if error else None),
                Estimate(b, number(error_other) if error_other else None),
                kind.__name__,
            )
        )
        steps = np.arange(-error, error + 1), np.arange(-error_other, error_other + 1)
        apart = np.abs(compute(value + steps[0][:, None], other + steps[1][None]) - compute(value, other))
        assert apart.max() <= bound


def test_a_choice_by_a_condition_that_may_turn_out_either_way_reaches_both_sides() -> None:
    def choice(algebra: Algebra, apart: float) -> Estimate:
        condition = algebra.compare(LT(number(apart), ZERO), inexact(apart, 0.125), Estimate(ZERO))
        return algebra.choose(Select, condition, Estimate(number(1.0)), Estimate(number(7.0)), lazy=False)

    assert error_of(lambda algebra: choice(algebra, 0.1)) >= 6.0
    assert error_of(lambda algebra: choice(algebra, 0.2)) == 0.0


@pytest.mark.parametrize(
    ("function", "first", "second"),
    [
        ("pow", (2.0, 0.5), (40.0, 8.0)),
        ("atan2", (0.25, 0.5), (0.125, 0.25)),
        ("atan2", (-0.01, 0.02), (-3.0, 1.0)),
    ],
)
def test_a_function_moves_with_both_operands_at_once(
    function: str, first: tuple[float, float], second: tuple[float, float]
) -> None:
    compute = {"pow": np.power, "atan2": np.arctan2}[function]

    def make(algebra: Algebra) -> Estimate:
        rule = algebra.power if function == "pow" else algebra.angle
        return rule(
            lambda *args: Call(WIDE, f"tir.{function}", args), "float32", inexact(*first), inexact(*second)
        )

    a, b = (value + error * INSIDE for value, error in (first, second))
    furthest = np.abs(compute(a[:, None], b[None]) - compute(first[0], second[0])).max()
    assert furthest <= error_of(make)


@pytest.mark.parametrize(("divisor", "is_open"), [(0.1, True), (-0.2, True), (0.3, False), (-5.0, False)])
def test_a_quotient_that_is_rounded_down_is_open_where_the_divisor_may_be_zero(
    divisor: float, is_open: bool
) -> None:
    """Far from zero its ends tell how far it moves."""

    def quotient(algebra: Algebra) -> Estimate:
        a = Estimate(number(7.0))
        return algebra.floored_quotient(FloorDiv, "float32", a, inexact(divisor, 0.25))

    assert np.isinf(error_of(quotient)) == is_open


@pytest.mark.parametrize("factor", [0.25, -0.5, 4.0, -1.0])
@pytest.mark.parametrize("value", [0.1, -3.0, 1e-40, 3e38])
def test_a_product_with_a_power_of_two_is_exact_unless_it_leaves_the_type(
    value: float, factor: float
) -> None:
    """A shift of a softmax by one percent shows only beside scores that are known."""
    wide = float(np.float32(value))

    def product(algebra: Algebra, error: float) -> Estimate:
        item, constant = number(wide), FloatImm(WIDE, factor)
        slack = number(error) if error else None
        one, other = Estimate(item, slack, whole=NEVER), Estimate(constant, whole=NEVER)
        return algebra.multiply(Mul(item, constant), "float32", one, other)

    with np.errstate(over="ignore"):
        exact = np.float64(np.float32(wide) * np.float32(factor))
    found = error_of(lambda algebra: product(algebra, 0.0))
    if np.isinf(exact):
        assert found == np.inf
    else:
        assert abs(exact - wide * factor) <= found <= abs(wide * factor) * 2.0**-50 + 2.0**-125
        assert error_of(lambda algebra: product(algebra, 0.125)) >= 0.125 * abs(factor)


ANYTHING, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("value", [0.0, 1.0, float("inf"), float("nan")])
def test_what_may_be_anything_may_be_nan_after_every_operation(value: float) -> None:
    """A product that overflowed in float64 may be infinite in one kernel and NaN, after a difference of two, in another."""

    def item() -> Estimate:
        return inexact(value, ANYTHING)

    for kind in (Add, Sub, Mul, Div):
        make, _ = binary(kind)
        for other in (0.0, 1.0, ANYTHING):
            assert error_of(lambda algebra: make(algebra, item(), inexact(other, 0.0))) == ANYTHING
            assert error_of(lambda algebra: make(algebra, inexact(other, 0.125), item())) == ANYTHING
    assert error_of(lambda algebra: algebra.function(exp, "float64", [item()])) == ANYTHING
    assert error_of(lambda algebra: algebra.step(floor, item())) == ANYTHING
    assert error_of(lambda algebra: algebra.wave(cos, "float64", item())) == ANYTHING


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (1.0, 7.0, 6.0),
        (NAN, 7.0, ANYTHING),
        (ANYTHING, 7.0, ANYTHING),
        (NAN, NAN, 0.0),
        (ANYTHING, ANYTHING, 0.0),
    ],
)
def test_a_choice_that_may_turn_out_either_way_may_give_nan_where_one_side_is(
    one: float, other: float, apart: float
) -> None:
    def choice(algebra: Algebra) -> Estimate:
        condition = algebra.compare(LT(number(0.0), ZERO), inexact(0.0, 0.125), Estimate(ZERO))
        return algebra.choose(Select, condition, Estimate(number(one)), Estimate(number(other)), lazy=False)

    assert error_of(choice) == pytest.approx(apart, rel=1e-12)


def test_narrowing_adds_a_rounding() -> None:
    """To what is not known; a number that the kernel has, too, it rounds to the same one."""
    value = number(float(np.float32(0.1)))
    rounded = Estimate(value, None, 2.0**-24, 2.0**-149, whole=NEVER)
    narrow = error_of(lambda algebra: algebra.cast("bfloat16", rounded, "float32"))
    assert 0.1 * 2.0**-8 <= narrow <= 0.1 * 2.0**-7
    for dtype in ("bfloat16", "float16", "float8_e4m3fn"):
        known = Estimate(value, whole=NEVER)
        assert error_of(lambda algebra: algebra.cast(dtype, known, "float32")) == 0.0


# ---- whole programs ----------------------------------------------------------------------------------------------


def test_a_statement_behind_a_tie_may_run_or_not() -> None:
    """Two sums that round differently are compared: either side of the condition is right, as long as it is no number of neither."""
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        P = T.alloc_buffer((8,), "float32")
        Q = T.alloc_buffer((8,), "float32")
        for i in range(8):
            P[i] = A[i] * T.float32(0.1)
            Q[i] = T.float32(0.1) * A[i]
        for i in range(8):
            if P[i] < Q[i]:
                B[i] = T.float32(1)
            else:
                B[i] = T.float32(2)
""")
    reference = compute_reference(mod, native)
    reference.cases = [case for case in reference.cases if case.name == "positive numbers"]
    for side in (1, 2):
        assert verdict(reference, lambda a, b, side=side: b.fill(side)) is None


@pytest.mark.parametrize("rows", [3, 50])
def test_the_bounds_of_a_product_know_its_terms_alone(rows: int) -> None:
    """However many elements the product has, each is a sum of as many terms as the reduction has steps."""
    terms = 64
    reference = compute_reference(matmul(rows, rows, terms), native)
    case = next(case for case in reference.cases if case.name == "random numbers")
    a, b, _ = (array.astype("float64") for array in reference.prepare(case).arrays)
    (bounds,) = case.outputs
    assert bounds.high is not None
    reach = (bounds.high.astype("float64") - bounds.low) / 2
    mass = np.abs(a) @ np.abs(b)
    unit = 2.0**-24
    assert (reach <= 1.1 * (growth(terms, unit) + 1) * unit * mass + 2 * unit * np.abs(a @ b)).all()
    assert (reach >= 0.5 * unit * np.sqrt(terms) * mass).all()


@pytest.mark.parametrize("error", [0.0, 0.125, 2.0, 4.0])
def test_a_wave_moves_as_far_as_from_one_end_to_the_other(error: float) -> None:
    for value in (*VALUES, -np.pi / 2, np.pi / 2):
        bound = error_of(lambda algebra: algebra.wave(sin, "float32", inexact(value, error)))
        apart = np.abs(np.sin(value + error * np.linspace(-1, 1, 41)) - np.sin(value))
        assert apart.max() <= bound, value


@pytest.mark.parametrize("value", [-7.0, -1.0, 0.5, 2.9, 4.0])
def test_a_remainder_moves_with_its_operands(value: float) -> None:
    for divisor, error, other in itertools.product((3.0, 0.75), (0.0, 0.125, 2.0), (0.0, 0.125)):
        a, b = inexact(value, error), inexact(divisor, other)
        bound = error_of(lambda algebra: algebra.remainder(Mod, "float32", a, b))
        results = np.fmod((value + error * INSIDE)[:, None], (divisor + other * INSIDE)[None])
        assert np.abs(results - np.fmod(value, divisor)).max() <= bound, (divisor, error, other)


@pytest.mark.parametrize(
    ("value", "is_open"), [(400.0, False), (500.0, True), (np.inf, True), (np.nan, True)]
)
def test_what_a_dtype_without_infinities_does_not_hold_is_open(value: float, is_open: bool) -> None:
    bound = error_of(lambda algebra: algebra.cast("float8_e4m3fn", inexact(value, 0.0), "float32"))
    assert np.isinf(bound) == is_open


class Unfolded(Mutator):
    """Puts values in the places of their names."""

    def visit_Let(self, node: Let) -> PrimExpr:
        return self.visit(substitute(node.body, {node.var: node.value}))


@pytest.mark.parametrize(("kind", "deciding"), [(And, False), (Or, True)])
def test_a_doubt_counts_where_the_left_side_does_not_decide(kind: Any, deciding: bool) -> None:
    known, doubtful = decl_buffer((1,), "float32"), decl_buffer((1,), "float32")
    for left in (False, True):
        algebra = Algebra(EQ(ZERO, number(1.0)))
        items = {known: inexact(1.0 if left else -1.0, 0.0), doubtful: inexact(0.05, 0.125)}
        with algebra.scope() as names:
            expressions = Expressions(algebra, lambda buffer, _: items[buffer])
            zero = FloatImm("float32", 0.0)
            found = expressions.visit(kind(LT(zero, known[0]), LT(zero, doubtful[0])))
        values = dict(NUMBERS)
        for name, value in names:
            values[name] = evaluate(value, values)
        assert bool(evaluate(Unfolded().visit(found.slack), values)) == (left != deciding)


def test_constants_of_half_floats_may_be_carried_unrounded() -> None:
    expressions = Expressions(Algebra(EQ(ZERO, number(1.0))), lambda buffer, indices: Estimate(ZERO))
    for dtype, value, is_rounded in (
        ("float16", 0.1, True),
        ("bfloat16", 0.1, True),
        ("float16", 0.5, False),
        ("float32", 0.1, False),
    ):
        found = expressions.visit(FloatImm(dtype, value))
        assert found.relative == (format_of(dtype).unit if is_rounded else 0.0)
