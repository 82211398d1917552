"""Gradient: the documents' examples, and numbers against torch."""

from __future__ import annotations

import numpy as np
import pytest

import ir
import runners
from ir import relax, te
from ir.error import IRTypeError, IRValueError
from ir.registry import register_func
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .conftest import verify

op = relax.op


def test_example_of_the_documents():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3, 3), dtype="float32"), y: R.Tensor((3, 3), dtype="float32")) -> R.Tensor(
            (), dtype="float32"
        ):
            with R.dataflow():
                lv1: R.Tensor((3, 3), dtype="float32") = R.add(x, y)
                lv2: R.Tensor((), dtype="float32") = R.sum(lv1, axis=None, keepdims=False)
                R.output(lv2)
            return lv2

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((3, 3), dtype="float32"), y: R.Tensor((3, 3), dtype="float32")) -> R.Tensor(
            (), dtype="float32"
        ):
            with R.dataflow():
                lv1: R.Tensor((3, 3), dtype="float32") = R.add(x, y)
                lv2: R.Tensor((), dtype="float32") = R.sum(lv1, axis=None, keepdims=False)
                R.output(lv2)
            return lv2

        @R.function
        def main_adjoint(
            x: R.Tensor((3, 3), dtype="float32"), y: R.Tensor((3, 3), dtype="float32")
        ) -> R.Tuple(
            R.Tensor((), dtype="float32"),
            R.Tuple(R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32")),
        ):
            with R.dataflow():
                lv1: R.Tensor((3, 3), dtype="float32") = R.add(x, y)
                lv2: R.Tensor((), dtype="float32") = R.sum(lv1, axis=None, keepdims=False)
                lv2_adjoint: R.Tensor((), dtype="float32") = R.ones((), dtype="float32")
                lv1_adjoint: R.Tensor((3, 3), dtype="float32") = R.broadcast_to(lv2_adjoint, (3, 3))
                x_adjoint: R.Tensor((3, 3), dtype="float32") = lv1_adjoint
                y_adjoint: R.Tensor((3, 3), dtype="float32") = lv1_adjoint
                R.output(lv2, x_adjoint, y_adjoint)
            return (lv2, (x_adjoint, y_adjoint))

    verify(transform.Gradient("main")(Module), Expected)


def test_example_with_target_index():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3, 3), dtype="float32"), y: R.Tensor((3, 3), dtype="float32")) -> R.Tuple(
            R.Tensor((), dtype="float32"), R.Tensor((), dtype="float32")
        ):
            with R.dataflow():
                lv1: R.Tensor((), dtype="float32") = R.sum(x, axis=None, keepdims=False)
                lv2: R.Tensor((), dtype="float32") = R.sum(y, axis=None, keepdims=False)
                R.output(lv1, lv2)
            return (lv1, lv2)

    after = transform.Gradient("main", target_index=1)(Module)
    names = [b.var.name_hint for b in after["main_adjoint"].body.blocks[0].bindings]
    assert names == ["lv1", "lv2", "lv2_adjoint", "x_adjoint", "y_adjoint"]
    ops = [b.value.op.name for b in after["main_adjoint"].body.blocks[0].bindings]
    assert ops == ["relax.sum", "relax.sum", "relax.ones", "relax.zeros", "relax.broadcast_to"]


def _module(build, *shapes):
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{i}", relax.TensorStructInfo(shape)) for i, shape in enumerate(shapes)]
    with builder.function("main", params):
        with builder.dataflow():
            loss = builder.emit_output(build(builder, *params))
        builder.emit_func_output(loss)
    return builder.finalize()


def _checked(mod, torch_function, *shapes):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = [(0.5 * rng.standard_normal(shape)).astype("float32") for shape in shapes]
    vm = runners.VirtualMachine(
        relax.build(transform.Gradient("main")(mod), "llvm", tir_pipeline=None), runners.cpu()
    )
    loss, gradients = vm["main_adjoint"](*arrays)
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    expected = torch_function(*tensors)
    expected.backward()
    np.testing.assert_allclose(loss.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-4)
    for got, tensor in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(got.numpy(), tensor.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_mlp_against_torch():
    def build(bb, x, w, b, v):
        h = bb.emit(op.nn.relu(bb.emit(op.add(bb.emit(op.matmul(x, w)), b))))
        return bb.emit(op.mean(bb.emit(op.square(bb.emit(op.matmul(h, v))))))

    shapes = [(5, 4), (4, 6), (6,), (6, 3)]
    _checked(_module(build, *shapes), lambda x, w, b, v: ((x @ w + b).relu() @ v).square().mean(), *shapes)


def test_convolution_against_torch():
    torch = pytest.importorskip("torch")

    def build(bb, x, w):
        h = bb.emit(op.nn.silu(bb.emit(op.nn.conv2d(x, w, padding=1))))
        return bb.emit(op.sum(bb.emit(op.nn.avg_pool2d(h, (2, 2), strides=(2, 2)))))

    shapes = [(2, 3, 6, 6), (4, 3, 3, 3)]
    functional = torch.nn.functional
    _checked(
        _module(build, *shapes),
        lambda x, w: functional.avg_pool2d(functional.silu(functional.conv2d(x, w, padding=1)), 2).sum(),
        *shapes,
    )


def test_te_gradients():
    """A kernel with a registered te gradient: x squared, of which the gradient is twice x."""

    @register_func("tests.gradient.square", override=True)
    def square_gradient(var, call, grad, builder):
        assert call.op.name == "relax.call_tir"
        return [op.multiply(grad, op.multiply(call.args[1].fields[0], relax.const(2.0, "float32")))]

    def build(bb, x):
        scaled = bb.emit(op.multiply(x, relax.const(3.0, "float32")))
        squared = bb.emit_te_with_grad(
            lambda a: te.compute(a.shape, lambda *i: a(*i) * a(*i), name="square"),
            scaled,
            te_grad_name="tests.gradient.square",
        )
        return bb.emit(op.sum(squared))

    _checked(_module(build, (2, 3)), lambda x: ((3 * x) ** 2).sum(), (2, 3))


def test_values_used_several_times_and_tuples():
    def build(bb, x, y):
        parts = bb.emit(op.split(x, 2, axis=1))
        first, second = bb.emit(parts[0]), bb.emit(parts[1])
        joined = bb.emit(op.concat([second, y, second], axis=1))
        return bb.emit(
            op.sum(
                bb.emit(op.multiply(bb.emit(op.exp(joined)), bb.emit(op.concat([first, first, y], axis=1))))
            )
        )

    torch = pytest.importorskip("torch")

    def reference(x, y):
        first, second = x.chunk(2, 1)
        return (torch.cat([second, y, second], 1).exp() * torch.cat([first, first, y], 1)).sum()

    shapes = [(2, 4), (2, 2)]
    _checked(_module(build, *shapes), reference, *shapes)


def test_checkpoints_recompute():
    def build(bb, x):
        start = bb.emit(op.grad.start_checkpoint(x))
        a = bb.emit(op.exp(start))
        b = bb.emit(op.sin(a))
        return bb.emit(op.sum(bb.emit(op.grad.end_checkpoint(b))))

    mod = _module(build, (4,))
    names = [b.var.name_hint for b in transform.Gradient("main")(mod)["main_adjoint"].body.blocks[0].bindings]
    assert any(name.endswith("_cp") for name in names)


def test_rejected_requests():
    mod = _module(lambda bb, x: bb.emit(op.exp(x)), (4,))
    with pytest.raises(IRValueError, match="must be a variable that holds a float scalar"):
        transform.Gradient("main")(mod)
    loss = _module(lambda bb, x: bb.emit(op.sum(bb.emit(op.round(x)))), (4,))
    with pytest.raises(IRValueError, match="relax.round has no gradient"):
        transform.Gradient("main")(loss)
    good = _module(lambda bb, x: bb.emit(op.sum(x)), (4,))
    with pytest.raises(IRValueError, match="is no parameter of main"):
        transform.Gradient("main", relax.Var("z", relax.TensorStructInfo((4,))))(good)
    with pytest.raises(IRValueError, match="target_index 2 is out of range"):
        transform.Gradient("main", target_index=2)(good)
    kernel = transform.LegalizeOps()(good)
    with pytest.raises(IRTypeError, match="is no Relax function"):
        transform.Gradient("sum")(kernel)


def test_te_gradients_get_their_options():
    @I.ir_module
    class Scaled:
        @T.prim_func(private=True)
        def scale(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("scale"):
                    v = T.axis.spatial(4, i)
                    B[v] = A[v] * T.float32(3)

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Scaled
            with R.dataflow():
                y = R.call_tir_with_grad(
                    cls.scale,
                    (x,),
                    out_sinfo=R.Tensor((4,), "float32"),
                    te_grad_name="test.scale_grad",
                    te_grad_kwargs={"k": 3.0},
                )
                z = R.sum(y)
                R.output(z)
            return z

    seen = []

    @ir.register_func("test.scale_grad", override=True)
    def gradient(var, call, adjoint, builder, k=1.0):
        seen.append(k)
        return op.multiply(adjoint, relax.const(k, "float32"))

    transform.Gradient("main")(Scaled)
    ir.remove_global_func("test.scale_grad")
    assert seen == [3.0]
