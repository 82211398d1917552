"""RewriteDataflowReshape: kernels that only renumber elements become views, unless one of the two tensors is written."""

from __future__ import annotations

import pytest

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .conftest import verify


@I.ir_module
class Before:
    @T.prim_func(private=True)
    def flatten(A: T.Buffer((3, 4), "float32"), B: T.Buffer((12,), "float32")):
        for i in range(12):
            with T.block("B"):
                vi = T.axis.spatial(12, i)
                B[vi] = A[vi // 4, vi % 4]

    @T.prim_func(private=True)
    def transpose(A: T.Buffer((3, 4), "float32"), B: T.Buffer((4, 3), "float32")):
        for i, j in T.grid(4, 3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vj, vi]

    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((12,), "float32"):
        cls = Before
        with R.dataflow():
            a = R.call_tir(cls.flatten, (x,), out_sinfo=R.Tensor((12,), "float32"))
            b = R.call_tir(cls.transpose, (x,), out_sinfo=R.Tensor((4, 3), "float32"))
            c = R.reshape(b, (12,))
            y = R.add(a, c)
            R.output(y)
        return y


def test_kernels_that_keep_the_order_become_views(same_numbers):
    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def flatten(A: T.Buffer((3, 4), "float32"), B: T.Buffer((12,), "float32")):
            for i in range(12):
                with T.block("B"):
                    vi = T.axis.spatial(12, i)
                    B[vi] = A[vi // 4, vi % 4]

        @T.prim_func(private=True)
        def transpose(A: T.Buffer((3, 4), "float32"), B: T.Buffer((4, 3), "float32")):
            for i, j in T.grid(4, 3):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vj, vi]

        @R.function
        def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((12,), "float32"):
            cls = Expected
            with R.dataflow():
                a = R.reshape(x, (12,))
                b = R.call_tir(cls.transpose, (x,), out_sinfo=R.Tensor((4, 3), "float32"))
                c = R.reshape(b, (12,))
                y = R.add(a, c)
                R.output(y)
            return y

    after = transform.RewriteDataflowReshape()(Before)
    verify(after, Expected)
    same_numbers(Before, after, [(3, 4)])


def test_reshapes_that_were_made_kernels_are_views_again():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, "n"), "float32")) -> R.Tensor(("n", 2), "float32"):
            n = T.int64()
            with R.dataflow():
                y = R.reshape(x, (n, 2))
                z = R.expand_dims(y, 0)
                R.output(y, z)
            return y

    kernels = transform.LegalizeOps()(Module)
    assert "call_tir" in kernels.script()
    after = transform.RewriteDataflowReshape()(kernels)
    assert [binding.value.op.name for binding in after["main"].body.blocks[0].bindings] == [
        "relax.reshape"
    ] * 2


def test_outside_of_dataflow_blocks_nothing_is_rewritten():
    plain = transform.ToNonDataflow()(Before)
    assert transform.RewriteDataflowReshape()(plain) is plain


@pytest.mark.parametrize("written", ["y", "x"])
def test_a_copy_stays_where_one_of_the_two_is_written(written):
    """The caller sees what is written into x; with a view, it would see what is written into the copy."""

    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def copy(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = A[vi]

        @T.prim_func(private=True)
        def double(A: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("A"):
                    vi = T.axis.spatial(8, i)
                    A[vi] = A[vi] * T.float32(2)

        @R.function
        def copied(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Module
            with R.dataflow():
                y = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((8,), "float32"))
                z = R.call_tir_inplace(
                    cls.double, (y,), inplace_indices=[0], out_sinfo=R.Tensor((8,), "float32")
                )
                R.output(z)
            return z

        @R.function
        def original(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Module
            with R.dataflow():
                a = R.exp(x)
                y = R.call_tir(cls.copy, (a,), out_sinfo=R.Tensor((8,), "float32"))
                z = R.call_tir_inplace(
                    cls.double, (a,), inplace_indices=[0], out_sinfo=R.Tensor((8,), "float32")
                )
                r = R.add(y, z)
                R.output(r)
            return r

    name = {"y": "copied", "x": "original"}[written]
    assert transform.RewriteDataflowReshape()(Module)[name] is Module[name]
