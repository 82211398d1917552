"""Products in the form of tiles: which axes are rows and columns, how operands lie, and that it is the same product."""

from __future__ import annotations

from typing import Any

import pytest

from ir.tir import PrimFunc, TensorIntrin
from ir.tir.tensor_intrin import get_wmma_intrin_group
from schedules import Schedule
from schedules.block_facts import node_of
from schedules.rule.tile_form import (
    ProductForm,
    TileForm,
    bring_into_form,
    described_form,
    nearest_form,
    product_in_memory,
)
from tests.programs.products import convolution, dense, norm

from ..checks import assert_replays, assert_same_meaning


def product_of(func: PrimFunc, block: str) -> ProductForm:
    sch = Schedule(func)
    found = product_in_memory(node_of(sch, sch.get_block(block)))
    assert found is not None
    return found


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_descriptions_and_programs_say_how_operands_lie(trans_a: bool, trans_b: bool) -> None:
    expected = TileForm(("float32", "float16", "float16"), trans_a, trans_b)
    group = get_wmma_intrin_group("shared", "shared", "float16", "float32", trans_b, trans_a)
    compute = TensorIntrin.get(group["compute"])
    assert compute is not None and described_form(compute.desc) == expected
    product = product_of(dense(trans_a=trans_a, trans_b=trans_b), "z")
    assert product.form == expected
    others = [TileForm(expected.dtypes, a, b) for a in (False, True) for b in (False, True)]
    assert nearest_form(product, others) == expected
    assert nearest_form(product, [item for item in others if item.trans_b == trans_b]) == expected


def test_no_form_has_other_dtypes() -> None:
    product = product_of(dense(), "z")
    assert nearest_form(product, [TileForm(("int32", "int8", "int8"), False, False)]) is None


def test_copies_are_no_products_of_tiles() -> None:
    group = get_wmma_intrin_group("shared", "shared", "float16", "float32", False)
    load = TensorIntrin.get(group["load_a"])
    assert load is not None and described_form(load.desc) is None


def test_reductions_are_no_products() -> None:
    sch = Schedule(norm())
    assert product_in_memory(node_of(sch, sch.get_block("C"))) is None


@pytest.mark.parametrize(
    ("layout", "rows", "columns", "summed"),
    [("NHWC", ["yy", "xx"], ["ff"], ["ry", "rx", "rc"]), ("NCHW", ["ff"], ["yy", "xx"], ["rc", "ry", "rx"])],
)
def test_neighbours_in_the_result_are_neighbours_in_tiles(
    layout: str, rows: list[str], columns: list[str], summed: list[str]
) -> None:
    func = convolution(layout)
    product = product_of(func, f"conv2d_{layout.lower()}")
    names = [
        [var.name.removeprefix("v_") for var in axes]
        for axes in (product.axes.m, product.axes.n, product.axes.k)
    ]
    assert names == [rows, columns, summed]
    assert (product.form.trans_a, product.form.trans_b) == (False, False)


@pytest.mark.parametrize(
    ("func", "block"),
    [
        (dense((8, 6, 4), "int32", "int32", trans_a=True, batch=(2,)), "z"),
        (convolution("NHWC", "int32", "int32", channels=(3, 4), stride=2), "conv2d_nhwc"),
        (convolution("NCHW", "int32", "int32", channels=(3, 4), batch=2), "conv2d_nchw"),
    ],
)
def test_a_product_of_matrices_is_the_same(func: PrimFunc, block: str) -> None:
    sch = Schedule(func)
    rv = sch.get_block(block)
    product = product_in_memory(node_of(sch, rv))
    assert product is not None
    bring_into_form(sch, rv, product, product.form)
    found = node_of(sch, rv)
    assert len(found.iter_vars) == (4 if product.axes.batch else 3)
    again = product_in_memory(found)
    assert again is not None and again.axes.is_matrix()
    assert (again.form.trans_a, again.form.trans_b) == (product.form.trans_a, product.form.trans_b)
    assert_replays(sch, func)
    assert_same_meaning(func, sch)


def test_what_has_the_form_is_left_alone() -> None:
    func: Any = dense(trans_b=True)
    sch = Schedule(func)
    rv = sch.get_block("z")
    product = product_in_memory(node_of(sch, rv))
    assert product is not None
    before = sch.mod.script()
    bring_into_form(sch, rv, product, product.form)
    assert sch.mod.script() == before
