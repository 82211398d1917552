"""WinogradConvolution through the contract, and the structures that it offers beside the direct form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir import te, tir, topi
from ir.target import Target
from schedules import Schedule, ScheduleError
from schedules.population.sketch import Sketch, SketchSchedule
from schedules.postproc import postprocess
from schedules.rule import ScheduleRule, WinogradConvolution
from schedules.space import PostOrderApply

from ..checks import assert_replays
from ..primitive.test_winograd import convolution, outputs, volume
from ..rule_contract import RuleContract

CPU = Target("llvm -mcpu=haswell -num-cores 2")


class TestWinogradConvolution(RuleContract):
    def rule(self) -> ScheduleRule:
        return WinogradConvolution()


def offers(func: tir.PrimFunc, rule: ScheduleRule | None = None, block: str = "conv2d_nhwc") -> list[Any]:
    rule = rule or WinogradConvolution()
    rule.initialize(CPU)
    start = SketchSchedule(func, seed=0)
    return rule.offers(start, start.get_block(block))


def kinds(sch: Schedule) -> list[str]:
    assert sch.trace is not None
    return [inst.kind.name for inst in sch.trace.insts]


def with_epilogue(image: tuple[int, int], *, filters: int = 8, dtype: str = "float64") -> tir.PrimFunc:
    """A convolution, a bias, another image, and ReLU."""
    shapes = [(1, *image, 4), (3, 3, 4, filters), (filters,), (1, *image, filters)]
    data, weights, bias, other = (
        te.placeholder(shape, dtype, name) for shape, name in zip(shapes, "DWBO", strict=True)
    )
    total = topi.add(topi.add(topi.nn.conv2d(data, weights, 1, 1, 1, "NHWC"), bias), other)
    return te.create_prim_func([data, weights, bias, other, topi.nn.relu(total)])


@pytest.mark.parametrize(("channels", "count"), [(512, 5), (513, 3), (768, 3), (769, 1)])
def test_sums_of_many_channels_are_direct(channels: int, count: int) -> None:
    """A check that allows what the algorithm rounds there would take a product that is missing in one place for it."""
    assert len(offers(convolution((4, 4), channels=channels, filters=8, dtype="float32"))) == count


@pytest.mark.parametrize(("channels", "count"), [(170, 5), (171, 3), (256, 3), (257, 1)])
def test_sums_over_the_depth_of_volumes_count_as_channels(channels: int, count: int) -> None:
    func = volume((2, 4, 4), channels=channels, filters=8, dtype="float32")
    assert len(offers(func, block="conv3d_ndhwc")) == count


@pytest.mark.parametrize(
    ("image", "dilation", "count"),
    [((7, 7), 1, 5), ((7, 7), 6, 1), ((14, 14), 4, 5), ((2, 2), 1, 3), ((1, 1), 1, 1), ((5, 30), (4, 1), 5)],
)
def test_tiles_that_save_no_products_are_not_offered(image: Any, dilation: Any, count: int) -> None:
    """Of 7 x 7 with a dilation of 6, tiles of 2 x 2 are 12 x 12 outputs with 576 products, the convolution has 441."""
    func = convolution(image, channels=8, filters=8, padding=dilation, dilation=dilation, dtype="float32")
    assert len(offers(func)) == count


def test_the_direct_form_comes_first_and_each_tile_has_two_forms() -> None:
    direct, *others = offers(convolution((8, 8), channels=8, filters=8, dtype="float32"))
    assert "Winograd" not in kinds(direct)
    tiles = [
        next(inst.attrs[0] for inst in sch.trace.insts if inst.kind.name == "Winograd") for sch in others
    ]
    assert tiles == [2, 2, 4, 4]
    assert ["ComputeAt" in kinds(sch) for sch in others] == [True, False, True, False]


@pytest.mark.parametrize(
    "func",
    [
        convolution((9, 9), stride=2, dtype="float32"),
        convolution((9, 9), taps=(1, 1), padding=0, dtype="float32"),
        convolution((9, 9), dtype="int32"),
        convolution((9, 9), dtype="bfloat16", out_dtype="bfloat16"),
    ],
)
def test_other_convolutions_stay_as_they_are(func: tir.PrimFunc) -> None:
    name = "conv2d_nhwc" if "conv2d_nhwc" in func.script() else "compute"
    assert len(offers(func, block=name)) == 1


@pytest.mark.parametrize(("most", "count"), [(8, 5), (7, 1), ({4: 7}, 3), ({2: 7}, 3), ({}, 5), (None, 5)])
def test_how_many_channels_are_summed_up_is_chosen(most: Any, count: int) -> None:
    func = convolution((8, 8), channels=8, filters=8, dtype="float32")
    assert len(offers(func, WinogradConvolution(max_channels=most))) == count


def test_channels_of_tiles_that_there_are_not_are_refused() -> None:
    with pytest.raises(ScheduleError, match=r"one by tile, \[2, 4\]; got \{3: 8\}"):
        WinogradConvolution(max_channels={3: 8})


def test_the_tiles_to_offer_are_chosen() -> None:
    func = convolution((8, 8), channels=8, filters=8, dtype="float32")
    assert len(offers(func, WinogradConvolution(tiles=[4]))) == 3
    with pytest.raises(ScheduleError, match=r"tiles are among \[2, 4\], got \[3\]"):
        WinogradConvolution(tiles=[3])


@pytest.mark.parametrize(
    "func",
    [
        with_epilogue((8, 8)),
        with_epilogue((7, 9)),
        with_epilogue((4, 5), filters=1),
        convolution((6, 7), "NCHW", channels=4, filters=8),
        convolution((5, 6), batch=2, channels=4, filters=8),
        convolution((8, 8), channels=4, filters=8).with_attr("layout_free_buffers", [1]),
        convolution((10, 9), channels=4, filters=8, dilation=2),
        convolution((10, 9), channels=4, filters=8, dilation=(1, 3)),
        volume((4, 6, 5), channels=2, filters=8),
        volume((4, 8, 7), channels=2, filters=8, dilation=(1, 2, 1)).with_attr("layout_free_buffers", [1]),
    ],
)
def test_random_candidates_of_all_structures_compute_the_convolution(func: tir.PrimFunc) -> None:
    expected, rng = outputs(func), np.random.default_rng(0)
    sketches = [
        sketch
        for sketch in PostOrderApply(max_sketches=12).generate_sketches(func, CPU)
        if "Winograd" in kinds(sketch.materialize(func, sketch.sample(1, rng)[0]))
    ]
    assert len(sketches) >= 4
    for sketch in sketches[:: len(sketches) // 3]:
        (row,) = sketch.sample(1, rng)
        sch = sketch.materialize(func, row)
        assert_replays(sch, func)
        assert postprocess(sch, CPU)
        np.testing.assert_allclose(outputs(sch.mod["main"]), expected, rtol=1e-10, atol=1e-11)


def test_what_follows_is_computed_where_the_outputs_are_transformed() -> None:
    """Bias, sum and ReLU are one block, under the loops of a tile of the products, and no image of the convolution's own is left."""
    func = with_epilogue((8, 8), dtype="float32")
    for sketch in PostOrderApply(max_sketches=12).generate_sketches(func, CPU):
        sch = sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0])
        if "Winograd" not in kinds(sch):
            continue
        assert "conv2d_nhwc = T.alloc_buffer" not in sch.mod.script()
        shared = [
            {sch.get(loop).loop_var for loop in sch.get_loops(name)}
            for name in ("conv2d_nhwc_transform_outputs", "compute")
        ]
        assert len(shared[0] & shared[1]) >= 3


def test_padding_happens_once() -> None:
    """An image that tiles reach beyond is copied once, with all zeros around it."""
    func = convolution((7, 7), channels=8, filters=8, dtype="float32")
    for sch in offers(func)[1:]:
        assert not any(name in sch.mod.script() for name in ('T.block("pad_temp")', "pad_temp = "))


def test_cores_share_the_image_where_filters_are_tiled_in_each_share() -> None:
    """Tiles of the filters run one after the other in a core's share of the image, where it has transformed the inputs."""
    cores = 16
    target = Target(f"llvm -mcpu=haswell -num-cores {cores}")
    rule = WinogradConvolution(tiles=[2])
    rule.initialize(target)
    start = SketchSchedule(convolution((16, 16), channels=16, filters=64, dtype="float32"), seed=0)
    direct, fused, apart = rule.offers(start, start.get_block("conv2d_nhwc"))
    jobs = []
    for sch in (fused, apart):
        assert isinstance(sch, SketchSchedule)
        sketch = Sketch(sch)
        (nest,) = [
            nest
            for nest in sketch.skeleton(sketch.sample(200, np.random.default_rng(0))).nests
            if nest.name.endswith("multiply")
        ]
        jobs.append(np.prod([loop.extent for loop in nest.loops if loop.mark == "parallel"], axis=0))
    assert jobs[0].min() >= cores and jobs[1].min() >= cores
    assert (
        jobs[0].max() <= 64 and jobs[1].max() > 64
    )  # 8 x 8 tiles of the image, and those of the filters beside


def test_registers_hold_what_a_tile_of_products_needs() -> None:
    func = convolution((16, 16), channels=16, filters=64, dtype="float32")
    rng = np.random.default_rng(0)
    for sch in offers(func)[1:]:
        sketch = Sketch(sch)
        rows = sketch.sample(64, rng)
        (nest,) = [nest for nest in sketch.skeleton(rows).nests if nest.name.endswith("multiply")]
        tile = np.ones(len(rows))
        for loop in nest.loops:
            if loop.mark in ("unroll", "vectorize") and not loop.is_reduction:
                tile = tile * (np.ceil(loop.extent / 8) if loop.mark == "vectorize" else loop.extent)
        assert (tile < CPU.vector_registers).all()
