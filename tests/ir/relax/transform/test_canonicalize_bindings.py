"""CanonicalizeBindings: other names of a value, known fields and unused outputs go."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .conftest import verify


def test_canonicalize_renames_and_outputs():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv0 = R.add(x, x)
                lv1 = lv0
                gv = lv1
                R.output(gv)
            z = gv
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                gv = R.add(x, x)
                R.output(gv)
            return gv

    verify(transform.CanonicalizeBindings()(Before), Expected)


def test_canonicalize_tuples_and_unused_outputs():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                pair = (x, y)
                a = pair[0]
                b = R.add(a, y)
                gv = R.multiply(b, b)
                R.output(b, gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                pair = (x, y)
                b = R.add(x, y)
                gv = R.multiply(b, b)
                R.output(gv)
            return gv

    verify(transform.CanonicalizeBindings()(Before), Expected)


def test_canonicalize_trivial_match_cast_and_known_symbols():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8, 4), "float32")) -> R.Tensor((8, 4), "float32"):
            n = T.int64()
            y = R.match_cast(x, R.Tensor((n, 4), "float32"))
            z = R.add(y, y)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8, 4), "float32")) -> R.Tensor((8, 4), "float32"):
            z = R.add(x, x)
            return z

    verify(transform.CanonicalizeBindings()(Before), Expected)
