"""LowerGPUIPCAllocStorage: only storage that processes share is allocated by the runtime's function for it."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def test_shared_storage_and_other():
    @I.ir_module(check_well_formed=False)
    class Before:
        @R.function(private=True, pure=False)
        def main(x: R.Tensor((8,), "float16")):
            s = R.memory.alloc_storage(
                R.shape([16]), R.prim_value(0), R.str("ipc_memory"), R.dtype("float16")
            )
            t = R.memory.alloc_storage(R.shape([16]), R.prim_value(0), R.str("global"), R.dtype("float16"))
            return (s, t)

    @I.ir_module(check_well_formed=False)
    class Expected:
        @R.function(private=True, pure=False)
        def main(x: R.Tensor((8,), "float16")):
            s = R.call_packed(
                "runtime.disco.cuda_ipc.alloc_storage",
                R.shape([16]),
                R.prim_value(0),
                R.dtype("float16"),
                sinfo_args=(R.Object,),
            )
            t = R.memory.alloc_storage(R.shape([16]), R.prim_value(0), R.str("global"), R.dtype("float16"))
            return (s, t)

    after = transform.LowerGPUIPCAllocStorage()(Before)
    verify(after, Expected)
    assert transform.LowerGPUIPCAllocStorage()(after) is after
