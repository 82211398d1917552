"""InlinePrivateFunctions: calls of private functions become their bodies."""

from __future__ import annotations

import numpy as np
import pytest

import ir
import runners
from ir import relax
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.relax.testing import evaluate
from ir.relax.testing.values import EvaluationError
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from runners.program import ExecutableError

from .conftest import verify


def test_inline_private_functions():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            y: R.Tensor((8,), "float32") = cls.double(x)
            return y

        @R.function(private=True)
        def double(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            z = R.add(x, x)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            z = R.add(x, x)
            y = z
            return y

    verify(
        transform.CanonicalizeBindings()(transform.InlinePrivateFunctions()(Before)),
        transform.CanonicalizeBindings()(Expected),
    )


def test_inlining_leaves_no_renamed_variables():
    @I.ir_module
    class Before:
        @R.function(private=True)
        def double(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                a = R.add(x, x)
                R.output(a)
            return a

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Before
            y: R.Tensor((4,), "float32") = cls.double(x)
            z: R.Tensor((4,), "float32") = cls.double(y)
            u = R.exp(z)
            return u

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.add(a, a)
                R.output(b)
            u = R.exp(b)
            return u

    verify(transform.InlinePrivateFunctions()(Before), Expected)


def test_main_is_an_entry_without_a_symbol_too():
    """What is called in dataflow blocks may branch: the blocks are split."""

    @I.ir_module
    class Before:
        @R.function(private=True)
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Before
            with R.dataflow():
                before = R.negative(x)
                y = cls.branching(c, x)
                z0 = cls.plus_one(y)
                z1 = R.add(before, z0)
                z = R.add(z1, x)
                R.output(z)
            return z

        @R.function(private=True)
        def branching(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            cls = Before
            if c:
                y = cls.plus_one(x)
            else:
                y = x
            return y

        @R.function(private=True)
        def plus_one(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            with R.dataflow():
                a = R.add(x, R.ones(R.shape([n]), "float32"))
                R.output(a)
            return a

    after = transform.InlinePrivateFunctions()(Before)
    check_well_formed(after)
    assert [var.name_hint for var in after.functions] == ["main"]
    x = np.arange(4, dtype="float32")
    for condition in (True, False):
        np.testing.assert_array_equal(evaluate(after, np.array(condition), x), x + 1 + condition)
    only_private = ir.IRModule({"plus_one": Before["plus_one"]})
    assert transform.InlinePrivateFunctions()(only_private) is only_private


def test_functions_that_are_values_keep_what_they_call():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Before
            f = cls.outer
            z = f(x)
            y = cls.inner(z)
            return y

        @R.function(private=True)
        def outer(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Before
            a = cls.inner(x)
            return a

        @R.function(private=True)
        def inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            a = R.exp(x)
            return a

    after = transform.InlinePrivateFunctions()(Before)
    check_well_formed(after)
    assert sorted(var.name_hint for var in after.functions) == ["main", "outer"]


@pytest.mark.parametrize("known", [False, True])
def test_what_a_call_checks_is_checked(known):
    """Arguments of which less is known than the parameters ask for."""

    @I.ir_module
    class Unknown:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32"), y: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(
            ndim=1, dtype="float32"
        ):
            cls = Unknown
            z = cls.total(x, y)
            return z

        @R.function(private=True)
        def total(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(
            ("n",), "float32"
        ):
            n = T.int64()
            with R.dataflow():
                a = R.add(x, R.ones(R.shape([n]), "float32"))
                b = R.add(a, y)
                R.output(b)
            return b

    @I.ir_module
    class Two:
        @R.function(private=True)
        def main(x: R.Tensor(("p",), "float32"), y: R.Tensor(("q",), "float32")) -> R.Tensor(
            ndim=1, dtype="float32"
        ):
            cls = Two
            with R.dataflow():
                z = cls.total(x, y)
                R.output(z)
            return z

        @R.function(private=True)
        def total(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(
            ("n",), "float32"
        ):
            n = T.int64()
            a = R.add(x, y)
            b = R.add(a, R.ones(R.shape([n]), "float32"))
            return b

    after = transform.InlinePrivateFunctions()(Two if known else Unknown)
    check_well_formed(after)
    assert [var.name_hint for var in after.functions] == ["main"]
    vm = runners.VirtualMachine(relax.build(after, "llvm", tir_pipeline=None), runners.cpu())
    x = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(vm["main"](x, x).numpy(), x + x + 1)
    for run in (vm["main"], lambda *args: evaluate(after, *args)):
        with pytest.raises((ExecutableError, EvaluationError)):
            run(x, x[:1])
