"""A reduction over a symbolic extent that is 0 gives its identity natively, however its loops are scheduled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ir import te, tir
from ir.codegen.build import build
from ir.tir.transform.empty_reduction import identities_beside_loops
from schedules import Schedule


def maxima() -> tir.PrimFunc:
    """The maximum of each row, plus one."""
    n = tir.Var("n", "int64")
    a = te.placeholder((6, n), "float32", name="A")
    k = te.reduce_axis((0, n), "k")
    most = te.compute((6,), lambda i: te.max(a[i, k], axis=k), "most")
    return te.create_prim_func([a, te.compute((6,), lambda i: most[i] + 1.0, "C")])


def _split(s: Schedule) -> None:
    i, k = s.get_loops(s.get_block("most"))
    i0, i1 = s.split(i, [None, 4])
    k0, k1 = s.split(k, [None, 4])
    s.reorder(i0, k0, k1, i1)
    s.vectorize(i1)


def _inside(s: Schedule) -> None:
    (i,) = s.get_loops(s.get_block("C"))
    s.compute_at(s.get_block("most"), i)
    s.parallel(i)


def _outside(s: Schedule) -> None:
    i, k = s.get_loops(s.get_block("most"))
    s.reorder(k, i)


def _apart(s: Schedule) -> None:
    _, k = s.get_loops(s.get_block("most"))
    s.decompose_reduction(s.get_block("most"), k)


@pytest.mark.parametrize("schedule", [lambda s: None, _split, _inside, _outside, _apart])
def test_what_is_reduced_over_nothing(schedule: Callable[[Schedule], None]) -> None:
    s = Schedule(maxima())
    schedule(s)
    native = build(s.mod)["main"]
    for length in (0, 1, 7):
        a = np.random.default_rng(0).standard_normal((6, length)).astype("float32")
        c = np.full(6, 77, "float32")
        native(a, c)
        np.testing.assert_array_equal(c, a.max(1, initial=-np.inf) + 1)


def test_an_extent_that_is_a_number_needs_nothing() -> None:
    a = te.placeholder((6, 5), "float32", name="A")
    k = te.reduce_axis((0, 5), "k")
    func = te.create_prim_func([a, te.compute((6,), lambda i: te.max(a[i, k], axis=k), "B")])
    assert identities_beside_loops(func.body) == {}
