"""FuseTIR: a group of kernels becomes one kernel."""

from __future__ import annotations

import pytest

from ir.error import IRValueError
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from tests.programs.graphs import AddExp

from .conftest import verify
from .structure import fused, grouped, values


def test_fuse_tir_structure():
    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def fused_add_tir_exp(
            x: T.Buffer((T.int64(4),), "float32"),
            p: T.Buffer((T.int64(4),), "float32"),
            out: T.Buffer((T.int64(4),), "float32"),
        ):
            T.func_attr({"tir.noalias": True})
            lv0 = T.alloc_buffer((T.int64(4),))
            for ax0 in range(T.int64(4)):
                with T.block("T_add"):
                    v_ax0 = T.axis.spatial(T.int64(4), ax0)
                    T.reads(x[v_ax0], p[v_ax0])
                    T.writes(lv0[v_ax0])
                    lv0[v_ax0] = x[v_ax0] + p[v_ax0]
            for i0 in range(T.int64(4)):
                with T.block("compute"):
                    v_i0 = T.axis.spatial(T.int64(4), i0)
                    T.reads(lv0[v_i0])
                    T.writes(out[v_i0])
                    out[v_i0] = T.exp(lv0[v_i0])

        @R.function
        def main(x: R.Tensor((4,), "float32"), p: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Expected
            with R.dataflow():
                gv = R.call_tir(cls.fused_add_tir_exp, (x, p), out_sinfo=R.Tensor((4,), "float32"))
                R.output(gv)
            return gv

    verify(fused(AddExp), Expected)


def test_fusion_with_symbolic_shapes(same_numbers):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n * 4",), "float32"):
            n = T.int64()
            with R.dataflow():
                lv0 = R.exp(x)
                lv1 = R.reshape(lv0, (n * 4,))
                gv = R.add(lv1, lv1)
                R.output(gv)
            return gv

    same_numbers(Module, fused(Module), [(3, 4)])


def test_fuse_tir_rejects_operators():
    @I.ir_module
    class Module:
        @R.function(private=True)
        def group(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                gv = R.exp(x)
                R.output(gv)
            return gv

        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Module
            gv: R.Tensor((8,), "float32") = cls.group(x)
            return gv

    with pytest.raises(IRValueError, match="run LegalizeOps before"):
        transform.FuseTIR()(Module)


def test_parameters_that_a_fused_function_ignores_go():
    @I.ir_module
    class Before:
        @R.function(private=True)
        def inner(x: R.Tensor((4,), "float32"), unused: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.nn.relu(a)
                R.output(b)
            return b

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Before
            y: R.Tensor((4,), "float32") = cls.inner(x, x)
            return y

    after = transform.FuseTIR()(grouped(Before))
    assert [param.name_hint for param in after["inner"].params] == ["x"]
    assert len(values(after)[0].args) == 1
