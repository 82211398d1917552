"""DeadCodeElimination: what nobody uses goes, effects stay."""

from __future__ import annotations

import pytest

from ir.error import IRValueError
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

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
