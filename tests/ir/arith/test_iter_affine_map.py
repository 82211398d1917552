"""Iterator maps: what is detected, what is refused, inverses, division into outer and inner."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ir
from ir import Range, tir
from ir.arith import (
    Analyzer,
    IterMapError,
    IterSumExpr,
    detect_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from ir.tir import IndexMap, SizeVar, Var, floordiv, floormod
from ir.tir.evaluate import evaluate

x, y, z = (Var(name) for name in "xyz")


def domain(**extents: int) -> dict[Var, Range]:
    """Ranges of the module's variables by name."""
    return {var: Range(0, extents[var.name]) for var in (x, y, z) if var.name in extents}


def detected(
    indices: list[Any], iters: dict[Var, Range], predicate: Any = True, level: str = "surjective"
) -> Any:
    """The map, which must exist."""
    found = detect_iter_map([tir.convert(item) for item in indices], iters, predicate, level)
    assert found.indices, found.errors
    return found


def check(
    index: Any, iters: dict[Var, Range], extent: Any, base: Any = 0, scale: Any = 1, **options: Any
) -> None:
    """One index becomes one split with this extent, scale and base."""
    (total,) = detected([index], iters, **options).indices
    analyzer = Analyzer()
    assert analyzer.can_prove_equal(total.base, tir.convert(base)), total
    if isinstance(extent, int) and extent == 1:
        assert not total.args
        return
    assert len(total.args) == 1, total
    assert analyzer.can_prove_equal(total.args[0].extent, tir.convert(extent)), total
    assert analyzer.can_prove_equal(total.args[0].scale, tir.convert(scale)), total


def refused(
    indices: list[Any], iters: dict[Var, Range], match: str, predicate: Any = True, level: str = "surjective"
) -> None:
    """There is no such map, and the error says why."""
    found = detect_iter_map(indices, iters, predicate, level)
    assert not found.indices and match in found.errors[0], found


def test_variables_constants_and_fused_iterators() -> None:
    check(x, domain(x=3), 3)
    check(5, domain(x=3), 1, base=5)
    check(z, domain(z=1), 1)
    check(y * 3 + 1 + x, domain(x=3, y=4), 12, base=1)
    check(x * 2, domain(x=3), 3, scale=2)
    refused([y * 3 + x * 2], domain(x=3, y=4), "overlap or leave gaps")
    refused([x * x], domain(x=3), "multiplies two iterators")


def test_splits() -> None:
    check(floordiv(x, 3), domain(x=24), 8)
    check(floormod(x, 3), domain(x=24), 3)
    found = detected(
        [floordiv(x, 6), floordiv(floormod(x, 6), 2), floormod(x, 2)], domain(x=24), level="bijective"
    )
    assert [total.args[0].extent.value for total in found.indices] == [4, 3, 2]
    check(floordiv(x * 2, 4) * 4 + floormod(x * 2, 4), domain(x=8), 8, scale=2)
    check(floordiv(x * 4 + y, 8), domain(x=8, y=4), 4)
    refused([floordiv(x, 3), floormod(x, 2)], domain(x=24), "iterator")


def test_symbolic_extents() -> None:
    a, b = SizeVar("a"), SizeVar("b")
    iters = {x: Range(0, a * b)}
    check(floordiv(x, b), iters, a)
    check(floormod(x, b), iters, b)
    check(x * b + y, {x: Range(0, 8), y: Range(0, b)}, b * 8)


def test_levels() -> None:
    iters = domain(x=3, y=4)
    detected([x], iters, level="surjective")
    refused([x], iters, "used by no index", level="bijective")
    refused([x, x], domain(x=3), "")
    detected([x, x], domain(x=3), level="nocheck")
    with pytest.raises(IterMapError, match="check_level is one of"):
        detect_iter_map([x], iters, True, "exact")


def test_predicates_bound_fused_iterators() -> None:
    iters = domain(x=13, y=10)
    check(x * 10 + y, iters, 128, predicate=x * 10 + y < 128)
    check(x * 10 + y, iters, 64, base=64, predicate=tir.all(x * 10 + y < 128, x * 10 + y >= 64))
    check(x, iters, 5, predicate=x < 5)
    check((x * 32 + y) * 2 + z, domain(x=2, y=32, z=2), 102, predicate=x * 32 + y < 51)
    refused([x, y], iters, "compares iterators", predicate=x < y)


def test_padding() -> None:
    found = detected([floordiv(x, 16), floormod(x, 16)], domain(x=100))
    assert ir.structural_equal(
        found.padding_predicate, tir.And(floordiv(x, 16).equal(6), tir.LE(tir.const(4), floormod(x, 16)))
    )
    refused([floordiv(x, 16), floormod(x, 16)], domain(x=100), "not divisible", level="bijective")


def test_simplification_through_maps() -> None:
    simplified = iter_map_simplify([floordiv(x * 4 + y, 4), floormod(x * 4 + y, 4)], domain(x=8, y=4))
    assert simplified[0] is x and simplified[1] is y


def test_indices_that_overlap_are_simplified_one_by_one() -> None:
    simplified = iter_map_simplify([floordiv(x * 4 + y, 4), x, y * x], domain(x=8, y=4))
    assert simplified[0] is x and simplified[1] is x and ir.structural_equal(simplified[2], y * x)


def test_sums_without_checks() -> None:
    total = normalize_to_iter_sum(y * 2 + x * 64 + z + 5, domain(x=3, y=4, z=2))
    assert [split.scale.value for split in total.args] == [64, 2, 1] and total.base.value == 5


MAPS = [
    (lambda i, j: [i // 4, j // 8, i % 4, j % 8], (16, 64)),
    (lambda i: [i // 12, i // 4 % 3, i % 4], (48,)),
    (lambda i, j, k: [k, i, j], (3, 4, 5)),
    (lambda i, j: [i * 64 + j], (16, 64)),
    (lambda i, j: [(i * 12 + j) // 16, (i * 12 + j) % 16], (8, 12)),
    (lambda n, h, w, c: [n, c // 4, h, w, c % 4], (2, 7, 7, 8)),
    (lambda i: [i + 3], (5,)),
]


@pytest.mark.parametrize(("mapping", "shape"), MAPS)
def test_inverse_undoes_the_map(mapping: Any, shape: tuple[int, ...]) -> None:
    index_map = IndexMap.from_func(mapping)
    inverse = index_map.inverse(shape)
    grids = np.indices(shape)
    values = dict(zip(index_map.initial_indices, grids))
    mapped = [np.broadcast_to(evaluate(item, values), shape) for item in index_map.final_indices]
    back = dict(zip(inverse.initial_indices, mapped))
    for axis, item in enumerate(inverse.final_indices):
        np.testing.assert_array_equal(np.broadcast_to(evaluate(item, back), shape), grids[axis])


@pytest.mark.parametrize(
    ("mapping", "shape", "padding"),
    [
        (
            lambda i: [i // 4, i % 4],
            (14,),
            lambda i, j: tir.And(i.equal(3), tir.LE(tir.const(2, "int64"), j)),
        ),
        (lambda i: [(i + 1) // 4, (i + 1) % 4], (15,), lambda i, j: tir.And(i.equal(0), j < 1)),
        (lambda i: [i // 4, i % 4], (16,), lambda i, j: tir.const(False)),
    ],
)
def test_inverse_with_padding(mapping: Any, shape: tuple[int, ...], padding: Any) -> None:
    index_map = IndexMap.from_func(mapping)
    inverse, predicate = index_map.non_surjective_inverse(shape)
    assert ir.structural_equal(predicate, padding(*inverse.initial_indices)), predicate
    # A place is padding exactly if no index maps to it.
    grids = np.indices([int(extent) for extent in index_map.map_shape(shape)])
    values = dict(zip(inverse.initial_indices, grids))
    (source,) = [evaluate(item, values) for item in inverse.final_indices]
    np.testing.assert_array_equal(
        np.broadcast_to(evaluate(predicate, values), grids[0].shape), (source < 0) | (source >= shape[0])
    )


def test_maps_without_inverse_are_refused() -> None:
    with pytest.raises(IterMapError, match="cannot be inverted"):
        IndexMap.from_func(lambda i, j: [i + j]).inverse([4, 4])
    with pytest.raises(IterMapError, match="padding is needed"):
        IndexMap.from_func(lambda i: [i // 4, i % 4]).inverse([14])


def test_subspace_division() -> None:
    io, ii, jo, ji = (Var(name) for name in ("io", "ii", "jo", "ji"))
    iters = {io: Range(0, 4), ii: Range(0, 8), jo: Range(0, 4), ji: Range(0, 16)}
    text = [
        [str(normalize_iter_map_to_expr(mark.source)) + ":" + str(mark.extent) for mark in pair]
        for pair in subspace_divide([io * 8 + ii, jo * 16 + ji], iters, [ii, ji])[:-1]
    ]
    assert text == [["io:4", "ii:8"], ["jo:4", "ji:16"]]
    (pair, _) = subspace_divide([floordiv(io * 8 + ii, 4)], {io: Range(0, 4), ii: Range(0, 8)}, [ii])
    assert (pair[0].extent.value, pair[1].extent.value) == (4, 2)
    assert subspace_divide([ii * 4 + io], {io: Range(0, 4), ii: Range(0, 8)}, [ii]) == []


@st.composite
def splits_of_loops(draw: Any) -> tuple[list[Any], dict[Var, Range]]:
    """Loops, fused and split again at random factors: a bijection."""
    extents = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3))
    loops = [Var(f"l{i}") for i in range(len(extents))]
    flat: Any = tir.const(0)
    total = 1
    for var, extent in zip(loops, extents):
        flat = flat * extent + var
        total *= extent
    indices, rest = [], total
    while rest > 1:
        factor = draw(st.sampled_from([f for f in range(2, rest + 1) if rest % f == 0]))
        rest //= factor
        indices.append(
            floormod(floordiv(flat, rest), factor) if rest * factor != total else floordiv(flat, rest)
        )
    return indices or [tir.const(0)], {var: Range(0, extent) for var, extent in zip(loops, extents)}


@given(splits_of_loops())
def test_fused_and_split_loops_are_bijective_and_keep_their_values(
    case: tuple[list[Any], dict[Var, Range]],
) -> None:
    indices, iters = case
    found = detect_iter_map(indices, iters, True, "bijective")
    assert found.indices, found.errors
    points = list(itertools.product(*(range(int(r.extent)) for r in iters.values())))  # type: ignore[call-overload]
    values = {var: np.array([point[i] for point in points]) for i, var in enumerate(iters)}
    for index, total in zip(indices, found.indices, strict=True):
        assert isinstance(total, IterSumExpr)
        np.testing.assert_array_equal(
            np.broadcast_to(evaluate(normalize_iter_map_to_expr(total), values), len(points)),
            np.broadcast_to(evaluate(index, values), len(points)),
        )


@st.composite
def indices_of_loops(draw: Any) -> tuple[list[Any], dict[Var, Range]]:
    """Sums of loops, divided and reduced by small constants: maps or not."""
    extents = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    loops = [Var(f"l{i}") for i in range(len(extents))]

    def linear() -> Any:
        total: Any = tir.const(draw(st.sampled_from([0, 0, 0, 1, 3])))
        for var in loops:
            scale = draw(st.sampled_from([0, 1, 1, 2, 3, 4, 6, 8, 12]))
            total = total + var * scale
        return total

    flat = linear()
    indices = []
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.sampled_from([flat, flat, linear(), *loops]))
        for _ in range(draw(st.integers(0, 2))):
            divisor = draw(st.integers(2, 6))
            index = floordiv(index, divisor) if draw(st.booleans()) else floormod(index, divisor)
        indices.append(index)
    return indices, {var: Range(0, extent) for var, extent in zip(loops, extents)}


@pytest.mark.parametrize("level", ["nocheck", "surjective", "bijective"])
def test_what_is_detected_is_true(level: str) -> None:
    """The map has the indices' values; unless it is padded it reaches its whole box, a bijection every point once."""

    @given(indices_of_loops(), st.integers(1, 60), st.booleans())
    @settings(max_examples=150)
    def check(case: tuple[list[Any], dict[Var, Range]], limit: int, bounded: bool) -> None:
        indices, iters = case
        flat: Any = tir.const(0)
        for var, domain in iters.items():
            flat = flat * domain.extent + var
        condition = flat < limit if bounded else tir.const(True)
        found = detect_iter_map(indices, iters, condition, level, simplify_trivial_iterators=True)
        if not found.indices:
            return
        points = list(itertools.product(*(range(int(r.extent)) for r in iters.values())))  # type: ignore[call-overload]
        values = {var: np.array([point[i] for point in points]) for i, var in enumerate(iters)}
        holds = np.broadcast_to(evaluate(condition, values), len(points)).astype(bool)
        points = [point for point, kept in zip(points, holds) if kept]
        values = {var: np.array([point[i] for point in points]) for i, var in enumerate(iters)}
        box, columns = [], []
        for index, total in zip(indices, found.indices, strict=True):
            actual = np.broadcast_to(evaluate(index, values), len(points))
            again = np.broadcast_to(evaluate(normalize_iter_map_to_expr(total), values), len(points))
            np.testing.assert_array_equal(again, actual)
            columns.append(actual.tolist())
            reach = range(1)
            if total.args and len(total.args) == 1:
                (split,) = total.args
                reach = range(0, split.extent.value * split.scale.value, split.scale.value)
            box.append([total.base.value + step for step in reach])
        reached = set(zip(*columns))
        padded = bool(getattr(found.padding_predicate, "value", True))
        if level != "nocheck" and not padded:
            assert reached == set(itertools.product(*box))
        if level == "bijective":
            assert not padded and len(reached) == len(points)

    check()


@given(splits_of_loops(), st.integers(1, 40), st.integers(0, 10))
def test_bounded_maps_reach_exactly_their_box(
    case: tuple[list[Any], dict[Var, Range]], high: int, low: int
) -> None:
    """Under a bound on the fused loops, the single fused index covers what the bound leaves."""
    _, iters = case
    flat: Any = tir.const(0)
    for var, domain in iters.items():
        flat = flat * domain.extent + var
    condition = tir.And(flat < high, flat >= low)
    found = detect_iter_map([flat], iters, condition, "surjective")
    if not found.indices or low >= high:
        return
    points = list(itertools.product(*(range(int(r.extent)) for r in iters.values())))  # type: ignore[call-overload]
    values = {var: np.array([point[i] for point in points]) for i, var in enumerate(iters)}
    holds = np.broadcast_to(evaluate(condition, values), len(points)).astype(bool)
    actual = set(np.broadcast_to(evaluate(flat, values), len(points))[holds].tolist())
    (total,) = found.indices
    extent = total.args[0].extent.value if total.args else 1
    if actual:
        assert actual == set(range(total.base.value, total.base.value + extent))


@given(splits_of_loops(), st.data())
def test_divided_bindings_keep_their_values(case: tuple[list[Any], dict[Var, Range]], data: Any) -> None:
    """``outer * inner extent + inner`` is the binding, and each part uses its own iterators only."""
    indices, iters = case
    loops = list(iters)
    inner = loops[data.draw(st.integers(0, len(loops))) :]
    divided = subspace_divide(indices, iters, inner)
    assume(divided)  # empty where an index joins outer and inner loops
    points = list(itertools.product(*(range(int(r.extent)) for r in iters.values())))  # type: ignore[call-overload]
    values = {var: np.array([point[i] for point in points]) for i, var in enumerate(loops)}
    *pairs, _condition = divided  # the predicate is divided as well, and comes last
    for index, (outer, mark) in zip(indices, pairs, strict=True):
        first, second = normalize_iter_map_to_expr(outer.source), normalize_iter_map_to_expr(mark.source)
        assert not set(tir.analysis.undefined_vars(first)) & set(inner)
        assert set(tir.analysis.undefined_vars(second)) <= set(inner)
        np.testing.assert_array_equal(
            np.broadcast_to(evaluate(first * mark.extent + second, values), len(points)),
            np.broadcast_to(evaluate(index, values), len(points)),
        )


def test_bounds_of_several_fused_iterators_stay_apart() -> None:
    """What one of them begins at is added to no index of another, whatever memory their marks had."""
    a, b, c, d, e = (Var(name, "int32") for name in "abcde")
    extents = {a: 19, b: 1, c: 5, d: 2, e: 2}
    iters = {var: Range(0, extent) for var, extent in extents.items()}
    fused = c * 2 + (d * 2 + e)
    condition = tir.And(tir.And(a >= 2, a < 17), tir.And(fused >= 2, fused < 9))
    indices = [a - 2 + b, c * 2 + d * 2 + e - 2]
    points = list(itertools.product(*map(range, extents.values())))
    values = {var: np.array([point[i] for point in points]) for i, var in enumerate(iters)}
    holds = np.broadcast_to(evaluate(condition, values), len(points)).astype(bool)
    for _ in range(20):
        found = detect_iter_map(indices, iters, condition, "surjective", simplify_trivial_iterators=False)
        for index, total in zip(indices, found.indices, strict=True):
            again = np.broadcast_to(evaluate(normalize_iter_map_to_expr(total), values), len(points))
            wanted = np.broadcast_to(evaluate(index, values), len(points))
            np.testing.assert_array_equal(again[holds], wanted[holds])


@pytest.mark.parametrize(("step", "extent", "window"), [(2, 9, 4), (3, 9, 4), (4, 9, 4)])
def test_windows_that_overlap_are_not_divided(step: int, extent: int, window: int) -> None:
    """What is divided is put together again: an outer part times the extent of the inner one, and the inner one."""
    i, ax = Var("i", "int32"), Var("ax", "int32")
    iters = {i: Range(0, extent), ax: Range(0, window)}
    divided = subspace_divide([i * step + ax], iters, [ax])
    if step < window:
        assert not divided
        return
    outer, inner = divided[0]
    again = normalize_iter_map_to_expr(outer.source) * inner.extent + normalize_iter_map_to_expr(inner.source)
    assert Analyzer().can_prove_equal(again, i * step + ax)
