"""FuseOpsByPattern: what a pattern finds becomes a composite function."""

from __future__ import annotations

import pytest

from ir.relax import transform
from ir.relax.analysis import well_formed
from ir.relax.dpl import is_op, wildcard
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .conftest import verify


def test_what_matches_is_composite():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 4, 8, 8), "float32"), w: R.Tensor((4, 4, 3, 3), "float32")) -> R.Tensor(
            (1, 4, 8, 8), "float32"
        ):
            with R.dataflow():
                lv = R.nn.conv2d(x, w, padding=1)
                lv1 = R.nn.relu(lv)
                lv2 = R.nn.conv2d(lv1, w, padding=1)
                lv3 = R.nn.relu(lv2)
                gv = R.add(lv3, x)
                R.output(gv)
            return gv

    conv = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    pattern = transform.FusionPattern("dnnl.conv2d_relu", is_op("relax.nn.relu")(conv), {"conv": conv})
    after = transform.FuseOpsByPattern([pattern])(Before)
    composite = after["fused_relax_nn_conv2d_relax_nn_relu"]
    assert composite.attrs["Composite"] == "dnnl.conv2d_relu"
    assert [type(b.value.op).__name__ for b in after["main"].body.blocks[0].bindings] == [
        "GlobalVar",
        "GlobalVar",
        "Op",
    ]
    annotated = transform.FuseOpsByPattern([pattern], annotate_codegen=True)(Before)
    assert sum(func.attrs.get("Codegen") == "dnnl" for func in annotated.functions.values()) == 1
    refused = transform.FuseOpsByPattern(
        [("dnnl.no", is_op("relax.nn.relu")(conv), {"conv": conv}, lambda context: False)]
    )
    verify(refused(Before), Before)


def test_groups_of_a_pattern_do_not_overlap():
    from ir.relax.dpl import is_op, wildcard

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv = R.exp(x)
                lv1 = R.exp(lv)
                lv2 = R.exp(lv1)
                gv = R.exp(lv2)
                R.output(gv)
            return gv

    twice = is_op("relax.exp")(is_op("relax.exp")(wildcard()))
    after = transform.FuseOpsByPattern([("mine.twice", twice)])(Before)
    assert [type(b.value.op).__name__ for b in after["main"].body.blocks[0].bindings] == ["GlobalVar"] * 2
    later = transform.FuseOpsByPattern([("mine.twice", twice), ("mine.once", is_op("relax.exp")(wildcard()))])
    verify(later(Before), after)


def test_groups_get_symbols_that_their_operands_do_not_determine():
    from ir.relax.dpl import is_op, wildcard

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n * 2",), "float32"), s: R.Shape(["n"])) -> R.Tensor(("n * 2",), "float32"):
            n = T.int64()
            with R.dataflow():
                lv = R.exp(x)
                gv = R.exp(lv)
                R.output(gv)
            return gv

    twice = is_op("relax.exp")(is_op("relax.exp")(wildcard()))
    after = transform.FuseOpsByPattern([("mine.twice", twice)])(Before)
    fused = after["fused_relax_exp_relax_exp"]
    assert [param.name_hint for param in fused.params] == ["x", "tir_vars"]
    assert well_formed(after)


def composite_sizes(mod) -> list[int]:
    """How many bindings each composite function of a module has."""
    return sorted(
        len(func.body.blocks[0].bindings) for func in mod.functions.values() if func.attrs.get("Composite")
    )


def test_branches_and_local_functions_are_looked_into():
    @I.ir_module
    class Before:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            @R.function
            def inner(z: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                with R.dataflow():
                    sum1 = R.add(z, z)
                    out1 = R.nn.relu(sum1)
                    R.output(out1)
                return out1

            if c:
                with R.dataflow():
                    sum2 = R.add(x, x)
                    out2 = R.nn.relu(sum2)
                    R.output(out2)
                y = out2
            else:
                with R.dataflow():
                    sum3 = R.add(x, x)
                    out3 = R.nn.relu(sum3)
                    twice = R.add(out3, sum3)
                    R.output(twice)
                y = twice
            called = inner(y)
            return called

    pattern = is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard()))
    after = transform.FuseOpsByPattern([("mine.relu", pattern)])(Before)
    assert set(composite_sizes(after)) == {2}
    assert after.script().count("= cls.fused_relax_add_relax_nn_relu") == 3
    for bind_constants in (True, False):
        assert well_formed(
            transform.FuseOpsByPattern([("mine.relu", pattern)], bind_constants, annotate_codegen=True)(
                Before
            )
        )


@pytest.mark.parametrize("largest_first", [False, True])
def test_the_larger_of_two_overlapping_matches_counts(largest_first):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), b: R.Tensor((4,), "float32")
        ) -> R.Tensor((4, 4), "float32"):
            with R.dataflow():
                product = R.matmul(x, w)
                biased = R.add(product, b)
                active = R.nn.relu(biased)
                other = R.matmul(active, w)
                gv = R.nn.relu(other)
                R.output(gv)
            return gv

    product = is_op("relax.matmul")(wildcard(), wildcard())
    biased = is_op("relax.add")(product, wildcard())
    parts = [product, biased, is_op("relax.nn.relu")(biased), is_op("relax.nn.relu")(product)]
    if largest_first:
        parts.reverse()
    pattern = parts[0] | parts[1] | parts[2] | parts[3]
    after = transform.FuseOpsByPattern([("mine.dense", pattern)])(Before)
    assert composite_sizes(after) == [2, 3]
    only_products = transform.FusionPattern(
        "mine.dense", pattern, None, lambda context: "matmul" in str(context.matched_expr)
    )
    products = transform.FuseOpsByPattern([only_products])(Before)
    assert composite_sizes(products) == [1]  # where larger matches are refused, the smaller ones count


def test_other_names_of_what_matches_belong_to_the_group():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor(
            (4, 4), "float32"
        ):
            with R.dataflow():
                product = R.matmul(x, w)
                name = product
                gv = R.nn.relu(name)
                gv_name = gv
                R.output(gv_name)
            return gv_name

    seen = []

    def check(context):
        seen.append(context.matched_expr.op.name)
        return True

    product = is_op("relax.matmul")(wildcard(), wildcard())
    after = transform.FuseOpsByPattern([("some.relu", is_op("relax.nn.relu")(product), {}, check)])(Before)
    assert well_formed(after)
    assert seen == ["relax.nn.relu"]
    (composite,) = [func for func in after.functions.values() if func.attrs.get("Composite")]
    inside = [binding.value for block in composite.body.blocks for binding in block.bindings]
    assert [value.op.name for value in inside if hasattr(value, "op")] == ["relax.matmul", "relax.nn.relu"]
