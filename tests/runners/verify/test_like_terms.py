"""Sums of terms that are alike drift away from where those of random terms stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir.node import post_order_visit
from ir.script import from_source
from ir.tir.stmt import BufferStore
from runners.native import build_native
from runners.verify.like_terms import Spreads
from runners.verify.shadow import terms_of

from .conftest import verdict

ROWS, COLUMNS = 40_000, 4


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


def one_after_the_other(terms: Any, count: int = ROWS) -> Any:
    def call(a: Any, b: Any, c: Any) -> None:
        with np.errstate(all="ignore"):
            found = np.broadcast_to(terms(a, b).astype(np.float32), a.shape)[:count]
            c[...] = np.add.accumulate(found, axis=0, dtype=np.float32)[-1]

    return call


LIKE = {
    "T.min(A[vk, vi], T.float32(0.3))": lambda a, b: np.minimum(a, np.float32(0.3)),
    "T.Select(A[vk, vi] > B[vi], T.float32(0.1), T.float32(0))": lambda a, b: np.where(
        a > b, np.float32(0.1), 0
    ),
    "T.Cast('float32', A[vk, vi] > T.float32(0)) * T.float32(0.1)": lambda a, b: (a > 0) * np.float32(0.1),
    "B[vi]": lambda a, b: b,
    "T.max(A[vk, vi], T.float32(0)) * T.float32(0.1)": lambda a, b: np.maximum(a, 0) * np.float32(0.1),
}


@pytest.mark.meaning("reduce-order")
@pytest.mark.parametrize("in_stage", [False, True])
@pytest.mark.parametrize("term", LIKE)
def test_a_sum_of_like_terms_is_right_in_its_own_order(reference_of: Any, term: str, in_stage: bool) -> None:
    original = sums("S[vk, vi]", stage(term)) if in_stage else sums(term)
    reference = reference_of(original)
    assert verdict(reference, one_after_the_other(LIKE[term])) is None
    assert verdict(reference, build_native(original, "llvm")) is None
    assert verdict(reference, one_after_the_other(LIKE[term], ROWS - 400)) is not None


RANDOM = [
    "A[vk, vi]",
    "A[vk, vi] * B[vi]",
    "T.exp(A[vk, vi] - B[vi])",
    "T.max(A[vk, vi], T.float32(0))",
    "T.min(T.max(A[vk, vi], T.float32(0)), T.float32(6))",
    "T.Select(A[vk, vi] > T.float32(0), A[vk, vi], A[vk, vi] * T.float32(0.01))",
    "T.exp(T.Select(A[vk, vi] > B[vi], A[vk, vi], T.float32(-1e9)) - B[vi])",
    "A[(vk * 7) % 40000, vi] / T.float32(40000)",
]


@pytest.mark.parametrize("in_stage", [False, True])
def test_which_terms_are_alike(in_stage: bool) -> None:
    """Those that differ by the loop that sums them up are not."""
    for terms, alike in ((LIKE, True), (RANDOM, False)):
        for term in terms:
            if term.startswith("T.max") and alike:
                continue  # few numbers only where inputs are small integers
            original = sums("S[vk, vi]", stage(term)) if in_stage else sums(term)
            func = next(iter(original.functions.values()))
            assert has_like_terms(func) == alike, term


def has_like_terms(func: Any) -> bool:
    spreads = Spreads(func)
    found: list[bool] = []

    def visit(node: Any) -> None:
        terms = terms_of(node) if isinstance(node, BufferStore) else None
        if terms is not None:
            found.append(spreads.has_like_terms(node, terms[0]))

    post_order_visit(func.body, visit)
    (only,) = found
    return only


def test_two_terms_of_random_ones_still_count(reference_of: Any) -> None:
    reference = reference_of(sums("T.exp(A[vk, vi])"))
    assert verdict(reference, one_after_the_other(lambda a, b: np.exp(a))) is None
    assert verdict(reference, one_after_the_other(lambda a, b: np.exp(a), ROWS - 2)) is not None


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

    def summed(order: tuple[int, int, int], count: int = rows * channels) -> Any:
        def call(a: Any, b: Any, c: Any) -> None:
            with np.errstate(all="ignore"):
                terms = (a[:, :, None] * b).transpose(order).reshape(-1, 64)
                c[...] = np.add.accumulate(terms[:count], axis=0, dtype=np.float32)[-1]

        return call

    reference = reference_of(original)
    assert verdict(reference, build_native(original, "llvm")) is None
    assert verdict(reference, summed((0, 1, 2))) is None
    assert verdict(reference, summed((1, 0, 2))) is None
    assert verdict(reference, summed((0, 1, 2), rows * channels - 1)) is not None


def test_small_terms_that_come_first_in_one_order_vanish_in_another(reference_of: Any) -> None:
    """Products of three, of which those of large numbers alone are millions of times the others."""
    rows = 20_000
    original = from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer(({rows}, 6), "float32"), B: T.Buffer(({rows}, 6), "float32"), C: T.Buffer((6,), "float32")):
        for k, i in T.grid({rows}, 6):
            with T.block("C"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vk, vi] * B[vk, vi] * A[vk, vi]
""")

    def backwards(a: Any, b: Any, c: Any) -> None:
        with np.errstate(all="ignore"):
            c[...] = np.add.accumulate((a * b * a)[::-1], axis=0, dtype=np.float32)[-1]

    assert verdict(reference_of(original), backwards) is None
