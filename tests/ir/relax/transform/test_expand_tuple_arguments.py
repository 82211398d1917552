"""ExpandTupleArguments: private functions take the fields of tuples."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def test_expand_tuple_arguments(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            y: R.Tensor((8,), "float32") = cls.func((a, b))
            return y

        @R.function(private=True)
        def func(args: R.Tuple(R.Tensor((8,), "float32"), R.Tensor((8,), "float32"))) -> R.Tensor(
            (8,), "float32"
        ):
            x = args[0]
            y = args[1]
            z = R.add(x, y)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Expected
            y: R.Tensor((8,), "float32") = cls.func(a, b)
            return y

        @R.function(private=True)
        def func(args_0: R.Tensor((8,), "float32"), args_1: R.Tensor((8,), "float32")) -> R.Tensor(
            (8,), "float32"
        ):
            args = (args_0, args_1)
            x = args[0]
            y = args[1]
            z = R.add(x, y)
            return z

    after = transform.ExpandTupleArguments()(Before)
    verify(after, Expected)
    same_numbers(Before, after, [(8,), (8,)])
