"""Random programs: what simplification makes of them computes what they compute, in Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from ir import IRModule, Range, tir
from ir.arith import Analyzer
from ir.tir import transform as passes
from ir.transform import Pass

from .meaning import INDEX, Undefined, is_index, run, value_of
from .random_expressions import BUFFERS, NARROW, NUMBERS, OUTPUTS, TYPES, Generator

POSITIONS: dict[str, Callable[[Analyzer], Callable[[Any], Any]]] = {
    "data": lambda analyzer: analyzer.simplify_data,
    "index": lambda analyzer: analyzer.simplify_index,
    "condition": lambda analyzer: analyzer.simplify,
    "anywhere": lambda analyzer: analyzer.simplify,
    "rewrite": lambda analyzer: analyzer.rewrite_simplify,
    "canonical": lambda analyzer: analyzer.canonical_simplify,
}


def same(a: Any, b: Any) -> bool:
    """Equal, NaN to NaN; min and max may give either zero."""
    return bool(a == b or (a != a and b != b))


def some_expression(generator: Generator, position: str) -> Any:
    random = generator.random
    with_data = random.random() < (0.8 if position == "data" else 0.4)
    if position == "condition" or (position == "data" and random.random() < 0.4):
        return generator.condition(3, with_data)
    return generator.number(3, random.choice(TYPES if position == "data" else INDEX), with_data)


def knowing_ranges(generator: Generator) -> tuple[Analyzer, dict[Any, tuple[int, int]]]:
    """An analyzer that knows the ranges of most index variables, and these."""
    analyzer, bounds = Analyzer(), {}
    for var in (*NUMBERS["int32"][:2], *NUMBERS["int64"]):
        if generator.random.random() < 0.85:
            low, extent = (
                generator.random.choice((0, 0, 0, -3, 5)),
                generator.random.choice((1, 2, 4, 8, 13, 1000)),
            )
            analyzer.bind(var, Range.from_min_extent(tir.const(low, var.dtype), tir.const(extent, var.dtype)))
            bounds[var] = (low, low + extent - 1)
    return analyzer, bounds


def check_expressions(seed: int, count: int) -> int:
    """How many values were compared."""
    generator = Generator(Random(seed))
    random, compared = generator.random, 0
    for _ in range(count):
        position = random.choice(list(POSITIONS))
        expr = some_expression(generator, position)
        analyzer, bounds = knowing_ranges(generator)
        known = generator.condition(1, random.random() < 0.5) if random.random() < 0.35 else tir.const(True)
        with analyzer.constraint_scope(known):
            found = POSITIONS[position](analyzer)(expr)
        in_data = position == "data" or (
            position not in ("index", "condition") and not is_index(expr, frozenset())
        )
        for _ in range(20):
            values = generator.values(bounds)
            try:
                if not value_of(known, values, False):
                    continue
                expected = value_of(expr, values, in_data)
            except Undefined:
                continue
            try:
                got = value_of(found, values, in_data)
            except Undefined as problem:
                # Numbers of ℤ may be ordered otherwise, and then overflow in between: they are computed in 64 bits.
                assert "overflow" in str(problem) and not in_data, (expr, found, known, problem)
                continue
            assert same(got, expected), (
                f"{position}: {expr} became {found} under {known}: {got}, not {expected}"
            )
            compared += 1
    return compared


@pytest.mark.parametrize("seed", range(4))
def test_simplified_expressions(seed: int) -> None:
    assert check_expressions(seed, 150) > 800


@pytest.mark.slow
def test_many_simplified_expressions() -> None:
    check_expressions(100, 1200)


PASSES: dict[str, Pass] = {
    "Simplify": passes.Simplify(),
    "SimplifyIndices": passes.SimplifyIndices(),
    "NarrowDataType": passes.NarrowDataType(),
    "WidenIndices": passes.WidenIndices(),
    "LowerFloorDiv": passes.LowerFloorDiv(),
}


def check_statements(seed: int, count: int) -> int:
    generator = Generator(Random(seed))
    compared = 0
    numbers = [*NUMBERS["int32"], *NUMBERS["int64"], *NARROW.values()]
    params = {tir.Var(buffer.name, "handle"): buffer for buffer in (*BUFFERS.values(), *OUTPUTS.values())}
    for _ in range(count):
        func = tir.PrimFunc((*params, *numbers), generator.statement(3), buffer_map=params)
        after = {name: item(IRModule({"main": func}))["main"] for name, item in PASSES.items()}
        for _ in range(6):
            values = generator.values({})
            try:
                expected = _left_by(func, values)
            except Undefined:
                continue
            for name, other in after.items():
                try:
                    found = _left_by(other, values)
                except Undefined as problem:
                    # Numbers of ℤ may be ordered otherwise, and then overflow in between.
                    assert "overflow" in str(problem), f"{name}: {problem}\n{func}\nbecame\n{other}"
                    continue
                for wanted, got in zip(expected, found, strict=True):
                    assert all(map(same, got, wanted)), f"{name}\n{func}\nbecame\n{other}"
                compared += 1
    return compared


def _left_by(func: tir.PrimFunc, values: dict[Any, Any]) -> list[list[Any]]:
    """What a function leaves in memory; raises Undefined where it does what it must not."""
    buffers = (*BUFFERS.values(), *OUTPUTS.values())
    own = {key: list(item) if isinstance(item, list) else item for key, item in values.items()}
    with np.errstate(all="ignore"):
        run(func.body, own)
    return [own[buffer] for buffer in buffers]


@pytest.mark.parametrize("seed", range(3))
def test_passes_keep_statements(seed: int) -> None:
    assert check_statements(seed, 60) > 100


def test_a_let_of_data_makes_data_of_what_it_is_in() -> None:
    """Its variable need not be used: no rule of ℤ may say that i + 2147483647 is not below i."""
    i, x, load = NUMBERS["int32"][0], tir.Var("x"), tir.BufferLoad(BUFFERS["int32"], [0])
    for position in ("data", "condition", "anywhere", "rewrite", "canonical"):
        comparison = tir.LT(tir.Let(x, load, i + (2**31 - 1)), i)
        assert not Analyzer().is_index(comparison)
        found = POSITIONS[position](Analyzer())(comparison)
        assert value_of(found, {i: 1, BUFFERS["int32"]: [0]}, True) is True, (position, found)
