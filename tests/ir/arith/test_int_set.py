"""Sets of values, regions, and solving conditions for a variable."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

import ir
from ir import Range, tir
from ir.arith import Analyzer, deduce_bound, detect_iter_map, int_set
from ir.arith import estimate_region_strict_bound as strict_bound
from ir.arith import estimate_region_upper_bound as upper_bound
from ir.arith.bound_deducer import uses
from ir.tir import Var, floordiv, floormod
from ir.tir.evaluate import evaluate

x, y, z, n = (Var(name) for name in "xyzn")


def same(found: int_set.IntervalSet, low: Any, high: Any) -> bool:
    """Whether an interval has these ends, as far as simplification can tell."""
    analyzer = Analyzer()
    return analyzer.can_prove_equal(found.min_value, tir.convert(low)) and analyzer.can_prove_equal(
        found.max_value, tir.convert(high)
    )


def test_arithmetic_of_intervals() -> None:
    domains = {x: int_set.interval(0, 10), y: int_set.interval(2, 5)}
    cases: list[tuple[Any, Any, Any]] = [
        (x + y, 2, 15),
        (x - y, -5, 8),
        (x * 2 - 1, -1, 19),
        (x * -2, -20, 0),
        (x * y, 0, 50),
        (floordiv(x, 4), 0, 2),
        (floormod(y, 8), 2, 5),
        (floormod(x, 4), 0, 3),
        (tir.min(x, y), 0, 5),
        (tir.Select(z > 0, x, y), 0, 10),
        (x + n, n, n + 10),
        (x * n - x * n, 0, 0),
        (z + 1, z + 1, z + 1),
    ]
    for expr, low, high in cases:
        found = int_set.eval_set(expr, domains)
        assert same(found, low, high), f"{expr}: [{found.min_value}, {found.max_value}]"


def test_ends_may_depend_on_other_variables() -> None:
    found = int_set.eval_set(y, {y: int_set.interval(x, x + 3), x: int_set.interval(0, 4)})
    assert same(found, 0, 7)


def test_open_intervals() -> None:
    below = int_set.interval(int_set.neg_inf(), 3)
    found = int_set.eval_set(1 - x, {x: below})
    assert same(int_set.interval(found.min_value, found.min_value), -2, -2)
    assert found.max_value is int_set.pos_inf()
    assert int_set.everything().is_everything() and int_set.nothing().is_nothing()


def test_vectors_and_points() -> None:
    assert same(int_set.vector(tir.Ramp(x, 2, 4)), x, x + 6)
    assert int_set.single_point(3).is_single_point()


def test_unions_and_intersections() -> None:
    assert same(int_set.union([int_set.interval(0, 3), int_set.interval(6, 9)]), 0, 9)
    assert same(int_set.union_lower_bound([int_set.interval(0, 3), int_set.interval(4, 9)]), 0, 9)
    assert same(int_set.union_lower_bound([int_set.interval(0, 3), int_set.interval(6, 9)]), 0, 3)
    assert same(int_set.intersect([int_set.interval(0, 6), int_set.interval(4, 9)]), 4, 6)
    assert int_set.intersect([int_set.interval(0, 3), int_set.interval(4, 9)]).is_nothing()
    from_two = int_set.interval(2, int_set.pos_inf())
    for sets in ([from_two, int_set.interval(0, 1)], [int_set.interval(0, 1), from_two]):
        whole = int_set.union(sets)
        assert same(int_set.interval(0, whole.min_value), 0, 0) and whole.max_value is int_set.pos_inf()
    assert same(int_set.intersect([from_two, int_set.interval(0, 9)]), 2, 9)


def test_region_bounds() -> None:
    domain = {x: Range(0, 4), y: Range(0, 4)}
    (rows, columns) = upper_bound([Range.from_min_extent(x * 4 + y, 3), Range.from_min_extent(z, 1)], domain)
    assert same(rows, 0, 17) and same(columns, z, z)
    (exact,) = strict_bound([Range.from_min_extent(x * 4 + y, 1)], domain) or [int_set.nothing()]
    assert same(exact, 0, 15)
    assert strict_bound([Range.from_min_extent(x * 5 + y * 3, 1)], domain) is None
    (sparse,) = upper_bound([Range.from_min_extent(x * 5 + y * 3, 4)], domain)
    assert same(sparse, 0, 27)
    (likely,) = upper_bound([Range.from_min_extent(x * 4 + y, 1)], domain, tir.likely(tir.all(x < 3, y < 2)))
    assert same(likely, 0, 9)
    (cut,) = upper_bound([Range.from_min_extent(x * 4 + y, 1)], domain, x * 4 + y < 14)
    assert same(cut, 0, 13)


def test_deduce_bound() -> None:
    nothing: dict[Var, Any] = {}
    cases: list[tuple[Any, Any, Any]] = [
        (x * 4 < 30, None, 7),
        (x * 4 >= 30, 8, None),
        (floordiv(x, 4) < 8, None, 31),
        (10 - x >= 0, None, 10),
        (tir.all(x >= 3, x < 10), 3, 9),
        (x + y < n, None, n - y - 1),
    ]
    for condition, low, high in cases:
        found = deduce_bound(x, condition, nothing, nothing)
        for end, expected in ((found.min_value, low), (found.max_value, high)):
            if expected is None:
                assert end in (int_set.neg_inf(), int_set.pos_inf())
            else:
                assert Analyzer().can_prove_equal(end, tir.convert(expected)), f"{condition}: {end}"
    relaxed = deduce_bound(x, x * 4 + y < 32, nothing, {y: int_set.interval(0, 6)})
    assert ir.structural_equal(relaxed.max_value, tir.const(6))
    assert deduce_bound(x, (x * x).equal(4), nothing, nothing).is_nothing()


def test_analyzer_int_set_knows_bound_variables() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, n))
    assert same(analyzer.int_set(x * 2), 0, n * 2 - 2)


def _touched(region: list[Range], extents: dict[Var, int], predicate: tir.PrimExpr) -> set[tuple[int, ...]]:
    """The elements of a region, one iteration after the other."""
    found: set[tuple[int, ...]] = set()
    for point in itertools.product(*[range(extent) for extent in extents.values()]):
        values = dict(zip(extents, point))
        if evaluate(predicate, values):
            starts = [int(evaluate(item.min, values)) for item in region]
            found |= set(itertools.product(*[range(a, a + int(r.extent)) for a, r in zip(starts, region)]))
    return found


def _box(sets: list[int_set.IntervalSet]) -> set[tuple[int, ...]]:
    return set(itertools.product(*[range(int(s.min_value), int(s.max_value) + 1) for s in sets]))


def _point(*indices: tir.PrimExpr) -> list[Range]:
    return [Range.from_min_extent(index, 1) for index in indices]


@pytest.mark.parametrize(
    ("region", "extents", "predicate"),
    [
        (_point(x), {x: 10}, x < 5),
        (_point(x), {x: 1}, x > 0),  # nowhere
        (_point(x), {x: 10}, z > 3),  # nobody knows
        (_point(x // 2, x % 2), {x: 5}, x >= 3),  # 1, 1 and 2, 0 are no box
        (_point(x % 4, x // 4), {x: 8}, x > 0),
        (_point(x), {x: 8, y: 1}, tir.all(x >= 7, x % 4 + 1 > x - 2)),
        (_point(x), {x: 5, y: 1}, y > x + 1),
    ],
)
def test_lower_bounds_hold_nothing_that_is_not_touched(
    region: list[Range], extents: dict[Var, int], predicate: tir.PrimExpr
) -> None:
    domains = {var: Range(0, extent) for var, extent in extents.items()}
    found = int_set.estimate_region_lower_bound(region, domains, predicate)
    touched = set() if uses(predicate, z) else _touched(region, extents, predicate)
    assert found is None or _box(found) <= touched


def test_lower_bounds_of_random_regions() -> None:
    random = Random(5)
    boxes = 0
    for _ in range(600):
        extents = {var: random.choice((1, 2, 3, 4, 8)) for var in (x, y)[: random.randint(1, 2)]}
        indices = [_random_index(random, list(extents)) for _ in range(4)]
        predicate = random.choice((tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ))(
            indices[0], tir.const(random.randint(-1, 9))
        )
        if random.random() < 0.4:
            predicate = tir.And(predicate, indices[1] >= random.randint(-1, 5))
        region = [Range.from_min_extent(index, random.choice((1, 1, 2))) for index in indices[2:]]
        domains = {var: Range(0, extent) for var, extent in extents.items()}
        found = int_set.estimate_region_lower_bound(region, domains, predicate)
        if found:
            boxes += 1
            assert _box(found) <= _touched(region, extents, predicate), (region, extents, predicate)
    assert boxes > 40


def _random_index(random: Random, variables: list[Var]) -> tir.PrimExpr:
    index: tir.PrimExpr = random.choice(variables)
    if random.random() < 0.5:
        index = variables[0] * random.choice((1, 2, 4)) + variables[-1]
    return random.choice((lambda e: e, lambda e: e // 2, lambda e: e % 4, lambda e: e - 1))(index)


@pytest.mark.parametrize(
    ("index", "last"),
    [
        (lambda i, j: tir.max(tir.shift_right(i, 1), tir.shift_right(j, 2)), 249),
        (lambda i, j: tir.shift_right(i, 1) + tir.shift_right(j, 2), 256),
        (lambda i, j: tir.shift_left(i, 1) + tir.shift_left(j, 2), 4026),
    ],
)
def test_shifts_of_several_variables_stay_apart(index: Any, last: int) -> None:
    """Each is a quotient or product that is made on the way; none is taken for another."""
    domains = {x: int_set.from_range(Range(0, 16)), y: int_set.from_range(Range(0, 1000))}
    assert same(int_set.eval_set(index(x, y), domains), 0, last)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_sets_of_narrow_numbers_have_extents_that_hold_all_of_them(dtype: str) -> None:
    table = tir.decl_buffer((8,), dtype)
    for index in (table[x], table[x].astype("int32"), table[x] + tir.const(1, dtype)):
        found = int_set.range_of(Analyzer().int_set(index, {x: Range(0, 8)}))
        first, last = ir.dtype.integer_range(dtype)
        assert [(int(part), part.dtype) for part in (found.min, found.extent)] == [
            (first, "int32"),
            (last - first + 1, "int32"),
        ]


def test_a_cast_that_may_lose_values_is_no_monotonic_map() -> None:
    narrow = tir.Cast("int32", tir.Cast("uint8", x * 100))
    assert same(Analyzer().int_set(narrow, {x: Range(0, 8)}), 0, 255)
    assert same(Analyzer().int_set(narrow, {x: Range(0, 3)}), 0, 200)


def test_casts_that_wrap_are_no_iterator_maps() -> None:
    assert not detect_iter_map([tir.Cast("uint8", x * 40)], {x: Range(0, 8)}, True, "nocheck").indices
    assert detect_iter_map([tir.Cast("uint8", x)], {x: Range(0, 8)}, True, "bijective").indices


@pytest.mark.parametrize(("of", "ends"), [("int64", "int32"), ("int32", "int64")])
def test_ends_of_another_type_than_the_variable(of: str, ends: str) -> None:
    var, end = tir.Var("v", of), tir.Var("e", ends)
    found = Analyzer().int_set(var - var // 6 * 6 + 1, {var: int_set.IntervalSet(end, end + 1)})
    assert found.min_value.dtype == found.max_value.dtype == of
    single = Analyzer().int_set(tir.floormod(var, 6), {var: int_set.IntervalSet(end, end)})
    assert str(single.min_value) == str(tir.floormod(tir.Cast(of, end), tir.const(6, of)))


@pytest.mark.parametrize("divisor", [1, 3, 4])
@pytest.mark.parametrize("bound", [-5, -1, 0, 2, 7])
def test_a_bound_of_a_quotient_is_the_last_number_that_meets_it(divisor: int, bound: int) -> None:
    x = tir.Var("x")
    for condition, values in (
        (tir.floordiv(x, divisor) <= bound, [n for n in range(-60, 61) if n // divisor <= bound]),
        (tir.floordiv(x, divisor) >= bound, [n for n in range(-60, 61) if n // divisor >= bound]),
    ):
        found = deduce_bound(x, condition, {}, {})
        ends = [getattr(end, "value", None) for end in (found.min_value, found.max_value)]
        assert ends == [
            values[0] if values[0] > -60 else None,
            values[-1] if values[-1] < 60 else None,
        ]


def test_a_quotient_by_what_may_be_negative_is_not_solved() -> None:
    x, y = tir.Var("x"), tir.Var("y")
    for low, is_solved in ((1, True), (0, False), (-3, False)):
        found = deduce_bound(x, tir.floordiv(x, y) <= 2, {y: int_set.interval(low, 6)}, {})
        assert found.is_nothing() != is_solved


def test_a_bound_of_a_quotient_by_another_variable() -> None:
    x, y = tir.Var("x"), tir.Var("y")
    for condition, end, holds in (
        (floordiv(x, 4) <= y, "max_value", lambda a, b: a // 4 <= b),
        (floordiv(x, 4) >= y, "min_value", lambda a, b: a // 4 >= b),
    ):
        found = getattr(deduce_bound(x, condition, {}, {}), end)
        for value in range(-3, 4):
            numbers = [a for a in range(-40, 41) if holds(a, value)]
            assert evaluate(found, {y: value}) == (numbers[-1] if end == "max_value" else numbers[0])
