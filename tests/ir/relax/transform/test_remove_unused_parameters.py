"""RemoveUnusedParameters: private functions take what they use."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def test_remove_unused_parameters():
    @I.ir_module
    class Before:
        @R.function
        def main(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            y: R.Tensor((8,), "float32") = cls.func(a, b)
            return y

        @R.function(private=True)
        def func(x: R.Tensor((8,), "float32"), unused: R.Tensor((8,), "float32")) -> R.Tensor(
            (8,), "float32"
        ):
            z = R.exp(x)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Expected
            y: R.Tensor((8,), "float32") = cls.func(a)
            return y

        @R.function(private=True)
        def func(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            z = R.exp(x)
            return z

    verify(transform.RemoveUnusedParameters()(Before), Expected)
