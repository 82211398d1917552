"""Kernels that are wrong on rare inputs only: the ends of a type, every exponent, rows of infinities, long loops, guards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import topi
from ir.script import from_source
from runners.native import build_native
from runners.verify import Reference, facts_of, inputs
from runners.verify.reference import kinds_for

from .conftest import te_program, verdict

FLOATS = 'A: T.Buffer((N,), "float32"), C: T.Buffer((N,), "float32")'
INTEGERS = 'A: T.Buffer((N,), "int32"), C: T.Buffer((N,), "int32")'


def program(params: str, body: str) -> Any:
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    return from_source(f"@I.ir_module\nclass Module:\n    @T.prim_func\n    def main({params}):\n{lines}\n")


def elementwise(params: str, count: int, value: str) -> Any:
    return program(params.replace("N", str(count)), f"for i in range({count}):\n    C[i] = {value}")


def row_maximum(
    columns: int, begin: str, combine: str = "T.max(M[vi], A[vi, vk])", dtype: str = "float32"
) -> Any:
    body = f"""
for i, k in T.grid(4, {columns}):
    with T.block("M"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            M[vi] = {begin}
        M[vi] = {combine}"""
    return program(f'A: T.Buffer((4, {columns}), "{dtype}"), M: T.Buffer((4,), "{dtype}")', body)


def accepted(reference_of: Callable[[Any], Reference], original: Any, candidate: Any) -> bool:
    """Whether the check accepts a candidate; it accepts the program itself."""
    reference = reference_of(original)
    assert verdict(reference, build_native(original, "llvm")) is None
    return verdict(reference, build_native(candidate, "llvm")) is None


@pytest.mark.parametrize("columns", [5, 300])
@pytest.mark.parametrize("begin", ["-3.4028234663852886e38", "-1e30", "-300"])
def test_a_maximum_that_starts_at_a_finite_number(reference_of: Any, columns: int, begin: str) -> None:
    right = row_maximum(columns, 'T.float32("-inf")')
    assert not accepted(reference_of, right, row_maximum(columns, f"T.float32({begin})"))


def test_a_maximum_of_integers_that_starts_at_a_common_number(reference_of: Any) -> None:
    right = row_maximum(300, 'T.min_value("int32")', dtype="int32")
    assert not accepted(reference_of, right, row_maximum(300, "-1000000000", dtype="int32"))


def test_a_maximum_that_drops_nan(reference_of: Any) -> None:
    right = row_maximum(300, 'T.float32("-inf")')
    drops = "T.if_then_else(A[vi, vk] > M[vi], A[vi, vk], M[vi])"
    assert not accepted(reference_of, right, row_maximum(300, 'T.float32("-inf")', drops))


@pytest.mark.parametrize(
    ("count", "value", "wrong"),
    [
        (
            1000,
            "A[i] * T.float32(2)",
            "T.if_then_else(A[i] > T.float32(100) and A[i] < T.float32(1e30), T.float32(5), A[i] * T.float32(2))",
        ),
        (1000, "T.exp(A[i])", "T.exp(T.min(A[i], T.float32(60)))"),
        (1000, "A[i] * T.float32(1)", "T.if_then_else(T.fabs(A[i]) < T.float32(1e-38), T.float32(0), A[i])"),
        (
            20,
            "T.max(A[i], T.float32(0))",
            "T.if_then_else(A[i] < T.float32(-1e30), A[i], T.max(A[i], T.float32(0)))",
        ),
    ],
)
def test_floats_that_are_large_small_or_infinite(
    reference_of: Any, count: int, value: str, wrong: str
) -> None:
    right = elementwise(FLOATS, count, value)
    assert not accepted(reference_of, right, elementwise(FLOATS, count, wrong))


def test_digits_of_float64(reference_of: Any) -> None:
    params = FLOATS.replace("float32", "float64")
    right = elementwise(params, 100, "A[i] * T.float64(2)")
    wrong = elementwise(params, 100, 'T.Cast("float64", T.Cast("float32", A[i])) * T.float64(2)')
    assert not accepted(reference_of, right, wrong)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        (
            "T.if_then_else(A[i] < 0, 0 - A[i], A[i])",
            'T.if_then_else(A[i] == T.min_value("int32"), 5, T.if_then_else(A[i] < 0, 0 - A[i], A[i]))',
        ),
        ("A[i] + 1", 'T.if_then_else(A[i] == T.max_value("int32"), 5, A[i] + 1)'),
        ("A[i] * 3", 'T.Cast("int32", T.Cast("float32", A[i]) * T.float32(3))'),
        ("A[i] // 7", "T.if_then_else(A[i] == 0, 1, A[i] // 7)"),
        ("T.if_then_else(A[i] != 0, 100 // A[i], -1)", "100 // T.max(A[i], 1)"),
        ("T.if_then_else(A[i] >= 0 and A[i] < 32, T.shift_left(1, A[i]), 0)", "T.shift_left(1, A[i] & 31)"),
    ],
)
def test_integers_at_their_ends_and_behind_guards(reference_of: Any, value: str, wrong: str) -> None:
    right = elementwise(INTEGERS, 1000, value)
    assert not accepted(reference_of, right, elementwise(INTEGERS, 1000, wrong))


@pytest.mark.parametrize("wrong", ["S[i] + A[i, 0]", "S[i] + T.if_then_else(j < 15, A[i, j], T.float32(0))"])
def test_loops_that_are_as_long_as_an_input_says(reference_of: Any, wrong: str) -> None:
    params = 'L: T.Buffer((40,), "int32"), A: T.Buffer((40, 16), "float32"), S: T.Buffer((40,), "float32")'
    body = "for i in range(40):\n    S[i] = T.float32(0)\n    for j in range(L[i]):\n        S[i] = "
    assert not accepted(reference_of, program(params, body + "S[i] + A[i, j]"), program(params, body + wrong))


def test_ties_of_roundings(reference_of: Any) -> None:
    right, wrong = (
        elementwise(FLOATS, 1000, value) for value in ("T.nearbyint(A[i])", "T.floor(A[i] + T.float32(0.5))")
    )
    assert not accepted(reference_of, right, wrong)


def test_a_sum_into_positions_that_stand_twice(reference_of: Any) -> None:
    params = 'I: T.Buffer((8,), "int32"), A: T.Buffer((8,), "float32"), H: T.Buffer((100,), "float32")'
    body = "for i in range(100):\n    H[i] = T.float32(0)\nfor i in range(8):\n    H[I[i]] = "
    assert not accepted(
        reference_of, program(params, body + "H[I[i]] + A[i]"), program(params, body + "A[i]")
    )


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("j < A[0, i]", "j < T.min(A[0, i], 60)"), ("A[0, i] == j", "T.min(A[0, i], 60) == j")],
)
def test_integers_that_are_compared_with_positions(reference_of: Any, right: str, wrong: str) -> None:
    params = 'A: T.Buffer((1, 64), "int32"), C: T.Buffer((64, 64), "int32")'
    body = "for i, j in T.grid(64, 64):\n    C[i, j] = T.Cast('int32', {})"
    assert not accepted(
        reference_of, program(params, body.format(right)), program(params, body.format(wrong))
    )


def in_place(value: str, dtype: str = "float32", body: str = "for i in range(64):\n    A[i] = ") -> Any:
    return program(f'A: T.Buffer((64,), "{dtype}"), B: T.Buffer((64,), "{dtype}")', body + value)


@pytest.mark.parametrize(
    ("value", "wrong", "dtype"),
    [
        ("T.max(A[i], T.float32(0))", "A[i]", "float32"),
        ("T.sigmoid(A[i])", "T.tanh(A[i])", "float32"),
        ("A[i] + B[i]", "A[i] - B[i]", "int32"),
        ("A[i] + B[i]", "A[i]", "float16"),
        ("A[i] * T.float32(2) + B[i]", "A[i] * T.float32(3)", "float32"),
    ],
)
def test_what_is_updated_in_place_has_values_to_begin_with(
    reference_of: Any, value: str, wrong: str, dtype: str
) -> None:
    assert not accepted(reference_of, in_place(value, dtype), in_place(wrong, dtype))


def test_what_is_reversed_in_place(reference_of: Any) -> None:
    body = "for i in range(32):\n    A[i] = "
    assert not accepted(reference_of, in_place("A[63 - i]", body=body), in_place("A[i + 32]", body=body))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_rounding_of_what_was_there_is_part_of_a_sum_in_place(reference_of: Any, dtype: str) -> None:
    right, other = in_place("A[i] + B[i]", dtype), in_place("B[i] + A[i]", dtype)
    assert accepted(reference_of, right, other)
    product = """
for i, k in T.grid(64, 64):
    with T.block("s"):
        vi, vk = T.axis.remap("SR", [i, k])
        A[vi] = A[vi] + {}"""
    right, other = (
        in_place("", dtype, product.format(term)) for term in ("B[vk] * B[63 - vk]", "B[63 - vk] * B[vk]")
    )
    assert accepted(reference_of, right, other)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_few_integers_have_zeros_and_meet(reference_of: Any, kind: str) -> None:
    params = f'A: T.Buffer((4,), "{kind}"), B: T.Buffer((4,), "{kind}"), C: T.Buffer((4,), "bool"), D: T.Buffer((4,), "bool")'
    body = "for i in range(4):\n    C[i] = {}\n    D[i] = {}"
    right = program(params, body.format("A[i] == B[i]", "A[i] != 0"))
    assert not accepted(reference_of, right, program(params, body.format("False", "A[i] != 0")))
    assert not accepted(reference_of, right, program(params, body.format("A[i] == B[i]", "True")))


def test_tensors_without_elements(reference_of: Any) -> None:
    for dtype in ("float32", "int32"):
        mod = program(
            f'A: T.Buffer((0, 4), "{dtype}"), C: T.Buffer((0, 4), "{dtype}")',
            f"for i, j in T.grid(0, 4):\n    C[i, j] = T.max(A[i, j], T.{dtype}(0))",
        )
        assert accepted(reference_of, mod, mod)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("count", [16, 1000])
def test_a_product_that_saturates_where_both_factors_are_extreme(
    reference_of: Any, dtype: str, count: int
) -> None:
    """Wrong for one pair of numbers only: the smallest of a signed type, the largest of an unsigned one."""
    last = {"int8": 2**14, "uint8": 255**2, "int16": 2**30}[dtype] - 1
    params = f'A: T.Buffer((N,), "{dtype}"), B: T.Buffer((N,), "{dtype}"), C: T.Buffer((N,), "int32")'
    product = 'T.Cast("int32", A[i]) * T.Cast("int32", B[i])'
    right = elementwise(params, count, product)
    assert not accepted(reference_of, right, elementwise(params, count, f"T.min({product}, {last})"))


@pytest.mark.parametrize("rows", [2, 12])
def test_a_product_of_matrices_that_saturates(reference_of: Any, rows: int) -> None:
    def product(term: str) -> Any:
        body = f"""
for i, j, k in T.grid({rows}, {rows}, 300):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = 0
        C[vi, vj] = C[vi, vj] + {term}"""
        return program(
            f'A: T.Buffer(({rows}, 300), "int8"), B: T.Buffer((300, {rows}), "int8"), C: T.Buffer(({rows}, {rows}), "int32")',
            body,
        )

    term = 'T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk, vj])'
    assert not accepted(reference_of, product(term), product(f"T.min({term}, 16383)"))


@pytest.mark.parametrize("rows", [8, 32])
@pytest.mark.parametrize(
    "narrow", ["T.max(T.min({}, 32767), -32768)", 'T.Cast("int32", T.Cast("int16", {}))']
)
def test_pairs_of_products_that_are_summed_in_sixteen_bits(reference_of: Any, rows: int, narrow: str) -> None:
    """Two products of the lowest numbers, side by side, are one too many."""
    pair = " + ".join(
        f'T.Cast("int32", A[i, 2 * k + {n}]) * T.Cast("int32", B[j, 2 * k + {n}])' for n in (0, 1)
    )
    params = f'A: T.Buffer(({rows}, 64), "int8"), B: T.Buffer(({rows}, 64), "int8"), C: T.Buffer(({rows}, {rows}), "int32")'
    body = f"for i, j in T.grid({rows}, {rows}):\n    C[i, j] = 0\n    for k in range(32):\n        C[i, j] = C[i, j] + {{}}"
    right, wrong = (program(params, body.format(value)) for value in (pair, narrow.format(pair)))
    assert not accepted(reference_of, right, wrong)


@pytest.mark.parametrize("first", ["A", "K"])
@pytest.mark.parametrize(
    "wrong",
    [
        "T.max(K[0], -6)",
        "T.if_then_else(K[0] == 0, 5, K[0])",
        'T.if_then_else(K[0] == T.min_value("int32"), 0, K[0])',
    ],
)
def test_a_single_integer_has_several_values(reference_of: Any, first: str, wrong: str) -> None:
    named = {"A": 'A: T.Buffer((100,), "int32")', "K": 'K: T.Buffer((1,), "int32")'}
    params = ", ".join([named.pop(first), *named.values(), 'C: T.Buffer((100,), "int32")'])
    right, candidate = (elementwise(params, 100, f"A[i] * {value}") for value in ("K[0]", wrong))
    assert not accepted(reference_of, right, candidate)


@pytest.mark.meaning("float-div")
@pytest.mark.parametrize("divisor", [41, 47, 55])
def test_a_quotient_by_a_rounded_reciprocal(reference_of: Any, divisor: int) -> None:
    reciprocal = float(np.float32(1) / np.float32(divisor))
    right = elementwise(FLOATS, 1000, f"T.floor(A[i] / T.float32({divisor}))")
    assert not accepted(
        reference_of, right, elementwise(FLOATS, 1000, f"T.floor(A[i] * T.float32({reciprocal!r}))")
    )


@pytest.mark.parametrize(
    "begin, condition",
    [('T.float32("-inf")', "k < 32"), ("T.float32(-100)", "True"), ("T.float32(-1e4)", "True")],
)
def test_a_softmax_whose_maximum_is_too_small(reference_of: Any, begin: str, condition: str) -> None:
    """It overflows where the last number is far above the rest, or all are far below zero."""

    def softmax(begin: str, condition: str) -> Any:
        body = f"""
M = T.alloc_buffer((1,), "float32")
S = T.alloc_buffer((1,), "float32")
for i in range(4):
    M[0] = {begin}
    for k in range(33):
        if {condition}:
            M[0] = T.max(M[0], A[i, k])
    S[0] = T.float32(0)
    for k in range(33):
        S[0] = S[0] + T.exp(A[i, k] - M[0])
    for k in range(33):
        C[i, k] = T.exp(A[i, k] - M[0]) / S[0]"""
        return program('A: T.Buffer((4, 33), "float32"), C: T.Buffer((4, 33), "float32")', body)

    assert not accepted(reference_of, softmax('T.float32("-inf")', "True"), softmax(begin, condition))


@pytest.mark.parametrize(
    "params, right, wrong",
    [
        (INTEGERS, "T.if_then_else(A[i] == 12345, 100, A[i])", "A[i]"),
        (INTEGERS, "T.if_then_else(A[i] > 12345, 100, A[i])", "T.if_then_else(A[i] >= 12345, 100, A[i])"),
        (
            FLOATS,
            "T.if_then_else(A[i] > T.float32(0.1), T.float32(1), A[i])",
            "T.if_then_else(A[i] >= T.float32(0.1), T.float32(1), A[i])",
        ),
        (
            'K: T.Buffer((1,), "int32"), ' + FLOATS,
            "T.if_then_else(K[0] == 7, A[i] * T.float32(2), A[i])",
            "A[i]",
        ),
    ],
)
def test_numbers_that_the_program_compares_with_are_among_the_inputs(
    reference_of: Any, params: str, right: str, wrong: str
) -> None:
    assert not accepted(reference_of, elementwise(params, 1000, right), elementwise(params, 1000, wrong))


@pytest.mark.parametrize("shape", [(9, 40), (4, 1000), (128, 12), (40,)])
def test_an_argmax_that_finds_the_last_nan(reference_of: Any, shape: tuple[int, ...]) -> None:
    reference = reference_of(te_program(lambda x: topi.argmax(x, axis=-1), (shape, "float32")))

    def argmax(last: bool) -> Any:
        def call(x: Any, out: Any) -> None:
            missing = np.isnan(x)
            place = shape[-1] - 1 - np.argmax(missing[..., ::-1], -1) if last else np.argmax(missing, -1)
            out[...] = np.where(missing.any(-1), place, np.argmax(x, -1))

        return call

    assert verdict(reference, argmax(last=False)) is None
    assert verdict(reference, argmax(last=True)) is not None


@pytest.mark.parametrize(("count", "places", "lanes"), [(6400, 16, 4), (96, 100, 8), (256, 300, 2)])
def test_lanes_that_add_to_one_element(reference_of: Any, count: int, places: int, lanes: int) -> None:
    """Each reads the sum before any of them has written to it."""
    reference = reference_of(
        program(
            f'I: T.Buffer(({count},), "int32"), C: T.Buffer(({places},), "int32")',
            f"for i in range({places}):\n    C[i] = 0\nfor i in range({count}):\n    C[I[i]] = C[I[i]] + 1",
        )
    )

    def histogram(together: int) -> Any:
        def call(index: Any, counts: Any) -> None:
            counts[...] = 0
            for start in range(0, count, together):
                counts[index[start : start + together]] += 1

        return call

    assert verdict(reference, histogram(1)) is None
    assert verdict(reference, histogram(lanes)) is not None


@pytest.mark.parametrize("shape", [(9, 40), (4, 300), (2, 8, 20)])
@pytest.mark.parametrize("epsilon", [1e-3, 1e-5, 1e-8])
def test_a_constant_beside_the_root_of_a_variance(
    reference_of: Any, shape: tuple[int, ...], epsilon: float
) -> None:
    """Not under it: this shows where the variance is about as small."""
    weights = (shape[-1:], "float32")
    reference = reference_of(
        te_program(
            lambda x, gamma, beta: topi.nn.layer_norm(x, gamma, beta, [-1], epsilon),
            (shape, "float32"),
            weights,
            weights,
        )
    )

    def norm(root: Callable[[Any], Any]) -> Any:
        def call(x: Any, gamma: Any, beta: Any, out: Any) -> None:
            wide = x.astype("float64")
            with np.errstate(all="ignore"):
                away = wide - wide.mean(-1, keepdims=True)
                out[...] = away / root(wide.var(-1, keepdims=True)) * gamma + beta

        return call

    assert verdict(reference, norm(lambda variance: np.sqrt(variance + epsilon))) is None
    assert verdict(reference, norm(lambda variance: np.sqrt(variance) + epsilon)) is not None


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "bool"])
def test_a_minimum_that_reads_beyond_the_array(reference_of: Any, dtype: str) -> None:
    """What lies there may be less than every element, or more."""
    wide = "uint8" if dtype == "bool" else dtype

    def minimum(columns: int) -> Any:
        body = f"""
for i, k in T.grid(1, {columns}):
    with T.block("M"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            M[vi] = T.max_value("{wide}")
        M[vi] = T.min(M[vi], T.Cast("{wide}", A[vi, vk]))"""
        return program(f'A: T.Buffer((1, 40), "{dtype}"), M: T.Buffer((1,), "{wide}")', body)

    assert not accepted(reference_of, minimum(40), minimum(41))


def test_a_cast_that_is_rounded_twice(reference_of: Any) -> None:
    once = "T.Cast('float32', T.Cast('float8_e4m3fn', A[i]))"
    twice = "T.Cast('float32', T.Cast('float8_e4m3fn', T.Cast('float16', A[i])))"
    assert not accepted(reference_of, elementwise(FLOATS, 1000, once), elementwise(FLOATS, 1000, twice))


HALVES = [
    # value, the same but for ties
    ("T.nearbyint(A[i] * T.float32(0.5))", "T.floor(A[i] * T.float32(0.5) + T.float32(0.5))"),
    ("T.nearbyint(A[i] + T.float32(0.5))", "T.floor(A[i] + T.float32(1))"),
    ("T.floor(A[i] + T.float32(0.5))", "T.ceil(A[i] - T.float32(0.5))"),
    ("T.floor(A[i] * T.float32(3))", "T.ceil(A[i] * T.float32(3)) - T.float32(1)"),
    (
        "T.Select(A[i] * T.float32(0.25) > T.float32(0.5), T.float32(1), A[i])",
        "T.Select(A[i] * T.float32(0.25) >= T.float32(0.5), T.float32(1), A[i])",
    ),
]


@pytest.mark.parametrize(("value", "wrong"), HALVES)
def test_ties_of_what_is_computed_exactly(reference_of: Any, value: str, wrong: str) -> None:
    assert not accepted(reference_of, elementwise(FLOATS, 1000, value), elementwise(FLOATS, 1000, wrong))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("last", [1023, 1022])
def test_a_long_sum_that_leaves_out_its_last_terms(reference_of: Any, dtype: str, last: int) -> None:
    """Few small integers are not zero where the dtype sums only few of them exactly."""

    def product(terms: int) -> Any:
        body = f"""
for i, j, k in T.grid(8, 8, {terms}):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.{dtype}(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]"""
        params = f'A: T.Buffer((8, 1024), "{dtype}"), B: T.Buffer((8, 1024), "{dtype}"), C: T.Buffer((8, 8), "{dtype}")'
        return program(params, body)

    assert not accepted(reference_of, product(1024), product(last))


def test_rows_as_long_as_inputs_repeat(reference_of: Any) -> None:
    def copy(row: str) -> Any:
        body = f"for i, j in T.grid(4, {inputs.PERIOD}):\n    C[i, j] = A[{row}, j]"
        shape = f'T.Buffer((4, {inputs.PERIOD}), "float32")'
        return program(f"A: {shape}, C: {shape}", body)

    assert not accepted(reference_of, copy("i"), copy("0"))


def test_large_outputs_are_checked_on_nan() -> None:
    for rows, least in ((4096, 7), (1 << 16, 3)):
        shape = f'T.Buffer(({rows}, 1024), "float32")'
        mod = program(f"A: {shape}, C: {shape}", f"for i, j in T.grid({rows}, 1024):\n    C[i, j] = A[i, j]")
        kinds = kinds_for(facts_of(mod))
        assert len(kinds) >= least and any(kind.special for kind in kinds)


def _reduced(shape: tuple[int, int], axis: int, dtype: str, result: str, begin: str, combine: str) -> Any:
    """A reduction of A[vi, vk] or A[vk, vi] along an axis."""
    kept, reduced = shape[1 - axis], shape[axis]
    element = "A[vi, vk]" if axis else "A[vk, vi]"
    body = f"""
for i, k in T.grid({kept}, {reduced}):
    with T.block("M"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            M[vi] = {begin}
        M[vi] = {combine.replace("ELEMENT", element)}"""
    return program(f'A: T.Buffer({shape}, "{dtype}"), M: T.Buffer(({kept},), "{result}")', body)


@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 1000), 1), ((4, 1000), 1), ((24, 64), 1), ((1000, 4), 0), ((1, 70_000), 1)]
)
@pytest.mark.parametrize(
    ("dtype", "result", "begin", "combine"),
    [
        ("bool", "bool", "False", "M[vi] or ELEMENT"),
        ("bool", "bool", "True", "M[vi] and ELEMENT"),
        ("int32", "bool", "False", "M[vi] or ELEMENT > 100"),
        ("float32", "bool", "True", "M[vi] and ELEMENT > T.float32(0)"),
        ("float32", "bool", "False", "M[vi] or ELEMENT > T.float32(5)"),
        ("float32", "float32", "T.float32('-inf')", "T.max(M[vi], ELEMENT)"),
        ("float16", "float16", "T.float16('inf')", "T.min(M[vi], ELEMENT)"),
        ("uint8", "uint8", "T.uint8(0)", "T.max(M[vi], ELEMENT)"),
        ("int64", "int64", "T.max_value('int64')", "T.min(M[vi], ELEMENT)"),
    ],
)
def test_a_term_that_hardly_ever_decides_is_left_out(
    reference_of: Any, shape: tuple[int, int], axis: int, dtype: str, result: str, begin: str, combine: str
) -> None:
    right = _reduced(shape, axis, dtype, result, begin, combine)
    last = shape[axis] - 1
    shorter = f"T.if_then_else(vk < {last}, {combine}, M[vi])"
    assert not accepted(reference_of, right, _reduced(shape, axis, dtype, result, begin, shorter))
    if result != "bool":
        later = f"T.if_then_else(vk > 0, {combine}, M[vi])"
        assert not accepted(reference_of, right, _reduced(shape, axis, dtype, result, begin, later))


def test_the_last_of_many_is_nan(reference_of: Any) -> None:
    right = _reduced((24, 64), 1, "float32", "bool", "False", "M[vi] or T.isnan(ELEMENT)")
    wrong = _reduced((24, 64), 1, "float32", "bool", "False", "M[vi] or (vk < 63 and T.isnan(ELEMENT))")
    assert not accepted(reference_of, right, wrong)


@pytest.mark.parametrize("shape", [(24, 64), (4, 1000), (300, 400)])
@pytest.mark.parametrize(
    ("dtype", "reduced", "value"),
    [
        ("bool", topi.any, topi.logical_and),
        ("bool", topi.all, topi.logical_or),
        ("float32", topi.any, topi.greater),
        ("float32", topi.max, topi.multiply),
        ("float16", topi.min, topi.add),
        ("int8", topi.any, topi.greater),
        ("uint32", topi.all, topi.greater),
        ("int64", topi.all, topi.less),
    ],
)
def test_a_term_of_two_inputs_that_hardly_ever_decides(
    reference_of: Any, shape: tuple[int, int], dtype: str, reduced: Any, value: Any
) -> None:
    begin, end = [0, 0], [shape[0], shape[1] - 1]
    inputs = ((shape, dtype), (shape, dtype))
    right = te_program(lambda a, b: reduced(value(a, b), axis=1), *inputs)
    wrong = te_program(lambda a, b: reduced(topi.strided_slice(value(a, b), begin, end), axis=1), *inputs)
    assert not accepted(reference_of, right, wrong)


def test_low_bits_of_a_number_that_is_made_of_bits(reference_of: Any) -> None:
    params = 'A: T.Buffer((N,), "uint32"), C: T.Buffer((N,), "float32")'
    right = elementwise(params, 500, 'T.reinterpret("float32", A[i])')
    wrong = elementwise(params, 500, 'T.reinterpret("float32", A[i] ^ T.uint32(7))')
    assert not accepted(reference_of, right, wrong)


def test_a_sum_of_float64_and_a_constant_that_is_rounded_up(reference_of: Any) -> None:
    params = FLOATS.replace("float32", "float64")
    right = elementwise(params, 1000, "T.floor(A[i] + T.float64(0.5))")
    assert not accepted(reference_of, right, elementwise(params, 1000, "T.round(A[i])"))


def _normalized(rows: int, dtype: str, divisor: str) -> Any:
    body = f"""
S = T.alloc_buffer(({rows},))
for i, k in T.grid({rows}, 64):
    with T.block("S"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            S[vi] = T.float32(0)
        S[vi] = S[vi] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", A[vi, vk])
for i, k in T.grid({rows}, 64):
    with T.block("B"):
        vi, vk = T.axis.remap("SS", [i, k])
        B[vi, vk] = T.Cast("{dtype}", T.Cast("float32", A[vi, vk]) / ({divisor}))"""
    return program(", ".join(f'{name}: T.Buffer(({rows}, 64), "{dtype}")' for name in "AB"), body)


@pytest.mark.parametrize("rows", [1, 2, 24])
@pytest.mark.parametrize(
    ("dtype", "divisor", "wrong"),
    [
        ("float32", "T.sqrt(S[vi] + T.float32(1e-12))", "T.sqrt(S[vi])"),
        ("float32", "T.sqrt(S[vi] + T.float32(1e-5))", "T.sqrt(S[vi]) + T.float32(1e-5)"),
        ("float16", "T.sqrt(S[vi] + T.float32(1e-5))", "T.sqrt(S[vi])"),
        ("float32", "T.max(T.sqrt(S[vi]), T.float32(1e-9))", "T.sqrt(S[vi])"),
    ],
)
def test_a_norm_of_few_rows_that_leaves_out_a_small_constant(
    reference_of: Any, rows: int, dtype: str, divisor: str, wrong: str
) -> None:
    right = _normalized(rows, dtype, divisor)
    assert not accepted(reference_of, right, _normalized(rows, dtype, wrong))


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("T.if_then_else(A[i] - 1000 > 0, 1, 0)", "T.if_then_else(A[i] - 1001 > 0, 1, 0)"),
        ("T.if_then_else(12345 - A[i] == 0, 1, 0)", "0"),
    ],
)
def test_integers_at_which_a_condition_changes(reference_of: Any, value: str, wrong: str) -> None:
    right = elementwise(INTEGERS, 500, value)
    assert not accepted(reference_of, right, elementwise(INTEGERS, 500, wrong))
