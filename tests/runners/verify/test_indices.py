"""Which integers are legal in an input, and that indices cover all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import topi
from ir.script import from_source
from runners.verify import KINDS, facts_of
from runners.verify.indices import Domain
from runners.verify.inputs import base_values

from .conftest import te_program


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
        ("for i in range(6):\n    O[i] = A[I[I[i]]]", 0, 5),
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


def test_extents_of_loops_are_small_and_divisors_are_not_zero() -> None:
    assert domain(kernel("for i in range(6):\n    for j in range(I[i]):\n        O[i] = A[j]")) == Domain(
        0, 1
    )
    found = domain(kernel("for i in range(6):\n    O[i] = A[100 // I[i] % 10]"))
    assert found is not None and found.index and not found.zero
    found = domain(kernel("for i in range(6):\n    O[i] = T.Cast('float32', i % I[i])"))
    assert found is not None and not found.zero
    found = domain(kernel("for i in range(6):\n    O[i] = T.Cast('float32', T.shift_left(i, I[i]))"))
    assert found == Domain(0, 31)


def test_data_may_be_anything() -> None:
    assert domain(kernel("for i in range(6):\n    O[i] = T.Cast('float32', I[i]) * A[i]")) is None


def test_indices_are_permutations_of_all_that_is_legal() -> None:
    mod = te_program(
        lambda a, i: topi.take(a, i, axis=0, mode="fast"), ((50, 4), "float32"), ((120,), "int64")
    )
    facts = facts_of(mod)
    found = facts.params[1]
    assert found.domain is not None and found.domain.low <= 0 and found.domain.high == 49
    for kind in KINDS[:2]:
        values = base_values(found, kind, facts, 1)
        assert np.array_equal(np.unique(values), np.arange(found.domain.low, 50))


def test_each_index_of_a_scatter_stands_once() -> None:
    values = kernel("for i in range(6):\n    O[I[i]] = A[i]", out='(9,), "float32"')
    facts = facts_of(values)
    drawn = base_values(facts.params[0], KINDS[0], facts, 0)
    assert facts.params[0].domain == Domain(0, 8, index=True) and len(set(drawn.tolist())) == 6
