"""LowerRuntimeBuiltin: allocations, views and closures become calls of the runtime."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import assert_structural_equal, relax
from ir.error import IRValueError
from ir.relax import transform
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R


def test_views_and_closures_become_calls_of_the_runtime():
    @I.ir_module(check_well_formed=False)
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 4), "float32")):
            a = R.flatten(x)
            b = R.expand_dims(a, [0])
            c = R.squeeze(b)
            d = R.memory.view(c, R.shape([2, 2]), R.dtype("float32"), R.prim_value(8))
            e = R.memory.view(c, R.shape([4, 2]), R.dtype("float32"), R.prim_value(0))
            return (d, e)

    after = transform.LowerRuntimeBuiltin()(Before)
    assert_structural_equal(transform.VMBuiltinLower()(Before), after)
    names = [b.value.op.global_symbol for b in after["main"].body.blocks[0].bindings[:5]]
    assert names == ["vm.builtin.reshape"] * 3 + ["runtime.TVMArrayCreateView", "vm.builtin.reshape"]
    x = np.arange(8, dtype="float32").reshape(2, 4)
    vm = runners.VirtualMachine(relax.build(Before, "llvm", pipeline=None))
    for got in (vm["main"](x), evaluate(after, x)):
        np.testing.assert_array_equal(np.asarray(got[0]), [[2, 3], [4, 5]])
        np.testing.assert_array_equal(np.asarray(got[1]), x.reshape(4, 2))


def test_a_view_of_unknown_shape_is_refused():
    @I.ir_module(check_well_formed=False)
    class Before:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=2)):
            y = R.flatten(x)
            return y

    with pytest.raises(IRValueError, match="LowerRuntimeBuiltin: the view .* needs a known shape"):
        transform.LowerRuntimeBuiltin()(Before)
