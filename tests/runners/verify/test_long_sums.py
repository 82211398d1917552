"""Sums are right in any order and grouping, whatever their terms are; one that leaves out a term is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir import IRModule, te, tir
from ir.script import from_source
from ir.tir.evaluate import evaluate
from ir.tir.expr import FloatImm
from runners.native import build_native
from runners.verify import KINDS
from runners.verify.estimate import counts
from runners.verify.facts import KernelFacts, Param
from runners.verify.inputs import base_values
from runners.verify.repetitions import fill
from runners.verify.rounding import format_of, growth, most_telling

from .conftest import te_program, verdict

ROWS, COLUMNS = 40_000, 4
Array = np.ndarray[Any, Any]


# ---- what a sum of rounded numbers may be off ----------------------------------------------------------------------


def summed(terms: list[np.float16], rng: np.random.Generator) -> tuple[np.float16, int]:
    """The terms in random grouping: any two numbers are added until one is left."""
    left = list(terms)
    while len(left) > 1:
        one = left.pop(int(rng.integers(len(left))))
        place = int(rng.integers(len(left)))
        left[place] = left[place] + one
    return left[0], len(terms)


@given(
    st.lists(
        st.floats(-8, 8, width=16) | st.sampled_from([0.1, 1.0, 2.0**-14, 0.0]), min_size=1, max_size=300
    ),
    st.integers(0, 2**32 - 1),
)
def test_no_order_of_a_sum_is_off_by_more(terms: list[float], seed: int) -> None:
    """Neither than all additions may be, nor than those may be of which both operands count."""
    rounded = [np.float16(term) for term in terms]
    found, count = summed(rounded, np.random.default_rng(seed))
    exact, mass = sum(map(float, rounded)), sum(abs(float(term)) for term in rounded)
    unit = format_of("float16").unit
    assert abs(float(found) - exact) <= growth(count, unit) * unit * mass
    counting = sum(abs(float(term)) * count > unit * mass for term in rounded)
    assert abs(float(found) - exact) <= growth(counting + 1, unit) * unit * mass


def test_terms_count_that_are_more_than_nothing_beside_all_others() -> None:
    def number(value: float) -> FloatImm:
        return FloatImm("float64", value)

    sizes = {1.0: 1, 2.0**-9: 1, 2.0**-11: 0, 0.0: 0}  # half a unit of the sum is 1
    for size, counted in sizes.items():
        assert evaluate(counts(number(size), number(2.0**24), 2.0**-24, 1024), {}) == counted
        assert evaluate(counts(number(size), number(2.0**24), 2.0**-24, math.inf), {}) == (size > 0)


def test_few_terms_are_each_more_than_their_roundings() -> None:
    for dtype in ("float32", "float16", "bfloat16"):
        unit = format_of(dtype).unit
        few = most_telling(unit)
        assert 1 / few > 4 * growth(few, unit) * unit or few == 4


# ---- whole kernels -------------------------------------------------------------------------------------------------


def sums(term: str, stages: str = "") -> Any:
    """Sums of columns, each of them taken from top to bottom."""
    lines = "\n".join(f"        {line}" for line in stages.strip().splitlines())
    return from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer(({ROWS}, {COLUMNS}), "float32"), B: T.Buffer(({COLUMNS},), "float32"), C: T.Buffer(({COLUMNS},), "float32")):
        S = T.alloc_buffer(({ROWS}, {COLUMNS}), "float32")
{lines}
        for k, i in T.grid({ROWS}, {COLUMNS}):
            with T.block("C"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + {term}
""")


def stage(value: str) -> str:
    return f"""
for k, i in T.grid({ROWS}, {COLUMNS}):
    with T.block("S"):
        vk, vi = T.axis.remap("SS", [k, i])
        S[vk, vi] = {value}
"""


def one_after_the_other(terms: Callable[..., Array], rows: Any = slice(None)) -> Callable[..., None]:
    def call(a: Array, b: Array, c: Array) -> None:
        with np.errstate(all="ignore"):
            found = np.broadcast_to(terms(a, b).astype(np.float32), a.shape)[rows]
            c[...] = np.add.accumulate(found, axis=0, dtype=np.float32)[-1]

    return call


F = np.float32
TERMS: dict[str, Callable[..., Array]] = {
    "T.min(A[vk, vi], T.float32(0.3))": lambda a, b: np.minimum(a, F(0.3)),
    "T.Select(A[vk, vi] > B[vi], T.float32(0.1), T.float32(0))": lambda a, b: np.where(a > b, F(0.1), F(0)),
    "T.Cast('float32', A[vk, vi] > T.float32(0)) * T.float32(0.1)": lambda a, b: (a > 0) * F(0.1),
    "B[vi]": lambda a, b: b,
    "T.max(A[vk, vi], T.float32(0)) * T.float32(0.1)": lambda a, b: np.maximum(a, 0) * F(0.1),
    "T.tanh(A[vk, vi]) * T.float32(0.001)": lambda a, b: np.tanh(a) * F(0.001),
    "A[vk, vi] / (T.fabs(A[vk, vi]) + T.float32(0.000001)) * T.float32(0.7)": lambda a, b: (
        a / (np.abs(a) + F(1e-6)) * F(0.7)
    ),
    "A[vk // 10000, vi]": lambda a, b: np.repeat(a[: ROWS // 10_000], 10_000, axis=0),
    "A[vk, vi] * A[vk, vi]": lambda a, b: a * a,
    "T.exp(A[vk, vi] * T.float32(0.125))": lambda a, b: np.exp(a * F(0.125)),
    "T.sqrt(T.fabs(A[vk, vi]))": lambda a, b: np.sqrt(np.abs(a)),
}


@pytest.mark.meaning("reduce-order")
@pytest.mark.parametrize("in_stage", [False, True])
@pytest.mark.parametrize("term", TERMS)
def test_a_long_sum_is_right_in_any_order(reference_of: Any, term: str, in_stage: bool) -> None:
    original = sums("S[vk, vi]", stage(term)) if in_stage else sums(term)
    reference = reference_of(original)
    assert verdict(reference, build_native(original, "llvm")) is None
    for order in (slice(None), slice(None, None, -1), np.arange(ROWS).reshape(-1, 100).T.reshape(-1)):
        assert verdict(reference, one_after_the_other(TERMS[term], order)) is None


TELLING = [
    "T.exp(A[vk, vi] * T.float32(0.125))",
    "T.sqrt(T.fabs(A[vk, vi]))",
    "T.tanh(A[vk, vi]) * T.float32(0.001)",
    "A[vk, vi] * A[vk, vi]",
]


@pytest.mark.parametrize("term", TELLING)
def test_one_term_of_a_long_sum_counts(reference_of: Any, term: str) -> None:
    """The last one left out or added twice, some on the way left out, a factor that is off by a thousandth."""
    reference, terms = reference_of(sums(term)), TERMS[term]
    assert verdict(reference, one_after_the_other(terms, slice(None, -1))) is not None
    assert verdict(reference, one_after_the_other(terms, np.r_[:ROWS, ROWS - 1])) is not None
    assert (
        verdict(reference, one_after_the_other(terms, np.r_[: ROWS // 2, ROWS // 2 + 128 : ROWS])) is not None
    )
    assert verdict(reference, one_after_the_other(lambda a, b: terms(a, b) * F(0.999))) is not None


def test_small_terms_vanish_beside_large_ones(reference_of: Any) -> None:
    """Of a third of the rows the terms are far larger than the others: what is lost of the small ones is lost in one direction."""
    rows, channels = 64, 512
    original = from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer(({rows}, {channels}), "float32"), B: T.Buffer(({rows}, {channels}, 64), "float32"), C: T.Buffer((64,), "float32")):
        for i, r, k in T.grid(64, {rows}, {channels}):
            with T.block("C"):
                vi, vr, vk = T.axis.remap("SRR", [i, r, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vr, vk] * B[vr, vk, vi]
""")

    def in_order(order: tuple[int, int, int], count: int = rows * channels) -> Callable[..., None]:
        def call(a: Array, b: Array, c: Array) -> None:
            with np.errstate(all="ignore"):
                terms = (a[:, :, None] * b).transpose(order).reshape(-1, 64)
                c[...] = np.add.accumulate(terms[:count], axis=0, dtype=np.float32)[-1]

        return call

    reference = reference_of(original)
    assert verdict(reference, build_native(original, "llvm")) is None
    assert verdict(reference, in_order((0, 1, 2))) is None
    assert verdict(reference, in_order((1, 0, 2))) is None
    assert verdict(reference, in_order((0, 1, 2), rows * channels - 1)) is not None


def test_a_long_sum_of_narrow_numbers(reference_of: Any) -> None:
    """Numbers of float16 are clipped to its largest one, again and again."""
    k = te.reduce_axis((0, 16_384), "k")
    original = te_program(
        lambda x: te.compute((8,), lambda i: te.sum(x[i, k].astype("float32"), axis=k)),
        ((8, 16_384), "float16"),
    )

    def call(x: Array, c: Array) -> None:
        with np.errstate(all="ignore"):
            c[...] = np.add.accumulate(x.astype(np.float32), axis=1)[:, -1]

    assert verdict(reference_of(original), call) is None


@pytest.mark.parametrize(("count", "dtype"), [(8, "float32"), (64, "float32"), (16, "float16")])
def test_several_statements_add_to_an_element(reference_of: Any, count: int, dtype: str) -> None:
    def program(terms: int) -> Any:
        lines = "\n".join(f"        C[i] = C[i] + A[i, {term}] - A[i, {term + 1}]" for term in range(terms))
        return from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((64, {count + 1}), "{dtype}"), C: T.Buffer((64,), "{dtype}")):
        for i in range(64):
            C[i] = T.{dtype}(0)
    {lines.replace(chr(10), chr(10) + "    ")}
""")

    reference = reference_of(program(count))
    assert verdict(reference, build_native(program(count), "llvm")) is None
    assert verdict(reference, build_native(program(count - 1), "llvm")) is not None


def test_two_sums_at_once_are_right_in_any_order(reference_of: Any) -> None:
    """As in the moments of a norm: what is added is given a name before it is stored."""
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]),
        lambda *d: (te.const(0.0, d[0]), te.const(0.0, d[1])),
        name="both",
    )
    k = te.reduce_axis((0, 10_000), "k")

    x = te.placeholder((4, 10_000), "float32", "x")
    moments = te.compute(
        (4,), lambda i: both((tir.Select(k % 2 == 0, x[i, k], -x[i, k]), x[i, k] * x[i, k]), axis=k)
    )
    reference = reference_of(IRModule({"main": te.create_prim_func([x, *moments])}))

    def even_ones_first(leave_out: int) -> Callable[..., None]:
        def call(x: Array, first: Array, second: Array) -> None:
            with np.errstate(all="ignore"):
                signed = x * np.where(np.arange(x.shape[1]) % 2 == 0, F(1), F(-1))
                for out, terms in ((first, signed), (second, x * x)):
                    ordered = np.concatenate([terms[:, ::2], terms[:, 1::2]], axis=1)
                    out[...] = np.add.accumulate(ordered, axis=1)[:, -1 - leave_out]

        return call

    assert verdict(reference, even_ones_first(0)) is None
    assert verdict(reference, even_ones_first(1)) is not None


def columns(body: str, rows: int, dtype: str = "float32", results: int = 4) -> Any:
    """Sums of a matrix in plain loops."""
    lines = "\n".join(f"        {line}" for line in body.strip("\n").splitlines())
    return from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer(({rows}, 4), "{dtype}"), C: T.Buffer(({results},), "{dtype}")):
        for i in range({results}):
            C[i] = T.{dtype}(0)
{lines}
""")


@pytest.mark.parametrize(
    ("loops", "results"),
    [
        ("for k in range(40000):\n    C[k // 10000] = C[k // 10000] + T.min(A[k, 0], T.float32(0.3))", 4),
        ("for k in range(40000):\n    C[k % 4] = C[k % 4] + T.min(A[k, 0], T.float32(0.3))", 4),
        ("for k, i in T.grid(10000, 4):\n    C[k + i] = C[k + i] + A[k, i]", 10_003),
        (
            "for i in range(4):\n    for k in range(40000 - i):\n        C[i] = C[i] + T.min(A[k, i], T.float32(0.3))",
            4,
        ),
    ],
)
def test_an_element_is_added_to_in_turns_that_nobody_counts(
    reference_of: Any, loops: str, results: int
) -> None:
    original = columns(loops, 40_000, results=results)
    reference = reference_of(original)
    assert verdict(reference, build_native(original, "llvm")) is None
    fewer = columns(
        loops.replace("range(40000", "range(39980").replace("grid(10000", "grid(9990"),
        40_000,
        results=results,
    )
    assert verdict(reference, build_native(fewer, "llvm")) is not None


def test_a_narrow_sum_that_nobody_counts(reference_of: Any) -> None:
    """What underflows in its terms is next to nothing, however many there are."""
    loops = "for i in range(4):\n    for k in range(100 - i):\n        C[i] = C[i] + T.exp(A[k, i])"
    original = columns(loops, 100, "float16")
    reference = reference_of(original)
    assert verdict(reference, build_native(original, "llvm")) is None

    def other(factor: float) -> Callable[..., None]:
        def call(a: Array, c: Array) -> None:
            build_native(original, "llvm")(a, c)
            c *= np.float16(factor)

        return call

    for factor in (0.0, -1.0, 0.5):
        assert verdict(reference, other(factor)) is not None


@pytest.mark.parametrize("term", ["T.sqrt(A[vk, vi])", "T.log(A[vk, vi] + T.float32(1))"])
def test_small_integers_of_which_sums_are_no_numbers_have_told_nothing(reference_of: Any, term: str) -> None:
    def terms(a: Array, b: Array) -> Array:
        return np.sqrt(a) if "sqrt" in term else np.log(a + F(1))

    reference = reference_of(sums(term))
    assert verdict(reference, one_after_the_other(terms)) is None
    assert verdict(reference, one_after_the_other(lambda a, b: terms(a, b) * F(0.999))) is not None
    assert verdict(reference, one_after_the_other(terms, slice(None, -1))) is not None


def test_each_of_two_long_sums_counts(reference_of: Any) -> None:
    k, r = te.reduce_axis((0, 20_000), "k"), te.reduce_axis((0, 20_000), "r")

    def ratio(x: Any, y: Any) -> Any:
        above = te.compute((4,), lambda i: te.sum(te.exp(x[k, i]), axis=k))
        below = te.compute((4,), lambda i: te.sum(te.exp(y[r, i]), axis=r))
        return te.compute((4,), lambda i: above[i] / below[i])

    def kernel(above: int, below: int) -> Callable[..., None]:
        def call(x: Array, y: Array, out: Array) -> None:
            with np.errstate(all="ignore"):
                one, two = (np.exp(part.astype(np.float64)).sum(axis=0) for part in (x[:above], y[:below]))
                out[...] = one.astype(F) / two.astype(F)

        return call

    reference = reference_of(te_program(ratio, ((20_000, 4), "float32"), ((20_000, 4), "float32")))
    assert verdict(reference, kernel(20_000, 20_000)) is None
    assert verdict(reference, kernel(19_990, 20_000)) is not None
    assert verdict(reference, kernel(20_000, 19_990)) is not None


@pytest.mark.parametrize("shape", [(0,), (0, 4), (20_000, 0)])
def test_inputs_without_numbers_beside_a_long_sum(reference_of: Any, shape: tuple[int, ...]) -> None:
    original = from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer({shape}, "float32"), I: T.Buffer((20000,), "int32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            C[i] = T.float32(0)
        for k, i in T.grid(20000, 4):
            C[i] = C[i] + T.tanh(T.Cast("float32", I[k]))
""")
    assert verdict(reference_of(original), build_native(original, "llvm")) is None


@pytest.mark.parametrize(
    "epilogue", ["C[i] * T.float32(0.01)", "C[i] / T.float32(99)", "T.tanh(C[i])", "C[i] * A[0, i]"]
)
def test_what_becomes_of_a_sum_that_nobody_counts(reference_of: Any, epilogue: str) -> None:
    """Its underflow is not that of as many numbers as there may be terms."""
    loops = f"for i in range(4):\n    for k in range(100 - i):\n        C[i] = C[i] + A[k, i]\n    C[i] = {epilogue}"
    original = columns(loops, 100)
    reference = reference_of(original)
    kernel = build_native(original, "llvm")

    def scaled(factor: float) -> Callable[..., None]:
        def call(a: Array, c: Array) -> None:
            kernel(a, c)
            c *= F(factor)

        return call

    assert verdict(reference, kernel) is None
    for factor in (0.0, 0.9, np.nan):
        assert verdict(reference, scaled(factor)) is not None


def test_a_sum_that_nobody_counts_is_exact_of_small_integers(reference_of: Any) -> None:
    def program(comparison: str) -> Any:
        return from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((400, 10), "float32"), B: T.Buffer((400, 10), "float32"), C: T.Buffer((400,), "int32")):
        S = T.alloc_buffer((400,), "float32")
        for i in range(400):
            S[i] = T.float32(0)
            for k in range(10 - i % 4):
                S[i] = S[i] + A[i, k] * B[i, k]
            C[i] = T.if_then_else(S[i] {comparison} T.float32(5), 1, 0)
""")

    reference = reference_of(program(">="))
    assert verdict(reference, build_native(program(">="), "llvm")) is None
    assert verdict(reference, build_native(program(">"), "llvm")) is not None


def test_what_is_not_added_keeps_the_sign_of_zero(reference_of: Any) -> None:
    def program(chosen: str) -> Any:
        return columns(
            f"for i in range(4):\n    C[i] = T.float32(-0.0)\n    C[i] = {chosen}\n    C[i] = T.float32(1) / C[i]",
            8,
        )

    for chosen in (
        "T.Select(i >= 0, C[i], C[i] + A[0, i])",
        "T.Select(i >= 0, C[i], C[i] - A[0, i])",
        "T.Select(i < 0, C[i] + A[0, i], C[i] - T.float32(0))",
    ):
        assert verdict(reference_of(program(chosen)), build_native(program(chosen), "llvm")) is None


def test_a_sum_under_a_choice_of_numbers_without_zero(reference_of: Any) -> None:
    """What is not added is no number of theirs."""
    dtype = "float8_e8m0fnu"
    original = columns(
        "for i in range(4):\n    C[i] = A[0, i]\n    for k in range(8):\n        C[i] = T.Select(k > 3, C[i] + A[k, i], C[i])",
        8,
        dtype,
    )
    assert verdict(reference_of(original), build_native(original, "llvm")) is None


def test_terms_that_are_nothing_but_roundings(reference_of: Any) -> None:
    """Each is a little more than half a unit of the sum in the kernel, and nothing in the reference."""
    little = repr(2.0**-24 * (1 + 2.0**-10))
    rounded = f"T.min(T.max(A[vk, vi], T.float32({little})), T.float32({little}))"
    term = f"(((T.float32(1) + {rounded}) - T.float32(1)) - T.float32({little})) * T.float32(1.0625)"
    original = sums(f"T.Select(vk == 0, T.float32(1.25), {term})")
    assert verdict(reference_of(original), build_native(original, "llvm")) is None


def test_a_narrow_sum_overflows_by_rounding_up(reference_of: Any) -> None:
    """From 32,768 on each addition of 16.02 adds 32."""
    original = columns(
        "for i in range(4):\n    for k in range(3200):\n"
        "        C[i] = C[i] + T.max(T.min(A[k, i], T.float16(16.015625)), T.float16(16.015625))",
        3200,
        "float16",
    )
    assert verdict(reference_of(original), build_native(original, "llvm")) is None


@pytest.mark.parametrize(
    "term", ["A[vk, vi] * T.float32(1000)", "A[vk, vi] * A[vk, vi] * A[vk, vi] * A[vk, vi]"]
)
def test_whole_terms_that_are_too_large_for_an_exact_sum(reference_of: Any, term: str) -> None:
    def terms(a: Array, b: Array) -> Array:
        return a * F(1000) if "1000" in term else a * a * a * a

    reference = reference_of(sums(term))
    assert verdict(reference, one_after_the_other(terms)) is None
    assert verdict(reference, one_after_the_other(terms, slice(None, -1))) is not None
    assert verdict(reference, one_after_the_other(terms, slice(1, None))) is not None
    assert verdict(reference, one_after_the_other(lambda a, b: terms(a, b) * F(0.999))) is not None


def test_a_sum_of_more_numbers_than_are_drawn(reference_of: Any) -> None:
    k = te.reduce_axis((0, 1 << 20), "k")
    original = te_program(
        lambda x: te.compute((5,), lambda i: te.sum(te.exp(x[k, i]), axis=k)), ((1 << 20, 5), "float32")
    )

    def kernel(rows: int, factor: float = 1.0) -> Callable[..., None]:
        def call(x: Array, c: Array) -> None:
            with np.errstate(all="ignore"):
                terms = np.exp(x[:rows].astype(np.float64)) * factor
                c[...] = terms.sum(axis=0)

        return call

    reference = reference_of(original)
    assert verdict(reference, kernel(1 << 20)) is None
    assert verdict(reference, kernel((1 << 20) - 1)) is not None
    assert verdict(reference, kernel(1 << 20, 0.999)) is not None


def test_a_long_sum_is_added_to_what_was_there(reference_of: Any) -> None:
    original = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((20000, 4), "float32"), C: T.Buffer((4,), "float32")):
        for k, i in T.grid(20000, 4):
            C[i] = C[i] + T.exp(A[k, i])
""")

    def kernel(rows: slice) -> Callable[..., None]:
        def call(a: Array, c: Array) -> None:
            with np.errstate(all="ignore"):
                c[...] = np.add.accumulate(np.concatenate([c[None], np.exp(a[rows])]), axis=0)[-1]

        return call

    reference = reference_of(original)
    assert verdict(reference, kernel(slice(None))) is None
    assert verdict(reference, kernel(slice(None, None, -1))) is None
    assert verdict(reference, kernel(slice(None, -1))) is not None


@pytest.mark.parametrize("shape", [(40_000, 4), (4, 40_000), (8, 1 << 20)])
def test_first_and_last_numbers_are_among_the_few(shape: tuple[int, ...]) -> None:
    facts = KernelFacts((Param("A", "float32", shape, False),), max(shape), 2.0**24, True)
    (kind,) = [kind for kind in KINDS if kind.name == "few numbers among zeros"]
    flat = np.empty(shape, np.float32).reshape(-1)
    fill(flat, base_values(facts.params[0], kind, facts, 0))
    values = np.moveaxis(flat.reshape(shape), int(np.argmax(shape)), 0)
    assert values[0].all() and values[-1].all()
    assert 1000 < np.count_nonzero(values, axis=0).min() and np.count_nonzero(values, axis=0).max() < 2000


def test_few_are_few_where_numbers_repeat() -> None:
    """First and last numbers of many sums are more than there are base values."""
    shape = 4_000, 2_000
    facts = KernelFacts((Param("A", "bfloat16", shape, False),), shape[0], 2.0**8, True)
    (kind,) = [kind for kind in KINDS if kind.name == "few numbers among zeros"]
    flat = np.empty(shape, np.float32).reshape(-1)
    fill(flat, base_values(facts.params[0], kind, facts, 0).astype(np.float32))
    assert np.count_nonzero(flat) < 3 * shape[1] * most_telling(2.0**-8)
