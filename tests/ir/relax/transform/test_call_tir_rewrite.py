"""CallTIRRewrite: outputs are allocated, kernels write into them."""

from __future__ import annotations

import pytest

from ir.error import IRValueError
from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .structure import operators


def test_call_tir_rewrite_plan_and_kill():
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def copy(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("copy"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = A[vi]

        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Before
            R.func_attr({"relax.force_pure": True})
            a = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((8,), "float32"))
            b = R.call_tir(cls.copy, (a,), out_sinfo=R.Tensor((8,), "float32"))
            c = R.call_tir(cls.copy, (b,), out_sinfo=R.Tensor((8,), "float32"))
            d = R.call_tir(cls.copy, (c,), out_sinfo=R.Tensor((8,), "float32"))
            return d

    rewritten = transform.CallTIRRewrite()(Before)
    assert operators(rewritten) == ["relax.builtin.alloc_tensor"] * 4
    planned = transform.StaticPlanBlockMemory()(rewritten)
    assert (
        operators(planned).count("relax.memory.alloc_storage") == 2
    )  # a and c share, b has the other; d is returned
    assert operators(planned).count("relax.builtin.alloc_tensor") == 1
    lowered = transform.LowerAllocTensor()(planned)
    assert "relax.builtin.alloc_tensor" not in operators(lowered)
    killed = transform.KillAfterLastUse()(lowered)
    assert (
        operators(killed).count("relax.memory.kill_storage") == 3
        and operators(killed).count("relax.memory.kill_tensor") == 3
    )
    runtime = transform.LowerRuntimeBuiltin()(killed)
    assert {name.split(".")[1] for name in operators(runtime)} == {"vm"}


def test_outputs_name_their_memory():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            R.func_attr({"relax.force_pure": True})
            y = R.call_dps_packed("f", (x,), out_sinfo=R.Tensor((8,), "float32"))
            return y

    alloc = transform.CallTIRRewrite()(Before)["main"].body.blocks[0].bindings[0].value
    assert alloc.op.name == "relax.builtin.alloc_tensor"
    assert alloc.args[3].value == "global"


def test_an_output_of_unknown_shape_is_refused():
    @I.ir_module(check_well_formed=False)
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")):
            R.func_attr({"relax.force_pure": True})
            y = R.call_dps_packed("f", (x,), out_sinfo=R.Tensor(dtype="float32", ndim=1))
            return y

    with pytest.raises(IRValueError, match="CallTIRRewrite: the output of a kernel needs a known shape"):
        transform.CallTIRRewrite()(Before)
