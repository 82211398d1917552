"""FuseOpsByPattern: what a pattern finds becomes a composite function."""

from __future__ import annotations

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
