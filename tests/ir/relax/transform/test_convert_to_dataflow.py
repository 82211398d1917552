"""ConvertToDataflow: runs of pure bindings become dataflow blocks."""

from __future__ import annotations

from ir import relax
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from tests.programs.graphs import AddExp

from .conftest import verify


def test_runs_of_pure_bindings_become_blocks():
    @I.ir_module
    class Plain:
        @R.function
        def main(x: R.Tensor((4,), "float32"), p: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            lv = R.add(x, p)
            gv = R.exp(lv)
            return gv

    verify(transform.ConvertToDataflow()(Plain), AddExp)
    verify(transform.ConvertToDataflow(min_size=3)(Plain), Plain)


def test_convert_to_dataflow_stops_at_effects():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            a = R.add(x, x)
            b = R.exp(a)
            _ = R.print(b, format="{}")
            c = R.exp(b)
            d = R.add(c, a)
            return d

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                a = R.add(x, x)
                b = R.exp(a)
                R.output(a, b)
            _ = R.print(b, format="{}")
            with R.dataflow():
                c = R.exp(b)
                d = R.add(c, a)
                R.output(d)
            return d

    verify(transform.ConvertToDataflow()(Before), Expected)


def test_blocks_that_are_there_already_keep_their_own_variables():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                R.output(a)
            with R.dataflow():
                b = R.exp(a)
                R.output(b)
            return b

    first, second = transform.ConvertToDataflow()(Before)["main"].body.blocks[0].bindings
    assert isinstance(first.var, relax.DataflowVar) and not isinstance(second.var, relax.DataflowVar)
