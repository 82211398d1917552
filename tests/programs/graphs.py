"""Relax modules, and what networks are built of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ir import IRModule, relax
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T


class NetworkBuilder(relax.BlockBuilder):
    """A builder with weights of its own, so that a network is the same in every run and no two of its weights are equal."""

    def __init__(self) -> None:
        super().__init__()
        self._rng = np.random.default_rng(0)

    def weight(self, *shape: int, scale: float = 0.2) -> relax.Constant:
        """Normally distributed numbers."""
        return relax.const((scale * self._rng.standard_normal(shape)).astype("float32"))

    def positive(self, *shape: int) -> relax.Constant:
        """Numbers between 0.5 and 1.5, which may be divided by."""
        return relax.const((0.5 + self._rng.random(shape)).astype("float32"))


def network(build: Callable[..., Any], *shapes: Sequence[int]) -> IRModule:
    """What ``build(builder, *inputs)`` returns, computed in one dataflow block: for passes that rewrite operators."""
    bb = NetworkBuilder()
    params = [relax.Var(f"x{number}", relax.TensorStructInfo(shape)) for number, shape in enumerate(shapes)]
    with bb.function("main", params):
        with bb.dataflow():
            result = bb.emit_output(build(bb, *params))
        bb.emit_func_output(result)
    return bb.finalize()


def conv(bb: NetworkBuilder, x: Any, out_channels: int = 8, **attrs: Any) -> Any:
    """A convolution of 3 by 3 that keeps height and width: what layouts, precision and epilogues are about."""
    channels = x.struct_info.shape_values[1].value // attrs.get("groups", 1)
    return bb.emit(relax.op.nn.conv2d(x, bb.weight(out_channels, channels, 3, 3), padding=1, **attrs))


def batch_norm(bb: NetworkBuilder, x: Any) -> Any:
    """A normalization by constants, as a trained network has it: folded into weights or decomposed."""
    vectors = [bb.positive(x.struct_info.shape_values[1].value) for _ in range(4)]
    return bb.emit(relax.op.nn.batch_norm(x, *vectors, axis=1, training=False))


@I.ir_module
class Weights:
    """One input, two weights of which one is prepared: for passes that move work on weights out of a model."""

    @R.function
    def main(
        x: R.Tensor((2, 4), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((3,), "float32")
    ) -> R.Tensor((2, 3), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            wt = R.permute_dims(w, axes=[1, 0])
            scaled = R.multiply(wt, wt)
            lv = R.matmul(x, scaled)
            gv = R.add(lv, b)
            R.output(gv)
        return gv


@I.ir_module
class AddExp:
    """Two operators in a dataflow block, of which the second takes the first: the least that fusion and block passes can see."""

    @R.function
    def main(x: R.Tensor((4,), "float32"), p: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            lv0 = R.add(x, p)
            gv = R.exp(lv0)
            R.output(gv)
        return gv


@I.ir_module(check_well_formed=False)
class SymbolicChain:
    """Kernels that pass on tensors of equal and of different symbolic sizes: for planning and allocating storage."""

    @T.prim_func(private=True)
    def f(a: T.handle("float32"), b: T.handle("float32")):
        A = T.Buffer((1,), data=a)
        B = T.Buffer((1,), data=b)
        B[0] = A[0] + T.float32(1)

    @R.function(pure=False)
    def main(x: R.Tensor((2, "n"), "float32")):
        n = T.int64()
        cls = SymbolicChain
        a = R.builtin.alloc_tensor(R.shape([2, n]), R.dtype("float32"), R.prim_value(0))
        _ = cls.f(x, a)
        b = R.builtin.alloc_tensor(R.shape([2, n]), R.dtype("float32"), R.prim_value(0))
        _1 = cls.f(a, b)
        c = R.builtin.alloc_tensor(R.shape([n, 2]), R.dtype("float32"), R.prim_value(0))
        _2 = cls.f(b, c)
        d = R.builtin.alloc_tensor(R.shape([n * n]), R.dtype("float32"), R.prim_value(0))
        _3 = cls.f(c, d)
        pair = (d, c)
        field = pair[0]
        y = R.builtin.alloc_tensor(R.shape([2, n]), R.dtype("float32"), R.prim_value(0))
        _4 = cls.f(field, y)
        return y
