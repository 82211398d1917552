"""DataflowBlockPass and its decorator: passes over one dataflow block at a time."""

from __future__ import annotations

from ir.relax import transform
from tests.programs.graphs import AddExp

from .conftest import verify


def test_decorated_passes():
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
    verify(look(AddExp), AddExp)
    assert seen == [2]
    assert Rename("mark")(AddExp)["main"].attrs["mark"] == 1
