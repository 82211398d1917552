"""The pass that docs/graph-pass.md shows works as it stands there."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify

PAGE = Path(__file__).parents[4] / "docs" / "graph-pass.md"


def test_the_page_s_pass():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    name = "ir.relax.transform.fold_double_negation"
    module = types.ModuleType(name)
    module.__package__ = "ir.relax.transform"
    sys.modules[name] = module
    try:
        exec(compile(code, str(PAGE), "exec"), module.__dict__)
    finally:
        del sys.modules[name]

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv = R.negative(x)
                lv1 = R.negative(lv)
                gv = R.exp(lv1)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                gv = R.exp(x)
                R.output(gv)
            return gv

    after = module.FoldDoubleNegation()(Before)
    after = transform.DeadCodeElimination()(transform.CanonicalizeBindings()(after))
    verify(after, Expected)
