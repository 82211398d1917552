"""RunCodegen: functions of external libraries are compiled by them."""

from __future__ import annotations

import numpy as np
import pytest

import ir
import runners
from ir import relax
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R


def test_run_codegen_calls_the_backend():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv = R.exp(x)
                gv = R.negative(lv)
                R.output(gv)
            return gv

    from ir.relax.dpl import is_op, wildcard
    from ir.transform import PassError

    offloaded = transform.FuseOpsByPattern(
        [("mine.exp", is_op("relax.exp")(wildcard()))], annotate_codegen=True
    )(Before)
    with pytest.raises(PassError, match="no backend 'mine'"):
        transform.RunCodegen()(offloaded)

    def compute(x, out):
        np.exp(np.asarray(x), out=out.data)

    def register(functions, options, constant_names):
        for func in functions:
            ir.register_func(func.attrs["global_symbol"], compute, override=True)
        return ["module"]

    ir.register_func("relax.ext.mine", register, override=True)
    after = transform.RunCodegen()(offloaded)
    assert after.attrs["external_mods"] == ("module",)
    vm = runners.VirtualMachine(relax.build(after, "llvm"), runners.cpu())
    x = np.linspace(0, 1, 8, dtype="float32")
    np.testing.assert_allclose(vm["main"](x).numpy(), -np.exp(x), rtol=1e-6)
