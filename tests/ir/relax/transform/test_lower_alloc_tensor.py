"""LowerAllocTensor: tensors that have no storage get one of their own."""

from __future__ import annotations

import pytest

import runners
from ir import relax
from ir.error import IRValueError
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from tests.programs.graphs import SymbolicChain


def test_what_is_left_is_allocated_in_bytes():
    lowered = transform.LowerAllocTensor()(transform.StaticPlanBlockMemory()(SymbolicChain))
    storage = [
        b.value
        for b in lowered["main"].body.blocks[0].bindings
        if getattr(getattr(b.value, "op", None), "name", "") == "relax.memory.alloc_storage"
    ]
    assert [call.args[3].value for call in storage] == ["float32"] * 3 + ["uint8"]
    runtime = transform.LowerRuntimeBuiltin()(lowered)
    made = [
        b.value.args[2].value
        for b in runtime["main"].body.blocks[0].bindings
        if getattr(getattr(b.value, "op", None), "name", "") == "relax.vm.alloc_storage"
    ]
    assert made == ["uint8"] * 4


def test_a_shape_that_is_a_value_gets_names():
    @I.ir_module(check_well_formed=False)
    class Before:
        @R.function(pure=False)
        def main(s: R.Shape(ndim=2)) -> R.Tensor(dtype="float32", ndim=2):
            x: R.Tensor(dtype="float32", ndim=2) = R.builtin.alloc_tensor(
                s, R.dtype("float32"), R.prim_value(0)
            )
            return x

    main = relax.build(Before, "llvm", pipeline=None)
    assert runners.VirtualMachine(main)["main"]((3, 5)).numpy().shape == (3, 5)

    @I.ir_module(check_well_formed=False)
    class Unknown:
        @R.function(pure=False)
        def main(s: R.Shape) -> R.Tensor(dtype="float32"):
            x: R.Tensor(dtype="float32") = R.builtin.alloc_tensor(s, R.dtype("float32"), R.prim_value(0))
            return x

    with pytest.raises(IRValueError, match="LowerAllocTensor: a tensor needs a shape of known length"):
        transform.LowerAllocTensor()(Unknown)
