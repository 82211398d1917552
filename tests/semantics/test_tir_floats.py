"""Floats: IEEE 754, NaN, infinities, signs of zero, and what may be rounded once instead of twice."""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from .running import executors, holds, law, script, undefined

_EDGES = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, -1e-45, 3e38, 0.1]
_PAIRS = [(a, b) for a in _EDGES for b in _EDGES]
_FLOATS = ["float32", "float64"]


def columns(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(all="ignore"):
        return np.array([a for a, _ in _PAIRS]).astype(dtype), np.array([b for _, b in _PAIRS]).astype(dtype)


@pytest.mark.meaning("float-ieee")
@pytest.mark.parametrize("dtype", _FLOATS)
@pytest.mark.parametrize("operation", ["+", "-", "*", "/"])
def test_operations_are_those_of_ieee(operation: str, dtype: str) -> None:
    a, b = columns(dtype)
    with np.errstate(all="ignore"):
        expected = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[operation](a, b)
    law(f"A[i] {operation} B[i]", {"A": (a, dtype), "B": (b, dtype)}, expected, dtype)


@pytest.mark.meaning("float-compare")
@pytest.mark.parametrize("dtype", ["float16", *_FLOATS])
@pytest.mark.parametrize("operation", ["==", "!=", "<", "<=", ">", ">="])
def test_comparisons(operation: str, dtype: str) -> None:
    a, b = columns(dtype)
    compare = {
        "==": np.equal,
        "!=": np.not_equal,
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
    }
    law(f"A[i] {operation} B[i]", {"A": (a, dtype), "B": (b, dtype)}, compare[operation](a, b), "bool")


@pytest.mark.meaning("float-compare")
def test_a_value_compared_with_itself() -> None:
    a, _ = columns("float32")
    law("A[i] == A[i]", {"A": (a, "float32")}, ~np.isnan(a), "bool")
    law("A[i] != A[i]", {"A": (a, "float32")}, np.isnan(a), "bool")
    law("A[i] <= A[i]", {"A": (a, "float32")}, ~np.isnan(a), "bool")


@pytest.mark.meaning("float-not")
def test_not_less_is_no_greater_or_equal() -> None:
    a, b = columns("float32")
    inputs = {"A": (a, "float32"), "B": (b, "float32")}
    law("not A[i] < B[i]", inputs, ~(a < b), "bool")
    law("not (A[i] >= B[i])", inputs, ~(a >= b), "bool")
    law("T.Select(T.Not(A[i] < T.float32(1)), 1, 0)", inputs, ~(a < 1), "int32")
    law("not (A[i] < B[i] or A[i] > B[i])", inputs, ~((a < b) | (a > b)), "bool")
    law("not (A[i] == B[i])", inputs, a != b, "bool")


@pytest.mark.meaning("minmax-nan", "minmax-zero")
@pytest.mark.parametrize("dtype", ["float16", *_FLOATS])
def test_minimum_and_maximum(dtype: str) -> None:
    a, b = columns(dtype)
    inputs = {"A": (a, dtype), "B": (b, dtype)}
    law("T.min(A[i], B[i])", inputs, np.minimum(a, b), dtype, signs=False)
    law("T.max(A[i], B[i])", inputs, np.maximum(a, b), dtype, signs=False)
    law(f"T.max(A[i], T.{dtype}(0))", inputs, np.maximum(a, 0), dtype, signs=False)
    law(f"T.min(T.max(A[i], T.{dtype}(-1)), T.{dtype}(1))", inputs, np.clip(a, -1, 1), dtype, signs=False)


_SIGNED = {
    "B[i]": lambda a, b: b,
    "T.fabs(A[i])": lambda a, b: np.abs(a),
    "-T.fabs(A[i])": lambda a, b: -np.abs(a),
    "T.Cast('float32', i // 64)": lambda a, b: np.arange(len(a), dtype=np.float32) // 64,
    "T.{0}(0)": lambda a, b: np.zeros_like(a),
    "T.{0}(-0.0)": lambda a, b: -np.zeros_like(a),
}


@pytest.mark.meaning("minmax-zero", "zero-sign")
@pytest.mark.parametrize("loop", ["range", "T.vectorized"])
def test_the_magnitude_of_an_extreme_has_no_sign(loop: str) -> None:
    """Whichever zero the extreme gives: of the operands' signs nothing may be concluded that the result does not keep."""
    a, b = columns("float32")
    stores, expected = [], []
    for one, other in itertools.permutations(_SIGNED, 2):
        x, y = _SIGNED[one](a, b), _SIGNED[other](a, b)
        for name, compute in (("max", np.maximum), ("min", np.minimum)):
            stores.append(f"    O[{len(stores)}, i] = T.fabs(T.{name}({one}, {other}))".format("float32"))
            expected.append(np.abs(compute(x, y)))
    column = ((len(a),), "float32")
    parameters = {"A": column, "B": column, "O": ((len(stores), len(a)), "float32")}
    found = np.zeros((len(stores), len(a)), "float32")
    holds(
        script(parameters, f"for i in {loop}({len(a)}):", *stores),
        [a, b, found],
        {2: np.stack(expected)},
        True,
    )


@pytest.mark.meaning("minmax-zero", "zero-sign")
@pytest.mark.parametrize("zeros", [np.zeros(64), -np.zeros(64), np.where(np.arange(64) % 3, 0.0, -0.0)])
def test_the_magnitude_of_a_reduced_extreme_has_no_sign(zeros: np.ndarray) -> None:
    cases = list(
        itertools.product(
            ["max", "min"],
            ["T.float32(-0.0)", "T.float32(0)", "A[0]"],
            ["T.fabs(A[vk])", "-T.fabs(A[vk])", "A[vk]"],
        )
    )
    lines = [f'P = T.alloc_buffer(({len(cases)},), "float32")']
    for place, (name, start, term) in enumerate(cases):
        lines += f"""
for k in range(64):
    with T.block("extreme{place}"):
        vk = T.axis.reduce(64, k)
        with T.init():
            P[{place}] = {start}
        P[{place}] = T.{name}(P[{place}], {term})
B[{place}] = T.fabs(P[{place}])""".strip().splitlines()
    program = script({"A": ((64,), "float32"), "B": ((len(cases),), "float32")}, *lines)
    expected = np.zeros(len(cases), "float32")
    holds(program, [zeros.astype("float32"), np.ones(len(cases), "float32")], {1: expected}, True)


@pytest.mark.meaning("minmax-nan")
def test_minimum_and_maximum_of_bfloat16() -> None:
    a, b = columns("float32")
    narrow_a, narrow_b = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    inputs = {"A": (narrow_a, "bfloat16"), "B": (narrow_b, "bfloat16")}
    wide_a, wide_b = narrow_a.astype("float32"), narrow_b.astype("float32")
    law("T.min(A[i], B[i])", inputs, np.minimum(wide_a, wide_b), "bfloat16", signs=False)
    law("T.max(A[i], B[i])", inputs, np.maximum(wide_a, wide_b), "bfloat16", signs=False)


@pytest.mark.meaning("zero-sign")
@pytest.mark.parametrize("dtype", _FLOATS)
def test_zeros_and_nan_are_computed(dtype: str) -> None:
    a, _ = columns(dtype)
    inputs = {"A": (a, dtype)}
    zero = np.zeros(1, dtype)
    with np.errstate(all="ignore"):
        law(f"A[i] + T.{dtype}(0)", inputs, a + zero, dtype)
        law(f"A[i] * T.{dtype}(0)", inputs, a * zero, dtype)
        law(f"T.{dtype}(0) - A[i]", inputs, zero - a, dtype)
        law("A[i] - A[i]", inputs, a - a, dtype)
        law("A[i] / A[i]", inputs, a / a, dtype)
        law(f"A[i] - T.{dtype}(0)", inputs, a, dtype)
        law(f"A[i] * T.{dtype}(-1)", inputs, -a, dtype)


@pytest.mark.meaning("float-order")
@pytest.mark.parametrize("dtype", _FLOATS)
def test_sums_are_not_reassociated(dtype: str) -> None:
    large = 2.0**30 if dtype == "float32" else 2.0**60
    a = np.array([large, -large, 1.0, 0.1], dtype)
    b = np.array([-large, large, large, 0.2], dtype)
    c = np.array([1.0, 1.0, -large, 0.3], dtype)
    inputs = {"A": (a, dtype), "B": (b, dtype), "C": (c, dtype)}
    law("A[i] + B[i] + C[i]", inputs, (a + b) + c, dtype)
    law("A[i] + (B[i] + C[i])", inputs, a + (b + c), dtype)
    law(
        f"A[i] + T.{dtype}({large}) + T.{dtype}({-large})",
        inputs,
        (a + a.dtype.type(large)) - a.dtype.type(large),
        dtype,
    )
    law(f"A[i] * T.{dtype}(0.1) * T.{dtype}(0.3)", inputs, a * a.dtype.type(0.1) * a.dtype.type(0.3), dtype)


@pytest.mark.meaning("contract")
@pytest.mark.parametrize("kind", ["value", "integer", "comparison", "floor", "exponential"])
def test_where_a_product_and_a_sum_may_be_rounded_once(kind: str) -> None:
    """The sum is zero with two roundings, and what the first one cut off with one."""
    rng = np.random.default_rng(0)
    a = (1 + rng.random(64)).astype("float32")
    b = (1 + rng.random(64)).astype("float32")
    c = -(a * b)
    once = (a.astype("float64") * b + c).astype("float32")
    assert (once != 0).any()
    inputs = {"A": (a, "float32"), "B": (b, "float32"), "C": (c, "float32")}
    if kind == "value":
        main = script(
            {**{name: ((64,), "float32") for name in "ABCO"}},
            "for i in T.vectorized(64):",
            "    O[i] = A[i] * B[i] + C[i]",
        )
        for _, execute in executors(main):
            out = np.ones(64, "float32")
            execute(a, b, c, out)
            assert np.all((out == 0) | (out == once))
    elif kind == "integer":
        scaled = 'T.Cast("int32", (A[i] * B[i] + C[i]) * T.float32(1e12))'
        law(scaled, inputs, np.zeros(64), "int32")
    elif kind == "comparison":
        law("A[i] * B[i] + C[i] == T.float32(0)", inputs, np.ones(64), "bool")
        law("A[i] * B[i] + C[i] < T.float32(0)", inputs, np.zeros(64), "bool")
    elif kind == "exponential":
        large = {**inputs, "A": (a * np.float32(1e12), "float32"), "C": (a * np.float32(1e12) * b, "float32")}
        law("T.exp(A[i] * B[i] - C[i])", large, np.ones(64), "float32")
    else:
        law("T.floor(A[i] * B[i] + C[i])", inputs, np.zeros(64), "float32")
        law("T.ceil(A[i] * B[i] + C[i])", inputs, np.zeros(64), "float32", signs=False)


@pytest.mark.meaning("half-carry")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_floats_may_be_carried_in_float32(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else "float16")
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-4, 4, 64).astype(kind) for _ in range(3))
    wide = [x.astype("float64") for x in (a, b, c)]
    carried = (wide[0] * wide[1] + wide[2]).astype("float32").astype(kind)
    rounded = ((a * b).astype(kind) + c).astype(kind)
    main = script(
        {name: ((64,), dtype) for name in "ABCO"},
        "for i in T.vectorized(64):",
        "    O[i] = A[i] * B[i] + C[i]",
    )
    for name, execute in executors(main):
        out = np.zeros(64, kind)
        execute(a, b, c, out)
        assert np.all((out == carried) | (out == rounded)), name


@pytest.mark.meaning("half-carry")
def test_one_operation_on_half_floats_is_rounded_once() -> None:
    a, b = columns("float16")
    with np.errstate(all="ignore"):
        law("A[i] + B[i]", {"A": (a, "float16"), "B": (b, "float16")}, a + b, "float16")
        law("A[i] * B[i]", {"A": (a, "float16"), "B": (b, "float16")}, a * b, "float16")


@pytest.mark.meaning("float-function")
@pytest.mark.parametrize("dtype", _FLOATS)
@pytest.mark.parametrize(
    "name", ["exp", "log", "sin", "cos", "tanh", "sqrt", "exp2", "log2", "log1p", "expm1", "atan"]
)
def test_functions_are_within_four_units(name: str, dtype: str) -> None:
    values = np.concatenate([np.linspace(-20, 20, 200), np.logspace(-6, 3, 50), [0.0, 1.0]]).astype(dtype)
    compute = {"atan": np.arctan}.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        exact = compute(values.astype("longdouble"))
    main = script(
        {"A": (values.shape, dtype), "O": (values.shape, dtype)},
        f"for i in T.vectorized({len(values)}):",
        f"    O[i] = T.{name}(A[i])",
    )
    for way, execute in executors(main):
        out = np.zeros_like(values)
        execute(values, out)
        assert np.array_equal(np.isnan(out), np.isnan(exact)), way
        numbers = np.isfinite(exact) & (np.abs(exact) < np.finfo(dtype).max)
        unit = np.spacing(np.abs(exact[numbers]).astype(dtype)).astype("longdouble")
        error = np.abs(out[numbers].astype("longdouble") - exact[numbers]) / unit
        assert error.max() <= 4, (way, values[numbers][np.argmax(error)], error.max())


@pytest.mark.meaning("float-function")
@pytest.mark.parametrize("dtype", _FLOATS)
def test_functions_of_edges(dtype: str) -> None:
    edges = np.array([0.0, -0.0, math.inf, -math.inf, math.nan], dtype)
    inf, nan = math.inf, math.nan
    table = {
        "exp": [1, 1, inf, 0, nan],
        "exp2": [1, 1, inf, 0, nan],
        "exp10": [1, 1, inf, 0, nan],
        "expm1": [0.0, -0.0, inf, -1, nan],
        "log": [-inf, -inf, inf, nan, nan],
        "log2": [-inf, -inf, inf, nan, nan],
        "log10": [-inf, -inf, inf, nan, nan],
        "log1p": [0.0, -0.0, inf, nan, nan],
        "sqrt": [0.0, -0.0, inf, nan, nan],
        "rsqrt": [inf, -inf, 0, nan, nan],
        "tanh": [0.0, -0.0, 1, -1, nan],
        "sinh": [0.0, -0.0, inf, -inf, nan],
        "cosh": [1, 1, inf, inf, nan],
        "sin": [0.0, -0.0, nan, nan, nan],
        "cos": [1, 1, nan, nan, nan],
        "tan": [0.0, -0.0, nan, nan, nan],
        "asin": [0.0, -0.0, nan, nan, nan],
        "asinh": [0.0, -0.0, inf, -inf, nan],
        "acosh": [nan, nan, inf, nan, nan],
        "atanh": [0.0, -0.0, nan, nan, nan],
        "erf": [0.0, -0.0, 1, -1, nan],
        "erfc": [1, 1, 0, 2, nan],
        "sigmoid": [0.5, 0.5, 1, 0, nan],
        "floor": [0.0, -0.0, inf, -inf, nan],
        "ceil": [0.0, -0.0, inf, -inf, nan],
        "trunc": [0.0, -0.0, inf, -inf, nan],
        "round": [0.0, -0.0, inf, -inf, nan],
        "nearbyint": [0.0, -0.0, inf, -inf, nan],
        "fabs": [0.0, 0.0, inf, inf, nan],
    }
    for name, expected in table.items():
        law(f"T.{name}(A[i])", {"A": (edges, dtype)}, expected, dtype)


def _libm(name: str, x: float, y: float) -> float:
    function = getattr(ctypes.CDLL(ctypes.util.find_library("m")), name)
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double] * 2
    return float(function(x, y))


@pytest.mark.meaning("float-function")
@pytest.mark.parametrize("dtype", ["float16", *_FLOATS])
@pytest.mark.parametrize("name", ["pow", "atan2", "fmod", "hypot", "copysign"])
def test_functions_of_two_edges(name: str, dtype: str) -> None:
    """As C's library, for all pairs: these results are exact, or one of a few irrational numbers."""
    inf = math.inf
    some = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, inf, -inf, math.nan]
    x, y = (np.array(values, dtype) for values in zip(*itertools.product(some, some)))
    expected = np.array([_libm(name, a, b) for a, b in zip(x.tolist(), y.tolist())])
    main = script(
        {"A": (x.shape, dtype), "B": (x.shape, dtype), "O": (x.shape, dtype)},
        f"for i in range({len(x)}):",
        f"    O[i] = T.{name}(A[i], B[i])",
    )
    for way, execute in executors(main):
        out = np.zeros_like(x)
        execute(x, y, out)
        found = out.astype("float64")
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps, err_msg=way)
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known], way)
        zero = expected == 0
        assert not found[zero].any(), way


@pytest.mark.meaning("float-function")
def test_halves_are_rounded_away_from_zero() -> None:
    """Also just below a half, and where all numbers are whole."""
    values = [
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.49999999999999994,
        -0.49999999999999994,
        2.0**52 + 1,
        -(2.0**52) - 1,
        0.2,
        -0.0,
        math.inf,
    ]
    expected = [1, -1, 2, 3, -3, 0.0, -0.0, 2.0**52 + 1, -(2.0**52) - 1, 0.0, -0.0, math.inf]
    law("T.round(A[i])", {"A": (values, "float64")}, expected, "float64")
    single = [0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 2.0**23 + 1, 0.2, -0.0, math.nan]
    law(
        "T.round(A[i])",
        {"A": (single, "float32")},
        [1, -1, 2, 3, -3, 0.0, -0.0, 2.0**23 + 1, 0.0, -0.0, math.nan],
        "float32",
    )


@pytest.mark.meaning("float-function")
def test_the_next_float16() -> None:
    a = np.array([1.0, 0.0, -0.0, 65504, 1.0, np.nan, -1.0], "float16")
    b = np.array([2.0, 1.0, -1.0, np.inf, 1.0, 0.0, -2.0], "float16")
    law("T.nextafter(A[i], B[i])", {"A": (a, "float16"), "B": (b, "float16")}, np.nextafter(a, b), "float16")


def test_undefined_values_of_integers_are_no_floats() -> None:
    """The helper itself: what it refuses, it refuses by rule."""
    undefined("A[i] // B[i]", {"A": ([1], "int32"), "B": ([0], "int32")}, "int32", "div-zero")


_LOOPS = ["range", "T.parallel", "T.unroll", "T.vectorized"]


@pytest.mark.meaning("float-order", "reduce-order")
@pytest.mark.parametrize("loop", _LOOPS)
@pytest.mark.parametrize("dtype", ["float16", *_FLOATS])
def test_factors_that_are_stored_one_by_one_are_not_multiplied_first(dtype: str, loop: str) -> None:
    """In a block without reduction variables, without a block, and by a variable: what overflows stays infinite."""
    large = {"float16": 6e4, "float32": 1e30, "float64": 1e300}[dtype]
    small = {"float16": 1e-4, "float32": 1e-30, "float64": 1e-300}[dtype]
    program = script(
        {name: ((16,), dtype) for name in "BCDE"},
        f"for i in {loop}(16):",
        '    with T.block("a"):',
        "        v = T.axis.spatial(16, i)",
        f"        C[v] = B[v] * T.{dtype}({large})",
        f"        C[v] = C[v] * T.{dtype}({small})",
        f"for i in {loop}(16):",
        f"    D[i] = B[i] * T.{dtype}({large})",
        f"    D[i] = T.{dtype}({small}) * D[i]",
        f"for i in {loop}(16):",
        f"    E[i] = B[i] * T.{dtype}({large})",
        f"    x = E[i] * T.{dtype}({small})",
        "    E[i] = x",
    )
    b = np.full(16, 100, dtype)
    b = b if dtype == "float16" else b * np.array(large, dtype)
    with np.errstate(over="ignore"):
        expected = b * np.array(large, dtype) * np.array(small, dtype)
    assert np.isinf(expected).all()
    out = np.zeros(16, dtype)
    holds(program, [b, out, out, out], {1: expected, 2: expected, 3: expected})


@pytest.mark.meaning("float-order", "reduce-order")
@pytest.mark.parametrize("operation", ["+", "*"])
@pytest.mark.parametrize("dtype", _FLOATS)
def test_a_loop_that_sums_without_a_reduction_variable_keeps_its_order(dtype: str, operation: str) -> None:
    """One after the other, in every form that a step can have."""
    program = script(
        {"B": ((1024,), dtype), "C": ((8,), dtype)},
        "for i in range(1024):",
        f"    C[0] = C[0] {operation} B[i]",
        "for i in range(1024):",
        f"    C[1] = B[i] {operation} C[1]",
        "for i in range(1024):",
        f"    x = C[2] {operation} B[i]",
        "    C[2] = x",
        "for i in range(1024):",
        f"    C[3] = T.if_then_else(i < 1024, C[3] {operation} B[i], B[i])",
        "for i, j in T.grid(64, 16):",
        f"    C[4] = C[4] {operation} B[i * 16 + j]",
        "for i in range(64):",
        "    for j in T.unroll(16):",
        f"        C[5] = C[5] {operation} B[i * 16 + j]",
        "for i in range(1024):",
        '    with T.block("opaque"):',
        "        v = T.axis.opaque(1024, i)",
        f"        C[6] = C[6] {operation} B[v]",
        "for i in range(1024):",
        '    with T.block("view"):',
        "        v = T.axis.opaque(1024, i)",
        "        T.reads(B[v], C[7])",
        "        T.writes(C[7])",
        f'        V = T.match_buffer(C[7:8], (1,), "{dtype}")',
        f"        C[7] = V[0] {operation} B[v]",
    )
    large = 1e8 if dtype == "float32" else 1e17
    if operation == "+":
        b = np.array([large, 1, -large, 1] * 256, dtype)
        expected, start = np.cumsum(b)[-1], 0
        assert expected == 1
    else:
        b = np.array([3.0, 1 / 3, 1.7, 1 / 1.7] * 256, dtype)
        expected, start = np.cumprod(b)[-1], 1
    holds(program, [b, np.full(8, start, dtype)], {1: np.full(8, expected, dtype)})
