"""KillAfterLastUse: objects end behind their last use."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R

from .conftest import verify


def test_objects_end_behind_their_last_use():
    @I.ir_module(check_well_formed=False)
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((16,), "float32")):
            storage = R.memory.alloc_storage(
                R.shape([64]), R.prim_value(0), R.str("global"), R.dtype("float32")
            )
            t = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([16]), R.dtype("float32"))
            _ = R.call_packed("f", x, t, sinfo_args=(R.Tuple,))
            a = t
            b = R.call_packed("g", a, sinfo_args=(R.Tensor((16,), "float32"),))
            both = (b, x)
            o = R.call_packed("make", both, sinfo_args=(R.Object,))
            s = R.shape_of(b)
            y = R.call_packed("h", o, s, sinfo_args=(R.Tensor((16,), "float32"),))
            return y

    @I.ir_module(check_well_formed=False)
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor((16,), "float32")):
            storage = R.memory.alloc_storage(
                R.shape([64]), R.prim_value(0), R.str("global"), R.dtype("float32")
            )
            t = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([16]), R.dtype("float32"))
            _ = R.memory.kill_storage(storage)
            _1 = R.call_packed("f", x, t, sinfo_args=(R.Tuple,))
            b = R.call_packed("g", t, sinfo_args=(R.Tensor((16,), "float32"),))
            _2 = R.memory.kill_tensor(t)
            both = (b, x)
            o = R.call_packed("make", both, sinfo_args=(R.Object,))
            _3 = R.vm.kill_object(both)
            s = R.shape_of(b)
            _4 = R.memory.kill_tensor(b)
            y = R.call_packed("h", o, s, sinfo_args=(R.Tensor((16,), "float32"),))
            _5 = R.vm.kill_object(o)
            return y

    verify(transform.KillAfterLastUse()(Before), Expected)
