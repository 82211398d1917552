"""Sums of parts that are no multiples of themselves by the factor behind the loop are not made relative to the maximum so far."""

from __future__ import annotations

import numpy as np
import pytest

from ir.script import from_source
from schedules import Schedule

from ..checks import assert_refused, main_of, outputs_of
from .test_add_into import without_regions
from .test_rfactor_chain import arrays_of, assert_close_on
from .test_run_chain import COMBINED

TEXT = without_regions(COMBINED)
TERM = "T.exp(x[vi, v0 * 4 + v1] - peak_rf[vi, v0])"
SCALE = "T.exp(peak_rf[vi, v0] - peak[vi])"


def joined(text: str, joins_parts: bool = True) -> Schedule:
    sch = Schedule(from_source(text), debug_mask="all")
    sch.run_chain(sch.get_loops("total_rf")[1], joins_parts)
    return sch


@pytest.mark.parametrize(
    ("term", "scale"),
    [
        (TERM, SCALE),
        (f"x[vi, 0] * {TERM}", SCALE),
        (f"({TERM} + {TERM})", SCALE),
        (f"{TERM} * {TERM}", f"{SCALE} * {SCALE}"),
        ("T.exp2((x[vi, v0 * 4 + v1] - peak_rf[vi, v0]) * T.float32(0.5))",
         "T.exp2(T.float32(0.5) * (peak_rf[vi, v0] - peak[vi]))"),
        (TERM.replace("peak_rf[vi, v0]", 'T.Select(peak_rf[vi, v0] == T.float32("-inf"), T.float32(0), peak_rf[vi, v0])'), SCALE),
    ],
)  # fmt: skip
def test_terms_that_change_by_the_factor_join(term: str, scale: str) -> None:
    text = TEXT.replace(TERM, term).replace(SCALE, scale)
    func = from_source(text)
    assert_close_on(func, joined(text), arrays_of(func, 3))


@pytest.mark.parametrize(
    ("term", "words"),
    [
        ("x[vi, v0 * 4 + v1]", "is no sum that T.exp(before - after) brings from one maximum to another"),
        (f"{TERM} * {TERM}", "is no sum that"),
        ("T.exp((x[vi, v0 * 4 + v1] - peak_rf[vi, v0]) * T.float32(2))", "is no sum that"),
        ("T.exp2(x[vi, v0 * 4 + v1] - peak_rf[vi, v0])", "is no sum that"),
        ("peak_rf[vi, v0]", "are no multiples of themselves"),
        (f"({TERM} + x[vi, v0 * 4 + v1])", "are no multiples of themselves"),
        ("T.Select(x[vi, v0 * 4 + v1] == peak_rf[vi, v0], T.float32(1), T.float32(0))", "no multiples"),
        ("T.exp(peak_rf[vi, v0] - x[vi, v0 * 4 + v1])", "no multiples"),
        ("T.exp(x[vi, v1] - peak_rf[vi, v0])", "no multiples"),
        ("T.exp(x[vi, v1] - peak_rf[vi, 0])", "no multiples"),  # of the first part, again and again
        (f"{TERM} * T.exp(x[vi, v1] - peak_rf[vi, 0])", "are relative to several maxima"),
    ],
)
def test_refuses_terms_that_change_otherwise(term: str, words: str) -> None:
    """Each computed something else than before."""
    assert TERM in TEXT
    sch = Schedule(from_source(TEXT.replace(TERM, term)))
    assert_refused(sch, lambda: sch.run_chain(sch.get_loops("total_rf")[1], True), "run_chain", words)


@pytest.mark.parametrize("joins_parts", [False, True])
@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("* total_rf[vi, v0]", "* total_rf[vi, 1 - v0]", "multiples of parts"),
        ("peak_rf[vi, v0])\n        for k0", "peak_rf[vi, 1 - v0])\n        for k0", "does not take the maximum of what is stored"),
        (SCALE, "T.exp((peak_rf[vi, v0] - peak[vi]) * T.float32(-1))", "no exponential of the difference"),
    ],
)  # fmt: skip
def test_refuses_parts_that_are_not_there_yet(right: str, wrong: str, words: str, joins_parts: bool) -> None:
    """Or factors that are infinite for the infinity that a maximum begins with."""
    assert right in TEXT, TEXT
    sch = Schedule(from_source(TEXT.replace(right, wrong)))
    loop = sch.get_loops("total_rf")[1]
    assert_refused(sch, lambda: sch.run_chain(loop, joins_parts), "run_chain", words)


def test_refuses_products_of_terms() -> None:
    text = TEXT.replace("total_rf[vi, v0] = T.float32(0)", "total_rf[vi, v0] = T.float32(1)")
    sch = Schedule(from_source(text.replace(f"total_rf[vi, v0] + {TERM}", f"total_rf[vi, v0] * {TERM}")))
    assert_refused(sch, lambda: sch.run_chain(sch.get_loops("total_rf")[1], True), "is no sum that")


WEIGHTED = TEXT.replace(
    "            for k1 in range(4):\n                with T.block(\"total_rf\")",
    """            for k1 in range(4):
                with T.block("weight"):
                    v0, vi, v1 = T.axis.remap("SSS", [k0, i, k1])
                    weight[vi, v0, v1] = {weight}
            for k1 in range(4):
                with T.block("total_rf")""",
).replace("    scale = T", "    weight = T.alloc_buffer((3, 2, 4), \"{dtype}\")\n    scale = T")  # fmt: skip


@pytest.mark.parametrize(
    ("weight", "dtype", "term", "joins"),
    [
        (TERM, "float32", "weight[vi, v0, v1]", True),
        (TERM, "float32", "weight[vi, v0, 3 - v1] * x[vi, v0 * 4 + v1]", True),
        (f'T.Cast("float16", {TERM})', "float16", 'T.Cast("float32", weight[vi, v0, v1])', True),
        (f'T.Cast("float16", x[vi, 0] * {TERM})', "float16", 'T.Cast("float32", weight[vi, v0, v1])', False),
        (TERM, "float32", "weight[vi, v0, v1] * weight[vi, v0, v1]", False),
        ("peak_rf[vi, v0]", "float32", "weight[vi, v0, v1]", False),
    ],
)
def test_terms_may_be_computed_of_weights(weight: str, dtype: str, term: str, joins: bool) -> None:
    """Rounded ones are shares of 1, relative to whatever maximum."""
    assert "{weight}" in WEIGHTED
    head, tail = WEIGHTED.split("{weight}")
    text = head.format(dtype=dtype) + weight + tail.replace(TERM, term)
    func = from_source(text)
    sch = Schedule(func)
    if joins:
        sch.run_chain(sch.get_loops("total_rf")[1], True)
        rtol = 1e-2 if dtype == "float16" else 1e-5
        arrays = [np.random.default_rng(0).standard_normal((3, 8)).astype("float32"), np.zeros(3, "float32")]
        np.testing.assert_allclose(outputs_of(main_of(sch), arrays)[1], outputs_of(func, arrays)[1], rtol)
    else:
        assert_refused(sch, lambda: sch.run_chain(sch.get_loops("total_rf")[1], True), "run_chain")


def test_refuses_terms_that_come_before_their_maximum() -> None:
    lines = TEXT.splitlines()
    first, second = (n for n, line in enumerate(lines) if line.strip() == "for k1 in range(4):")
    length = second - first
    swapped = [
        *lines[:first],
        *lines[second : second + length],
        *lines[first:second],
        *lines[second + length :],
    ]
    sch = Schedule(from_source("\n".join(swapped) + "\n"))
    loop = sch.get_loops("total_rf")[1]
    assert_refused(sch, lambda: sch.run_chain(loop, True), "run_chain", "before it is computed")


def test_smallest_ones_join_with_factors_of_the_other_sign() -> None:
    text = TEXT.replace("T.max", "T.min").replace('T.float32("-inf")', 'T.float32("inf")')
    sch = Schedule(from_source(text))
    assert_refused(
        sch, lambda: sch.run_chain(sch.get_loops("total_rf")[1]), "no exponential of the difference"
    )
    text = text.replace(TERM, "T.exp(peak_rf[vi, v0] - x[vi, v0 * 4 + v1])")
    text = text.replace(SCALE, "T.exp((peak_rf[vi, v0] - peak[vi]) * T.float32(-1))")
    func = from_source(text)
    arrays = [np.random.default_rng(0).standard_normal((3, 8)).astype("float32"), np.zeros(3, "float32")]
    assert_close_on(func, joined(text, joins_parts=False), arrays)
