"""StaticPlanBlockMemory: where storage is shared."""

from __future__ import annotations

import numpy as np
import pytest

import runners
from ir import relax, tir
from ir.relax import transform
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from runners.program import ExecutableError
from tests.programs.graphs import SymbolicChain

from .conftest import verify


def test_static_plan_uses_upper_bounds():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            R.func_attr({"tir_var_upper_bound": {"n": 1024}, "relax.force_pure": True})
            a: R.Tensor((n,), "float32") = R.builtin.alloc_tensor(
                R.shape([n]), R.dtype("float32"), R.prim_value(0)
            )
            _ = R.call_packed("f", x, a, sinfo_args=R.Tuple())
            b: R.Tensor((n,), "float32") = R.builtin.alloc_tensor(
                R.shape([n]), R.dtype("float32"), R.prim_value(0)
            )
            _1 = R.call_packed("f", a, b, sinfo_args=R.Tuple())
            return b

    after = transform.StaticPlanBlockMemory()(Before)
    storage = next(
        b.value
        for b in after["main"].body.blocks[0].bindings
        if b.value.op.name == "relax.memory.alloc_storage"
    )
    assert storage.args[0].values[0].value == 4096


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

    verify(transform.StaticPlanBlockMemory()(SymbolicChain), Expected)


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


@I.ir_module(check_well_formed=False)
class Allocated:
    @T.prim_func(private=True)
    def f(a: T.handle, b: T.handle):
        T.evaluate(0)

    @R.function(pure=False)
    def main(x: R.Tensor((8,), "float32")):
        cls = Allocated
        a = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
        _ = cls.f(x, a)
        b = R.builtin.alloc_tensor(R.shape([2, 2]), R.dtype("int64"), R.prim_value(0))
        _1 = cls.f(a, b)
        c = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
        _2 = cls.f(b, c)
        y = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
        _3 = cls.f(c, y)
        return y


def test_an_arena_is_one_storage_with_offsets():
    @I.ir_module(check_well_formed=False)
    class Expected:
        @T.prim_func(private=True)
        def f(a: T.handle, b: T.handle):
            T.evaluate(0)

        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")):
            cls = Expected
            storage = R.memory.alloc_storage(
                R.shape([128]), R.prim_value(0), R.str("global"), R.dtype("uint8")
            )
            a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))
            _ = cls.f(x, a)
            b = R.memory.alloc_tensor(storage, R.prim_value(64), R.shape([2, 2]), R.dtype("int64"))
            _1 = cls.f(a, b)
            c = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))
            _2 = cls.f(b, c)
            y = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
            _3 = cls.f(c, y)
            return y

    verify(transform.StaticPlanBlockMemory(arena=True)(Allocated), Expected)


def test_tensors_of_one_shape_and_two_dtypes_differ_in_size():
    """The extents are the same objects."""
    shape = relax.ShapeExpr([tir.Var("n", "int64"), 4])
    x = relax.Var("x", relax.TensorStructInfo(shape, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x], pure=False):
        for dtype in ("float32", "float16", "float32"):
            bb.emit(relax.op.builtin.alloc_tensor(shape, dtype, 0))
        bb.emit_func_output(x)
    planned = transform.StaticPlanBlockMemory()(bb.finalize())
    sizes = [
        binding.value.args[0].values[0]
        for binding in planned["main"].body.blocks[0].bindings
        if binding.value.op.name == "relax.memory.alloc_storage"
    ]
    n = shape.values[0]
    assert [str(size) for size in sizes] == [str(size) for size in (16 * n, 8 * n)]


def test_an_unknown_function_may_keep_what_it_gets():
    @I.ir_module(check_well_formed=False)
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")):
            a = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
            _ = R.call_packed("fill", x, a, sinfo_args=(R.Tuple,))
            kept = R.call_packed("keep", a, sinfo_args=(R.Object,))
            b = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
            _1 = R.call_packed("read", kept, b, sinfo_args=(R.Tuple,))
            return b

    for arena in (False, True):
        verify(transform.StaticPlanBlockMemory(arena=arena)(Before), Before)


def test_a_view_keeps_its_tensor_alive():
    @I.ir_module(check_well_formed=False)
    class Before:
        @T.prim_func(private=True)
        def f(a: T.handle, b: T.handle):
            T.evaluate(0)

        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")):
            cls = Before
            a = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
            _ = cls.f(x, a)
            v = R.reshape(a, R.shape([2, 4]))
            b = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
            _1 = cls.f(x, b)
            y = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
            _2 = cls.f(v, y)
            return y

    planned = transform.StaticPlanBlockMemory(arena=True)(Before)
    places = [
        int(binding.value.args[1].value.value)
        for binding in planned["main"].body.blocks[0].bindings
        if getattr(getattr(binding.value, "op", None), "name", "") == "relax.memory.alloc_tensor"
    ]
    assert sorted(places) == [0, 64]


def test_an_extent_beyond_its_bound_is_refused():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            R.func_attr({"tir_var_upper_bound": {"n": 16}})
            a = R.call_dps_packed("test.lowering.twice", (x,), out_sinfo=R.Tensor((n,), "float32"))
            b = R.exp(a)
            return b

    import ir

    ir.register_func("test.lowering.twice", lambda x, y: y.copyfrom(2 * x.numpy()), override=True)
    try:
        vm = runners.VirtualMachine(relax.build(Module, "llvm"))
        x = np.linspace(0, 1, 16, dtype="float32")
        np.testing.assert_allclose(vm["main"](x).numpy(), np.exp(2 * x), rtol=1e-6)
        with pytest.raises(
            ExecutableError, match=r"main: extent n must be at most 16 \(tir_var_upper_bound\), got 17"
        ):
            vm["main"](np.zeros(17, "float32"))
    finally:
        ir.registry.remove_global_func("test.lowering.twice")


def test_an_extent_beyond_its_bound_must_not_reach_the_neighbour_in_the_arena():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 8), "float32"), y: R.Tensor((64, 64), "float32")):
            R.func_attr({"tir_var_upper_bound": {"n": 1024}})
            u = R.nn.softmax(y)
            a = R.nn.softmax(x)
            b = R.nn.softmax(a)
            c = R.nn.softmax(R.add(a, b))
            return (R.add(c, R.sum(R.nn.softmax(u))), R.add(c, b))

    vm = runners.VirtualMachine(relax.build(Module, "llvm"))
    y = np.zeros((64, 64), "float32")
    first, _ = vm["main"](np.zeros((1024, 8), "float32"), y)
    np.testing.assert_allclose(first.numpy(), np.full((1024, 8), 64.125), rtol=1e-6)
    with pytest.raises(ExecutableError, match="extent n must be at most 1024"):
        vm["main"](np.zeros((1100, 8), "float32"), y)


def test_memory_that_a_function_may_have_kept_is_not_reused():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
            a = R.add(x, R.const(1, "float32"))
            _ = R.call_packed("test.lowering.keep", a, sinfo_args=[R.Tuple()])
            b = R.nn.softmax(x)
            c = R.nn.softmax(b)
            d = R.nn.softmax(c)
            return d

    import ir

    kept = []
    ir.register_func("test.lowering.keep", kept.append, override=True)
    try:
        x = np.arange(24, dtype="float32").reshape(4, 6)
        runners.VirtualMachine(relax.build(Module, "llvm"))["main"](x)
    finally:
        ir.registry.remove_global_func("test.lowering.keep")
    np.testing.assert_array_equal(kept[0].numpy(), x + 1)


def test_a_returned_tensor_that_shares_its_storage_is_no_native_output():
    @I.ir_module(check_well_formed=False)
    class Module:
        @T.prim_func(private=True)
        def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("double"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = A[vi] * T.float32(2)

        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Module
            s = R.memory.alloc_storage(R.shape([96]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
            a = R.memory.alloc_tensor(s, R.prim_value(0), R.shape([8]), R.dtype("float32"))
            _ = cls.double(x, a)
            b = R.memory.alloc_tensor(s, R.prim_value(64), R.shape([8]), R.dtype("float32"))
            _1 = cls.double(a, b)
            return b

    executable = relax.build(Module, "llvm", pipeline=None)
    assert executable.metadata["functions"]["main"]["kind"] == "bytecode"
    x = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(runners.VirtualMachine(executable)["main"](x).numpy(), 4 * x)


def test_what_branches_return_keeps_its_storage():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4, 4), "float32")):
            a = R.exp(x)
            b = R.nn.softmax(x)
            if c:
                d = R.nn.softmax(b)
                e = a
            else:
                f = R.nn.softmax(a)
                g = R.nn.softmax(f)
                e = R.reshape(g, R.shape([4, 4]))
            h = R.nn.softmax(R.add(x, x))
            i = R.nn.softmax(h)
            j = R.add(e, i)
            k = R.add(j, b)
            return (j, k)

    v = runners.VirtualMachine(relax.build(M, "llvm", tir_pipeline=None), runners.cpu())
    x = np.random.default_rng(0).standard_normal((4, 4)).astype("float32")
    for c in (True, False):
        for a, b in zip(v["main"](np.array(c), x), evaluate(M, np.array(c), x), strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-4)


def test_what_a_recursive_function_returns_keeps_its_storage():
    @I.ir_module
    class M:
        @R.function(private=True)
        def loop(
            i: R.Tensor((), "int32"), x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")
        ) -> R.Tensor((4,), "float32"):
            cls = M
            c = R.less(i, R.const(5, "int32"))
            if c:
                j = R.add(i, R.const(1, "int32"))
                z = R.add(x, y)
                r: R.Tensor((4,), "float32") = cls.loop(j, z, x)
            else:
                r: R.Tensor((4,), "float32") = y
            return r

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = M
            a = R.exp(x)
            b = cls.loop(R.const(0, "int32"), a, x)
            d = R.nn.softmax(R.add(x, x))
            e = R.nn.softmax(d)
            f = R.add(b, e)
            return (f, a)

    x = np.float32([0.1, 0.2, 0.3, 0.4])
    for a, b in zip(
        runners.VirtualMachine(relax.build(M, "llvm", tir_pipeline=None), runners.cpu())["main"](x),
        evaluate(M, x),
        strict=True,
    ):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-4)
