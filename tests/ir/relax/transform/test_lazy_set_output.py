"""LazySetOutput: results are handed over where they are ready."""

from __future__ import annotations

import numpy as np

import runners
from ir import relax
from ir.relax import transform
from ir.relax.analysis import check_well_formed
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T


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


def test_every_kind_of_output_is_handed_out_once():
    """Results of branches, views, tuples, parameters, constants, and one value twice."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")) -> R.Tuple(
            R.Tensor(("n",), "float32"),
            R.Tensor(("n",), "float32"),
            R.Tuple(R.Tensor(("n",), "float32")),
            R.Tensor(("n",), "float32"),
            R.Tensor(("n",), "float32"),
            R.Tensor((2,), "float32"),
        ):
            n = T.int64()
            if c:
                a = R.add(x, x)
            else:
                a = R.negative(x)
            with R.dataflow():
                b0 = R.negative(a)
                b = b0
                t = (b0,)
                R.output(b, t)
            return (a, b, t, x, a, R.const([1.0, 2.0], "float32"))

        @R.function
        def pieces(x: R.Tensor((4,), "float32")) -> R.Tuple(
            R.Tensor((2,), "float32"), R.Tensor((2,), "float32")
        ):
            a = R.split(x, 2)
            return a

    after = transform.LazySetOutput()(Before)
    check_well_formed(after)
    vm = runners.VirtualMachine(relax.build(after, "llvm", tir_pipeline=None), runners.cpu())
    got: dict = {}
    x = np.ones(3, "float32")

    def store(index, value):
        assert int(index) not in got
        got[int(index)] = value

    assert vm["main"](x, np.array(True), store) == ()
    (inner,) = got[2]
    found = [got[0], got[1], inner, got[3], got[4], got[5]]
    expected = [x + x, -2 * x, -2 * x, x, x + x, np.float32([1, 2])]
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value.numpy(), wanted)
    got.clear()
    assert vm["pieces"](np.arange(4, dtype="float32"), store) == ()
    np.testing.assert_array_equal(np.concatenate([part.numpy() for part in got[0]]), np.arange(4))
