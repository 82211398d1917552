"""RemoveUnusedParameters: private functions take what they use."""

from __future__ import annotations

import numpy as np
import pytest

from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.relax.testing import EvaluationError, evaluate
from ir.script import from_source
from ir.script import ir as I
from ir.script import relax as R
from ir.transform import PassContext

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


SHARED = """
@I.ir_module
class Module:
    @R.function(private=True)
    def f(x: R.Tensor(("n",), "float32"), y: R.Tensor({unused}, dtype="float32")) -> R.Tensor(("n",), "float32"):
        {symbols}
        v = R.add(x, x)
        return v

    @R.function
    def main(a: R.Tensor({first}, dtype="float32"), b: R.Tensor({second}, dtype="float32")):
        cls = Module
        v = cls.f(a, b)
        return v
"""


def without_unused(mod):
    """By no call of the pass that is compared with random arguments: these programs refuse most."""
    return transform.RemoveUnusedParameters().transform_module(mod, PassContext())


@pytest.mark.meaning("relax-shape")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('("p",)', '("q",)'),
        ("ndim=1", '("q",)'),
        ('("p",)', "ndim=1"),
        ("ndim=1", "ndim=1"),
        ("(3,)", '("q",)'),
    ],
)
def test_extents_of_unused_parameters_are_still_compared(first, second):
    """The callee wants two arguments of one extent, and uses one of them."""
    mod = from_source(SHARED.format(unused='("n",)', symbols="n = T.int64()", first=first, second=second))
    after = without_unused(mod)
    check_well_formed(after)
    assert len(after["f"].params) == 1
    three, four = np.ones(3, "float32"), np.ones(4, "float32")
    for program in (mod, after):
        np.testing.assert_array_equal(evaluate(program, three, three), three + three)
        with pytest.raises(EvaluationError):
            evaluate(program, three, four)


def test_numbers_and_ranks_of_unused_parameters_are_still_compared():
    for unused, second, right, wrong in (("(3,)", '("q",)', 3, 4), ('("m", 2)', "ndim=2", (5, 2), (5, 3))):
        symbols = "n, m = T.int64(), T.int64()" if "m" in unused else "n = T.int64()"
        mod = from_source(SHARED.format(unused=unused, symbols=symbols, first='("p",)', second=second))
        after = without_unused(mod)
        check_well_formed(after)
        for program in (mod, after):
            assert evaluate(program, np.ones(7, "float32"), np.ones(right, "float32")).shape == (7,)
            with pytest.raises(EvaluationError):
                evaluate(program, np.ones(7, "float32"), np.ones(wrong, "float32"))


def test_a_call_that_fits_gets_no_check():
    text = SHARED.format(unused='("n",)', symbols="n = T.int64()", first='("p",)', second='("p",)')
    after = without_unused(from_source(text))
    assert "match_cast" not in after.script()
