"""Outputs that hold something before a call: what a program writes in part and reads as a whole is an input, too."""

from __future__ import annotations

from typing import Any

import pytest

from ir import te, tir
from ir.te import create_prim_func
from runners.verify import entry, params_of
from runners.verify.accesses import Accesses, Place
from runners.verify.updates import updated_outputs

from .test_rare_inputs import accepted, program

PARAMS = 'K: T.Buffer((16, 8), "{0}"), P: T.Buffer((1,), "int32"), N: T.Buffer((8,), "{0}"), O: T.Buffer((16,), "{0}")'


def cache(dtype: str, place: str, row: str, rows: str = "range(16)") -> Any:
    """A row is put into a cache, of which all rows are summed up."""
    body = f"""
for d in range(8):
    K[{place}, d] = N[d]
for j in {rows}:
    O[j] = T.{dtype}(0)
    for d in range(8):
        O[j] = O[j] + K[{row}, d] * N[d]"""
    return program(PARAMS.format(dtype), body)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("place", ["3", "P[0]"])
@pytest.mark.parametrize("rows", ["range(16)", "range(P[0])"])
def test_what_a_cache_holds_already_is_read(reference_of: Any, dtype: str, place: str, rows: str) -> None:
    right = cache(dtype, place, "j", rows)
    assert next(param.updated for param in params_of(entry(right)))
    assert not accepted(
        reference_of, right, cache(dtype, place, f"T.if_then_else(j == {place}, j, 15 - j)", rows)
    )


def test_a_scatter_into_what_was_there(reference_of: Any) -> None:
    params = 'I: T.Buffer((4,), "int32"), U: T.Buffer((4,), "float32"), D: T.Buffer((16,), "float32"), O: T.Buffer((16,), "float32")'
    body = "for i in range(4):\n    D[I[i]] = U[i]\nfor j in range(16):\n    O[j] = D[j] * T.float32(2)"
    right = program(params, body)
    found = {param.name: (param.output, param.updated) for param in params_of(entry(right))}
    assert found["D"] == (True, True) and found["O"] == (True, False)
    wrong = program(params, body + "\nfor j in range(16):\n    if D[j] == D[0]:\n        O[j] = D[1]")
    assert not accepted(reference_of, right, wrong)


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(16):\n    O[i] = T.float32(0)\n    for k in range(8):\n        O[i] = O[i] + K[i, k]",
        "for i in range(16):\n    O[i] = T.float32(0)\nfor k in range(8):\n    O[P[0]] = O[P[0]] + N[k]",
        "for i in range(1, 16):\n    O[i] = N[0]\nO[0] = O[1] + O[15]",
    ],
)
def test_what_is_written_before_it_is_read_is_no_update(body: str) -> None:
    assert not any(param.updated for param in params_of(entry(program(PARAMS.format("float32"), body))))


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(15):\n    O[i] = N[0]\nO[0] = O[1] + O[15]",
        "for i in range(16):\n    if N[0] > T.float32(0):\n        O[i] = N[0]\nO[0] = O[1] + O[15]",
        "for i in range(P[0]):\n    O[i] = N[0]\nO[0] = O[1] + O[15]",
    ],
)
def test_what_may_not_be_written_before_it_is_read_is_an_update(body: str) -> None:
    found = params_of(entry(program(PARAMS.format("float32"), body)))
    assert [param.name for param in found if param.updated] == ["O"]


def test_what_is_shared_is_looked_at_once() -> None:
    """One object in several places, forty times over: a walk into each of them would not end."""

    def value(i: Any) -> Any:
        x = a[i]
        for _ in range(40):
            x = x * x + tir.if_then_else(x > 0.0, x, x - 1.0)
        return x

    a = te.placeholder((8,), "float32", "A")
    func = create_prim_func([a, te.compute((8,), value, "O")])
    accesses = Accesses()
    accesses.collect(func.body, Place())
    assert len(accesses.found) == 2
    assert updated_outputs(func) == set()


def test_what_a_view_shows_is_read_of_what_it_is_a_view_of() -> None:
    """A view of a view stores to it, and reads before."""
    body = """
with T.block("outer"):
    T.reads(O[0:8], N[0:8])
    T.writes(O[0:8])
    V = T.match_buffer(O[0:8], (8,), "int32", offset_factor=1)
    with T.block("inner"):
        T.reads(V[0:8], N[0:8])
        T.writes(V[0:8])
        W = T.match_buffer(V[0:8], (8,), "int32", offset_factor=1)
        for d in range(8):
            W[d] = W[d] + N[d]"""
    func = entry(program(PARAMS.format("int32"), body))
    assert [data.name for data in updated_outputs(func)] == ["O"]


def test_what_is_shared_by_operands_is_read_under_the_condition_of_each() -> None:
    A, B = tir.decl_buffer((8,), "int32", "A"), tir.decl_buffer((8,), "int32", "B")
    i = tir.Var("i", "int32")
    load = A[i]
    accesses = Accesses()
    accesses.collect(tir.BufferStore(B, tir.if_then_else(i < 4, load, load + 1), [i]), Place())
    conditions = [[str(item) for item in access.conditions] for access in accesses.found if not access.stores]
    assert len(conditions) == 2 and conditions[0] != conditions[1]
