"""LazySetOutput: results are handed over where they are ready."""

from __future__ import annotations

import numpy as np

import runners
from ir import relax
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R


def test_lazy_set_output():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tuple(
            R.Tensor((4,), "float32"), R.Tensor((4,), "float32")
        ):
            a = R.add(x, x)
            b = R.negative(a)
            return (a, b)

    got = {}
    vm = runners.VirtualMachine(relax.build(transform.LazySetOutput()(Before), "llvm"), runners.cpu())
    assert vm["main"](np.ones(4, "float32"), lambda i, v: got.__setitem__(int(i), v.numpy())) == ()
    np.testing.assert_array_equal(got[0], np.full(4, 2))
    np.testing.assert_array_equal(got[1], np.full(4, -2))
