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
from runners.ndarray import numpy_dtype

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


ADD = 'T.atomic_add("int32", T.address_of(B[i % 4]), {})'


ORDERED = [
    ["OUT = {0} * 100 + {1}"],
    ["OUT = {0} - {1} - {2} - {3}"],
    ["OUT = B[i % 4] * 10 + {4}"],
    ["OUT = {4} * 10 + B[i % 4]"],
    ["OUT = T.max({0}, {1} * 3) // ({2} + 1)"],
    ["A[T.min({0} - {0}, 0) + i] = {1}"],
    ["OUT = {5}", "A[i + ({0} - {0} + 1) % 8] = OUT + {1}"],
    ["OUT = T.Select({0} < {1}, {2} - {3}, {4})"],
    ["OUT = T.if_then_else({0} < {1}, {2} - {3}, {4} + B[i % 4])"],
    ["OUT = T.if_then_else(B[i % 4] > 3, {2}, {4}) + B[i % 4]"],
    ["OUT = T.if_then_else(B[i % 4] > 3, T.if_then_else({1} > 9, {2} + {3}, 5), {4}) + B[i % 4]"],
    ['OUT = T.Cast("int32", {0} > 4 and {1} > {2}) + B[i % 4]'],
    ['OUT = T.Cast("int32", {0} > 4 or ({1} > 7 and B[i % 4] > 9)) + {3}'],
    ["if {0} < {1}:", "    OUT = {2} + {3}", "else:", "    OUT = B[i % 4]"],
    ["for j in range({0} - {0} + 5):", "    OUT = OUT + {1} * j"],
    ["while {0} - B[i % 4] + OUT < 5:", "    OUT = OUT + 1"],
    ["y: T.int32 = {0} - {1} * 3", "OUT = y + B[i % 4] + {2}"],
    ["OUT = T.Let(x * x + {1}, where={x: {0}})"],
    ["OUT = T.if_then_else(i < 9, T.Let(x + x, where={x: {0}}), 0)"],
    ["T.evaluate(T.atomic_add('int32', T.address_of(B[{0} % 4]), {1} - B[i % 4]))", "OUT = B[i % 4]"],
    ["for v in T.vectorized(2):", "    A[i + v] = {0} * v - {1}"],
]
"""Statements of which an atomic addition gives something else if it runs at another time; ``{n}`` is one of n + 1."""


def one_thread(*lines: str) -> PrimFunc:
    """Statements that one of the threads runs."""
    text = "\n".join(["if i == 5:", *[f"    {line}" for line in lines]])
    for number in range(9):
        text = text.replace(f"{{{number}}}", ADD.format(number + 1))
    body = text.replace("\n", "\n        ")
    return from_source(
        '@T.prim_func\ndef main(A: T.Buffer((64,), "int32"), B: T.Buffer((4,), "int32")):\n    x = T.int32()\n'
        f'    for i in T.thread_binding(64, thread="threadIdx.x"):\n        {body}\n'
    )


@needs_compiler
@pytest.mark.meaning("effects")
def test_effects_run_in_the_order_of_the_program(nvrtc: None) -> None:
    """Operands of C++ have none: what the one gives depends on whether the other ran before."""
    lines = [line.replace("OUT", f"A[{at + 9}]") for at, item in enumerate(ORDERED) for line in item]
    func = one_thread(*lines)
    assert not compile_cuda(source(func), "sm_80").warnings
    check(func, np.arange(64, dtype="int32"), np.array([3, 4, 11, 2], "int32"))


def test_an_expression_of_one_effect_is_printed_as_it_is() -> None:
    assert "A[i] = wrapping_add(wrapping_mul(atomicAdd(&B[i & 3], 1), 2), 1);" in source(
        one_thread("A[i] = {0} * 2 + 1")
    ).replace("threadIdx_x", "i")


@needs_compiler
@pytest.mark.meaning("effects")
def test_effects_of_a_value_happen_where_its_store_does(nvrtc: None) -> None:
    func = from_source("""
        @T.prim_func
        def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
            i = T.launch_thread("threadIdx.x", 8)
            A.vstore([i], T.atomic_add("int32", T.address_of(B[i]), 1), predicate=i < 5)
    """)
    assert not compile_cuda(source(func), "sm_80").warnings
    check(func, np.zeros(8, "int32"), np.arange(8, dtype="int32"))


@pytest.mark.meaning("effects")
def test_lanes_that_decide_one_by_one_have_no_effects() -> None:
    func = from_source("""
        @T.prim_func
        def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
            T.launch_thread("threadIdx.x", 1)
            A[T.Ramp(0, 1, 2)] = T.if_then_else(
                B[T.Ramp(0, 1, 2)] > 0, T.Broadcast(T.atomic_add("int32", T.address_of(B[0]), 1), 2), B[T.Ramp(0, 1, 2)]
            )
    """)
    with pytest.raises(CodegenError, match="decides lane by lane; make a loop of the lanes"):
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


@needs_compiler
@pytest.mark.meaning("half-carry", "cast-float", "cast-float-int")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_what_is_carried_in_float_is_rounded_where_it_is_cast(nvrtc: None, dtype: str) -> None:
    other = "bfloat16" if dtype == "float16" else "float16"
    func = threads(
        f"""
wide[i] = T.Cast("float32", a[i] * b[i])
whole[i] = T.Cast("int32", a[i] * b[i])
narrow[i] = T.Cast("{other}", a[i] + b[i])
again[i] = T.Cast("float32", T.Cast("{other}", a[i] + b[i]))
largest[i] = T.Cast("float32", T.max(a[i], b[i]))
""",
        a=f"64 {dtype}",
        b=f"64 {dtype}",
        wide="64 float32",
        whole="64 int32",
        narrow=f"64 {other}",
        again="64 float32",
        largest="64 float32",
    )
    random = np.random.default_rng(0)
    a, b = ((random.standard_normal(64) * size).astype(numpy_dtype(dtype)) for size in (2, 8))
    one, two = a.astype("float32"), b.astype("float32")
    product, total = (item.astype(a.dtype) for item in (one * two, one + two))
    narrow = total.astype(numpy_dtype(other))
    expected = (
        product.astype("float32"), product.astype("float32").astype("int32"), narrow, narrow.astype("float32"), np.maximum(one, two),
    )  # fmt: skip
    found = [np.zeros(64, item.dtype) for item in expected]
    build_cuda(func, TARGET).emulate()(a, b, *found)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))
    assert not compile_cuda(source(func), "sm_80").warnings
