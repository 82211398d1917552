"""Products of narrow numbers for dot-product instructions: which ones there are, what their tiles look like, and that they are exact."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from cost_models import estimate_seconds
from experiments.operators import suite
from ir import IRModule, te, topi
from ir.dtype import to_numpy
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.kernel_attributes import DOT_PRODUCT, LAYOUT_FREE_BUFFERS, LAYOUT_REWRITE_MAPS
from ir.tir.lower import lower
from runners.native import build_native
from schedules import Schedule
from schedules.block_facts import contiguous_var, node_of
from schedules.dlight import default_schedule
from schedules.layout_rewrite import split_module
from schedules.postproc import postprocess
from schedules.rule import cpu_rules
from schedules.rule.dot_product import dot_product_of
from schedules.rule.float_dot_products import FloatDotProducts
from schedules.space import PostOrderApply
from schedules.tree import all_blocks, loops_around, tree_of

VNNI = Target("llvm -mcpu=znver4 -num-cores 2")
WORDS = Target("llvm -mcpu=x86-64-v3 -num-cores 2")
"""Has no instruction for bytes, but one for words."""
PLAIN = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -num-cores 2")


def product(
    rows: int,
    columns: int,
    inner: int,
    first: str = "int8",
    second: str = "int8",
    sums: str = "int32",
    x_by_columns: bool = False,
    skipped: int = 0,
) -> PrimFunc:
    x = te.placeholder((inner, rows) if x_by_columns else (rows, inner), first, name="x")
    y = te.placeholder((skipped + inner, columns), second, name="y")
    k = te.reduce_axis((0, inner), "k")

    def term(i: Any, j: Any) -> Any:
        left = x[k, i] if x_by_columns else x[i, k]
        return te.sum(left.astype(sums) * y[skipped + k if skipped else k, j].astype(sums), axis=k)

    return te.create_prim_func([x, y, te.compute((rows, columns), term, name="product")])


def grouped_sketches(func: PrimFunc, target: Target) -> list[Any]:
    """The structures with a loop over a group."""
    found = PostOrderApply().generate_sketches(func, target)
    return [sketch for sketch in found if any(DOT_PRODUCT in item for item in _annotations(sketch, func))]


def _annotations(sketch: Any, func: PrimFunc) -> list[dict[str, Any]]:
    (row, *_) = sketch.sample(1, np.random.default_rng(0))
    tree = tree_of(sketch.materialize(func, row).mod["main"].body)
    return [dict(loop.annotations) for block in all_blocks(tree) for loop in loops_around(block)]


@pytest.mark.parametrize(
    ("first", "second", "sums", "size"),
    [
        ("int8", "int8", "int32", 4),
        ("uint8", "int8", "int32", 4),
        ("int8", "uint8", "int32", 4),
        ("uint8", "uint8", "int32", 4),
        ("int16", "int16", "int32", 2),
    ],
)
def test_what_the_target_multiplies_in_groups(first: str, second: str, sums: str, size: int) -> None:
    sch = Schedule(product(8, 32, 64, first, second, sums))
    node = node_of(sch, sch.get_block("product"))
    found = dot_product_of(node, contiguous_var(node), VNNI)
    assert found is not None and (found.axis, found.size, found.panels.name) == (2, size, "y")
    assert found.has_corrections == (first == second != "int16")
    by_words = dot_product_of(node, contiguous_var(node), WORDS)
    assert by_words is not None and by_words.size == size and not by_words.has_corrections
    assert dot_product_of(node, contiguous_var(node), PLAIN) is None


@pytest.mark.parametrize(
    "options",
    [
        {"inner": 62},  # no whole groups
        {"inner": 4},  # one group is no loop
        {"first": "int32", "second": "int32"},
        {"first": "int8", "second": "int16"},
        {"sums": "int64"},
        {"first": "float16", "second": "float16", "sums": "float32"},
        {"x_by_columns": True},  # the numbers of a group lie apart
        {"columns": 1},  # one lane
        {"columns": 13},  # no vector that is whole
        {"skipped": 3},  # groups that begin in the middle of another one
    ],
)
def test_what_is_no_group(options: dict[str, Any]) -> None:
    func = product(**{"rows": 8, "columns": 32, "inner": 64, **options})
    assert grouped_sketches(func, VNNI) == []
    assert PostOrderApply().generate_sketches(func, VNNI)


def test_a_gpu_has_no_lanes_of_sums() -> None:
    sch = Schedule(product(8, 32, 64))
    node = node_of(sch, sch.get_block("product"))
    assert dot_product_of(node, contiguous_var(node), Target("nvidia/nvidia-a100")) is None


def test_groups_lie_side_by_side_in_panels() -> None:
    (sketch,) = grouped_sketches(product(8, 32, 64), VNNI)
    (row, *_) = sketch.sample(1, np.random.default_rng(0))
    sch = sketch.materialize(product(8, 32, 64), row)
    assert postprocess(sch, VNNI)
    text = sch.mod["main"].script()
    assert 'for ax3 in T.serial(4, annotations={"dot_product": 1}):' in text
    loops = loops_around(node_of(sch, sch.get_block("product_update")))
    assert loops[-2].kind.name == "VECTORIZED" and DOT_PRODUCT in loops[-1].annotations
    (packed,) = [item for item in sch.mod["main"].body.block.alloc_buffers if item.name == "y_global"]
    panels, groups, width, size = (int(extent) for extent in packed.shape)
    assert (panels * width, groups, size) == (32, 16, 4)


CASES = {
    "product": (lambda: product(12, 48, 32), lambda x, y: x @ y),
    "unsigned and signed": (lambda: product(12, 48, 32, "uint8", "int8"), lambda x, y: x @ y),
    "one row": (lambda: product(1, 64, 64, "int8", "uint8"), lambda x, y: x @ y),
    "int16": (lambda: product(5, 16, 24, "int16", "int16"), lambda x, y: x @ y),
    "odd": (lambda: product(7, 17, 12, "uint8", "uint8"), lambda x, y: x @ y),
    "padded": (lambda: product(13, 31, 20), lambda x, y: x @ y),
    "padded words": (lambda: product(3, 33, 20, "int16", "int16"), lambda x, y: x @ y),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", [Target("cpu"), WORDS], ids=["host", "words"])
def test_candidates_are_exact(name: str, target: Target) -> None:
    make, reference = CASES[name]
    func = make()
    generator = np.random.default_rng(0)
    kinds = [str(func.buffer_map[param].dtype) for param in func.params]
    shapes = [tuple(int(item) for item in func.buffer_map[param].shape) for param in func.params]
    arrays = [
        generator.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
        for kind, shape in zip(kinds[:-1], shapes[:-1], strict=True)
    ]
    expected = reference(*[array.astype("int64") for array in arrays]).astype("int32")  # wraps
    for sketch in PostOrderApply().generate_sketches(func, VNNI):
        for row in sketch.sample(4, generator):
            sch = sketch.materialize(func, row)
            assert postprocess(sch, VNNI)
            out = np.zeros(shapes[-1], "int32")
            build_native(split_module(sch.mod), target).bind(*arrays, out)()
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("columns", [17, 31, 65, 250, 255])
def test_columns_that_no_vector_divides_are_padded(columns: int) -> None:
    """Or the sums would be computed one by one."""
    sketches = grouped_sketches(product(16, columns, 64), VNNI)
    assert sketches
    sch = default_schedule(product(16, columns, 64), VNNI)
    assert re.search(
        r"T.dot_accumulate\(\w+\[[^\]]*\], \w+\[[^\]]*\], y_global", lower(sch.mod, VNNI).script()
    )


def test_a_row_alone_may_not_pay_for_panels() -> None:
    """Panels that are made when the kernel runs; a weight is packed before."""

    def is_plain(sketch: Any, func: PrimFunc) -> bool:
        return not any(DOT_PRODUCT in item for item in _annotations(sketch, func))

    row, rows = product(1, 64, 64), product(8, 64, 64)
    weight = row.with_attr(LAYOUT_FREE_BUFFERS, [1])
    for func, expected in ((row, True), (rows, False), (weight, False)):
        found = PostOrderApply().generate_sketches(func, VNNI)
        assert any(is_plain(sketch, func) for sketch in found) == expected
        assert grouped_sketches(func, VNNI)


@pytest.mark.parametrize("columns", [32, 33])
def test_the_reduction_may_be_the_first_variable(columns: int) -> None:
    func = from_source(f"""@T.prim_func
def main(x: T.Buffer((8, 64), "int8"), y: T.Buffer((64, {columns}), "int8"), out: T.Buffer((8, {columns}), "int32")):
    for k, i, j in T.grid(64, 8, {columns}):
        with T.block("product"):
            vk, vi, vj = T.axis.remap("RSS", [k, i, j])
            with T.init():
                out[vi, vj] = 0
            out[vi, vj] = out[vi, vj] + T.Cast("int32", x[vi, vk]) * T.Cast("int32", y[vk, vj])
""")
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-128, 128, shape).astype("int8") for shape in ((8, 64), (64, columns)))
    (sketch,) = grouped_sketches(func, VNNI)
    for row in sketch.sample(3, generator):
        sch = sketch.materialize(func, row)
        assert postprocess(sch, VNNI)
        assert "T.dot_accumulate" in lower(sch.mod, VNNI).script()
        out = np.zeros((8, columns), "int32")
        build_native(split_module(sch.mod), Target("cpu")).bind(a, b, out)()
        np.testing.assert_array_equal(out, a.astype("int32") @ b.astype("int32"))


@pytest.mark.parametrize(("step", "count"), [(1, 1), (2, 0)])
def test_the_numbers_of_a_group_lie_side_by_side(step: int, count: int) -> None:
    func = from_source(f"""@T.prim_func
def main(a: T.handle, y: T.Buffer((64, 32), "int8"), out: T.Buffer((8, 32), "int32")):
    x = T.match_buffer(a, (8, 64), "int8", strides=(160, {step}))
    for i, j, k in T.grid(8, 32, 64):
        with T.block("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                out[vi, vj] = 0
            out[vi, vj] = out[vi, vj] + T.Cast("int32", x[vi, vk]) * T.Cast("int32", y[vk, vj])
""")
    assert len(grouped_sketches(func, VNNI)) == count


def test_weights_are_packed_when_the_model_is_compiled() -> None:
    func = product(8, 33, 64).with_attr(LAYOUT_FREE_BUFFERS, [1])
    sch = default_schedule(func, VNNI)
    kernel = split_module(sch.mod)["main"]
    (packing,) = kernel.attrs[LAYOUT_REWRITE_MAPS].values()
    assert len(packing.final_indices) == 4
    a, b = (
        np.random.default_rng(0).integers(-128, 128, shape).astype("int8") for shape in ((8, 64), (64, 33))
    )
    packed_shape = [int(extent) for extent in kernel.buffer_map[kernel.params[1]].shape]
    packed = np.full(packed_shape, 99, "int8")  # whatever is behind the last column
    for place in np.ndindex(*b.shape):
        packed[tuple(int(index) for index in packing.map_indices(place))] = b[place]
    out = np.zeros((8, 33), "int32")
    build_native(IRModule({"main": kernel}), Target("cpu")).bind(a, packed, out)()
    np.testing.assert_array_equal(out, a.astype("int32") @ b.astype("int32"))


def test_an_epilogue_runs_on_the_tile() -> None:
    x, y = te.placeholder((8, 64), "int8", name="x"), te.placeholder((64, 32), "int8", name="y")
    k = te.reduce_axis((0, 64), "k")
    sums = te.compute(
        (8, 32), lambda i, j: te.sum(x[i, k].astype("int32") * y[k, j].astype("int32"), axis=k), name="sums"
    )
    func = te.create_prim_func([x, y, topi.nn.relu(sums)])
    (sketch,) = grouped_sketches(func, VNNI)
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-128, 128, shape).astype("int8") for shape in ((8, 64), (64, 32)))
    for row in sketch.sample(3, generator):
        sch = sketch.materialize(func, row)
        assert postprocess(sch, VNNI)
        out = np.zeros((8, 32), "int32")
        build_native(split_module(sch.mod), Target("cpu")).bind(a, b, out)()
        np.testing.assert_array_equal(out, np.maximum(a.astype("int32") @ b.astype("int32"), 0))


def test_a_convolution_is_grouped_along_its_channels() -> None:
    x, w = te.placeholder((1, 6, 6, 16), "uint8", name="x"), te.placeholder((3, 3, 16, 32), "int8", name="w")
    func = te.create_prim_func([x, w, topi.nn.conv2d_nhwc(x, w, 1, 0, 1, "int32")])
    sketches = grouped_sketches(func, VNNI)
    assert sketches
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 256, (1, 6, 6, 16)), generator.integers(-128, 128, (3, 3, 16, 32))
    expected = np.zeros((1, 4, 4, 32), "int32")
    for dy in range(3):
        for dx in range(3):
            expected += np.einsum("nhwc,co->nhwo", a[:, dy : dy + 4, dx : dx + 4], b[dy, dx]).astype("int32")
    for row in sketches[0].sample(3, generator):
        sch = sketches[0].materialize(func, row)
        assert postprocess(sch, VNNI)
        out = np.zeros(expected.shape, "int32")
        build_native(split_module(sch.mod), Target("cpu")).bind(a.astype("uint8"), b.astype("int8"), out)()
        np.testing.assert_array_equal(out, expected)


def test_the_estimate_counts_a_group_as_one_step() -> None:
    """Populations and programs alike; and a grouped product is estimated faster than the same one number by number."""
    func = suite.workload("int8_product", (256, 256, 256))
    (sketch,) = grouped_sketches(func, VNNI)
    rows = sketch.sample(64, np.random.default_rng(0))
    estimated = estimate_seconds(sketch.skeleton(rows), VNNI)
    plain = PostOrderApply().generate_sketches(suite.workload("int8_product", (256, 256, 254)), VNNI)
    others = [
        estimate_seconds(item.skeleton(item.sample(64, np.random.default_rng(0))), VNNI) for item in plain
    ]
    assert estimated.min() < 0.6 * min(item.min() for item in others)


def test_tiles_leave_registers_for_corrections() -> None:
    func = product(64, 64, 64)
    (sketch,) = grouped_sketches(func, VNNI)
    for row in sketch.sample(64, np.random.default_rng(0)):
        sch = sketch.materialize(func, row)
        loops = loops_around(node_of(sch, sch.get_block("product")))
        rows, columns = (int(loop.extent) for loop in loops[-3:-1])  # type: ignore[call-overload]
        n_vectors = -(-columns // 16)
        assert rows * n_vectors + 2 * n_vectors + 2 <= 32


def test_the_elements_of_an_estimate_are_groups() -> None:
    """16 of them make a row of 64 numbers; how far a loop moves follows from the extents in groups."""
    (sketch,) = grouped_sketches(product(8, 32, 64), VNNI)
    rows = sketch.sample(16, np.random.default_rng(0))
    (nest,) = [item for item in sketch.skeleton(rows).nests if item.is_reduction]
    extents = np.array([loop.extent for loop in nest.loops])
    assert (extents.prod(axis=0) == 8 * 32 * 16).all()
    shapes = {"x": [8, 16], "y_global": None, "product_local": None}
    for access in nest.accesses:
        assert access.element_bytes == 4
        shape = np.array(access.shape)
        if expected := shapes[access.name]:
            assert (shape.T == expected).all()
        steps = np.cumprod(np.vstack([shape[1:], np.ones_like(shape[:1])])[::-1], axis=0)[::-1]
        np.testing.assert_array_equal(access.strides, (access.reach * steps[:, None]).sum(axis=0))
        last = (access.reach * (extents - 1)).sum(axis=1)
        np.testing.assert_array_equal(last[: len(expected or ())], shape[: len(expected or ())] - 1)
    assert sketch.skeleton(rows[:0]).size == 0


def test_pairs_of_bfloat16_are_for_searches() -> None:
    func = product(8, 32, 64, "bfloat16", "bfloat16", "float32")
    sketches = grouped_sketches(func, VNNI)
    assert sketches and grouped_sketches(func, PLAIN) == []
    assert len(PostOrderApply().generate_sketches(func, VNNI)) > len(sketches)  # the exact form is there, too
    assert "dot_product" not in default_schedule(func, VNNI).mod.script()
    assert "dot_product" in default_schedule(product(8, 32, 64), VNNI).mod.script()
    exact = [rule for rule in cpu_rules() if not rule.changes_rounding]
    assert len(PostOrderApply(sch_rules=exact).generate_sketches(func, VNNI)) == len(
        PostOrderApply().generate_sketches(func, VNNI)
    ) - len(sketches)


@pytest.mark.parametrize(("dtype", "sums", "structures"), [("int8", "int32", 1), ("bfloat16", "float32", 2)])
def test_the_rule_of_floats_leaves_integers_to_the_other_one(dtype: str, sums: str, structures: int) -> None:
    rule = FloatDotProducts()
    rule.initialize(VNNI)
    sch = Schedule(product(8, 32, 64, dtype, dtype, sums))
    assert len(rule.apply(sch, sch.get_block("product"))) == structures


def test_sums_of_pairs_are_near_the_exact_ones() -> None:
    func = product(8, 48, 64, "bfloat16", "bfloat16", "float32")
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(shape).astype(to_numpy("bfloat16")) for shape in ((8, 64), (64, 48)))
    wide = [array.astype("float64") for array in (a, b)]
    bound = 64 * 2.0**-23 * (np.abs(wide[0]) @ np.abs(wide[1]))
    for sketch in grouped_sketches(func, VNNI):
        for row in sketch.sample(4, generator):
            sch = sketch.materialize(func, row)
            assert postprocess(sch, VNNI)
            out = np.zeros((8, 48), "float32")
            build_native(split_module(sch.mod), Target("cpu")).bind(a, b, out)()
            assert (np.abs(out - wide[0] @ wide[1]) <= bound).all()


@pytest.mark.meaning("dot-flush")
def test_products_of_subnormal_numbers_count_unless_a_search_has_chosen_otherwise() -> None:
    """2**-130, which bfloat16 holds as a subnormal number, times 2**100: the default schedule adds 2**-30, an instruction may add 0."""
    target = Target("cpu")
    func = product(8, 16, 32, "bfloat16", "bfloat16", "float32")
    kind = to_numpy("bfloat16")
    small, large = np.full((8, 32), 2.0**-130).astype(kind), np.full((32, 16), 2.0**100).astype(kind)
    whole = np.float32(32 * 2.0**-30)
    out = np.zeros((8, 16), "float32")
    build_native(split_module(default_schedule(func, target).mod), target).bind(small, large, out)()
    assert (out == whole).all()
    for sketch in PostOrderApply().generate_sketches(func, target):
        sch = sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0])
        assert postprocess(sch, target)
        build_native(split_module(sch.mod), target).bind(small, large, out)()
        flushes = "dot_product" in sch.mod.script()
        assert (out == whole).all() or (flushes and (out == 0).all())
