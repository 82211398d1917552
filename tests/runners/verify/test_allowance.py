"""What a candidate declares of its roundings widens bounds where both programs agree, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ir import IRModule
from ir.script import from_source
from runners.verify import Bounds, Reference, ReferenceStore, allowing, compute_reference
from runners.verify.allowance import widened
from runners.verify.facts import entry

from .conftest import native, verdict
from .test_long_sums import TERMS, one_after_the_other, sums

INF, NAN = float("inf"), float("nan")


def bounds(low: float, high: float) -> Bounds:
    return Bounds(np.array([low], np.float32), np.array([high], np.float32), True)


@pytest.mark.parametrize(
    ("mine", "its", "expected"),
    [
        ((1.0, 1.0), (0.5, 1.5), (0.5, 1.5)),
        ((0.0, 2.0), (0.5, 1.5), (0.0, 2.0)),
        ((1.0, 1.0), (2.5, 3.5), (1.0, 1.0)),  # another value: it says nothing
        ((1.0, 1.0), (0.9, 1.3), (1.0, 1.0)),  # its value is half of its error away
        ((1.0, 1.0), (INF, -INF), (INF, -INF)),  # it may overflow
        ((1.0, 1.0), (NAN, NAN), (INF, -INF)),  # a difference of infinities
        ((INF, INF), (NAN, NAN), (INF, -INF)),
        ((NAN, NAN), (NAN, NAN), (NAN, NAN)),
        ((NAN, NAN), (1.0, 1.0), (NAN, NAN)),
        ((INF, INF), (1.0, 1.0), (INF, INF)),
        ((INF, -INF), (1.0, 1.0), (INF, -INF)),
    ],
)
def test_bounds_of_one_element(
    mine: tuple[float, float], its: tuple[float, float], expected: tuple[float, float]
) -> None:
    found = widened(bounds(*mine), bounds(*its))
    assert found.high is not None
    np.testing.assert_array_equal([found.low[0], found.high[0]], np.array(expected, np.float32))


def program(value: str) -> IRModule:
    return from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
        for i in range(64):
            with T.block("C"):
                v = T.axis.spatial(64, i)
                C[v] = {value}
""")


SQUARES = "A[v] * A[v] - B[v] * B[v]"
PRODUCT = "(A[v] + B[v]) * (A[v] - B[v])"


def allowed(original: str, other: str) -> Reference:
    reference = compute_reference(program(original), native)
    return allowing(reference, entry(program(other)), native)


def test_a_difference_of_squares_may_cancel_where_it_is_declared() -> None:
    """The product has few roundings of its own; the difference has those of large squares."""
    plain = compute_reference(program(PRODUCT), native)
    candidate: Any = native(program(SQUARES))
    assert verdict(plain, lambda *arrays: candidate(arrays)) is not None
    assert verdict(allowed(PRODUCT, SQUARES), lambda *arrays: candidate(arrays)) is None


def test_what_computes_something_else_allows_nothing() -> None:
    for other in ("A[v] * A[v] + B[v] * B[v]", "(A[v] + B[v]) * (A[v] - B[v]) * T.float32(1.01)"):
        candidate: Any = native(program(other))
        assert verdict(allowed(PRODUCT, other), lambda *arrays, call=candidate: call(arrays)) is not None


@pytest.mark.parametrize("nothing", ["A[v] / (A[v] - A[v])", "T.float32(1) / (A[v] - A[v])"])
def test_what_computes_no_numbers_allows_nothing(nothing: str) -> None:
    reference = compute_reference(program(PRODUCT), native)
    assert allowing(reference, entry(program(f"{SQUARES} + {nothing}")), native) is reference


def test_an_allowance_is_shared_through_a_file_and_forgotten_with_its_workload(tmp_path: Path) -> None:
    mod, other = program(PRODUCT), entry(program(SQUARES))
    calls: list[Any] = []

    def make_run(made: Any) -> Any:
        calls.append(made)
        return native(made)

    key = ReferenceStore.key(mod, "cpu")
    stores = [ReferenceStore(tmp_path), ReferenceStore(tmp_path)]
    for store in stores:
        known = store.get(key, mod, make_run)
        store.allowing(key, known, other, make_run)
        assert store.allowing(key, known, other, make_run) is not known
    assert len(calls) == 2  # the unscheduled program, and the other one
    stores[0].forget(key)
    assert stores[0]._memory == {}


def test_candidates_that_round_otherwise_do_not_share_what_they_are_allowed() -> None:
    mod, store = program(PRODUCT), ReferenceStore()
    key = ReferenceStore.key(mod, "cpu")
    known = store.get(key, mod, native)
    candidate: Any = native(program(SQUARES))
    verdicts = [
        verdict(
            store.allowing(key, known, entry(program(declared)), native), lambda *arrays: candidate(arrays)
        )
        for declared in (SQUARES, PRODUCT)
    ]
    assert verdicts[0] is None and verdicts[1] is not None


def test_an_allowance_hides_no_term_of_a_long_sum() -> None:
    """The roundings of all terms come to more than one of them: the other program's terms are counted, too, where the first one's are."""
    term = "T.sqrt(T.fabs(A[vk, vi]))"
    original, terms = sums(term), TERMS[term]
    allowed = allowing(compute_reference(original, native), entry(original), native)
    assert verdict(allowed, one_after_the_other(terms)) is None
    assert verdict(allowed, one_after_the_other(terms, slice(None, -1))) is not None
    assert verdict(allowed, one_after_the_other(lambda a, b: terms(a, b) * np.float32(0.999))) is not None
