"""Which integers are legal in an input, and that indices cover all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import te, tir, topi
from ir.script import from_source
from runners.native import build_native
from runners.verify import KINDS, facts_of
from runners.verify.domains import Domain
from runners.verify.inputs import base_values
from runners.verify.obligations import survey_of

from .conftest import te_program, verdict


def kernel(body: str, index: str = '(6,), "int32"', out: str = '(6,), "float32"') -> Any:
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    return from_source(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(I: T.Buffer({index}), A: T.Buffer((10,), "float32"), O: T.Buffer({out})):
{lines}
""")


def domain(mod: Any) -> Domain | None:
    return facts_of(mod).params[0].domain


@pytest.mark.parametrize(
    ("body", "low", "high"),
    [
        ("for i in range(6):\n    O[i] = A[I[i]]", 0, 9),
        ("for i in range(6):\n    O[i] = A[I[i] * 2 + 1]", 0, 4),
        ("for i in range(6):\n    O[i] = A[I[i] + i]", 0, 4),
        ("for i in range(6):\n    O[i] = A[I[i] + 3]", -3, 6),
        ("for i in range(6):\n    O[i] = A[T.if_then_else(I[i] < 0, I[i] + 10, I[i])]", -10, 9),
        ("for i in range(6):\n    O[i] = A[T.max(T.min(I[i], 9), 0)]", -20, 20),
        (
            "for i in range(6):\n    O[i] = T.if_then_else(I[i] >= 2 and I[i] < 8, A[I[i]], T.float32(0))",
            -20,
            20,
        ),
        ("for i in range(6):\n    if I[i] >= 0:\n        O[i] = A[I[i] % 10]", -20, 20),
        ("for i in range(6):\n    if I[i] < 0 or I[i] > 7 or A[I[i]] > 0:\n        O[i] = 1", -20, 20),
        ("for i in range(6):\n    O[i] = A[I[I[i]]]", 0, 5),
        ("for i, j in T.grid(6, 3):\n    O[i] = A[I[i] + i - j + 2]", 0, 2),
        ("for i, j, k, m, n in T.grid(2, 2, 2, 2, 2):\n    O[i] = A[I[i] + i + j + k + m + n]", 0, 4),
        ("for i in range(6):\n    O[i] = A[T.truncdiv(I[i], 2) + 4]", -9, 11),
        # without a sign, all integers shifted so far are within
        (
            'for i in range(6):\n    O[i] = A[T.Cast("int32", T.shift_right(T.Cast("uint32", I[i]), T.uint32(29)))]',
            -20,
            20,
        ),
        # numbers beyond int64 are not followed
        ('for i in range(6):\n    O[i] = A[T.Cast("int32", T.Cast("uint64", I[i]) + T.uint64(1))]', 0, 1),
    ],
)
def test_the_legal_range_is_found(body: str, low: int, high: int) -> None:
    found = domain(kernel(body))
    assert found is not None and (found.low, found.high) == (low, high) and found.index


def test_what_is_stored_elsewhere_is_followed() -> None:
    mod = kernel("""
J = T.alloc_buffer((6,), "int32")
for i in range(6):
    J[i] = I[i] + 1
for i in range(6):
    O[i] = A[J[i]]""")
    found = domain(mod)
    assert found is not None and (found.low, found.high) == (-1, 8)


def test_divisors_are_not_zero_and_shifts_within_the_width() -> None:
    found = domain(kernel("for i in range(6):\n    O[i] = A[100 // I[i] % 10]"))
    assert found is not None and found.index and not found.zero
    found = domain(kernel("for i in range(6):\n    O[i] = T.Cast('float32', i % I[i])"))
    assert found == Domain(-(2**31), 2**31 - 1, zero=False)
    found = domain(kernel("for i in range(6):\n    O[i] = T.Cast('float32', T.shift_left(i, I[i]))"))
    assert found == Domain(0, 31)


@pytest.mark.parametrize(
    "value",
    [
        "T.if_then_else(I[i] >= 0 and I[i] < 32, T.shift_left(i, I[i]), 0)",
        "T.if_then_else(I[i] != 0, 100 // I[i], -1)",
        "T.Cast('int32', I[i] != 0 and 100 // I[i] > i)",
    ],
)
def test_what_is_guarded_may_be_anything(value: str) -> None:
    assert domain(kernel(f"for i in range(6):\n    O[i] = T.Cast('float32', {value})")) is None


def test_what_one_input_is_used_for_is_asked_together() -> None:
    use = "T.Cast('float32', T.shift_left(i, I[i]) + T.Cast('int32', T.shift_left(T.Cast('int8', i), T.Cast('int8', I[i]))) + 5 // I[i])"
    assert domain(kernel(f"for i in range(6):\n    O[i] = {use}")) == Domain(1, 7)
    assert domain(kernel("for i in range(6):\n    O[i] = A[T.shift_left(1, I[i])]")) == Domain(
        0, 3, index=True
    )


@pytest.mark.parametrize(
    ("index", "low", "high"), [("I[i] - 1", 1, 10), ("I[i] - 6", 6, 15), ("3 - I[i] - i", -6, -2)]
)
def test_zero_need_not_be_legal(index: str, low: int, high: int) -> None:
    assert domain(kernel(f"for i in range(6):\n    O[i] = A[{index}]")) == Domain(low, high, index=True)


@pytest.mark.parametrize(
    ("loop", "high"),
    [
        ("for j in range(I[i]):\n        O[i] = O[i] + A[j]", 10),
        ("for j in range(I[i]):\n        O[i] = O[i] + A[j + 3]", 7),
        ("for j in range(I[i] - 2):\n        O[i] = O[i] + A[j]", 12),
        ("for j in range(2, I[i]):\n        O[i] = O[i] + A[j]", 10),
        ("for j in range(I[i]):\n        O[i] = O[i] + T.float32(1)", 10),
        ("for j in range(I[i], I[i + 1]):\n        O[i] = O[i] + A[j]", 10),
    ],
)
def test_lengths_are_as_long_as_what_they_walk_over(loop: str, high: int) -> None:
    found = domain(kernel(f"for i in range(6):\n    {loop}", index='(7,), "int32"'))
    assert found is not None and (found.low, found.high) == (0 if "I[i + 1]" in loop else -1, high)


ROWS = """
for i in range(5):
    O[i] = T.float32(0)
    for j in range({first}, {last}):
        O[i] = O[i] + A[{place}]"""


def rows(first: str = "I[i]", last: str = "I[i + 1]", place: str = "j") -> Any:
    return kernel(ROWS.format(first=first, last=last, place=place), out='(5,), "float32"')


def test_rows_may_end_behind_the_last_element() -> None:
    """Where one begins there, it has no elements."""
    found = domain(rows())
    assert found is not None and (found.low, found.high) == (0, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        rows(last="T.min(I[i + 1], 9)"),
        rows(first="T.max(I[i], 1)"),
        rows(place="T.min(j, 8)"),
        rows(place="T.max(j, 1)"),
    ],
    ids=["without the last one", "without the first one", "another last one", "another first one"],
)
def test_rows_hold_the_first_and_the_last_element(reference_of: Any, wrong: Any) -> None:
    reference = reference_of(rows())
    assert verdict(reference, build_native(rows(), "llvm")) is None
    assert verdict(reference, build_native(wrong, "llvm")) is not None


def test_turns_of_while_are_few() -> None:
    body = "k = T.alloc_buffer((1,), 'int32')\nk[0] = 0\nwhile k[0] < I[0]:\n    O[0] = O[0] + A[k[0]]\n    k[0] = k[0] + 1"
    assert domain(kernel(body)) == Domain(0, 1)


def test_inputs_that_meet_in_one_index_are_legal_together() -> None:
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def main(I: T.Buffer((6,), "int32"), J: T.Buffer((6,), "int32"), A: T.Buffer((11,), "float32"), O: T.Buffer((6,), "float32")):
        for i in range(6):
            O[i] = A[I[i] + J[i]] + A[I[i] * (J[5 - i] + 1)]
""")
    first, second = (facts_of(mod).params[number].domain for number in (0, 1))
    assert first == second == Domain(0, 2, index=True), "2 * (2 + 1) is inside, 3 * (3 + 1) is not"


def test_a_guard_that_asks_another_input_guards_nothing() -> None:
    assert domain(
        kernel("for i in range(6):\n    if A[i] > T.float32(0):\n        O[i] = A[I[i]]")
    ) == Domain(0, 9, index=True)


def test_a_guard_that_asks_loops_of_which_the_index_knows_nothing_guards_nothing() -> None:
    place = "T.Select(I[i] < 0, I[i] + 6, I[i])"
    body = f"for c in range(3):\n    for i, j in T.grid(6, T.min(2, 5 - c * 2)):\n        O[{place}] = O[{place}] + A[c * 2 + j]"
    assert domain(kernel(body)) == Domain(-6, 5, index=True)


def test_narrow_integers_wrap_on_the_way() -> None:
    body = "for i in range(6):\n    O[i] = A[T.Cast('int32', I[i] + T.uint8(250)) // 20]"
    assert domain(kernel(body, index='(6,), "uint8"')) == Domain(6, 20, index=True)


def test_data_may_be_anything() -> None:
    assert domain(kernel("for i in range(6):\n    O[i] = T.Cast('float32', I[i]) * A[i]")) is None


def test_indices_are_permutations_of_all_that_is_legal() -> None:
    mod = te_program(
        lambda a, i: topi.take(a, i, axis=0, mode="fast"), ((50, 4), "float32"), ((120,), "int64")
    )
    facts = facts_of(mod)
    found = facts.params[1]
    assert found.domain is not None and found.domain.low <= 0 and found.domain.high == 49
    values = base_values(found, KINDS[1], facts, 1)
    assert np.array_equal(np.unique(values), np.arange(found.domain.low, 50))
    assert len(np.unique(base_values(found, KINDS[0], facts, 1))) <= 60, "positions that stand several times"


def test_each_index_of_a_scatter_stands_once() -> None:
    values = kernel("for i in range(6):\n    O[I[i]] = A[i]", out='(9,), "float32"')
    facts = facts_of(values)
    drawn = base_values(facts.params[0], KINDS[0], facts, 0)
    assert facts.params[0].domain == Domain(0, 8, index=True, distinct=True) and len(set(drawn.tolist())) == 6


def test_indices_of_sums_stand_several_times() -> None:
    facts = facts_of(kernel("for i in range(6):\n    O[I[i]] = O[I[i]] + A[i]", out='(9,), "float32"'))
    assert facts.params[0].domain == Domain(0, 8, index=True)
    assert len(set(base_values(facts.params[0], KINDS[0], facts, 0).tolist())) < 6


def test_a_single_index_is_at_either_end() -> None:
    mod = kernel("for i in range(6):\n    O[i] = A[I[0]]", index='(1,), "int32"')
    facts = facts_of(mod)
    drawn = [int(base_values(facts.params[0], kind, facts, 0)[0]) for kind in KINDS[:2]]
    assert sorted(drawn) == [0, 9]


def test_indices_may_pass_through_floats() -> None:
    floor = "T.Cast('int32', T.floor(T.Cast('float32', I[i]) * T.float32(0.5)))"
    assert domain(kernel(f"for i in range(6):\n    O[i] = A[{floor}]")) == Domain(0, 19, index=True)
    away = floor.replace("floor", "round")  # half of -1 is rounded to -1, as kernels do
    assert domain(kernel(f"for i in range(6):\n    O[i] = A[{away}]")) == Domain(0, 18, index=True)


def test_an_index_of_shared_parts_is_looked_at_once() -> None:
    def body(i: Any, a: Any) -> Any:
        def value(n: Any) -> Any:
            x = tir.floormod(i[n], 4)
            for _ in range(18):
                x = tir.floormod(x * x + x, 4)
            return a[x]

        return te.compute((6,), value, "O")

    func = te_program(body, ((6,), "int32"), ((10,), "float32"))["main"]
    assert len(survey_of(func).obligations) < 60
