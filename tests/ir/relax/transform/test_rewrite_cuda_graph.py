"""Static storage and runs of kernels on it are lifted into functions for CUDA graphs."""

from __future__ import annotations

import pytest

from ir.error import IRValueError
from ir.registry import register_func
from ir.relax import transform
from ir.relax.op.memory_effect import EFFECT, declare_external
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.transform import PassContext

from .conftest import verify

ON = {"relax.backend.use_cuda_graph": True}


@I.ir_module(check_well_formed=False)
class Before:
    @T.prim_func(private=True)
    def exp(a: T.handle("float32"), b: T.handle("float32")):
        A = T.Buffer((8,), data=a)
        B = T.Buffer((8,), data=b)
        for i in range(8):
            B[i] = T.exp(A[i] / T.float32(8))

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        R.func_attr({"relax.force_pure": True})
        cls = Before
        storage = R.memory.alloc_storage(R.shape([32]), R.prim_value(0), R.str("global"), R.dtype("float32"))
        a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))
        _ = cls.exp(x, a)
        _1 = cls.exp(a, a)
        b = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))
        _2 = cls.exp(a, b)
        y = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
        _3 = cls.exp(b, y)
        return y


def test_kernels_on_static_storage_are_captured():
    @I.ir_module(check_well_formed=False)
    class Expected:
        @T.prim_func(private=True)
        def exp(a: T.handle("float32"), b: T.handle("float32")):
            A = T.Buffer((8,), data=a)
            B = T.Buffer((8,), data=b)
            for i in range(8):
                B[i] = T.exp(A[i] / T.float32(8))

        @R.function(private=True)
        def cuda_graph_alloc() -> R.Tuple(R.Object):
            R.func_attr({"relax.force_pure": True})
            storage = R.memory.alloc_storage(
                R.shape([32]), R.prim_value(0), R.str("global"), R.dtype("float32")
            )
            gv = (storage,)
            return gv

        @R.function(private=True)
        def main_cuda_graph_capture(a: R.Tensor((8,), "float32"), storage: R.Object) -> R.Tuple(
            R.Tensor((8,), "float32")
        ):
            R.func_attr({"relax.force_pure": True})
            cls = Expected
            _ = cls.exp(a, a)
            b = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))
            _1 = cls.exp(a, b)
            gv = (b,)
            return gv

        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            R.func_attr({"relax.force_pure": True})
            cls = Expected
            gv = R.call_builtin_with_ctx(
                "vm.builtin.cuda_graph.get_cached_alloc",
                (cls.cuda_graph_alloc, R.prim_value(0)),
                sinfo_args=(R.Tuple(R.Object),),
            )
            storage = gv[0]
            a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))
            _ = cls.exp(x, a)
            gv1 = R.call_builtin_with_ctx(
                "vm.builtin.cuda_graph.run_or_capture",
                (cls.main_cuda_graph_capture, (a, storage), R.prim_value(0)),
                sinfo_args=(R.Tuple(R.Tensor((8,), "float32")),),
            )
            b = gv1[0]
            y = R.builtin.alloc_tensor(R.shape([8]), R.dtype("float32"), R.prim_value(0))
            _1 = cls.exp(b, y)
            return y

    with PassContext(config=ON):
        verify(transform.RewriteCUDAGraph()(Before), Expected)


def test_off_unless_asked_for():
    assert transform.RewriteCUDAGraph()(Before) is Before


def test_storage_that_is_returned_or_symbolic_stays():
    @I.ir_module(check_well_formed=False)
    class Leaving:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            R.func_attr({"relax.force_pure": True})
            n = T.int64()
            returned = R.memory.alloc_storage(
                R.shape([32]), R.prim_value(0), R.str("global"), R.dtype("float32")
            )
            y = R.memory.alloc_tensor(returned, R.prim_value(0), R.shape([8]), R.dtype("float32"))
            symbolic = R.memory.alloc_storage(
                R.shape([n * 4]), R.prim_value(0), R.str("global"), R.dtype("float32")
            )
            z = R.memory.alloc_tensor(symbolic, R.prim_value(0), R.shape([n]), R.dtype("float32"))
            return (y, z)

    with PassContext(config=ON):
        assert transform.RewriteCUDAGraph()(Leaving) is Leaving


def test_storage_that_an_unknown_function_may_keep_stays():
    @I.ir_module(check_well_formed=False)
    class Kept:
        @R.function(pure=False)
        def main(x: R.Tensor((8,), "float32")):
            storage = R.memory.alloc_storage(
                R.shape([32]), R.prim_value(0), R.str("global"), R.dtype("float32")
            )
            y = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))
            view = R.reshape(y, R.shape([2, 4]))
            _ = R.call_packed("tests.keep", view, sinfo_args=R.Object)
            return x

    with PassContext(config=ON):
        assert transform.RewriteCUDAGraph()(Kept) is Kept


@register_func("tests.look", override=True)
def _look(array):
    assert array.shape == (8,)


@register_func("tests.clear", override=True)
def _clear(array):
    array[...] = 0


def test_declared_functions_are_no_kernels():
    """What prints or checks runs each time, where it stands: it is not part of what is captured once."""
    declare_external("tests.look", EFFECT)

    @I.ir_module(check_well_formed=False)
    class Printing:
        @T.prim_func(private=True)
        def exp(a: T.handle("float32"), b: T.handle("float32")):
            A = T.Buffer((8,), data=a)
            B = T.Buffer((8,), data=b)
            for i in range(8):
                B[i] = T.exp(A[i])

        @R.function
        def main() -> R.Tuple():
            R.func_attr({"relax.force_pure": True})
            cls = Printing
            storage = R.memory.alloc_storage(
                R.shape([32]), R.prim_value(0), R.str("global"), R.dtype("float32")
            )
            a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))
            _ = cls.exp(a, a)
            _1 = R.call_packed("tests.look", a, sinfo_args=R.Tuple())
            _2 = R.call_packed("tests.clear", a, sinfo_args=R.Tuple())
            gv = R.tuple()
            return gv

    with PassContext(config=ON):
        after = transform.RewriteCUDAGraph()(Printing)
    called = {
        var.name_hint: [
            getattr(binding.value.op, "global_symbol", "")
            for block in func.body.blocks
            for binding in block.bindings
            if hasattr(binding.value, "op")
        ]
        for var, func in after.functions.items()
        if hasattr(func, "body") and hasattr(func.body, "blocks")
    }
    assert "tests.look" in called["main"]
    captured = [names for name, names in called.items() if "capture" in name]
    assert any("tests.clear" in names for names in captured)
    assert not any("tests.look" in names for names in captured)


def _symbolic(names):
    """Two kernels on memory that is planned by a bound, of which the second is captured for each value of ``n``."""

    @I.ir_module(check_well_formed=False)
    class Module:
        @T.prim_func(private=True)
        def exp(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            for i in range(n):
                B[i] = T.exp(A[i] / T.float32(8))

        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            R.func_attr({"relax.force_pure": True, "relax.rewrite_cuda_graph.capture_symbolic_vars": names})
            cls = Module
            storage = R.memory.alloc_storage(
                R.shape([32]), R.prim_value(0), R.str("global"), R.dtype("uint8")
            )
            a = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([n]), R.dtype("float32"))
            _ = cls.exp(x, a)
            _1 = cls.exp(a, a)
            y = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0))
            _2 = cls.exp(a, y)
            return y

    return Module


def test_a_capture_is_keyed_by_the_variables_that_a_function_names():
    with PassContext(config=ON):
        made = transform.RewriteCUDAGraph()(_symbolic(["n"]))
        text = made["main"].script()
        lifted = made["main_cuda_graph_capture"].script()
        left = transform.RewriteCUDAGraph()(_symbolic([]))
    assert "(main_cuda_graph_capture, (a, R.shape([n])), R.prim_value(0), R.shape([n]))" in text
    assert 'shape_expr: R.Shape(["n"])' in lifted and "exp(a, a)" in lifted
    assert "main_cuda_graph_capture" not in [var.name_hint for var in left.functions]


def test_a_variable_that_no_parameter_defines_is_refused():
    with (
        PassContext(config=ON),
        pytest.raises(IRValueError, match="names 'k', which no parameter defines; they define n"),
    ):
        transform.RewriteCUDAGraph()(_symbolic(["k"]))
