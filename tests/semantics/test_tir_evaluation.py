"""What is evaluated, when, and how often."""

from __future__ import annotations

import numpy as np
import pytest

from ir import register_func
from ir.script import tir as T

from .running import executors, holds, law, refused, script

_LOOPS = ["range", "T.vectorized", "T.parallel"]


@pytest.mark.meaning("lazy-connective")
@pytest.mark.parametrize("loop", _LOOPS)
def test_connectives_decide_before_the_right_side(loop: str) -> None:
    """The right sides read out of bounds, or divide by zero, where the left side decides."""
    main = script(
        {"I": ((20,), "int32"), "A": ((4,), "int32"), "O": ((4, 20), "int32")},
        f"for i in {loop}(20):",
        "    if I[i] < 4 and A[I[i]] > 0:",
        "        O[0, i] = 1",
        "    if I[i] >= 4 or A[I[i]] > 0:",
        "        O[1, i] = 1",
        '    O[2, i] = T.Cast("int32", I[i] != 0 and 12 // I[i] > 2)',
        '    O[3, i] = T.Cast("int32", I[i] == 0 or 12 // I[i] > 2)',
    )
    indices = np.resize(np.array([0, 3, 2**31 - 1, 1, 2, 4], "int32"), 20)
    a = np.array([1, 0, -1, 5], "int32")
    near = indices < 4
    positive = np.array([near[k] and a[v] > 0 for k, v in enumerate(indices)])
    large = np.array([v != 0 and 12 // int(v) > 2 for v in indices])
    expected = np.array([positive, ~near | positive, large, (indices == 0) | large]).astype("int32")
    holds(main, [indices, a, np.zeros((4, 20), "int32")], {2: expected})


@pytest.mark.meaning("lazy-choice")
@pytest.mark.parametrize("loop", _LOOPS)
def test_only_the_chosen_side_is_evaluated(loop: str) -> None:
    main = script(
        {"I": ((20,), "int32"), "A": ((4,), "int32"), "O": ((2, 20), "int32")},
        f"for i in {loop}(20):",
        "    O[0, i] = T.if_then_else(0 <= I[i] and I[i] < 4, A[I[i]], -7)",
        "    O[1, i] = T.if_then_else(I[i] == 0, 0, T.truncmod(100, I[i]))",
    )
    indices = np.resize(np.array([0, 3, 2**31 - 1, -1, 2, -(2**31), 1], "int32"), 20)
    a = np.array([11, 12, 13, 14], "int32")
    expected = [
        [a[v] if 0 <= v < 4 else -7 for v in indices],
        [0 if v == 0 else int(np.fmod(100, int(v))) for v in indices],
    ]
    holds(main, [indices, a, np.zeros((2, 20), "int32")], {2: np.array(expected, "int32")})


@pytest.mark.meaning("lazy-choice", "lazy-connective")
def test_choices_nest() -> None:
    values = [-3, -1, 0, 1, 2, 5, 100]
    law(
        "T.if_then_else(A[i] > 0, T.if_then_else(A[i] > 4, 100 // (A[i] - 4), 100 // A[i]), T.if_then_else(A[i] == 0, 0, 100 // A[i]))",
        {"A": (values, "int32")},
        [100 // (v - 4) if v > 4 else 100 // v if v else 0 for v in values],
        "int32",
    )


@pytest.mark.meaning("eager-select")
@pytest.mark.parametrize("loop", _LOOPS)
def test_select_is_undefined_where_one_side_is(loop: str) -> None:
    divides = script(
        {"A": ((8,), "int32"), "O": ((8,), "int32")},
        f"for i in {loop}(8):",
        "    O[i] = T.Select(A[i] == 0, 0, 8 // A[i])",
    )
    a = np.arange(8, dtype="int32")
    refused(divides, [a, np.zeros(8, "int32")], "div-zero")
    holds(divides, [a + 1, np.zeros(8, "int32")], {1: 8 // (a + 1)})
    outside = script(
        {"A": ((8,), "int32"), "O": ((8,), "int32")},
        f"for i in {loop}(8):",
        "    O[i] = T.Select(1 <= i, A[i - 1], 0)",
    )
    refused(outside, [a, np.zeros(8, "int32")], "bounds")


@pytest.mark.meaning("eager-select")
def test_select_chooses() -> None:
    values = [-3, -1, 0, 1, 2, 5, 100]
    law(
        "T.Select(A[i] > 1, A[i] * 2, 0 - A[i])",
        {"A": (values, "int32")},
        [2 * v if v > 1 else -v for v in values],
        "int32",
    )


@pytest.mark.meaning("early")
def test_what_is_harmless_may_be_evaluated_early() -> None:
    """A load within bounds, whatever it gives, and arithmetic that wraps: the result is that of the chosen side."""
    values = [2**31 - 1, -(2**31), 0, 5]
    law(
        "T.if_then_else(A[i] < 0, A[i] * 2147483647 + 2147483647, A[i])",
        {"A": (values, "int32")},
        [v if v >= 0 else (v * (2**31 - 1) + 2**31 - 1 + 2**31) % 2**32 - 2**31 for v in values],
        "int32",
    )


@pytest.mark.meaning("condition-once")
@pytest.mark.parametrize("loop", _LOOPS)
def test_what_is_guarded_does_not_change_the_condition(loop: str) -> None:
    main = script(
        {"A": ((16,), "int32"), "B": ((16,), "int32"), "C": ((16,), "int32"), "D": ((16,), "int32")},
        f"for j in {loop}(16):",
        "    if A[j] > 0:",
        "        A[j] = -1",
        "    else:",
        "        A[j] = 2",
        "    if C[j] > 0:",
        "        C[j] = 0",
        "        D[j] = 1",
    )
    a = np.tile(np.array([1, -1], "int32"), 8)
    args = [a, np.zeros(16, "int32"), a.copy(), np.zeros(16, "int32")]
    holds(main, args, {0: np.where(a > 0, -1, 2), 2: np.where(a > 0, 0, a), 3: a > 0})


@pytest.mark.meaning("condition-once", "load-known")
def test_facts_about_memory_end_with_a_store() -> None:
    @T.prim_func
    def main(A: T.Buffer((1,), "int32"), B: T.Buffer((2,), "int32")):
        if A[0] > 0:
            A[0] = -1
            if A[0] > 0:
                B[0] = 7
            if A[0] < 0:
                B[1] = 8

    holds(main, [np.array([5], "int32"), np.zeros(2, "int32")], {0: [-1], 1: [0, 8]})


@pytest.mark.meaning("effects")
def test_calls_run_in_order_and_as_often_as_they_are_written() -> None:
    called: list[int] = []

    @register_func("tests.semantics.note", override=True)
    def note(value: int) -> int:
        called.append(int(value))
        return len(called)

    main = script(
        {"A": ((4,), "int32"), "O": ((3,), "int32")},
        'T.evaluate(T.call_packed("tests.semantics.note", 7, dtype="int32"))',
        "for i in range(4):",
        "    if A[i] > 0:",
        '        T.evaluate(T.call_packed("tests.semantics.note", i, dtype="int32"))',
        'O[0] = T.call_packed("tests.semantics.note", 8, dtype="int32") * 10 - T.call_packed("tests.semantics.note", 9, dtype="int32")',
        'O[1] = T.if_then_else(A[0] > 0, T.call_packed("tests.semantics.note", 10, dtype="int32"), 50)',
        'O[2] = T.Select(A[0] > 0, T.call_packed("tests.semantics.note", 11, dtype="int32"), 50)',
    )
    for name, execute in executors(main):
        called.clear()
        out = np.zeros(3, "int32")
        execute(np.array([0, 1, 0, 1], "int32"), out)
        assert called == [7, 1, 3, 8, 9, 11], name
        assert out.tolist() == [4 * 10 - 5, 50, 50], name
