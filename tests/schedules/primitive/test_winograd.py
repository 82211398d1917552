"""winograd: convolutions of any padding and layout mean the same, and what is no such convolution is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ir import IRModule, te, tir, topi
from ir.tir.interpreter import Interpreter
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC, ROUNDING_PROGRAM
from schedules import Schedule
from schedules.primitive.winograd import TILES

from ..checks import assert_refused, assert_replays, main_of

NAMES = {"NHWC": "conv2d_nhwc", "NCHW": "conv2d_nchw"}


def convolution(
    image: tuple[int, int] = (7, 6),
    layout: str = "NHWC",
    *,
    batch: int = 1,
    channels: int = 2,
    filters: int = 3,
    padding: Any = 1,
    stride: int = 1,
    dilation: int | tuple[int, int] = 1,
    taps: tuple[int, int] = (3, 3),
    dtype: str = "float64",
    out_dtype: str | None = None,
) -> tir.PrimFunc:
    """A convolution in a block ``conv2d_nhwc`` or ``conv2d_nchw``."""
    if layout == "NHWC":
        shapes = [(batch, *image, channels), (*taps, channels, filters)]
    else:
        shapes = [(batch, channels, *image), (filters, channels, *taps)]
    data, weights = (te.placeholder(shape, dtype, name) for shape, name in zip(shapes, "DW", strict=True))
    result = topi.nn.conv2d(data, weights, stride, padding, dilation, layout, out_dtype=out_dtype)
    return te.create_prim_func([data, weights, result])


def outputs(func: tir.PrimFunc, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    buffers = [func.buffer_map[param] for param in func.params]
    arrays = [
        (scale * rng.standard_normal([int(extent) for extent in item.shape])).astype(item.dtype)
        for item in buffers
    ]
    Interpreter(IRModule({"main": func})).call(func, arrays)
    return arrays[-1]


def by_winograd(func: tir.PrimFunc, tile: int, layout: str = "NHWC") -> Schedule:
    sch = Schedule(func)
    sch.winograd(NAMES[layout], tile)
    return sch


@settings(max_examples=25, deadline=None)
@given(
    tile=st.sampled_from(TILES),
    layout=st.sampled_from(sorted(NAMES)),
    image=st.tuples(st.integers(2, 7), st.integers(2, 7)),
    padding=st.sampled_from([(0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 1, 2), (0, 1, 0, 1)]),
    batch=st.integers(1, 2),
    channels=st.integers(1, 3),
    filters=st.integers(1, 3),
    dilation=st.sampled_from([1, 2, (1, 3), (2, 1)]),
)
def test_computes_the_convolution(
    tile: int,
    layout: str,
    image: tuple[int, int],
    padding: tuple[int, int, int, int],
    batch: int,
    channels: int,
    filters: int,
    dilation: int | tuple[int, int],
) -> None:
    rows, columns = (dilation, dilation) if isinstance(dilation, int) else dilation
    if image[0] + padding[0] + padding[2] <= 2 * rows or image[1] + padding[1] + padding[3] <= 2 * columns:
        return
    func = convolution(
        image,
        layout,
        batch=batch,
        channels=channels,
        filters=filters,
        padding=padding,
        dilation=dilation,
    )
    sch = by_winograd(func, tile, layout)
    # float64 errs by less than 1e-13 of sums of about 30 products here; a wrong sign in a matrix, by about 1
    np.testing.assert_allclose(outputs(main_of(sch)), outputs(func), rtol=1e-10, atol=1e-11)
    assert_replays(sch, func)


def volume(
    extents: tuple[int, int, int],
    layout: str = "NDHWC",
    *,
    channels: int = 2,
    filters: int = 3,
    padding: int = 1,
    dilation: Any = 1,
    depth_taps: int = 3,
    dtype: str = "float64",
) -> tir.PrimFunc:
    """A convolution of a volume in a block ``conv3d_ndhwc`` or ``conv3d_ncdhw``."""
    if layout == "NDHWC":
        shapes = [(1, *extents, channels), (depth_taps, 3, 3, channels, filters)]
        conv: Any = topi.nn.conv3d_ndhwc
    else:
        shapes = [(1, channels, *extents), (filters, channels, depth_taps, 3, 3)]
        conv = topi.nn.conv3d_ncdhw
    data, weights = (te.placeholder(shape, dtype, name) for shape, name in zip(shapes, "DW", strict=True))
    return te.create_prim_func([data, weights, conv(data, weights, 1, padding, dilation)])


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(
    ("layout", "options"),
    [
        ("NDHWC", {"extents": (3, 4, 5)}),
        ("NCDHW", {"extents": (2, 5, 4)}),
        ("NDHWC", {"extents": (4, 4, 4), "padding": 0, "depth_taps": 2}),
        ("NDHWC", {"extents": (6, 5, 6), "dilation": (2, 1, 2)}),
        ("NDHWC", {"extents": (2, 4, 4), "depth_taps": 1}),
    ],
)
def test_volumes_sum_up_over_the_taps_of_their_depth(tile: int, layout: str, options: Any) -> None:
    func = volume(layout=layout, **options)
    sch = Schedule(func)
    sch.winograd(f"conv3d_{layout.lower()}", tile)
    np.testing.assert_allclose(outputs(main_of(sch)), outputs(func), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(
        outputs(main_of(sch).attrs[ROUNDING_PROGRAM]), outputs(func), rtol=1e-10, atol=1e-11
    )
    assert_replays(sch, func)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("layout", sorted(NAMES))
def test_float32_stays_within_what_lavin_and_gray_report(tile: int, layout: str) -> None:
    func = convolution((8, 8), layout, channels=8, dtype="float32")
    found, expected = outputs(main_of(by_winograd(func, tile, layout))), outputs(func)
    assert not np.array_equal(found, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.meaning("tune-winograd")
@pytest.mark.parametrize("tile", TILES)
def test_a_number_that_is_not_finite_spoils_its_tiles_and_no_others(tile: int) -> None:
    """Every tile whose window has it, and nothing behind."""
    func = convolution((12, 12), padding=1)
    arrays = [
        np.random.default_rng(0).standard_normal([int(extent) for extent in func.buffer_map[param].shape])
        for param in func.params
    ]
    arrays[0][0, 0, 0, 0] = np.inf
    found = [item.copy() for item in arrays]
    Interpreter(IRModule({"main": main_of(by_winograd(func, tile))})).call(
        main_of(by_winograd(func, tile)), found
    )
    Interpreter(IRModule({"main": func})).call(func, arrays)
    differ = np.argwhere(~np.isclose(found[-1], arrays[-1], rtol=1e-9, equal_nan=True))
    assert np.isfinite(arrays[-1][0, 2:, :]).all() and len(differ)
    assert differ[:, 1:3].max() < tile


def test_tiles_that_fit_read_the_padded_image_itself() -> None:
    sch = by_winograd(convolution((8, 8)), 4)
    names = [block.name_hint for block in blocks_of(main_of(sch))]
    assert names == [
        "pad_temp",
        "conv2d_nhwc_transform_weights",
        "conv2d_nhwc_transform_inputs",
        "conv2d_nhwc_multiply",
        "conv2d_nhwc_transform_outputs",
        "conv2d_nhwc",
    ]
    wider = by_winograd(convolution((8, 7)), 4)
    assert "conv2d_nhwc_pad" in [block.name_hint for block in blocks_of(main_of(wider))]
    # windows are transformed along the channels, which must lie side by side
    first = by_winograd(convolution((8, 8), "NCHW"), 4, "NCHW")
    assert "conv2d_nchw_pad" in [block.name_hint for block in blocks_of(main_of(first))]


@pytest.mark.parametrize("tile", TILES)
def test_what_tiles_reach_beyond_the_image_is_zero(tile: int) -> None:
    """Other numbers would cancel out, too, but round what is as small as this."""
    func = convolution((5, 5), dtype="float32")
    sch = by_winograd(func, tile)
    found = [outputs(item, scale=1e-10) for item in (main_of(sch), func)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-22)


def test_a_padding_in_the_block_itself_is_no_matter() -> None:
    func = convolution((5, 6))
    sch = Schedule(func)
    sch.compute_inline("pad_temp")
    sch.winograd("conv2d_nhwc", 2)
    np.testing.assert_allclose(outputs(main_of(sch)), outputs(func), rtol=1e-10, atol=1e-11)
    assert_replays(sch, func)


def test_loops_may_count_in_int64() -> None:
    shapes = [[tir.const(extent, "int64") for extent in shape] for shape in ((1, 5, 5, 2), (3, 3, 2, 2))]
    data, weights = (te.placeholder(shape, "float64", name) for shape, name in zip(shapes, "DW", strict=True))
    func = te.create_prim_func([data, weights, topi.nn.conv2d(data, weights, 1, 0, 1, "NHWC")])
    sch = by_winograd(func, 2)
    assert {loop.dtype for loop in (sch.get(item).loop_var for item in sch.get_loops("conv2d_nhwc"))} == {
        "int64"
    }
    np.testing.assert_allclose(outputs(main_of(sch)), outputs(func), rtol=1e-10, atol=1e-11)


def test_loops_that_count_in_several_types_are_refused() -> None:
    shapes: list[list[Any]] = [[tir.const(1, "int64"), 5, 5, 2], [3, 3, 2, 2]]
    data, weights = (te.placeholder(shape, "float64", name) for shape, name in zip(shapes, "DW", strict=True))
    func = te.create_prim_func([data, weights, topi.nn.conv2d(data, weights, 1, 0, 1, "NHWC")])
    sch = Schedule(func)
    assert_refused(sch, lambda: sch.winograd("conv2d_nhwc", 2), "variables of one type")


def test_the_callers_block_is_the_last_one() -> None:
    sch = Schedule(convolution((8, 8)))
    block = sch.get_block("conv2d_nhwc")
    made = sch.winograd(block, 2)
    assert [sch.get(item).name_hint.removeprefix("conv2d_nhwc_") for item in made] == [
        "transform_weights",
        "transform_inputs",
        "multiply",
        "transform_outputs",
    ]
    assert sch.get(block).name_hint == "conv2d_nhwc" and not sch.get_consumers(block)
    assert len(sch.get_loops(block)) == 4


def test_constant_weights_are_transformed_when_a_model_is_compiled() -> None:
    free = by_winograd(convolution().with_attr("layout_free_buffers", [1]), 2)
    given_weights = by_winograd(convolution(), 2)
    constant_data = by_winograd(convolution().with_attr("layout_free_buffers", [0]), 2)
    key = "meta_schedule.layout_rewrite_preproc"
    marked = [
        sum(key in block.annotations for block in blocks_of(main_of(sch)))
        for sch in (free, given_weights, constant_data)
    ]
    assert marked == [1, 0, 0]


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("layout", sorted(NAMES))
def test_the_function_holds_what_it_rounds_like(tile: int, layout: str) -> None:
    """The same roundings in two steps for each transform, none of which is run ahead of the check."""
    func = convolution(layout=layout, dtype="float32").with_attr("layout_free_buffers", [1])
    sch = by_winograd(func, tile, layout)
    program = main_of(sch).attrs[ROUNDING_PROGRAM]
    np.testing.assert_array_equal(outputs(program), outputs(main_of(sch)))
    blocks = blocks_of(program)
    assert sum(block.name_hint.endswith("_columns") for block in blocks) == 3
    assert not any(LAYOUT_REWRITE_PREPROC in block.annotations for block in blocks)


def test_of_several_convolutions_one_program_holds_all_roundings() -> None:
    shapes = ((1, 6, 5, 2), (3, 3, 2, 2))
    data, weights = (te.placeholder(shape, "float32", name) for shape, name in zip(shapes, "DW", strict=True))
    first = topi.nn.conv2d(data, weights, 1, 1, 1, "NHWC")
    func = te.create_prim_func([data, weights, topi.nn.conv2d(first, weights, 1, 1, 1, "NHWC")])
    sch = Schedule(func)
    sch.winograd("conv2d_nhwc", 4)
    sch.winograd("conv2d_nhwc_1", 2)
    program = main_of(sch).attrs[ROUNDING_PROGRAM]
    assert ROUNDING_PROGRAM not in program.attrs
    np.testing.assert_array_equal(outputs(program), outputs(main_of(sch)))
    assert not np.array_equal(outputs(program), outputs(func))
    np.testing.assert_allclose(outputs(program), outputs(func), rtol=1e-3, atol=1e-3)


def blocks_of(func: tir.PrimFunc) -> list[tir.Block]:
    found: list[tir.Block] = []
    tir.post_order_visit(func.body, lambda node: found.append(node) if isinstance(node, tir.Block) else None)
    return [block for block in found if block.name_hint != "root"]


@pytest.mark.parametrize(
    ("func", "words"),
    [
        (convolution((9, 9), stride=2), "by one element"),
        (convolution((9, 9), taps=(5, 5)), "5 x 5 taps"),
        (convolution((9, 9), taps=(3, 1)), "3 x 1 taps"),
        (convolution(dtype="int32"), "int32, not float32 or float64"),
        (convolution(dtype="float16"), "no convolution"),
        (convolution(dtype="bfloat16"), "no convolution"),
        (convolution(dtype="float16", out_dtype="float32"), "no convolution"),
    ],
)
def test_other_convolutions_are_refused(func: tir.PrimFunc, words: str) -> None:
    sch = Schedule(func)
    names = [block.name_hint for block in blocks_of(func) if block.name_hint.startswith("conv2d")]
    assert_refused(sch, lambda: sch.winograd(names[0], 2), words)


def test_what_is_no_convolution_is_refused() -> None:
    a, b = (te.placeholder((8, 8), "float32", name) for name in "AB")
    sch = Schedule(te.create_prim_func([a, b, topi.nn.matmul(a, b)]))
    name = blocks_of(main_of(sch))[-1].name_hint
    assert_refused(sch, lambda: sch.winograd(name, 2), "no convolution")


def test_a_depthwise_convolution_is_refused() -> None:
    data, weights = te.placeholder((1, 4, 6, 6), name="D"), te.placeholder((4, 1, 3, 3), name="W")
    func = te.create_prim_func([data, weights, topi.nn.depthwise_conv2d_nchw(data, weights, 1, 1, 1)])
    sch = Schedule(func)
    assert_refused(sch, lambda: sch.winograd(blocks_of(func)[-1].name_hint, 2), "convolution")


def test_a_nest_that_is_scheduled_already_is_refused() -> None:
    sch = Schedule(convolution())
    sch.split(sch.get_loops("conv2d_nhwc")[1], [None, 2])
    assert_refused(sch, lambda: sch.winograd("conv2d_nhwc", 2), "untouched nest")


@pytest.mark.parametrize("tile", [1, 3, 6, 0])
def test_other_tiles_are_refused(tile: int) -> None:
    sch = Schedule(convolution())
    assert_refused(sch, lambda: sch.winograd("conv2d_nhwc", tile), "the tile is 2 or 4")
