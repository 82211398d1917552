"""LegalizeOps: operators become calls of kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ir import relax
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify
from .structure import kernels


def test_legalize_ops_follows_the_documents():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            z: R.Tensor((2, 3), "float32") = R.add(x, y)
            r: R.Tensor((2, 3), "float32") = R.multiply(y, z)
            return r

    def customize_legalize_add(bb, call):
        from ir import topi

        return bb.call_te(topi.add, call.args[1], call.args[0])

    mod = transform.LegalizeOps({"relax.add": customize_legalize_add})(Module)
    first, second = mod["main"].body.blocks[0].bindings
    x, y = mod["main"].params
    assert first.value.args[0].name_hint == "add" and first.value.args[1].fields == (y, x)
    assert second.value.args[0].name_hint == "multiply" and second.value.args[1].fields == (y, first.var)
    assert kernels(mod) == ["add", "multiply"]


def test_repeated_operators_share_a_kernel_and_aliases_do_not():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                a = R.add(x, y)
                b = R.add(y, a)
                c = R.add(a, a)
                d = R.subtract(b, c)
                R.output(d)
            return d

    mod = transform.LegalizeOps()(Module)
    calls = [b.value for b in mod["main"].body.blocks[0].bindings]
    assert [len(call.args[1].fields) for call in calls] == [2, 2, 2, 2]
    assert calls[0].args[0] is calls[1].args[0]
    a = mod["main"].body.blocks[0].bindings[0].var
    assert set(calls[2].args[1].fields) == {a}
    import runners

    vm = runners.VirtualMachine(relax.build(Module, "llvm"), runners.cpu())
    np.testing.assert_allclose(
        vm["main"](np.full(4, 1, "float32"), np.full(4, 5, "float32")).numpy(), np.full(4, -1)
    )


def test_legalize_leaves_unknown_shapes_and_warns_on_request():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=2)) -> R.Tensor(dtype="float32", ndim=2):
            y = R.exp(x)
            return y

    verify(transform.LegalizeOps()(Module), Module)


@pytest.mark.parametrize(
    ("expr", "name"),
    [
        (lambda x: relax.op.exp(x), "tir_exp"),
        (lambda x: relax.op.square(x), "tir_square"),
        (lambda x: relax.op.clip(x, 0, 1), "tir_clip"),
        (lambda x: relax.op.erf(x), "erf"),
        (lambda x: relax.op.expand_dims(x, [0, -1]), "expand_dims"),
        (lambda x: relax.op.nn.pad(x, [1, 1], "reflect"), "reflect_pad"),
        (lambda x: relax.op.eye_like(relax.op.reshape(x, (2, 2))), "eye_like"),
    ],
)
def test_names_of_kernels(expr, name):
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo([4], "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(expr(x)))
    after = transform.LegalizeOps()(bb.get())
    assert name in {var.name_hint for var in after.functions}


def test_functions_of_the_runtime_are_pure_where_their_operators_are_and_skipped_ones_stay():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((6,), "int64")) -> R.Tensor(dtype="int64", ndim=1):
            y = R.unique(x)
            z = R.unique(y)  # of an extent that is not known
            return z

    legal = transform.LegalizeOps()(Module)
    check_well_formed(legal)
    assert legal.script().count('R.call_pure_packed("relax.run.unique"') == 2
    for left in (
        transform.LegalizeOps(skip_ops=("relax.unique",))(Module),
        transform.FastMathTransform()(Module),
    ):
        verify(left, Module)
