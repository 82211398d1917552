"""CopyBetweenDevices: operands are copied to where a kernel's outputs are, and the processor has kernels of its own."""

from __future__ import annotations

from ir.relax.transform import CopyBetweenDevices
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.target import Target

from .conftest import verify

GPU = Target("nvidia/nvidia-a100")


@I.ir_module
class Before:
    @T.prim_func(private=True)
    def add(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32"), C: T.Buffer((2,), "float32")):
        for i in range(2):
            with T.block("C"):
                vi = T.axis.spatial(2, i)
                C[vi] = A[vi] + B[vi]

    @R.function
    def main(x: R.Tensor((2,), "float32"), h: R.Tensor((2,), "float32", "llvm")):
        cls = Before
        with R.dataflow():
            y = R.call_tir(cls.add, (x, h), out_sinfo=R.Tensor((2,), "float32", "llvm"))
            z = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((2,), "float32"))
            R.output(z)
        return z


def test_kernels_of_the_processor_and_copies():
    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def add(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32"), C: T.Buffer((2,), "float32")):
            for i in range(2):
                with T.block("C"):
                    vi = T.axis.spatial(2, i)
                    C[vi] = A[vi] + B[vi]

        @T.prim_func(private=True)
        def add_host(
            A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32"), C: T.Buffer((2,), "float32")
        ):
            T.func_attr({"tir.is_host_func": True})
            for i in range(2):
                with T.block("C"):
                    vi = T.axis.spatial(2, i)
                    C[vi] = A[vi] + B[vi]

        @R.function
        def main(x: R.Tensor((2,), "float32"), h: R.Tensor((2,), "float32", "llvm")):
            cls = After
            with R.dataflow():
                gv: R.Tensor((2,), "float32", "llvm") = R.to_vdevice(x, "llvm")
                y = R.call_tir(cls.add_host, (gv, h), out_sinfo=R.Tensor((2,), "float32", "llvm"))
                gv1 = R.to_vdevice(y, I.vdevice("nvidia/nvidia-a100", 0))
                z = R.call_tir(cls.add, (x, gv1), out_sinfo=R.Tensor((2,), "float32"))
                R.output(z)
            return z

    with GPU:
        verify(CopyBetweenDevices()(Before), After)


def test_a_processor_has_one_place():
    with Target("llvm"):
        assert CopyBetweenDevices()(Before) is Before
    assert CopyBetweenDevices()(Before) is Before
