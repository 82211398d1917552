"""MergeCompositeFunctions: neighbouring composite functions of one backend become one region for it."""

from __future__ import annotations

from ir import relax
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.relax.dpl import is_op, wildcard
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify
from .structure import values

_EXP = transform.FusionPattern("first.exp", is_op("relax.exp")(wildcard()))
_ADD = transform.FusionPattern("first.add", is_op("relax.add")(wildcard(), wildcard()))
_SIN = transform.FusionPattern("second.sin", is_op("relax.sin")(wildcard()))


@I.ir_module
class Before:
    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.exp(a)
            c = R.sin(b)
            y = R.add(c, b)
            R.output(y)
        return y


def test_what_follows_each_other_is_one_region():
    @I.ir_module
    class Expected:
        @R.function
        def fused_relax_exp_relax_exp_first(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            R.func_attr({"Codegen": "first"})

            with R.dataflow():

                @R.function
                def local_func(x_1: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
                    R.func_attr({"Composite": "first.exp"})
                    with R.dataflow():
                        gv = R.exp(x_1)
                        R.output(gv)
                    return gv

                a: R.Tensor((8,), "float32") = local_func(x)
                b: R.Tensor((8,), "float32") = local_func(a)
                R.output(b)
            return b

        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Expected
            with R.dataflow():
                b: R.Tensor((8,), "float32") = cls.fused_relax_exp_relax_exp_first(x)
                y = R.sin(b)
                R.output(y)
            return y

    @I.ir_module
    class Chain:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(a)
                y = R.sin(b)
                R.output(y)
            return y

    after = transform.MergeCompositeFunctions()(transform.FuseOpsByPattern([_EXP])(Chain))
    verify(after, Expected)


def test_backends_and_what_lies_between_keep_regions_apart():
    """The sum may not join the exponentials, though it uses one: it also uses the sine of another backend, which uses them."""
    after = transform.MergeCompositeFunctions()(transform.FuseOpsByPattern([_EXP, _ADD, _SIN])(Before))
    regions = [value.op.name_hint for value in values(after) if isinstance(value.op, relax.GlobalVar)]
    assert [after[name].attrs["Codegen"] for name in regions] == ["first", "second", "first"]
    assert not any("Composite" in func.attrs for func in after.functions.values())


def test_without_composite_functions_nothing_is_merged():
    assert transform.MergeCompositeFunctions()(Before) is Before


def test_composite_functions_in_branches_and_outside_of_dataflow_blocks():
    """Regions are made in branches too; a call that is in no dataflow block keeps its function."""

    @I.ir_module
    class Before:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Before
            if c:
                with R.dataflow():
                    a = cls.fused_exp(x)
                    b = cls.fused_exp(a)
                    R.output(b)
                y = b
            else:
                d = cls.fused_relu(x)
                y = d
            return y

        @R.function(private=True)
        def fused_exp(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"Composite": "mine.exp", "Primitive": True})
            with R.dataflow():
                gv = R.exp(x)
                R.output(gv)
            return gv

        @R.function(private=True)
        def fused_relu(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"Composite": "mine.relu", "Primitive": True})
            with R.dataflow():
                gv = R.nn.relu(x)
                R.output(gv)
            return gv

    after = transform.MergeCompositeFunctions()(Before)
    check_well_formed(after)
    assert sum("Codegen" in func.attrs for func in after.functions.values()) == 1
    assert after.contains("fused_relu") and not after.contains("fused_exp")
