"""IPCAllReduceRewrite: sums over devices go through shared memory."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R


def test_all_reduce_over_shared_memory():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float16")) -> R.Tensor((8,), "float16"):
            storage: R.Object = R.memory.alloc_storage(
                R.shape([16]), R.prim_value(0), R.str("global"), R.dtype("float16")
            )
            a: R.Tensor((8,), "float16") = R.memory.alloc_tensor(
                storage, R.prim_value(0), R.shape([8]), R.dtype("float16")
            )
            out: R.Tensor((8,), "float16") = R.builtin.alloc_tensor(
                R.shape([8]), R.dtype("float16"), R.prim_value(0)
            )
            _ = R.call_packed(
                "runtime.disco.allreduce", a, R.shape([0]), R.prim_value(True), out, sinfo_args=R.Tuple()
            )
            return out

    after = transform.IPCAllReduceRewrite(1)(Before)
    bindings = after["main"].body.blocks[0].bindings
    assert bindings[0].value.args[2].value == "ipc_memory"
    assert bindings[3].value.op.global_symbol == "runtime.disco.cuda_ipc.custom_allreduce"
