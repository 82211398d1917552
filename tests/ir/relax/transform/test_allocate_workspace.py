"""AllocateWorkspace: functions of an external library get the memory that they ask for."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R


def test_allocate_workspace():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            y: R.Tensor((8,), "float32") = cls.external(x)
            z: R.Tensor((8,), "float32") = cls.external(y)
            return z

        @R.function
        def external(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            R.func_attr({"Codegen": "cutlass", "WorkspaceSize": 4096})
            y = R.exp(x)
            return y

    after = transform.AllocateWorkspace()(Before)
    assert len(after["external"].params) == 2
    bindings = after["main"].body.blocks[0].bindings
    assert bindings[0].value.op.name == "relax.builtin.alloc_tensor" and len(bindings) == 3
    assert bindings[1].value.args[1] is bindings[0].var and bindings[2].value.args[1] is bindings[0].var
