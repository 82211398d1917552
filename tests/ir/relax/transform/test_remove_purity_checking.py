"""RemovePurityChecking: calls that declare purity become plain ones, in functions that vouch for them."""

from __future__ import annotations

import pytest

import ir
import runners
from ir.error import IRValueError
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def test_declared_purity_becomes_forced():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.call_pure_packed("test.purity.twice", x, sinfo_args=(R.Tensor((8,), "float32"),))
            z = R.call_inplace_packed(
                "test.purity.add_one", y, inplace_indices=[0], sinfo_args=(R.Tensor((8,), "float32"),)
            )
            return z

        @R.function
        def pure(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.exp(x)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            R.func_attr({"relax.force_pure": True})
            y = R.call_packed("test.purity.twice", x, sinfo_args=(R.Tensor((8,), "float32"),))
            z = R.call_packed("test.purity.add_one", y, sinfo_args=(R.Tensor((8,), "float32"),))
            return z

        @R.function
        def pure(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            R.func_attr({"relax.force_pure": True})
            y = R.exp(x)
            return y

    def add_one(x):
        x += 1
        return x

    ir.register_func("test.purity.twice", lambda x: runners.array(2 * x.numpy()), override=True)
    ir.register_func("test.purity.add_one", add_one, override=True)
    try:
        verify(transform.RemovePurityChecking()(Before), Expected)
    finally:
        ir.registry.remove_global_func("test.purity.twice")
        ir.registry.remove_global_func("test.purity.add_one")


def test_closures_are_invoked_plainly():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            f = R.make_closure(cls.inner, (x,))
            y = R.invoke_pure_closure(f, (x,), sinfo_args=(R.Tensor((8,), "float32"),))
            return y

        @R.function(private=True)
        def inner(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            z = R.add(x, y)
            return z

    after = transform.RemovePurityChecking()(Before)
    make, invoke = (binding.value for binding in after["main"].body.blocks[0].bindings)
    assert (make.op.name, invoke.op.name) == ("relax.make_closure", "relax.invoke_closure")
    assert after["main"].attrs["relax.force_pure"] and after["inner"].attrs["relax.force_pure"]


def test_a_function_with_effects_is_left_alone():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            _ = R.print(x, format="{}")
            return x

    assert transform.RemovePurityChecking()(Module) is Module
    once = transform.RemovePurityChecking()(transform.ToNonDataflow()(_Dataflow))
    assert transform.RemovePurityChecking()(once) is once


@I.ir_module
class _Dataflow:
    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        with R.dataflow():
            gv = R.exp(x)
            R.output(gv)
        return gv


def test_dataflow_blocks_are_refused():
    with pytest.raises(IRValueError, match="functions without dataflow blocks; run ToNonDataflow before"):
        transform.RemovePurityChecking()(_Dataflow)
