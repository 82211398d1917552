"""Where storage is shared, where objects are let go of, and what allocation becomes."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

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


@I.ir_module(check_well_formed=False)
class Symbolic:
    @T.prim_func(private=True)
    def f(a: T.handle("float32"), b: T.handle("float32")):
        A = T.Buffer((1,), data=a)
        B = T.Buffer((1,), data=b)
        B[0] = A[0] + T.float32(1)

    @R.function(pure=False)
    def main(x: R.Tensor((2, "n"), "float32")):
        n = T.int64()
        cls = Symbolic
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


def test_symbolic_sizes_share_storage_when_they_are_equal():
    @I.ir_module(check_well_formed=False)
    class Expected:
        @T.prim_func(private=True)
        def f(a: T.handle("float32"), b: T.handle("float32")):
            A = T.Buffer((1,), data=a)
            B = T.Buffer((1,), data=b)
            B[0] = A[0] + T.float32(1)

        @R.function(pure=False)
        def main(x: R.Tensor((2, "n"), "float32")):
            n = T.int64()
            cls = Expected
            storage = R.memory.alloc_storage(
                R.shape([8 * n]), R.prim_value(0), R.str("global"), R.dtype("float32")
            )
            a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([2, n]), R.dtype("float32"))
            _ = cls.f(x, a)
            storage1 = R.memory.alloc_storage(
                R.shape([8 * n]), R.prim_value(0), R.str("global"), R.dtype("float32")
            )
            b = R.memory.alloc_tensor(storage1, R.prim_value(0), R.shape([2, n]), R.dtype("float32"))
            _1 = cls.f(a, b)
            c = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([n, 2]), R.dtype("float32"))
            _2 = cls.f(b, c)
            storage2 = R.memory.alloc_storage(
                R.shape([4 * (n * n)]), R.prim_value(0), R.str("global"), R.dtype("float32")
            )
            d = R.memory.alloc_tensor(storage2, R.prim_value(0), R.shape([n * n]), R.dtype("float32"))
            _3 = cls.f(c, d)
            pair = (d, c)
            field = pair[0]
            y = R.builtin.alloc_tensor(R.shape([2, n]), R.dtype("float32"), R.prim_value(0))
            _4 = cls.f(field, y)
            return y

    verify(transform.StaticPlanBlockMemory()(Symbolic), Expected)


def test_bounds_reach_through_products():
    @I.ir_module(check_well_formed=False)
    class Before:
        @T.prim_func(private=True)
        def f(a: T.handle("float32"), b: T.handle("float32")):
            A = T.Buffer((1,), data=a)
            B = T.Buffer((1,), data=b)
            B[0] = A[0] + T.float32(1)

        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            R.func_attr({"tir_var_upper_bound": {"n": 16}})
            cls = Before
            a = R.builtin.alloc_tensor(R.shape([n * n]), R.dtype("float32"), R.prim_value(0))
            _ = cls.f(x, a)
            y = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0))
            _1 = cls.f(a, y)
            return y

    first = transform.StaticPlanBlockMemory()(Before)["main"].body.blocks[0].bindings[0].value
    assert first.op.name == "relax.memory.alloc_storage"
    assert [dim.value for dim in first.args[0].values] == [16 * 16 * 4]


def test_what_is_left_is_allocated_in_bytes():
    lowered = transform.LowerAllocTensor()(transform.StaticPlanBlockMemory()(Symbolic))
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
