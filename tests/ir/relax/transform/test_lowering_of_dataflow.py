"""Lowering passes that put effects into functions with dataflow blocks leave well-formed functions that compute the same."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import IRModule, relax
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.script import from_source

_SOURCE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(({rows}, 4), "float32"), chosen: R.Tensor((), "bool")):
        {symbols}
        with R.dataflow():
            a = R.exp(x)
            b = R.reshape(a, R.shape([{rows} * 4]))
            c = R.add(b, b)
            R.output(c)
        if chosen:
            with R.dataflow():
                d = R.reshape(c, R.shape([4, {rows}]))
                e = R.permute_dims(d)
                R.output(e)
            f = e
        else:
            f = R.reshape(c, R.shape([{rows}, 4]))
        return f
"""
_STATIC = from_source(_SOURCE.format(rows=3, symbols="pass"))
_SYMBOLIC = from_source(_SOURCE.format(rows="n", symbols="n = T.int64()").replace("((n, 4)", '(("n", 4)'))


@pytest.mark.parametrize(
    "names",
    [
        ("KillAfterLastUse",),
        ("LowerRuntimeBuiltin",),
        ("VMShapeLower",),
        ("ToNonDataflow", "KillAfterLastUse"),
        ("ToNonDataflow", "LowerRuntimeBuiltin"),
        ("KillAfterLastUse", "LowerRuntimeBuiltin", "VMShapeLower"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("mod", [_STATIC, _SYMBOLIC], ids=["static", "symbolic"])
def test_effects_do_not_stand_in_dataflow_blocks(names: tuple[str, ...], mod: IRModule) -> None:
    lowered = transform.LegalizeOps()(mod)
    for name in names:
        lowered = getattr(transform, name)()(lowered)
        check_well_formed(lowered)
    if "VMShapeLower" in names and mod is _SYMBOLIC:
        return  # what still needs a symbolic shape must be lowered before
    execute = runners.VirtualMachine(relax.build(lowered, "llvm"), runners.cpu())["main"]
    x = np.arange(12, dtype="float32").reshape(3, 4) / 8
    doubled = 2 * np.exp(x)
    for chosen, expected in ((True, doubled.reshape(4, 3).T), (False, doubled)):
        np.testing.assert_allclose(execute(x, np.array(chosen)).numpy(), expected, rtol=1e-6)


def test_what_gets_no_effects_keeps_its_blocks() -> None:
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        return a
""")
    assert transform.LowerRuntimeBuiltin()(mod) is mod
    assert transform.KillAfterLastUse()(mod) is mod
