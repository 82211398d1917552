"""AttachAttrLayoutFreeBuffers: kernels learn which operands are weights."""

from __future__ import annotations

import numpy as np
import pytest

from ir import relax
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .conftest import verify


@I.ir_module
class Before:
    @T.prim_func(private=True)
    def add(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = A[vi] + B[vi]

    @R.function
    def main(
        x: R.Tensor((4,), "float32"), v: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")
    ) -> R.Tensor((4,), "float32"):
        R.func_attr({"num_input": 1})
        cls = Before
        y = R.call_tir(cls.add, (v, w), out_sinfo=R.Tensor((4,), "float32"))
        z = R.call_tir(cls.add, (x, w), out_sinfo=R.Tensor((4,), "float32"))
        r = R.subtract(y, z)
        return r


def _with(mod, name, func):
    return mod.replace(functions={**mod.functions, mod.get_global_var(name): func})


@pytest.mark.parametrize(("inputs", "free"), [(2, [1]), (1, [1]), (0, [0, 1])])
def test_a_kernel_is_free_in_what_is_a_weight_in_all_its_calls(inputs, free):
    """The parameters behind the inputs are weights: x is one only where there is no input."""
    mod = _with(Before, "main", Before["main"].with_attr("num_input", inputs))
    after = transform.AttachAttrLayoutFreeBuffers()(mod)
    verify(after, _with(mod, "add", mod["add"].with_attr("layout_free_buffers", free)))


def test_without_weights_nothing_is_free():
    mod = _with(Before, "main", Before["main"].without_attr("num_input"))
    verify(transform.AttachAttrLayoutFreeBuffers()(mod), mod)


def test_constants_are_weights_():
    bb = relax.BlockBuilder(_with(Before, "main", Before["main"].without_attr("num_input")))
    kernel = bb.get().get_global_var("add")
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    weight = relax.const(np.arange(4, dtype="float32"))
    with bb.function("weighted", [x]):
        bb.emit_func_output(bb.emit(relax.op.call_tir(kernel, [x, weight], x.struct_info)))
    mod = bb.get()
    # main calls the kernel with no weight at all
    verify(transform.AttachAttrLayoutFreeBuffers()(mod), mod)
    alone = mod.replace(
        functions={var: func for var, func in mod.functions.items() if var.name_hint != "main"}
    )
    after = transform.AttachAttrLayoutFreeBuffers()(alone)
    verify(after, _with(alone, "add", alone["add"].with_attr("layout_free_buffers", [1])))
