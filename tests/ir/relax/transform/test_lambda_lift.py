"""LambdaLift: local functions become functions of the module, and closures where they need variables."""

from __future__ import annotations

import numpy as np

import runners
from ir import relax
from ir.relax import transform
from ir.relax.analysis import well_formed
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R


def test_lambda_lift_runs(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            @R.function
            def inner(z: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
                w = R.add(x, z)
                return w

            r = inner(y)
            return r

    after = transform.LambdaLift()(Before)
    assert sorted(var.name_hint for var in after.functions) == ["main", "main_inner"]
    assert [b.value.op.name for b in after["main"].body.blocks[0].bindings] == [
        "relax.make_closure",
        "relax.invoke_pure_closure",
    ]
    same_numbers(Before, after, [(8,), (8,)])


def test_closures_with_effects_keep_them(capsys):
    """A lifted closure is as pure as the local function was: its calls are neither removed nor merged."""

    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            @R.function(pure=False)
            def inner(z: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                _ = R.print(x, format="x is {}")
                w = R.add(x, z)
                return w

            a = inner(y)
            b = inner(y)
            return b

    after = transform.LambdaLift()(Before)
    assert [b.value.op.name for b in after["main"].body.blocks[0].bindings] == [
        "relax.make_closure",
        "relax.invoke_closure",
        "relax.invoke_closure",
    ]
    after = transform.DeadCodeElimination()(transform.EliminateCommonSubexpr()(after))
    x, y = np.ones(2, "float32"), np.zeros(2, "float32")
    vm = runners.VirtualMachine(relax.build(after, "llvm", tir_pipeline=None), runners.cpu())
    capsys.readouterr()  # what checks of the passes have printed
    np.testing.assert_array_equal(vm["main"](x, y).numpy(), x + y)
    assert capsys.readouterr().out.count("x is") == 2


def test_lambda_lift_of_a_function_that_calls_itself():
    """The lifted function hands on what it captured when it calls itself."""

    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((), "int64"), step: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            @R.function(pure=False)
            def count(i: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
                done = R.greater_equal(i, R.const(10, "int64"))
                if done:
                    r = i
                else:
                    j = R.add(i, step)
                    r = count(j)
                return r

            y = count(x)
            return y

    after = transform.LambdaLift()(Before)
    assert well_formed(after)
    (lifted,) = [func for var, func in after.functions.items() if var.name_hint != "main"]
    assert len(lifted.params) == 2
    assert not any(
        isinstance(binding.value, relax.Function)
        for func in after.functions.values()
        for binding in relax.analysis.all_bindings(func)
    )
    start, step = np.array(1, "int64"), np.array(4, "int64")
    assert evaluate(Before, start, step) == evaluate(after, start, step) == 13
