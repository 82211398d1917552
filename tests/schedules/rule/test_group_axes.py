"""GroupAxes through the contract, and grouped convolutions of which each group is a product."""

from __future__ import annotations

import pytest

from ir import te
from ir.target import Target
from ir.tir import PrimFunc
from schedules import Schedule
from schedules.block_facts import node_of
from schedules.dlight import default_schedule
from schedules.rule import GroupAxes, ScheduleRule
from schedules.rule.group_axes import group_sizes
from schedules.rule.product_form import product_axes
from tests.programs.products import convolution

from ..checks import assert_replays, assert_same_meaning
from ..rule_contract import TARGET, RuleContract


class TestGroupAxes(RuleContract):
    def rule(self) -> ScheduleRule:
        return GroupAxes()


def applied(func: PrimFunc, block: str) -> Schedule:
    rule = GroupAxes()
    rule.initialize(TARGET)
    start = Schedule(func)
    (sch,) = rule.apply(start, start.get_block(block))
    return sch


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("groups", [2, 4])
def test_each_group_is_a_product(layout: str, groups: int) -> None:
    func = convolution(layout, "int32", "int32", image=4, channels=(8, 8), groups=groups)
    block = f"group_conv2d_{layout.lower()}"
    sch = applied(func, block)
    node = node_of(sch, sch.get_block(block))
    axes = product_axes(node)
    assert axes is not None and axes.m and axes.n and len(axes.batch) == 1
    assert not group_sizes(node)
    assert_replays(sch, func)
    assert_same_meaning(func, sch)


@pytest.mark.parametrize("groups", [1, 8])
def test_one_group_and_groups_of_one_channel_stay(groups: int) -> None:
    func = convolution("NHWC", "int32", "int32", image=4, channels=(8, 8), groups=groups)
    block = "conv2d_nhwc" if groups == 1 else "group_conv2d_nhwc"
    assert applied(func, block).mod.script() == Schedule(func).mod.script()


def test_a_variable_that_is_divided_by_two_numbers_stays() -> None:
    a, b = te.placeholder((8, 4), "int32", "a"), te.placeholder((4, 4), "int32", "b")
    r = te.reduce_axis((0, 4), "r")
    c = te.compute((16,), lambda i: te.sum(a[i // 2, r] * b[i // 4, r], axis=r), name="c")
    func = te.create_prim_func([a, b, c])
    assert applied(func, "c").mod.script() == Schedule(func).mod.script()


def test_default_kernels_of_groups_have_tiles() -> None:
    func = convolution("NHWC", "float32", "float32", image=14, channels=(32, 64), groups=4)
    script = default_schedule(func, Target("nvidia/nvidia-a100")).mod.script()
    assert 'scope="shared"' in script and 'T.thread_binding(4, thread="blockIdx.z")' in script
