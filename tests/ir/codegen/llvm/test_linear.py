"""Lowered code follows the size of a program as a graph: shared operands are emitted once, however deep they are nested."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ir import te
from ir.codegen.build import build
from ir.codegen.llvm.codegen import generate
from ir.tir.function import PrimFunc
from ir.tir.lower import lower


def hash_of(rounds: int) -> PrimFunc:
    """A hash whose every round uses the last one twice."""
    a = te.placeholder((64,), "int32", "A")

    def value(i: Any) -> Any:
        h = a[i]
        for number in range(rounds):
            h = (h * 31 + number) ^ (h >> 3)
        return h

    return te.create_prim_func([a, te.compute((64,), value, "O")])


def polynomial(levels: int) -> PrimFunc:
    """x * x + x of itself."""
    a = te.placeholder((64,), "float32", "A")

    def value(i: Any) -> Any:
        x = a[i]
        for _ in range(levels):
            x = x * x + x
        return x

    return te.create_prim_func([a, te.compute((64,), value, "O")])


def chosen(levels: int) -> PrimFunc:
    """Conditions whose two sides share what is below."""
    a = te.placeholder((64,), "int32", "A")

    def value(i: Any) -> Any:
        x = a[i]
        for number in range(levels):
            x = te.if_then_else(x > number, x + 1, x * 3)
        return x

    return te.create_prim_func([a, te.compute((64,), value, "O")])


@pytest.mark.parametrize("program", [hash_of, polynomial, chosen])
def test_lines_grow_linearly(program: Callable[[int], PrimFunc]) -> None:
    lines = [generate(lower(program(size))).text().count("\n") for size in (8, 10, 12, 14)]
    steps = {after - before for before, after in pairwise(lines)}
    assert len(steps) == 1
    assert lines[-1] < 200


def test_shared_operands_give_the_right_numbers() -> None:
    a = np.random.default_rng(0).integers(-(2**31), 2**31, 64, dtype="int64").astype("int32")
    out = np.zeros_like(a)
    build(hash_of(14))["main"](a, out)
    h = a.copy()
    for number in range(14):
        h = (h * np.int32(31) + np.int32(number)) ^ (h >> np.int32(3))
    np.testing.assert_array_equal(out, h)


def test_what_one_side_of_a_condition_emits_is_not_known_to_the_other() -> None:
    a = np.random.default_rng(0).integers(-20, 20, 64).astype("int32")
    out = np.zeros_like(a)
    build(chosen(5))["main"](a, out)
    x = a.copy()
    for number in range(5):
        x = np.where(x > number, x + 1, x * 3).astype("int32")
    np.testing.assert_array_equal(out, x)


def test_what_one_side_of_a_choice_has_given_is_not_known_on_the_other() -> None:
    a = te.placeholder((64,), "float32", "A")

    def value(i: Any) -> Any:
        y = te.exp(a[i])
        chosen = te.if_then_else(a[i] > 0, te.sqrt(y) * y, te.sin(y) + y)
        return te.if_then_else(a[i] > 1, te.cos(chosen), te.floor(y)) + y

    func = te.create_prim_func([a, te.compute((64,), value, "O")])
    data, out = np.linspace(-2, 2, 64, dtype="float32"), np.zeros(64, "float32")
    build(func)["main"](data, out)
    y = np.exp(data)
    chosen = np.where(data > 0, np.sqrt(y) * y, np.sin(y) + y)
    np.testing.assert_allclose(out, np.where(data > 1, np.cos(chosen), np.floor(y)) + y, rtol=1e-4)
