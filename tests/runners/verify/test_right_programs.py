"""Programs that the check must accept, since they are the reference's own: errors that overflow, vanish, or lead a function astray."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import topi
from runners.native import build_native

from .conftest import te_program, verdict
from .test_rare_inputs import elementwise, program


def is_accepted(reference_of: Any, original: Any, candidate: Any) -> bool:
    return verdict(reference_of(original), build_native(candidate, "llvm")) is None


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "value",
    [
        "T.sin(A[i] * B[i])",
        "T.cos(A[i] + B[i])",
        "T.tan(A[i] * B[i])",
        "T.truncmod(A[i] * B[i], T.{dtype}(3))",
        "T.floormod(A[i] + B[i], T.{dtype}(1))",
        "T.fmod(A[i] * B[i], T.{dtype}(3))",
        "A[i] / B[i] * B[i]",
        "T.exp(A[i]) * B[i]",
        "T.exp(A[i]) / B[i]",
    ],
)
def test_an_error_on_the_way(reference_of: Any, dtype: str, value: str) -> None:
    params = ", ".join(f'{name}: T.Buffer((N,), "{dtype}")' for name in "ABC")
    original = elementwise(params, 1000, value.format(dtype=dtype))
    assert is_accepted(reference_of, original, original)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "value",
    [
        "T.isinf(A[i] * B[i])",
        "T.isfinite(T.exp(A[i]))",
        "T.isnan(A[i] * A[i] - B[i] * B[i])",
        "T.isinf(T.Cast('float16', A[i] * B[i]))",
    ],
)
def test_a_question_for_what_may_have_overflowed(reference_of: Any, dtype: str, value: str) -> None:
    params = ", ".join(f'{name}: T.Buffer((N,), "{dtype}")' for name in "ABC")
    chosen = f"T.Select({value}, T.{dtype}(1), T.{dtype}(0))"
    original = elementwise(params, 1000, chosen)
    assert is_accepted(reference_of, original, original)


@pytest.mark.parametrize(
    "value", ["T.round_to_tf32(A[i])", "T.round_to_tf32(A[i] * B[i])", "T.round_to_tf32(A[i]) * B[i]"]
)
def test_bits_that_are_rounded_away(reference_of: Any, value: str) -> None:
    params = ", ".join(f'{name}: T.Buffer((N,), "float32")' for name in "ABC")
    original = elementwise(params, 1000, value)
    assert is_accepted(reference_of, original, original)


@pytest.mark.parametrize("other", ["A[i]", "T.round_to_tf32(A[i] * T.float32(1.0001))"])
def test_what_is_not_rounded_or_of_another_number_is_refused(reference_of: Any, other: str) -> None:
    params = ", ".join(f'{name}: T.Buffer((N,), "float32")' for name in "AC")
    original, wrong = (elementwise(params, 1000, value) for value in ("T.round_to_tf32(A[i])", other))
    assert not is_accepted(reference_of, original, wrong)


def test_a_sine_of_a_long_sum(reference_of: Any) -> None:
    body = """
S = T.alloc_buffer((64,), "float32")
for i, k in T.grid(64, 100):
    with T.block("S"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            S[vi] = T.float32(0)
        S[vi] = S[vi] + A[vi, vk]
for i in range(64):
    with T.block("C"):
        vi = T.axis.spatial(64, i)
        C[vi] = T.sin(S[vi])"""
    original = program('A: T.Buffer((64, 100), "float32"), C: T.Buffer((64,), "float32")', body)
    assert is_accepted(reference_of, original, original)


def test_what_has_no_infinity_becomes_nan(reference_of: Any) -> None:
    params = ", ".join(f'{name}: T.Buffer((N,), "float32")' for name in "ABC")
    original = elementwise(params, 1000, 'T.Cast("float32", T.Cast("float8_e4m3fn", A[i] * B[i]))')
    assert is_accepted(reference_of, original, original)


@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float6_e2m3fn", "float4_e2m1fn", "float8_e8m0fnu"]
)
@pytest.mark.parametrize(
    "value",
    [
        "A[i] / B[i]",
        "A[i] / B[i] + A[i]",
        "T.log(A[i])",
        "T.max(A[i] / B[i], B[i]) * A[i]",
        "A[i] * A[i] - B[i] * B[i]",
        "T.floor(A[i] * B[i])",
        "T.Cast('{dtype}', A[i] > B[i])",
    ],
)
def test_what_is_computed_without_infinities(reference_of: Any, dtype: str, value: str) -> None:
    params = ", ".join(f'{name}: T.Buffer((N,), "{dtype}")' for name in "ABC")
    original = elementwise(params, 1000, value.format(dtype=dtype))
    assert is_accepted(reference_of, original, original)


def test_float64_overflows_in_the_reference_too(reference_of: Any) -> None:
    params = ", ".join(f'{name}: T.Buffer((N,), "float64")' for name in "ABC")
    original = elementwise(params, 1000, "A[i] * A[i] - B[i] * B[i]")
    assert is_accepted(reference_of, original, original)


@pytest.mark.meaning("reduce-order")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("term", ["T.exp(A[i, {k}]) * B[{k}]", "T.exp(A[i, {k}] - B[{k}]) * B[{k}]"])
def test_a_sum_that_overflows_beside_an_infinite_term(reference_of: Any, dtype: str, term: str) -> None:
    """It is the infinity, or NaN where the others became the other infinity on the way: any order of the terms may do either."""

    def total(place: str) -> Any:
        body = f"""
for i in range(64):
    C[i] = T.{dtype}(0)
    for k in range(32):
        C[i] = C[i] + {term.format(k=place)}"""
        shapes = {"A": "(64, 32)", "B": "(32,)", "C": "(64,)"}
        return program(
            ", ".join(f'{name}: T.Buffer({shape}, "{dtype}")' for name, shape in shapes.items()), body
        )

    assert is_accepted(reference_of, total("k"), total("k"))
    assert is_accepted(reference_of, total("k"), total("31 - k"))


@pytest.mark.meaning("reduce-order")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_product_of_many_in_another_grouping(reference_of: Any, dtype: str) -> None:
    params = f'A: T.Buffer((6, 1024), "{dtype}"), C: T.Buffer((6,), "{dtype}")'
    whole = f"""
for i, k in T.grid(6, 1024):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = T.{dtype}(1)
        C[vi] = C[vi] * A[vi, vk]"""
    parts = f"""
P = T.alloc_buffer((6, 4), "{dtype}")
for i, q, k in T.grid(6, 4, 256):
    with T.block("P"):
        vi, vq, vk = T.axis.remap("SSR", [i, q, k])
        with T.init():
            P[vi, vq] = T.{dtype}(1)
        P[vi, vq] = P[vi, vq] * A[vi, vk * 4 + vq]
for i, q in T.grid(6, 4):
    with T.block("C"):
        vi, vq = T.axis.remap("SR", [i, q])
        with T.init():
            C[vi] = T.{dtype}(1)
        C[vi] = C[vi] * P[vi, vq]"""
    assert is_accepted(reference_of, program(params, whole), program(params, parts))


@pytest.mark.parametrize("shape", [(12, 40), (2, 8, 20)])
def test_a_variance_that_is_no_number_in_one_order_and_infinite_in_another(
    reference_of: Any, shape: tuple[int, ...]
) -> None:
    """``E[x * x] - mean * mean`` is inf - inf, and inf where the product is fused with the difference."""
    row = shape[-1:]
    original = te_program(
        lambda x, gamma, beta: topi.nn.layer_norm(x, gamma, beta, [len(shape) - 1]),
        (shape, "float64"),
        (row, "float64"),
        (row, "float64"),
    )
    assert is_accepted(reference_of, original, original)


def _greater(x: Any, y: Any) -> Any:
    return topi.greater(x * 0.3, topi.full_like(x, y))


DOUBTS = {
    "where": lambda x: topi.where(_greater(x, 0.1), x, topi.full_like(x, 0.0)),
    "as a float": lambda x: topi.cast(_greater(x, 0.1), "float32"),
    "counted": lambda x: topi.sum(topi.cast(_greater(x, 0.1), "int32"), axis=1),
    "the largest": lambda x: topi.max(topi.cast(_greater(x, 0.1), "int32"), axis=1),
    "and back": lambda x: topi.cast(topi.cast(_greater(x, 0.1), "int32"), "bool"),
    "any": lambda x: topi.any(_greater(x, 0.1), axis=1),
    "equal": lambda x: topi.equal(_greater(x, 0.1), _greater(x, 0.2)),
    "maximum": lambda x: topi.maximum(_greater(x, 0.1), _greater(x, 0.2)),
    "sorted": lambda x: topi.sort(_greater(x, 0.1)),
    "an index": lambda x: topi.take(
        x, topi.sum(topi.cast(_greater(x, 0.1), "int32"), axis=1), axis=1, mode="clip"
    ),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_conditions_that_may_turn_out_either_way(reference_of: Any, name: str) -> None:
    original = te_program(DOUBTS[name], ((12, 40), "float32"))
    assert is_accepted(reference_of, original, original)


def test_positions_that_differ_are_as_many_as_there_are(reference_of: Any) -> None:
    count = 300_000
    original = program(
        f'I: T.Buffer(({count},), "int32"), A: T.Buffer(({count},), "float32"), C: T.Buffer(({count},), "float32")',
        f"for i in range({count}):\n    C[I[i]] = A[i]",
    )
    reference = reference_of(original)
    for case in reference.cases[:2]:
        positions = reference.prepare(case).arrays[0]
        assert len(np.unique(positions)) == count


@pytest.mark.parametrize(
    "value",
    [
        "A[i] * T.float64(0.1) + B[i]",
        "B[i] - A[i] * T.float64(0.3)",
        "A[i] * T.float64(0.3) + B[i] * T.float64(0.7)",
        "(A[i] - T.float64(0.1)) + (B[i] - T.float64(0.2))",
    ],
)
def test_a_product_of_float64_and_a_constant_may_be_fused(reference_of: Any, value: str) -> None:
    original = elementwise(", ".join(f'{name}: T.Buffer((N,), "float64")' for name in "ABC"), 20000, value)
    assert is_accepted(reference_of, original, original)


@pytest.mark.parametrize(
    "value",
    [
        "T.exp2(A[i] - B[i])",
        "T.exp2(A[i] - B[i]) * T.float16(2)",
        "T.float16(1) / T.exp2(A[i] - B[i])",
    ],
)
def test_an_error_leads_beyond_the_largest_number(reference_of: Any, value: str) -> None:
    original = elementwise(", ".join(f'{name}: T.Buffer((N,), "float16")' for name in "ABC"), 20000, value)
    assert is_accepted(reference_of, original, original)


HALVES = ", ".join(f'{name}: T.Buffer((N,), "bfloat16")' for name in "ABD")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize(
    ("value", "source", "expected"),
    [
        ("T.Cast('{dtype}', {rounded})", "int64", lambda x: x),
        ("{rounded} + T.{dtype}(100)", None, lambda x: x + x.dtype.type(100)),
        ("{rounded} * T.{dtype}(3)", None, lambda x: x * x.dtype.type(3)),
        ("T.{dtype}(3) - {rounded}", None, lambda x: x.dtype.type(3) - x),
        ("T.abs({rounded} + T.{dtype}(100))", None, lambda x: np.abs(x + x.dtype.type(100))),
    ],
)
def test_integers_that_rounded_floats_decide_wrap(
    reference_of: Any, dtype: str, value: str, source: str | None, expected: Any
) -> None:
    """One below the least one is the largest one. The kernel rounds to bfloat16 after each operation, the reference does not."""
    source = source or dtype
    whole = f"T.Cast('{source}', T.round(A[i] * B[i] + D[i]))"
    text = value.format(dtype=dtype, rounded=whole)

    def call(a: Any, b: Any, d: Any, c: Any) -> None:
        with np.errstate(all="ignore"):
            numbers = np.round((a * b + d).astype(np.float64))
            c[...] = expected(np.array([saturated(item, source) for item in numbers], source)).astype(dtype)

    reference = reference_of(elementwise(f'{HALVES}, C: T.Buffer((N,), "{dtype}")', 3000, text))
    assert verdict(reference, call) is None


def saturated(value: float, dtype: str) -> int:
    info = np.iinfo(dtype)
    return 0 if value != value else int(max(min(value, info.max), info.min))


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32"])
def test_long_integers_that_rounded_floats_choose(reference_of: Any, dtype: str) -> None:
    """They are exact where the choice is certain, and where it is not either of them is right, to the last bit."""
    params = (
        f'{HALVES}, X: T.Buffer((N,), "{dtype}"), Y: T.Buffer((N,), "{dtype}"), C: T.Buffer((N,), "{dtype}")'
    )
    original = elementwise(params, 3000, "T.Select(A[i] * B[i] + D[i] >= T.bfloat16(0.5), X[i], Y[i])")

    def rounded(a: Any, b: Any, d: Any, x: Any, y: Any, c: Any) -> None:
        with np.errstate(all="ignore"):
            c[...] = np.where(a * b + d >= a.dtype.type(0.5), x, y)

    reference = reference_of(original)
    assert verdict(reference, rounded) is None
    assert verdict(reference, build_native(original, "llvm")) is None


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits_of_truths_that_rounded_floats_decide(reference_of: Any, name: str) -> None:
    params = ", ".join(f'{name}: T.Buffer((N,), "float32")' for name in "ABC")
    chosen = f"T.{name}(A[i] * B[i] > T.float32(0.3), A[i] + B[i] > T.float32(0.3))"
    original = elementwise(params, 1000, f"T.Select({chosen}, A[i], B[i])")
    assert is_accepted(reference_of, original, original)


@pytest.mark.parametrize("has_other_side", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "int32", "bool"])
def test_what_is_stored_where_rounded_floats_say(reference_of: Any, dtype: str, has_other_side: bool) -> None:
    """Whether it was stored in the reference or not."""
    other = f"C[i] = T.{dtype}(0)"
    body = f"""
for i in range(4000):
    {"pass" if has_other_side else other}
    if A[i] * B[i] + D[i] >= T.bfloat16(0.5):
        C[i] = T.{dtype}(1)
    {f"else: {other}" if has_other_side else "pass"}"""
    original = program(HALVES.replace("N", "4000") + f', C: T.Buffer((4000,), "{dtype}")', body)

    def call(carried: Any, factor: int = 1) -> Any:
        def run(a: Any, b: Any, d: Any, c: Any) -> None:
            kind = a.dtype if carried is None else carried
            with np.errstate(all="ignore"):
                c[...] = (a.astype(kind) * b.astype(kind) + d.astype(kind)) * kind.type(factor) >= kind.type(
                    0.5
                )

        return run

    reference = reference_of(original)
    assert verdict(reference, call(np.dtype("float32"))) is None
    assert verdict(reference, call(None)) is None
    assert verdict(reference, call(None, 2)) is not None
    assert verdict(reference, build_native(original, "llvm")) is None


def test_sums_behind_a_choice_that_may_turn_out_either_way(reference_of: Any) -> None:
    body = """
for i in range(4000):
    C[i] = D[i]
    if A[i] * B[i] + D[i] >= T.bfloat16(0.5):
        for k in range(3):
            C[i] = C[i] + A[i]
    else:
        if A[i] + B[i] > T.bfloat16(0.2):
            C[i] = A[i]"""
    original = program(HALVES.replace("N", "4000") + ', C: T.Buffer((4000,), "bfloat16")', body)

    def call(share: float) -> Any:
        def run(a: Any, b: Any, d: Any, c: Any) -> None:
            with np.errstate(all="ignore"):
                kind = a.dtype.type
                c[...] = np.where(a * b + d >= kind(0.5), d + a + a + a, np.where(a + b > kind(share), a, d))

        return run

    reference = reference_of(original)
    assert verdict(reference, call(0.2)) is None
    assert verdict(reference, call(0.3)) is not None


def test_a_small_number_that_may_stand_in_place_of_a_large_one(reference_of: Any) -> None:
    """Their distance is rounded where the small one is far below the large one."""
    params = ", ".join(f'{name}: T.Buffer((N,), "float32")' for name in "ABC")
    original = elementwise(params, 5000, "T.Select(A[i] + B[i] > T.float32(0.3), A[i], B[i])")

    def call(a: Any, b: Any, c: Any) -> None:
        with np.errstate(all="ignore"):
            c[...] = np.where(a + b > np.float32(0.3), a, b)

    assert verdict(reference_of(original), call) is None


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("bfloat16", "T.pow(A[i] * B[i] - D[i], T.bfloat16(-2))"),
        ("float32", "T.pow(A[i] + B[i] - D[i], T.float32(-1))"),
        ("float16", "T.pow(A[i] + B[i] - D[i], T.float16(-1))"),
    ],
)
def test_a_pole_between_the_ends_of_an_interval(reference_of: Any, dtype: str, value: str) -> None:
    params = ", ".join(f'{name}: T.Buffer((N,), "{dtype}")' for name in "ABDC")
    original = elementwise(params, 3000, value)
    assert is_accepted(reference_of, original, original)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("power", ["P[i]", "T.Cast('int32', T.round(A[i] * B[i] + D[i]))"])
def test_powers_of_two_far_beyond_the_type(reference_of: Any, dtype: str, power: str) -> None:
    floats = ", ".join(f'{name}: T.Buffer((3000,), "{dtype}")' for name in "ABDC")
    params = f'P: T.Buffer((3000,), "int32"), {floats}'
    original = elementwise(params, 3000, f"T.ldexp(A[i], {power})")
    assert is_accepted(reference_of, original, original)


def test_an_angle_beside_a_full_turn(reference_of: Any) -> None:
    params = ", ".join(f'{name}: T.Buffer((N,), "float16")' for name in "ABDC")
    original = elementwise(params, 4000, "T.atan2(A[i] * B[i] + D[i], B[i] * D[i] - A[i])")
    assert is_accepted(reference_of, original, original)
