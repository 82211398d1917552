"""Convolutions by Winograd's algorithm on trial: their roundings are accepted, broken ones are refused all the same."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from experiments.kernel_mutants.checking import built, reference_for, reference_of, refusal
from experiments.kernel_mutants.mutations import MUTATIONS, mutant, places
from ir import IRModule, te, topi
from ir.tir import LT, PrimFunc, post_order_visit
from ir.tir.kernel_attributes import ROUNDING_PROGRAM
from runners.verify import Reference
from runners.verify.facts import entry
from schedules import Schedule
from schedules.primitive.winograd import TILES

CHANNELS, FILTERS = 8, 8
BY_NAME = {mutation.name: mutation for mutation in MUTATIONS}


@lru_cache(maxsize=1)
def convolution() -> IRModule:
    """With tiles of either size that reach beyond the image."""
    data = te.placeholder((1, 7, 9, CHANNELS), "float32", "D")
    weights = te.placeholder((3, 3, CHANNELS, FILTERS), "float32", "W")
    result = topi.nn.relu(topi.nn.conv2d(data, weights, 1, 1, 1, "NHWC"))
    return IRModule({"main": te.create_prim_func([data, weights, result])})


@lru_cache(maxsize=1)
def reference() -> Reference:
    return reference_of(convolution())


@lru_cache(maxsize=None)  # places are found by identity
def by_winograd(tile: int) -> PrimFunc:
    sch = Schedule(convolution())
    sch.winograd("conv2d_nhwc", tile)
    return entry(sch.mod)


def refused(func: PrimFunc) -> str | None:
    return refusal(built(IRModule({"main": func})), reference())


@pytest.mark.parametrize("tile", TILES)
def test_the_roundings_of_the_algorithm_are_accepted_by_what_it_declares(tile: int) -> None:
    assert refused(by_winograd(tile)) is None
    assert "differs from the unscheduled" in str(refused(by_winograd(tile).without_attr(ROUNDING_PROGRAM)))


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(
    "name", ["wrong sign", "constant off by one percent", "index off by one", "stored elsewhere"]
)
def test_broken_kernels_are_refused(tile: int, name: str) -> None:
    """Signs and entries of the three transforms, what they read, and where they store."""
    func = by_winograd(tile)
    found = [place for place in places(func, BY_NAME[name]) if _counts(place, name)]
    for place in found[:: len(found) // 3]:
        assert refused(mutant(func, place)) is not None, place


@pytest.mark.parametrize("tile", TILES)
def test_a_wrong_border_of_the_last_tiles_is_refused(tile: int) -> None:
    func = by_winograd(tile)
    found: list[Any] = []
    post_order_visit(func.body, lambda node: found.append(node) if isinstance(node, LT) else None)
    inside = [node for node in found if int(node.b) in (9, 11)]  # of the padded image, whose last row is zero
    assert len(inside) == 2
    for node in inside:
        assert refused(mutant(func, (node, LT(node.a, node.b - 2)))) is not None


def _counts(place: tuple[Any, Any], name: str) -> bool:
    """Whether a place of a mutation is in what transforms compute: zeros may be off by one percent."""
    node, _ = place
    return name != "constant off by one percent" or bool(node.value)


@pytest.mark.parametrize("tile", TILES)
def test_a_wrong_algorithm_does_not_allow_itself_anything(tile: int) -> None:
    """What the primitive would declare if one of its matrices were wrong agrees with the convolution on nothing."""
    func = by_winograd(tile)
    (place, *_) = places(func, BY_NAME["wrong sign"])
    broken = mutant(func, place)
    assert refused(broken.with_attr(ROUNDING_PROGRAM, broken.without_attr(ROUNDING_PROGRAM))) is not None


def test_exact_sums_stay_exact_for_other_kernels() -> None:
    mod = convolution()
    kernel = built(mod)
    assert reference_for(kernel, reference()) is reference()
