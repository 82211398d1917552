"""InlinePrivateFunctions: calls of private functions become their bodies."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

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
