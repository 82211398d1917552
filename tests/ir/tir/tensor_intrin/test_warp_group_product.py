"""Tiles of products for warp groups: what computes them on the way to the hardware, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from ir.target import Target
from ir.tir import TensorIntrin
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.tir.tensor_intrin.warp_group_product import WarpGroupProduct
from schedules import Schedule, ScheduleError
from tests.programs.warp_groups import Product, scheduled

TARGET = Target("nvidia/nvidia-h200")


@pytest.mark.meaning("warp-group")
@pytest.mark.parametrize(
    ("product", "tile", "stages", "scope"),
    [
        (Product(64, 64, 64, "float16", "float32"), (64, 64), 2, "global"),  # one step, more stages than that
        (Product(128, 16, 320, "float16", "float32"), (64, 8), 2, "global"),
        (Product(64, 64, 256, "bfloat16", "float32", False), (64, 64), 3, "shared.dyn"),
        (Product(64, 128, 128, "float16", "float32", False), (64, 128), 2, "global"),
        (Product(128, 32, 128, "float16", "float16"), (128, 32), 2, "global"),
        (Product(64, 24, 96, "tf32", "float32"), (64, 24), 2, "global"),
        (Product(128, 16, 384, "int8", "int32"), (128, 16), 3, "shared.dyn"),
        (Product(64, 32, 256, "uint8", "int32"), (64, 32), 2, "global"),
        (Product(64, 16, 256, "float8_e4m3fn", "float32"), (64, 16), 2, "global"),
    ],
    ids=str,
)
def test_the_interpreter_computes_the_product(
    product: Product, tile: tuple[int, int], stages: int, scope: str
) -> None:
    lowered = lower(scheduled(product, *tile, stages, scope).mod, TARGET)
    a, b = product.values()
    c = np.zeros((product.m, product.n), product.total)
    run(lowered, a, b, c)
    expected = product.expected(a, b)
    if product.total == "int32":
        assert (c == expected).all()
    else:
        close = 1e-2 if product.total == "float16" else 1e-5
        assert np.abs(c - expected).max() <= close * np.abs(expected).max()


@pytest.mark.parametrize(
    "operand", ["float16", "bfloat16", "tf32", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"]
)
def test_names_tell_products(operand: str) -> None:
    total = "int32" if "int" in operand else "float32"
    product = WarpGroupProduct(192, 96, 512, operand, total, True, "shared", 5)
    assert product.exists and WarpGroupProduct.parse(product.name) == product
    assert TensorIntrin.get(product.name) is TensorIntrin.get(product.name)


@pytest.mark.parametrize(
    "name",
    [
        "wgmma_128x128x100_f16f16f32_nk_global_4",  # no whole steps
        "wgmma_100x128x128_f16f16f32_nk_global_4",
        "wgmma_64x264x128_f16f16f32_nk_global_4",
        "wgmma_64x24x128_s8s8s32_nk_global_4",
        "wgmma_64x64x128_s8s8s32_kn_global_4",  # rows along n have elements of 16 bits
        "wgmma_64x64x128_f16f16s32_nk_global_4",
        "wgmma_64x64x128_f16bf16f32_nk_global_4",
        "wgmma_64x64x128_f16f16f32_nk_global_1",
        "wgmma_64x64x128_f16f16f32_nk_local_2",
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert WarpGroupProduct.parse(name) is None
    assert TensorIntrin.get(name, allow_missing=True) is None


def test_sums_must_be_whole() -> None:
    """An intrinsic that begins sums is none for a part of a reduction."""
    product = Product(64, 64, 128, "float16", "float32")
    sch = Schedule(product.function())
    i, j, k = sch.get_loops(sch.get_block("C"))
    k, k_in = sch.split(k, [None, 64])
    sch.reorder(k, i, j, k_in)
    name = WarpGroupProduct(64, 64, 64, "float16", "float32", True, "global", 2).name
    with pytest.raises(ScheduleError, match="adds to one 2 times"):
        sch.tensorize(i, name)
    sch = Schedule(product.function())
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    sch.decompose_reduction(block, loops[0])
    with pytest.raises(ScheduleError, match="goes on with some"):
        sch.tensorize(loops[0], WarpGroupProduct(64, 64, 128, "float16", "float32", True, "global", 2).name)
