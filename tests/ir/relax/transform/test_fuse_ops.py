"""FuseOps: which operators become one function."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from tests.programs.graphs import AddExp

from .conftest import verify
from .structure import fused, grouped, kernels, values


def test_fuse_ops_structure():
    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def add(
            A: T.Buffer((T.int64(4),), "float32"),
            B: T.Buffer((T.int64(4),), "float32"),
            C: T.Buffer((T.int64(4),), "float32"),
        ):
            T.func_attr({"op_pattern": 0, "tir.noalias": True})
            for ax0 in range(T.int64(4)):
                with T.block("T_add"):
                    v_ax0 = T.axis.spatial(T.int64(4), ax0)
                    T.reads(A[v_ax0], B[v_ax0])
                    T.writes(C[v_ax0])
                    C[v_ax0] = A[v_ax0] + B[v_ax0]

        @T.prim_func(private=True)
        def tir_exp(A: T.Buffer((T.int64(4),), "float32"), C: T.Buffer((T.int64(4),), "float32")):
            T.func_attr({"op_pattern": 0, "tir.noalias": True})
            for i0 in range(T.int64(4)):
                with T.block("compute"):
                    v_i0 = T.axis.spatial(T.int64(4), i0)
                    T.reads(A[v_i0])
                    T.writes(C[v_i0])
                    C[v_i0] = T.exp(A[v_i0])

        @R.function(private=True)
        def fused_add_tir_exp(x: R.Tensor((4,), "float32"), p: R.Tensor((4,), "float32")) -> R.Tensor(
            (4,), "float32"
        ):
            R.func_attr({"Primitive": True})
            cls = Expected
            with R.dataflow():
                lv0 = R.call_tir(cls.add, (x, p), out_sinfo=R.Tensor((4,), "float32"))
                gv = R.call_tir(cls.tir_exp, (lv0,), out_sinfo=R.Tensor((4,), "float32"))
                R.output(gv)
            return gv

        @R.function
        def main(x: R.Tensor((4,), "float32"), p: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Expected
            with R.dataflow():
                gv: R.Tensor((4,), "float32") = cls.fused_add_tir_exp(x, p)
                R.output(gv)
            return gv

    mod = transform.AnnotateTIROpPattern()(transform.LegalizeOps()(AddExp))
    verify(transform.FuseOps()(mod), Expected)


def test_convolution_takes_its_epilogue(same_numbers):
    @I.ir_module
    class Module:
        @R.function
        def main(
            x: R.Tensor((1, 3, 4, 4), "float32"),
            w: R.Tensor((3, 3, 3, 3), "float32"),
            b: R.Tensor((1, 3, 1, 1), "float32"),
        ) -> R.Tensor((1, 3, 4, 4), "float32"):
            with R.dataflow():
                lv0 = R.nn.conv2d(x, w, padding=1)
                lv1 = R.add(lv0, b)
                lv2 = R.add(lv1, x)
                gv = R.nn.relu(lv2)
                R.output(gv)
            return gv

    mod = fused(Module)
    assert kernels(mod) == ["fused_conv2d_add_add1_relu"]
    same_numbers(Module, mod, [(1, 3, 4, 4), (3, 3, 3, 3), (1, 3, 1, 1)])


def test_reductions_keep_what_follows_apart(same_numbers):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 16), "float32"), w: R.Tensor((16, 8), "float32")) -> R.Tensor(
            (4, 8), "float32"
        ):
            with R.dataflow():
                lv0 = R.exp(x)
                lv1 = R.nn.softmax(lv0)
                lv2 = R.matmul(lv1, w)
                lv3 = R.nn.gelu(lv2)
                gv = R.nn.layer_norm(lv3, R.ones((8,), "float32"), R.zeros((8,), "float32"), axes=[-1])
                R.output(gv)
            return gv

    mod = fused(Module)
    names = kernels(mod)
    assert "fused_matmul_gelu" in names
    assert any(name.endswith("softmax") for name in names) and any("layer_norm" in name for name in names)
    assert not any("softmax" in name and "matmul" in name for name in names)
    same_numbers(Module, mod, [(4, 16), (16, 8)], scale=0.3)


def test_a_value_that_is_returned_stays_in_memory(same_numbers):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tuple(
            R.Tensor((8,), "float32"), R.Tensor((8,), "float32")
        ):
            with R.dataflow():
                lv0 = R.exp(x)
                gv0 = R.negative(lv0)
                gv1 = R.add(gv0, gv0)
                R.output(gv0, gv1)
            return (gv0, gv1)

    mod = fused(Module)
    assert "fused_tir_exp_tir_negative" in kernels(mod)
    same_numbers(Module, mod, [(8,)])


def test_equal_groups_are_one_function():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor(
            (4, 4), "float32"
        ):
            with R.dataflow():
                lv0 = R.matmul(x, w)
                lv1 = R.nn.relu(lv0)
                lv2 = R.matmul(lv1, w)
                gv = R.nn.relu(lv2)
                R.output(gv)
            return gv

    assert kernels(fused(Module)) == ["fused_matmul_relu"]


def test_fuse_ops_level_zero_fuses_nothing():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                lv0 = R.exp(x)
                gv = R.negative(lv0)
                R.output(gv)
            return gv

    mod = transform.AnnotateTIROpPattern()(transform.LegalizeOps()(Module))
    verify(transform.FuseOps(fuse_opt_level=0)(mod), mod)


def test_a_group_takes_the_fields_of_a_tuple_that_it_uses():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((4, 8), "float32"),
            t: R.Tuple(R.Tensor((4, 8), "float32"), R.Tensor((4, 8), "float32"), R.Tensor((4, 8), "float32")),
        ):
            with R.dataflow():
                a = t[0]
                b = t[2]
                c = R.add(a, b)
                d = R.nn.relu(c)
                R.output(d)
            return d

    @I.ir_module
    class Expected:
        @R.function(private=True)
        def fused_add_relu(t_0: R.Tensor((4, 8), "float32"), t_2: R.Tensor((4, 8), "float32")) -> R.Tensor(
            (4, 8), "float32"
        ):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                c = R.add(t_0, t_2)
                d = R.nn.relu(c)
                R.output(d)
            return d

        @R.function
        def main(
            x: R.Tensor((4, 8), "float32"),
            t: R.Tuple(R.Tensor((4, 8), "float32"), R.Tensor((4, 8), "float32"), R.Tensor((4, 8), "float32")),
        ) -> R.Tensor((4, 8), "float32"):
            cls = Expected
            with R.dataflow():
                a = t[0]
                b = t[2]
                d: R.Tensor((4, 8), "float32") = cls.fused_add_relu(a, b)
                R.output(d)
            return d

    verify(grouped(Before), transform.AnnotateTIROpPattern()(transform.LegalizeOps()(Expected)))


def test_a_tuple_that_is_used_whole_stays_whole():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            with R.dataflow():
                s = R.split(x, 2, axis=1)
                a = s[0]
                c = R.exp(a)
                R.output(c, a)
            return (c, a)

    after = grouped(Before)
    # a is a result, so that nothing is gained by taking it apart inside
    assert [type(value).__name__ for value in values(after)][-1] == "Call"
