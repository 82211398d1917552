"""FoldConstant: what depends on constants alone is computed while compiling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ir
from ir import relax
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify

op = relax.op
const = relax.const


def test_constants_that_kernels_compute_start_on_a_cache_line():
    weights = [relax.const(np.full((3, size), 2.0, "float32")) for size in (5, 33, 70)]
    bb = relax.BlockBuilder()
    with bb.function("main", []):
        with bb.dataflow():
            result = bb.emit_output(relax.Tuple([bb.emit(op.add(weight, weight)) for weight in weights]))
        bb.emit_func_output(result)
    folded = transform.FoldConstant()(transform.LegalizeOps()(bb.get()))
    found: list[relax.Constant] = []
    ir.post_order_visit(
        folded["main"].body,
        lambda node: (
            found.append(node) if isinstance(node, relax.Constant) and node.data.flat[0] == 4.0 else None
        ),
    )
    assert len(found) == 3
    assert all(item.data.ctypes.data % 64 == 0 for item in found)


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


@pytest.mark.parametrize(
    "build",
    [
        lambda: op.floor_divide(const(np.int32([1, 2])), const(np.int32([1, 0]))),
        lambda: op.mod(const(np.int32([1, 2])), const(np.int32([0, 3]))),
        lambda: op.take(const(np.ones(4, "float32")), const(np.int64([0, 4])), axis=0),
        lambda: op.take(const(np.ones((4, 3), "float32")), const(np.int64([0, 1 << 40]), "int64"), axis=0),
    ],
)
def test_what_is_undefined_is_left_to_the_program(build: Callable[[], Any]) -> None:
    """A division by zero, or an element far beyond a tensor's end, must not end the compiler."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    with builder.function("main", [x], private=True):
        with builder.dataflow():
            unused = builder.emit(build())
            out = builder.emit_output(relax.Tuple([x, unused]))
        builder.emit_func_output(out)
    before = builder.finalize()
    assert transform.FoldConstant()(before) is before
    kernels = transform.LegalizeOps()(before)
    assert transform.FoldConstant()(kernels) is kernels


def test_mistakes_in_legalizations_are_reported() -> None:
    """Only what has no value is passed over in silence."""

    def broken(builder: Any, call: Any) -> Any:
        raise ZeroDivisionError("a mistake in a legalization")

    builder = relax.BlockBuilder()
    with builder.function("main", []):
        out = builder.emit(op.exp(const(np.float32([1]))))
        builder.emit_func_output(out)
    before = builder.finalize()
    exp = ir.Op.get("relax.exp")
    kept = exp.get_attr("FLegalize")
    exp.set_attr("FLegalize", broken)
    try:
        with pytest.raises(ZeroDivisionError, match="a mistake in a legalization"):
            transform.FoldConstant()(before)
    finally:
        exp.set_attr("FLegalize", kept)
