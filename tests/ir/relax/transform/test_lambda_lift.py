"""LambdaLift: local functions become functions of the module, and closures where they need variables."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import relax
from ir.relax import transform
from ir.relax.analysis import well_formed
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T


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


def test_extents_that_no_argument_tells_are_handed_on():
    """Of a parameter of n - 1 elements nobody can tell n."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n - 1",), "float32"):
            n = T.int64()

            @R.function
            def inner(z: R.Tensor((n - 1,), "float32")) -> R.Tensor((n - 1,), "float32"):
                return R.add(z, R.full((n - 1,), R.const(2.0, "float32"), "float32"))

            a: R.Tensor((n - 1,), "float32") = R.strided_slice(x, [0], [1], [n])
            r: R.Tensor((n - 1,), "float32") = inner(a)
            return r

    after = transform.LambdaLift()(Before)
    assert well_formed(after)
    x = np.arange(4, dtype="float32")
    machine = runners.VirtualMachine(relax.build(after, "llvm"), runners.cpu())
    np.testing.assert_array_equal(machine["main"](x).numpy(), x[1:] + 2)


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


@pytest.mark.parametrize("pure", [True, False])
def test_closures_that_call_closures(pure, capsys):
    """A captured closure is called as one, and is as pure as it was."""

    @I.ir_module
    class Pure:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            a = R.exp(x)

            @R.function
            def f(z: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                r = R.add(z, a)
                return r

            @R.function
            def g(z: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                q = f(z)
                r = R.multiply(q, x)
                return r

            u = g(x)
            v = f(u)
            return (u, v)

    @I.ir_module
    class Impure:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            a = R.exp(x)

            @R.function(pure=False)
            def f(z: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                _ = R.print(z, format="called")
                r = R.add(z, a)
                return r

            @R.function(pure=False)
            def g(z: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                unused = f(z)
                r = f(z)
                return r

            w = g(x)
            return w

    before = Pure if pure else Impure
    lifted = transform.LambdaLift()(before)
    optimized = transform.DeadCodeElimination()(transform.EliminateCommonSubexpr()(before))
    x = np.float32([0.5, 2])
    for after in (
        lifted,
        transform.DeadCodeElimination()(transform.EliminateCommonSubexpr()(lifted)),
        transform.LambdaLift()(optimized),
    ):
        vm = runners.VirtualMachine(relax.build(after, "llvm", tir_pipeline=None), runners.cpu())
        capsys.readouterr()
        found = vm["main"](x)
        if pure:
            for got, wanted in zip(found, evaluate(before, x), strict=True):
                np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)
        else:
            assert capsys.readouterr().out.count("called") == 2


def test_closures_are_values():
    """A function of the module may be given one."""

    @I.ir_module
    class Before:
        @R.function(private=True)
        def apply(
            f: R.Callable([R.Tensor((4,), "float32")], R.Tensor((4,), "float32"), True),
            z: R.Tensor((4,), "float32"),
        ) -> R.Tensor((4,), "float32"):
            r = f(z)
            return r

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Before
            a = R.negative(x)

            @R.function
            def f(z: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                r = R.subtract(z, a)
                return r

            @R.function
            def g(z: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                r = R.add(z, z)
                return r

            u = cls.apply(f, x)
            v = cls.apply(g, u)
            return (u, v)

    x = np.arange(4, dtype="float32")
    after = transform.LambdaLift()(Before)
    assert well_formed(after)
    vm = runners.VirtualMachine(relax.build(after, "llvm", tir_pipeline=None), runners.cpu())
    for got, wanted in zip(vm["main"](x), (2 * x, 4 * x), strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted)
