"""DeadCodeElimination: what nobody uses goes, effects stay."""

from __future__ import annotations

import pytest

from ir import assert_structural_equal
from ir.error import IRValueError
from ir.relax import transform
from ir.relax.analysis import remove_all_unused
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .conftest import verify


def test_dead_code_elimination():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv0 = R.add(x, x)
                unused = R.exp(x)
                also_unused = R.log(unused)
                gv = R.multiply(lv0, x)
                R.output(gv)
            return gv

        @R.function(private=True)
        def never_called(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return x

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv0 = R.add(x, x)
                gv = R.multiply(lv0, x)
                R.output(gv)
            return gv

    verify(transform.DeadCodeElimination()(Before), Expected)
    with pytest.raises(IRValueError, match="entry function 'other'"):
        transform.DeadCodeElimination(["other"])(Before)


def test_dead_code_elimination_keeps_effects():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.add(x, x)
            _ = R.print(y, format="{}")
            z = R.exp(x)
            return x

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.add(x, x)
            _ = R.print(y, format="{}")
            return x

    verify(transform.DeadCodeElimination()(Before), Expected)


def test_a_cast_stays_that_defines_what_a_later_type_is_made_of():
    """Only the cast to ``n * 2`` needs ``n``, and that one does not say what ``n`` is."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32"), y: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(
            ndim=1, dtype="float32"
        ):
            n = T.int64()
            with R.dataflow():
                unused = R.match_cast(x, R.Tensor((n,), "float32"))
                doubled = R.match_cast(y, R.Tensor((n * 2,), "float32"))
                z = R.add(doubled, doubled)
                R.output(z)
            return z

    verify(transform.DeadCodeElimination()(Module), Module)


def test_what_is_dead_is_said_once():
    """Checks outside of dataflow blocks, calls that return nothing, in branches too; the analysis and the pass agree."""

    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor(ndim=1, dtype="float32"), c: R.Tensor((), "bool")) -> R.Tensor(
            ndim=1, dtype="float32"
        ):
            n, k, m = T.int64(), T.int64(), T.int64()
            checked = R.match_cast(x, R.Tensor((n,), "float32"))
            told = R.call_pure_packed("tell", x, sinfo_args=R.Tuple())
            with R.dataflow():
                unchecked = R.match_cast(x, R.Tensor((k,), "float32"))
                needed = R.match_cast(x, R.Tensor((m,), "float32"))
                gv = R.zeros(R.shape([m]), "float32")
                R.output(gv)
            if c:
                unused = R.exp(x)
                told_then = R.call_pure_packed("tell", x, sinfo_args=R.Tuple())
                chosen = x
            else:
                chosen = R.exp(x)
            return gv

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor(ndim=1, dtype="float32"), c: R.Tensor((), "bool")) -> R.Tensor(
            ndim=1, dtype="float32"
        ):
            n, m = T.int64(), T.int64()
            checked = R.match_cast(x, R.Tensor((n,), "float32"))
            told = R.call_pure_packed("tell", x, sinfo_args=R.Tuple())
            with R.dataflow():
                needed = R.match_cast(x, R.Tensor((m,), "float32"))
                gv = R.zeros(R.shape([m]), "float32")
                R.output(gv)
            if c:
                told_then = R.call_pure_packed("tell", x, sinfo_args=R.Tuple())
                chosen = x
            else:
                chosen = R.exp(x)
            return gv

    after = transform.DeadCodeElimination()(Before)
    verify(after, Expected)
    assert_structural_equal(remove_all_unused(Before["main"]), Expected["main"])
    assert remove_all_unused(after["main"]) is after["main"]
