"""AttachGlobalSymbol: every function has a symbol, which is its name."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T

from .conftest import verify


@I.ir_module
class Before:
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("copy"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]

    @R.function(private=True)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Before
        y = R.call_tir(cls.kernel, (x,), out_sinfo=R.Tensor((4,), "float32"))
        return y


def test_private_functions_get_their_names():
    @I.ir_module
    class Expected:
        @T.prim_func
        def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("copy"):
                    vi = T.axis.spatial(4, i)
                    B[vi] = A[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Expected
            y = R.call_tir(cls.kernel, (x,), out_sinfo=R.Tensor((4,), "float32"))
            return y

    after = transform.AttachGlobalSymbol()(Before)
    verify(after, Expected)
    assert transform.AttachGlobalSymbol()(after)["kernel"] is after["kernel"]


def test_kernels_of_a_system_library_have_its_prefix_in_calls_too():
    @I.ir_module
    class Expected:
        I.module_attrs({"system_lib_prefix": "lib_"})

        @T.prim_func
        def lib_kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("copy"):
                    vi = T.axis.spatial(4, i)
                    B[vi] = A[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Expected
            y = R.call_tir(cls.lib_kernel, (x,), out_sinfo=R.Tensor((4,), "float32"))
            return y

    verify(transform.AttachGlobalSymbol()(Before.with_attr("system_lib_prefix", "lib_")), Expected)
