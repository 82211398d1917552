"""DataflowBlockPass and its decorator: passes over one dataflow block at a time."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def test_decorated_passes():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv = R.add(x, x)
                gv = R.exp(lv)
                R.output(gv)
            return gv

    seen = []

    @transform.dataflowblock_pass(opt_level=2)
    def look(block, mod, ctx):
        seen.append(len(block.bindings))
        return block

    @transform.function_pass(opt_level=1)
    class Rename:
        def __init__(self, key):
            self.key = key

        def transform_function(self, func, mod, ctx):
            return func.with_attr(self.key, 1)

    assert isinstance(look, transform.DataflowBlockPass) and look.info.opt_level == 2
    verify(look(Module), Module)
    assert seen == [2]
    assert Rename("mark")(Module)["main"].attrs["mark"] == 1
