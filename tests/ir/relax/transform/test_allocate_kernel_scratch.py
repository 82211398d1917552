"""AllocateKernelScratch: what kernels of one function hand over is an argument that its callers allocate."""

from __future__ import annotations

import pytest

from ir.arith import Analyzer
from ir.codegen.cuda.queue import SCRATCH
from ir.codegen.error import CodegenError
from ir.relax.transform import AllocateKernelScratch, StaticPlanBlockMemory
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.target import Target
from ir.tir.expr import IntImm
from ir.tir.stmt_functor import substitute

from .conftest import verify

GPU = Target("nvidia/nvidia-a100")


@I.ir_module
class Before:
    @T.prim_func
    def turned(A: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")):
        B = T.alloc_buffer((128,), "float32")
        for i in T.thread_binding(128, thread="threadIdx.x"):
            with T.block("twice"):
                vi = T.axis.spatial(128, i)
                B[vi] = A[vi] * T.float32(2)
        for i in T.thread_binding(128, thread="threadIdx.x"):
            with T.block("turn"):
                vi = T.axis.spatial(128, i)
                C[vi] = B[127 - vi]

    @R.function
    def main(x: R.Tensor((128,), "float32")) -> R.Tensor((128,), "float32"):
        R.func_attr({"relax.force_pure": True})
        cls = Before
        alloc: R.Tensor((128,), "float32") = R.builtin.alloc_tensor(
            R.shape([128]), R.dtype("float32"), R.prim_value(0)
        )
        _ = cls.turned(x, alloc)
        return alloc


def test_a_caller_allocates_what_two_kernels_hand_over():
    @I.ir_module
    class After:
        @T.prim_func
        def turned(
            A: T.Buffer((128,), "float32"),
            C: T.Buffer((128,), "float32"),
            scratch: T.Buffer((T.int64(512),), "uint8"),
        ):
            T.func_attr({"loopsmith.scratch": 2})
            B = T.alloc_buffer((128,), "float32")
            for i in T.thread_binding(128, thread="threadIdx.x"):
                with T.block("twice"):
                    vi = T.axis.spatial(128, i)
                    B[vi] = A[vi] * T.float32(2)
            for i in T.thread_binding(128, thread="threadIdx.x"):
                with T.block("turn"):
                    vi = T.axis.spatial(128, i)
                    C[vi] = B[127 - vi]

        @R.function
        def main(x: R.Tensor((128,), "float32")) -> R.Tensor((128,), "float32"):
            R.func_attr({"relax.force_pure": True})
            cls = After
            alloc: R.Tensor((128,), "float32") = R.builtin.alloc_tensor(
                R.shape([128]), R.dtype("float32"), R.prim_value(0)
            )
            scratch: R.Tensor((512,), "uint8") = R.builtin.alloc_tensor(
                R.shape([512]), R.dtype("uint8"), R.prim_value(0)
            )
            _ = cls.turned(x, alloc, scratch)
            return alloc

    made = AllocateKernelScratch(GPU)(Before)
    verify(made, After)
    assert AllocateKernelScratch(GPU)(made) is made
    planned = StaticPlanBlockMemory()(made)["main"].script()
    assert "R.memory.alloc_storage(R.shape([512])" in planned


def test_scratch_of_symbolic_size_is_in_terms_of_the_caller():
    @I.ir_module
    class Symbolic:
        @T.prim_func
        def turned(a: T.handle, c: T.handle):
            n = T.int64()
            A, C = T.match_buffer(a, (n,), "float32"), T.match_buffer(c, (n,), "float32")
            B = T.alloc_buffer((n,), "float32")
            for o in T.thread_binding(n, thread="blockIdx.x"):
                with T.block("twice"):
                    vi = T.axis.spatial(n, o)
                    B[vi] = A[vi] * T.float32(2)
            for o in T.thread_binding(n, thread="blockIdx.x"):
                with T.block("turn"):
                    vi = T.axis.spatial(n, o)
                    C[vi] = B[n - 1 - vi]

        @R.function
        def main(x: R.Tensor(("m", 2), "float32"), y: R.Tensor(("2 * m",), "float32")):
            m = T.int64()
            R.func_attr({"relax.force_pure": True})
            cls = Symbolic
            alloc: R.Tensor((2 * m,), "float32") = R.builtin.alloc_tensor(
                R.shape([2 * m]), R.dtype("float32"), R.prim_value(0)
            )
            _ = cls.turned(y, alloc)
            return alloc

    made = AllocateKernelScratch(GPU)(Symbolic)
    assert int(made["turned"].attrs[SCRATCH]) == 2
    main = made["main"]
    m = main.params[0].struct_info.shape_values[0]
    (size,) = [
        binding.var.struct_info.shape_values[0]
        for block in main.body.blocks
        for binding in block.bindings
        if binding.var.name_hint == "scratch"
    ]
    for number in (0, 1, 32, 33, 1000):
        found = Analyzer().simplify(substitute(size, {m: IntImm("int64", number)}))
        assert found.value == -(-8 * number // 256) * 256


def test_functions_of_one_kernel_stay():
    @I.ir_module
    class Module:
        @T.prim_func
        def twice(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
            for i in T.thread_binding(128, thread="threadIdx.x"):
                with T.block("twice"):
                    vi = T.axis.spatial(128, i)
                    B[vi] = A[vi] * T.float32(2)

        @R.function
        def main(x: R.Tensor((128,), "float32")) -> R.Tensor((128,), "float32"):
            R.func_attr({"relax.force_pure": True})
            cls = Module
            alloc: R.Tensor((128,), "float32") = R.builtin.alloc_tensor(
                R.shape([128]), R.dtype("float32"), R.prim_value(0)
            )
            _ = cls.twice(x, alloc)
            return alloc

    assert AllocateKernelScratch(GPU)(Module) is Module


def test_a_size_that_changes_while_the_function_runs_is_refused():
    @I.ir_module
    class Module:
        @T.prim_func
        def sums(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
            for k in range(1, 8):
                with T.block("step"):
                    vk = T.axis.opaque(8, k)
                    T.reads(A[0:8])
                    T.writes(C[0:8])
                    B = T.alloc_buffer((vk,), "float32")
                    for i in T.thread_binding(vk, thread="blockIdx.x"):
                        with T.block("one"):
                            vi = T.axis.spatial(vk, i)
                            B[vi] = A[vi]
                    for i in T.thread_binding(vk, thread="blockIdx.x"):
                        with T.block("two"):
                            vi = T.axis.spatial(vk, i)
                            C[vi] = B[vk - 1 - vi]

        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            R.func_attr({"relax.force_pure": True})
            cls = Module
            alloc: R.Tensor((8,), "float32") = R.builtin.alloc_tensor(
                R.shape([8]), R.dtype("float32"), R.prim_value(0)
            )
            _ = cls.sums(x, alloc)
            return alloc

    with pytest.raises(CodegenError, match="whose size depends on k, which changes while it runs"):
        AllocateKernelScratch(GPU)(Module)
