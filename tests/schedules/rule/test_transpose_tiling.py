"""TransposeTiling through the contract, and where it tiles."""

from __future__ import annotations

import pytest

from ir import te
from schedules import Schedule
from schedules.rule import ScheduleRule, TransposeTiling

from ..checks import assert_same_meaning
from ..rule_contract import RuleContract


def permuted(shape: tuple[int, ...], axes: tuple[int, ...]) -> Schedule:
    source = te.placeholder(shape, "float32", name="A")
    result = te.compute(
        tuple(shape[axis] for axis in axes),
        lambda *places: source(*[places[axes.index(axis)] for axis in range(len(shape))]) + 1.0,
        name="B",
    )
    return Schedule(te.create_prim_func([source, result]))


class TestTransposeTiling(RuleContract):
    def rule(self) -> ScheduleRule:
        return TransposeTiling()

    @pytest.mark.parametrize(
        ("shape", "axes", "extents"),
        [
            ((64, 48), (1, 0), [3, 4, 16, 16]),
            ((2, 40, 36), (0, 2, 1), [2, 3, 4, 12, 10]),
            ((37, 64), (1, 0), [4, 3, 16, 16]),  # no divisor: the last tile is cut off
            ((2, 32, 64), (2, 0, 1), [4, 2, 2, 16, 16]),
        ],
    )
    def test_tiles_both_contiguous_axes(
        self, shape: tuple[int, ...], axes: tuple[int, ...], extents: list[int]
    ) -> None:
        sch = permuted(shape, axes)
        before = sch.mod["main"]
        (found,) = self.ready().apply(sch, sch.get_block("B"))
        block = found.get_block("B")
        assert [int(found.get(loop).extent) for loop in found.get_loops(block)] == extents
        assert_same_meaning(before, found.mod["main"])

    @pytest.mark.parametrize(
        ("shape", "axes"),
        [((64, 48), (0, 1)), ((3, 64, 48), (1, 0, 2)), ((64, 8), (1, 0)), ((8, 64), (1, 0))],
    )
    def test_leaves_other_copies_alone(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
        sch = permuted(shape, axes)
        (found,) = self.ready().apply(sch, sch.get_block("B"))
        assert len(found.get_loops(found.get_block("B"))) == len(shape)
