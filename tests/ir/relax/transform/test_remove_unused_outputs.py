"""RemoveUnusedOutputs: private functions return what is used."""

from __future__ import annotations

import numpy as np

from ir import relax
from ir.relax import transform
from ir.relax.analysis import well_formed
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R


def test_remove_unused_outputs(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            pair: R.Tuple(R.Tensor((8,), "float32"), R.Tensor((8,), "float32"), R.Tensor((8,), "float32")) = (
                cls.func(x)
            )
            y = pair[2]
            z = pair[0]
            r = R.add(y, z)
            return r

        @R.function(private=True)
        def func(x: R.Tensor((8,), "float32")) -> R.Tuple(
            R.Tensor((8,), "float32"), R.Tensor((8,), "float32"), R.Tensor((8,), "float32")
        ):
            a = R.exp(x)
            b = R.log(x)
            c = R.negative(x)
            return (a, b, c)

    after = transform.RemoveUnusedOutputs()(Before)
    assert len(after["func"].ret_struct_info.fields) == 2
    same_numbers(Before, after, [(8,)])
    shorter = transform.DeadCodeElimination()(after)
    assert len(shorter["func"].body.blocks[0].bindings) == 2


def test_remove_unused_outputs_of_a_result_that_is_a_variable():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            pair: R.Tuple(R.Tensor((8,), "float32"), R.Tensor((8,), "float32")) = cls.func(x)
            y = pair[1]
            return y

        @R.function(private=True)
        def func(x: R.Tensor((8,), "float32")) -> R.Tuple(
            R.Tensor((8,), "float32"), R.Tensor((8,), "float32")
        ):
            with R.dataflow():
                parts = R.split(R.concat((x, x), axis=0), 2, axis=0)
                R.output(parts)
            return parts

    after = transform.RemoveUnusedOutputs()(Before)
    assert well_formed(after)
    assert isinstance(after["func"].ret_struct_info, relax.TensorStructInfo)
    x = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(evaluate(after, x), x)


def test_remove_unused_outputs_of_a_tuple_that_is_bound(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            pair: R.Tuple(R.Tensor((8,), "float32"), R.Tensor((8,), "float32")) = cls.func(x)
            y = pair[1]
            return y

        @R.function(private=True)
        def func(x: R.Tensor((8,), "float32")) -> R.Tuple(
            R.Tensor((8,), "float32"), R.Tensor((8,), "float32")
        ):
            a = R.exp(x)
            b = R.negative(x)
            both = (a, b)
            return both

    after = transform.RemoveUnusedOutputs()(Before)
    body = after["func"].body
    assert body.body is body.blocks[0].bindings[1].var and len(body.blocks) == 1
    same_numbers(Before, after, [(8,)])
