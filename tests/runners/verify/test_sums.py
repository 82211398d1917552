"""Sums are right in any order and grouping, whatever their terms are; one that leaves out a term is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir import IRModule, te, tir
from ir.script import from_source
from ir.tir.stmt import BufferStore
from ir.tir.stmt_functor import post_order_visit
from runners.native import build_native
from runners.verify.facts import entry
from runners.verify.rounding import format_of, growth, most_telling
from runners.verify.sums import Sums

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


# ---- which statements add ------------------------------------------------------------------------------------------


def found_in(body: str) -> list[tuple[int, ...] | None]:
    """For each store to C, in order: the signs of its terms."""
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    func = entry(
        from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
{lines}
""")
    )
    stores: list[BufferStore] = []
    post_order_visit(
        func.body,
        lambda node: (
            stores.append(node) if isinstance(node, BufferStore) and node.buffer.name == "C" else None
        ),
    )
    additions = [Sums(func.body).addition(store) for store in stores]
    return [None if addition is None else tuple(sign for _, sign in addition) for addition in additions]


@pytest.mark.parametrize(
    ("statement", "signs"),
    [
        ("C[0] = C[0] + A[0]", (1,)),
        ("C[0] = A[0] + C[0]", (1,)),
        ("C[0] = A[0] + C[0] - A[1] + A[2]", (1, -1, 1)),
        ("C[0] = C[0] + (A[0] + A[1])", (1,)),
        ("C[0] = T.if_then_else(A[0] > T.float32(0), C[0] + A[0] - A[1], C[0])", (1, -1)),
        ("C[0] = A[0] - C[0]", None),
        ("C[0] = C[1] + A[0]", None),
        ("C[0] = C[0] + C[0]", None),
        ("C[0] = C[0] + A[0] * C[1]", None),
        ("C[0] = C[0]", None),
    ],
)
def test_what_is_added(statement: str, signs: tuple[int, ...] | None) -> None:
    assert found_in(statement) == [signs]


def test_a_name_stands_for_what_was_added_until_memory_changes() -> None:
    named = "v: T.float32 = C[0] + A[0]\n"
    assert found_in(named + "C[0] = v") == [(1,)]
    assert found_in(named + "D[0] = A[1]\nC[0] = v") == [(1,)]
    assert found_in(named + "C[0] = A[1]\nC[0] = v") == [None, None]
    assert found_in(named + "for i in range(3):\n    C[0] = v") == [None]
    assert found_in(named + "if A[0] > T.float32(0):\n    C[0] = v") == [None]
    assert found_in(named + "for i in range(3):\n    D[0] = A[1]\nC[0] = v") == [None]
