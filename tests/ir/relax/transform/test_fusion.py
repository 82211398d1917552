"""LegalizeOps, operator patterns, FuseOps and FuseTIR: which operators become one kernel, and what it looks like."""

from __future__ import annotations

import numpy as np
import pytest

from ir import relax
from ir.error import IRValueError
from ir.relax import transform
from ir.relax.op.declaration import OpPatternKind
from ir.relax.transform.operator_groups import GraphNode, partition
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.tir import PrimFunc

from .conftest import verify


def _kernels(mod):
    return sorted(var.name_hint for var, func in mod.functions.items() if isinstance(func, PrimFunc))


def _fused(mod):
    for make in (
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FuseOps(),
        transform.FuseTIR(),
        transform.DeadCodeElimination(),
    ):
        mod = make(mod)
    return mod


def test_legalize_ops_follows_the_documents():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            z: R.Tensor((2, 3), "float32") = R.add(x, y)
            r: R.Tensor((2, 3), "float32") = R.multiply(y, z)
            return r

    def customize_legalize_add(bb, call):
        from ir import topi

        return bb.call_te(topi.add, call.args[1], call.args[0])

    mod = transform.LegalizeOps({"relax.add": customize_legalize_add})(Module)
    first, second = mod["main"].body.blocks[0].bindings
    x, y = mod["main"].params
    assert first.value.args[0].name_hint == "add" and first.value.args[1].fields == (y, x)
    assert second.value.args[0].name_hint == "multiply" and second.value.args[1].fields == (y, first.var)
    assert _kernels(mod) == ["add", "multiply"]


def test_repeated_operators_share_a_kernel_and_aliases_do_not():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                a = R.add(x, y)
                b = R.add(y, a)
                c = R.add(a, a)
                d = R.subtract(b, c)
                R.output(d)
            return d

    mod = transform.LegalizeOps()(Module)
    calls = [b.value for b in mod["main"].body.blocks[0].bindings]
    assert [len(call.args[1].fields) for call in calls] == [2, 2, 2, 2]
    assert calls[0].args[0] is calls[1].args[0]
    a = mod["main"].body.blocks[0].bindings[0].var
    assert set(calls[2].args[1].fields) == {a}
    import runners

    vm = runners.VirtualMachine(relax.build(Module, "llvm"), runners.cpu())
    np.testing.assert_allclose(
        vm["main"](np.full(4, 1, "float32"), np.full(4, 5, "float32")).numpy(), np.full(4, -1)
    )


def test_legalize_leaves_unknown_shapes_and_warns_on_request():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=2)) -> R.Tensor(dtype="float32", ndim=2):
            y = R.exp(x)
            return y

    verify(transform.LegalizeOps()(Module), Module)


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda x, w: relax.op.exp(x), OpPatternKind.kElemWise),
        (lambda x, w: relax.op.permute_dims(x, [1, 0]), OpPatternKind.kInjective),
        (lambda x, w: relax.op.broadcast_to(x, (3, 8, 8)), OpPatternKind.kBroadcast),
        (lambda x, w: relax.op.sum(x, 1), OpPatternKind.kCommReduce),
        (lambda x, w: relax.op.matmul(x, w), OpPatternKind.kOutEWiseFusable),
        (lambda x, w: relax.op.nn.softmax(x), OpPatternKind.kOutEWiseFusable),
    ],
)
def test_op_patterns(build, kind):
    bb = relax.BlockBuilder()
    x, w = (relax.Var(name, relax.TensorStructInfo((8, 8))) for name in "xw")
    with bb.function("main", [x, w]):
        bb.emit_func_output(bb.emit(build(x, w)))
    mod = transform.AnnotateTIROpPattern()(transform.LegalizeOps()(bb.finalize()))
    (kernel,) = (func for func in mod.functions.values() if isinstance(func, PrimFunc))
    assert kernel.attrs.get_int("op_pattern") == kind


def test_fuse_ops_structure():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), p: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                lv0 = R.add(x, p)
                gv = R.exp(lv0)
                R.output(gv)
            return gv

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

    mod = transform.AnnotateTIROpPattern()(transform.LegalizeOps()(Before))
    verify(transform.FuseOps()(mod), Expected)


def test_fuse_tir_structure():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), p: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                lv0 = R.add(x, p)
                gv = R.exp(lv0)
                R.output(gv)
            return gv

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

    verify(_fused(Before), Expected)


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

    mod = _fused(Module)
    assert _kernels(mod) == ["fused_conv2d_add_add1_relu"]
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

    mod = _fused(Module)
    names = _kernels(mod)
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

    mod = _fused(Module)
    assert "fused_tir_exp_tir_negative" in _kernels(mod)
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

    assert _kernels(_fused(Module)) == ["fused_matmul_relu"]


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

    same_numbers(Module, _fused(Module), [(3, 4)])


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


def test_partition_of_a_diamond():
    elementwise, heavy = OpPatternKind.kElemWise, OpPatternKind.kOutEWiseFusable
    # x -> conv -> (a, b) -> add
    nodes = [
        GraphNode(OpPatternKind.kOpaque, [(1, heavy)]),
        GraphNode(heavy, [(2, elementwise), (3, elementwise)]),
        GraphNode(elementwise, [(4, elementwise)]),
        GraphNode(elementwise, [(4, elementwise)]),
        GraphNode(elementwise, [], is_external=True),
    ]
    groups = [group.find() for group in partition(nodes)]
    assert len({id(group) for group in groups[1:]}) == 1 and groups[0] is not groups[1]
    assert groups[1].anchor == 1
    limited = [group.find() for group in partition(nodes, max_fuse_depth=2)]
    assert max(group.n_nodes for group in limited) <= 2


def test_fold_constant(same_numbers):
    weight = np.arange(6, dtype="float32").reshape(2, 3)
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4, 3)))
    with bb.function("main", [x]):
        with bb.dataflow():
            transposed = bb.emit(relax.op.permute_dims(relax.const(weight), [1, 0]))
            doubled = bb.emit(relax.op.add(transposed, transposed))
            gv = bb.emit_output(relax.op.matmul(x, doubled))
        bb.emit_func_output(gv)
    mod = bb.finalize()
    for before in (mod, transform.LegalizeOps()(mod)):
        after = transform.DeadCodeElimination()(transform.FoldConstant()(before))
        (binding,) = after["main"].body.blocks[0].bindings
        args = binding.value.args if binding.value.op.name == "relax.matmul" else binding.value.args[1].fields
        np.testing.assert_array_equal(args[1].data, 2 * weight.T)
    same_numbers(mod, after, [(4, 3)])


def test_fold_constant_leaves_what_would_grow():
    bb = relax.BlockBuilder()
    with bb.function("main", []):
        with bb.dataflow():
            gv = bb.emit_output(relax.op.broadcast_to(relax.const(np.ones((1, 1), "float32")), (1024, 1024)))
        bb.emit_func_output(gv)
    mod = bb.finalize()
    verify(transform.FoldConstant()(mod), mod)


def test_rewrite_dataflow_reshape():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 6), "float32")) -> R.Tensor((3, 4), "float32"):
            with R.dataflow():
                lv = R.reshape(x, (3, 4))
                gv = R.permute_dims(lv, [1, 0])
                out = R.permute_dims(gv, [1, 0])
                R.output(out)
            return out

    after = transform.RewriteDataflowReshape()(transform.LegalizeOps()(Module))
    names = [b.value.op.name for b in after["main"].body.blocks[0].bindings]
    assert names == ["relax.reshape", "relax.call_tir", "relax.call_tir"]


def test_fold_constant_of_scalars():
    """Kernels get 0-dimensional arrays as such."""
    bb = relax.BlockBuilder()
    with bb.function("main", []):
        with bb.dataflow():
            one = bb.emit(relax.op.exp(relax.const(0.0, "float32")))
            gv = bb.emit_output(relax.op.broadcast_to(one, (2, 2)))
        bb.emit_func_output(gv)
    after = transform.FoldConstant()(transform.LegalizeOps()(bb.finalize()))
    np.testing.assert_array_equal(after["main"].body.blocks[0].bindings[-1].value.data, np.ones((2, 2)))


def test_fold_constant_goes_on_after_a_branch(same_numbers):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
            two = R.exp(R.const([0.0, 0.0, 0.0], "float32"))
            if c:
                y = R.add(x, two)
            else:
                y = R.subtract(x, two)
            four = R.add(two, two)
            z = R.multiply(y, four)
            return z

    after = transform.DeadCodeElimination()(transform.FoldConstant()(Before))
    last = after["main"].body.blocks[-1].bindings[-1].value
    np.testing.assert_array_equal(last.args[1].data, [2, 2, 2])
