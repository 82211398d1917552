"""Element-wise functions and broadcasting operators against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ir import te, topi
from ir.error import IRTypeError, IRValueError

RNG = np.random.default_rng(1)
SMALL = RNG.uniform(-0.9, 0.9, (3, 5)).astype("float32")
WIDE = RNG.uniform(-4, 4, (3, 5)).astype("float32")
POSITIVE = RNG.uniform(0.1, 5, (3, 5)).astype("float32")
ABOVE_ONE = RNG.uniform(1.1, 5, (3, 5)).astype("float32")
_erf = np.vectorize(math.erf)

UNARY = [
    ("identity", WIDE, lambda x: x),
    ("exp2", WIDE, np.exp2),
    ("negative", WIDE, lambda x: -x),
    ("exp", WIDE, np.exp),
    ("erf", WIDE, _erf),
    ("tanh", WIDE, np.tanh),
    ("tan", SMALL, np.tan),
    ("cos", WIDE, np.cos),
    ("sin", WIDE, np.sin),
    ("cosh", WIDE, np.cosh),
    ("sinh", WIDE, np.sinh),
    ("acos", SMALL, np.arccos),
    ("acosh", ABOVE_ONE, np.arccosh),
    ("asin", SMALL, np.arcsin),
    ("asinh", WIDE, np.arcsinh),
    ("atan", WIDE, np.arctan),
    ("atanh", SMALL, np.arctanh),
    ("floor", WIDE, np.floor),
    ("ceil", WIDE, np.ceil),
    ("trunc", WIDE, np.trunc),
    ("round", WIDE, np.rint),
    ("abs", WIDE, np.abs),
    ("log", POSITIVE, np.log),
    ("log2", POSITIVE, np.log2),
    ("log10", POSITIVE, np.log10),
    ("log1p", POSITIVE, np.log1p),
    ("sqrt", POSITIVE, np.sqrt),
    ("rsqrt", POSITIVE, lambda x: 1 / np.sqrt(x)),
    ("sigmoid", WIDE, lambda x: 1 / (1 + np.exp(-x))),
    ("sign", WIDE, np.sign),
    ("fast_exp", WIDE, np.exp),
    ("fast_tanh", WIDE, np.tanh),
    ("fast_erf", WIDE, _erf),
    ("isnan", WIDE, np.isnan),
    ("isfinite", WIDE, np.isfinite),
    ("isinf", WIDE, np.isinf),
    ("logical_not", WIDE > 0, np.logical_not),
    ("bitwise_not", np.arange(15, dtype="int32").reshape(3, 5), np.bitwise_not),
]


@pytest.mark.parametrize(("name", "x", "reference"), UNARY, ids=[row[0] for row in UNARY])
def test_unary(check, name, x, reference):
    check(getattr(topi, name), [x], reference(x.astype("float64") if x.dtype == "float32" else x), rtol=3e-4)


INTS = RNG.integers(-20, 20, (3, 5)).astype("int32")
DIVISORS = np.where(RNG.integers(0, 2, (1, 5)) > 0, 3, -4).astype("int32")
ROW = RNG.uniform(0.5, 2, (5,)).astype("float32")
COLUMN = RNG.uniform(0.5, 2, (3, 1)).astype("float32")
SHIFTS = RNG.integers(0, 5, (3, 5)).astype("int32")

BINARY = [
    ("add", WIDE, ROW, np.add),
    ("subtract", COLUMN, ROW, np.subtract),
    ("multiply", WIDE, COLUMN, np.multiply),
    ("divide", WIDE, ROW, np.divide),
    ("divide", INTS, DIVISORS, lambda a, b: np.trunc(a / b)),
    ("floor_divide", INTS, DIVISORS, np.floor_divide),
    ("floor_divide", WIDE, ROW, np.floor_divide),
    ("mod", INTS, DIVISORS, np.fmod),
    ("mod", WIDE, ROW, np.fmod),
    ("floor_mod", INTS, DIVISORS, np.mod),
    ("floor_mod", WIDE, ROW, np.mod),
    ("maximum", WIDE, ROW, np.maximum),
    ("minimum", INTS, DIVISORS, np.minimum),
    ("power", POSITIVE, ROW, np.power),
    ("log_add_exp", WIDE, ROW, np.logaddexp),
    ("atan2", WIDE, ROW, np.arctan2),
    ("trunc_divide", INTS, DIVISORS, lambda a, b: np.trunc(a / b)),
    ("left_shift", INTS, SHIFTS, np.left_shift),
    ("right_shift", INTS, SHIFTS, np.right_shift),
    ("greater", WIDE, ROW, np.greater),
    ("less", WIDE, ROW, np.less),
    ("equal", INTS, SHIFTS, np.equal),
    ("not_equal", INTS, SHIFTS, np.not_equal),
    ("greater_equal", INTS, SHIFTS, np.greater_equal),
    ("less_equal", INTS, SHIFTS, np.less_equal),
    ("logical_and", WIDE > 0, ROW > 1, np.logical_and),
    ("logical_or", WIDE > 0, ROW > 1, np.logical_or),
    ("logical_xor", WIDE > 0, ROW > 1, np.logical_xor),
    ("bitwise_and", INTS, SHIFTS, np.bitwise_and),
    ("bitwise_or", INTS, SHIFTS, np.bitwise_or),
    ("bitwise_xor", INTS, SHIFTS, np.bitwise_xor),
]


@pytest.mark.parametrize(
    ("name", "a", "b", "reference"), BINARY, ids=[f"{r[0]}-{r[1].dtype}" for r in BINARY]
)
def test_binary(check, name, a, b, reference):
    check(getattr(topi, name), [a, b], reference(a, b), rtol=1e-4)


def test_tensor_operators_broadcast(check):
    check(lambda a, b: (a + b) * 2.0 - a / b, [WIDE, ROW], (WIDE + ROW) * 2 - WIDE / ROW)
    check(lambda a: 1.0 - a, [WIDE], 1 - WIDE)
    check(lambda a: -a, [WIDE], -WIDE)


def test_cast_clip_full(check):
    check(lambda a: topi.cast(a, "int32"), [WIDE], np.trunc(WIDE))
    check(lambda a: topi.clip(a, -1, 1.5), [WIDE], np.clip(WIDE, -1, 1.5))
    check(lambda a: topi.full_like(a, 3), [WIDE], np.full((3, 5), 3.0))
    check(lambda a: topi.add(a, topi.full((3, 5), "float32", 2.5)), [WIDE], WIDE + 2.5)
    check(lambda a, b: topi.elemwise_sum([a, b, a]), [WIDE, POSITIVE], 2 * WIDE + POSITIVE)
    check(lambda a: topi.reinterpret(a, "int32"), [WIDE], WIDE.view("int32"))


def test_broadcast_to(check):
    check(lambda a: topi.broadcast_to(a, (4, 3, 5)), [COLUMN], np.broadcast_to(COLUMN, (4, 3, 5)))


def test_block_names_and_axes():
    a, b = te.placeholder((3, 5), name="a"), te.placeholder((5,), name="b")
    total = topi.add(a, b)
    assert total.op.name == "T_add"
    assert [axis.var.name for axis in total.op.axis] == ["ax0", "ax1"]
    assert [axis.var.name for axis in topi.exp(a).op.axis] == ["i0", "i1"]


def test_shapes_that_do_not_broadcast_are_refused():
    a, b = te.placeholder((3, 5), name="a"), te.placeholder((4,), name="b")
    with pytest.raises(IRValueError, match=r"\(3, 5\).*\(4\).*5 and 4"):
        topi.add(a, b)
    with pytest.raises(IRValueError, match="broadcast_to"):
        topi.broadcast_to(a, (3, 1))
    with pytest.raises(IRTypeError, match="index it"):
        te.compute((3,), lambda i: a + i if False else te.exp(a))


def test_symbolic_extents_take_the_known_one():
    n = te.var("n", "int64")
    a, b = te.placeholder((n, 4), name="a"), te.placeholder((1, 4), name="b")
    assert topi.add(a, b).shape[0] is n


def test_fixed_point_multiply(check):
    values = np.array([1000, -1000, 7, 0], "int32")
    check(lambda a: topi.fixed_point_multiply(a, 1 << 30, 1), [values], values)
    with pytest.raises(IRTypeError, match="int32"):
        topi.fixed_point_multiply(te.placeholder((3,), name="a"), 1, 1)


def test_ceil_log2(check):
    values = np.array([1, 2, 3, 4, 5, 1000], "int32")
    check(lambda a: te.compute((6,), lambda i: topi.ceil_log2(a[i])), [values], np.ceil(np.log2(values)))


def test_scalars_give_expressions():
    x = te.var("x", "int32")
    assert topi.add(x, 1).dtype == "int32"
    assert topi.maximum(3, 4).value == 4
    assert topi.cast(x, "float32").dtype == "float32"


EDGES = np.array([0.0, -0.0, 1, -1, 5, -5, 7.5, -0.1, np.inf, -np.inf, np.nan], "float32")
LEFT, RIGHT = (side.ravel() for side in np.meshgrid(EDGES, EDGES, indexing="ij"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "function"),
    [("mod", np.fmod), ("floor_mod", np.mod), ("floor_divide", np.floor_divide), ("divide", np.divide)],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_divisions_of_floats_at_the_edges(check, name, function, dtype):
    """A remainder by infinity is the dividend or infinity, by zero it is no number; -0.1 // 0.1 is -1."""
    a, b = LEFT.astype(dtype), RIGHT.astype(dtype)
    check(getattr(topi, name), [a, b], function(a, b), 0, 0)


def test_a_quotient_is_not_rounded_before_its_floor(check):
    a, b = np.array([1.0, 0.3, -1.0]), np.array([0.1, 0.1, 0.1])
    check(topi.floor_divide, [a, b], np.array([9.0, 2.0, -10.0]))


def test_the_sum_of_exponentials_of_equal_infinities(check):
    a, b = np.array([-np.inf, np.inf, np.inf, 900, -900]), np.array([-np.inf, np.inf, -np.inf, -900, -900])
    check(topi.log_add_exp, [a, b], np.logaddexp(a, b))


def test_the_sign_of_nan_is_nan(check):
    check(topi.sign, [EDGES], np.sign(EDGES))


INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]


@pytest.mark.meaning("op-shift")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_any_amount(check, dtype):
    """numpy defines them: from the width on (and below 0) nothing is left, to the right a sign."""
    info = np.iinfo(dtype)
    values = np.array([0, 1, 5, info.min, info.max, info.max // 3], dtype)
    amounts = [0, 1, 7, 8, info.bits - 1, info.bits, 100] + ([-1, info.min] if info.min else [])
    a, b = (side.ravel() for side in np.meshgrid(values, np.array(amounts, dtype), indexing="ij"))
    check(topi.left_shift, [a, b], np.left_shift(a, b))
    check(topi.right_shift, [a, b], np.right_shift(a, b))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.meaning("pow")
def test_powers_of_integers_are_exact_and_wrap(check, dtype):
    info = np.iinfo(dtype)
    values = np.array([0, 1, 2, 3, 10, info.max, info.min], dtype)
    exponents = np.array([0, 1, 2, 7, 18, 39, 63, 100], dtype)
    a, b = (side.ravel() for side in np.meshgrid(values, exponents, indexing="ij"))
    check(topi.power, [a, b], np.power(a, b))


@pytest.mark.meaning("pow")
def test_negative_powers_of_integers_are_truncated(check):
    a = np.array([1, -1, -1, 2, -3, 0], "int32")
    check(topi.power, [a, np.array([-5, -2, -3, -1, -1, -1], "int32")], np.array([1, 1, -1, 0, 0, 0]))
