"""Programs whose meaning C++ would change, were they printed word by word: what they compute, and that nothing warns of them."""

from __future__ import annotations

import numpy as np
import pytest

from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.codegen.cuda.program import build_cuda
from ir.codegen.error import CodegenError
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower

TARGET = Target("nvidia/nvidia-a100")
needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")


def threads(body: str, **params: str) -> PrimFunc:
    """64 threads that run some statements; parameters are ``name="extent dtype"``."""
    declared = []
    for name, text in params.items():
        extent, dtype = text.split()
        declared.append(f'{name}: T.Buffer(({extent},), "{dtype}")')
    lines = "\n        ".join(body.strip("\n").split("\n"))
    return from_source(
        f"@T.prim_func\ndef main({', '.join(declared)}):\n"
        f'    for i in T.thread_binding(64, thread="threadIdx.x"):\n        {lines}\n'
    )


def source(func: PrimFunc) -> str:
    return generate(lower(func, TARGET)).text


def check(func: PrimFunc, *arrays: np.ndarray) -> None:
    expected, found = [item.copy() for item in arrays], [item.copy() for item in arrays]
    run(func, *expected)
    build_cuda(func, TARGET).emulate()(*found)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want)


@needs_compiler
@pytest.mark.meaning("for")
def test_how_often_a_loop_runs_is_decided_before_its_body_changes_that() -> None:
    func = threads(
        "for j in range(A[i]):\n    A[i] = A[i] - 1\n    B[i] = B[i] + j", A="64 int32", B="64 int32"
    )
    check(func, np.arange(64, dtype="int32"), np.zeros(64, "int32"))


@pytest.mark.parametrize("dtype", ("int8", "uint8", "int16", "uint16", "float16"))
def test_masked_loads_of_narrow_numbers_are_operands_of_any_function(nvrtc: None, dtype: str) -> None:
    """A choice of a narrow number and a zero is an int in C++."""
    func = threads(
        f"for v in T.vectorized(4):\n"
        f'    B[i * 4 + v] = T.max(T.if_then_else(i * 4 + v < 250, A[i * 4 + v], T.Cast("{dtype}", 3)), B[i * 4 + v])',
        A=f"250 {dtype}",
        B=f"256 {dtype}",
    )
    assert not compile_cuda(source(func), "sm_80").warnings


@needs_compiler
@pytest.mark.meaning("data-wrap")
def test_lanes_of_data_wrap(nvrtc: None) -> None:
    """In the steps between them, and in comparisons of which they are operands: one of these is no mask for all lanes."""
    func = threads(
        "for v in T.vectorized(4):\n"
        "    A[i * 4 + v] = (i * 4 + v) * 1000000000\n"
        "    B[i * 4 + v] = (i * 4 + v) * 1000000000 < 0\n"
        '    C[i * 4 + v] = T.Cast("int64", (D[i] + v) * 1000000000)',
        A="256 int32",
        B="256 bool",
        C="256 int64",
        D="64 int32",
    )
    assert not compile_cuda(source(func), "sm_80").warnings
    data = np.arange(64, dtype="int32")
    check(func, np.zeros(256, "int32"), np.zeros(256, "bool"), np.zeros(256, "int64"), data)


@needs_compiler
@pytest.mark.parametrize("dtype", ("float16", "int32"))
def test_all_lanes_are_read_before_one_is_written(dtype: str) -> None:
    func = from_source(f"""
        @T.prim_func
        def main(A: T.Buffer((8,), "{dtype}"), P: T.Buffer((8,), "int32")):
            T.launch_thread("threadIdx.x", 1)
            A.vstore([T.Ramp(1, 1, 4)], A[T.Ramp(0, 1, 4)], predicate=P[T.Ramp(0, 1, 4)] > 0)
            P.vstore([T.Ramp(1, 1, 3)], T.Broadcast(7, 3), predicate=P[T.Ramp(0, 1, 3)] < 5)
    """)
    check(func, np.arange(8).astype(dtype), np.ones(8, "int32"))


@needs_compiler
@pytest.mark.meaning("effects")
def test_effects_within_an_expression_whose_value_nobody_uses() -> None:
    add = 'T.atomic_add("int32", T.address_of(B[i % 4]), A[i])'
    func = threads(
        f'T.evaluate(T.Cast("int64", {add}))\n'
        f"T.evaluate(T.if_then_else(i < 9, {add}, 0))\n"
        f"T.evaluate({add} + {add})",
        A="64 int32",
        B="4 int32",
    )
    check(func, np.arange(64, dtype="int32"), np.zeros(4, "int32"))


def test_a_let_with_an_effect_within_a_choice_is_refused() -> None:
    """Its value has no name there, and would be computed at every use."""
    func = from_source("""
        @T.prim_func
        def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
            x = T.int32()
            for i in T.thread_binding(64, thread="threadIdx.x"):
                A[i] = T.if_then_else(i < 9, T.Let(x + x, where={x: T.atomic_add("int32", T.address_of(B[i]), 1)}), 0)
    """)
    with pytest.raises(CodegenError, match="let x = .* has an effect and stands within a choice"):
        source(func)


@needs_compiler
@pytest.mark.parametrize(
    "dtype", ("int32", "int64", "uint32", "uint64", "float16", "bfloat16", "float32", "float64")
)
def test_atomic_additions(nvrtc: None, dtype: str) -> None:
    from .test_codegen import numpy_dtype

    func = threads(
        f'T.evaluate(T.atomic_add("{dtype}", T.address_of(B[i % 4]), A[i] * T.Cast("{dtype}", 2)))',
        A=f"64 {dtype}",
        B=f"4 {dtype}",
    )
    assert not compile_cuda(source(func), "sm_80").warnings
    check(func, (np.arange(64) % 7).astype(numpy_dtype(dtype)), np.zeros(4, numpy_dtype(dtype)))


def test_atomic_additions_that_cuda_has_not_are_refused() -> None:
    func = threads('T.evaluate(T.atomic_add("int8", T.address_of(B[0]), A[i]))', A="64 int8", B="4 int8")
    with pytest.raises(CodegenError, match="adds no int8 atomically"):
        source(func)


def test_assumptions_are_no_code(nvrtc: None) -> None:
    func = threads("T.evaluate(T.assume(A[i] < 9))\nB[i] = A[i]", A="64 int32", B="64 int32")
    assert not compile_cuda(source(func), "sm_80").warnings


@pytest.mark.parametrize(
    "name",
    (
        "xor_eq",
        "nullptr",
        "static_assert",
        "expf",
        "fmaf",
        "maximum",
        "to_integer",
        "NULL",
        "M_PI",
        "INT_MAX",
    ),
)
def test_names_of_keywords_macros_and_called_functions_are_not_those_of_variables(
    nvrtc: None, name: str
) -> None:
    func = threads(
        f'{name}[i] = T.max(T.exp({name}[i]) * {name}[i] + T.float32(1), T.Cast("float32", T.Cast("int32", {name}[i])))',
        **{name: "64 float32"},
    )
    text = source(func)
    assert f"float* v_{name})" in text
    compile_cuda(text, "sm_80")


@pytest.mark.meaning("index-flat")
def test_offsets_are_computed_in_64_bits_where_32_may_not_hold_them() -> None:
    text = source(
        from_source("""
        @T.prim_func
        def main(a: T.handle, b: T.handle, c: T.handle):
            n = T.int32()
            m = T.int32()
            A = T.match_buffer(a, (n, m), "int8")
            B = T.match_buffer(b, (n,), "int8")
            C = T.match_buffer(c, (100, 100), "int8")
            for i in T.thread_binding(n, thread="blockIdx.x"):
                for j in T.thread_binding(64, thread="threadIdx.x"):
                    A[i, j] = B[i] + C[i, j]
    """)
    )
    assert "A[(long long)blockIdx_x * (long long)m + (long long)threadIdx_x]" in text
    assert "B[blockIdx_x]" in text and "C[blockIdx_x * 100 + threadIdx_x]" in text
