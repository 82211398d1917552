"""Im2col through the contract, and the products that it makes of strided convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import te, tir, topi
from ir.script import from_source
from ir.target import Target
from schedules import Schedule
from schedules.block_facts import node_of, reduce_vars
from schedules.population.sketch import SketchSchedule
from schedules.postproc import postprocess
from schedules.rule import Im2col, ScheduleRule
from schedules.space import PostOrderApply

from ..checks import assert_replays, assert_same_meaning
from ..primitive.test_winograd import NAMES, convolution
from ..rule_contract import RuleContract

CPU = Target("llvm -mcpu=haswell -num-cores 2")


class TestIm2col(RuleContract):
    def rule(self) -> ScheduleRule:
        return Im2col()


def offers(func: tir.PrimFunc, block: str = "conv2d_nhwc", sketch: bool = False) -> list[Any]:
    rule = Im2col()
    rule.initialize(CPU)
    start = SketchSchedule(func, seed=0) if sketch else Schedule(func)
    return rule.offers(start, start.get_block(block))


@settings(max_examples=15, deadline=None)
@given(
    layout=st.sampled_from(sorted(NAMES)),
    image=st.tuples(st.integers(5, 8), st.integers(5, 8)),
    taps=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    stride=st.integers(2, 3),
    padding=st.integers(0, 1),
    channels=st.integers(2, 3),
)
def test_a_strided_convolution_is_a_product_of_patches(
    layout: str, image: tuple[int, int], taps: tuple[int, int], stride: int, padding: int, channels: int
) -> None:
    func = convolution(
        image, layout, batch=2, channels=channels, taps=taps, stride=stride, padding=padding, dtype="int32"
    )
    direct, patches = offers(func, NAMES[layout])
    assert len(reduce_vars(node_of(direct, direct.get_block(NAMES[layout])))) == 3
    block = node_of(patches, patches.get_block(NAMES[layout]))
    assert len(reduce_vars(block)) == 1
    data = next(region for region in block.reads if region.buffer.name.endswith("reindex"))
    assert all(isinstance(item.min, tir.Var) for item in data.region)
    last = data.region[-1].min
    assert last is block.writes[0].region[-1].min if layout == "NCHW" else last is reduce_vars(block)[0]
    assert_same_meaning(func, patches)
    assert_replays(patches, func)


@pytest.mark.parametrize("sketch", [False, True])
@pytest.mark.parametrize(
    "func",
    [
        convolution((8, 8)),  # windows overlap
        convolution((8, 8), dilation=2),
    ],
)
def test_others_stay_as_they_are(func: tir.PrimFunc, sketch: bool) -> None:
    assert len(offers(func, sketch=sketch)) == 1


def test_a_pool_has_no_weights() -> None:
    data = te.placeholder((1, 9, 9, 4), name="D")
    func = te.create_prim_func(
        [data, topi.nn.pool2d(data, (3, 3), (2, 2), (1, 1), (0, 0, 0, 0), "max", layout="NHWC")]
    )
    names: list[str] = []
    tir.post_order_visit(
        func.body, lambda node: names.append(node.name_hint) if isinstance(node, tir.Block) else None
    )
    assert all(len(offers(func, name)) == 1 for name in names if name != "root")


PLACES = """@T.prim_func
def main(A: T.Buffer((9, 9), "int32"), W: T.Buffer((3, 3, 4), "int32"), O: T.Buffer((4, 4, 4), "int32")):
    for i, j, k, r, s in T.grid(4, 4, 4, 3, 3):
        with T.block("O"):
            vi, vj, vk, vr, vs = T.axis.remap("SSSRR", [i, j, k, r, s])
            with T.init():
                O[vi, vj, vk] = 0
            O[vi, vj, vk] = O[vi, vj, vk] + {value}
"""


def test_windows_that_move_backwards_are_patches_too() -> None:
    func = from_source(PLACES.format(value="A[6 - vi * 2 + vr, vj * 2 + vs] * W[vr, vs, vk]"))
    backwards = from_source(PLACES.format(value="A[6 - vi * 2 + vr, 6 - vj * 2 + vs] * W[vr, vs, vk]"))
    for program in (func, backwards):
        _, patches = offers(program, "O")
        assert_same_meaning(program, patches)
        assert_replays(patches, program)


@pytest.mark.parametrize(
    "value",
    [
        "A[vi * 2 + vr, vj * 2 + vs] * A[vr, vs]",  # of one tensor two operands cannot be told apart
        "A[vi * 2 + vr, vj * 2 + vs] * W[vr, vs, 3 - vk]",
        "A[vi * 2 + vr, vj * 2 + vs] * W[vr, vs, (vk * 2) % 4]",
    ],
)
def test_operands_that_are_no_weights_leave_windows_as_they_are(value: str) -> None:
    assert len(offers(from_source(PLACES.format(value=value)), "O")) == 1


def test_candidates_with_patches_mean_the_same() -> None:
    func = convolution((7, 7), channels=4, filters=8, stride=2, dtype="int32")
    rng, found = np.random.default_rng(0), 0
    for sketch in PostOrderApply(max_sketches=12).generate_sketches(func, CPU):
        sch = sketch.materialize(func, sketch.sample(1, rng)[0])
        if "ReIndex" in [inst.kind.name for inst in sch.trace.insts]:
            found += 1
            assert postprocess(sch, CPU)
            assert_same_meaning(func, sch)
    assert found >= 1
