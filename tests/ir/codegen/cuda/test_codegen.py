"""What generated kernels compute: each operation and cast on every dtype, against the interpreter, in the emulation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir import IRModule, tir
from ir import dtype as dt
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.error import CodegenError
from ir.script import from_source
from ir.target import Target
from ir.tir import IterVar, PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower

TARGET = Target("nvidia/nvidia-a100")
needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = ("float16", "bfloat16", "float32", "float64")
FP8 = ("float8_e4m3fn", "float8_e5m2")
COUNT = 64

Compute = Callable[..., tir.PrimExpr]


def kernel(compute: Compute, inputs: list[str], output: str) -> PrimFunc:
    """One thread for each element: ``output[i] = compute(inputs[0][i], ...)``."""
    buffers = [tir.decl_buffer((COUNT,), dtype, f"x{n}") for n, dtype in enumerate(inputs)]
    out = tir.decl_buffer((COUNT,), output, "out")
    i = tir.Var("i", "int32")
    body: tir.Stmt = tir.BufferStore(out, compute(*[buffer[i] for buffer in buffers]), (i,))
    axis = IterVar(None, tir.Var("", "int32"), IterVar.ThreadIndex, "threadIdx.x")
    loop = tir.For(i, 0, COUNT, tir.ForKind.THREAD_BINDING, body, axis)
    return PrimFunc([*buffers, out], loop)


def numbers(dtype: str, seed: int) -> np.ndarray:
    """Random numbers of a dtype, with the ends of its range, zeros, infinities and NaN among them."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, COUNT).astype(bool)
    if dt.is_float(dtype):
        values = rng.standard_normal(COUNT) * 10.0 ** rng.integers(-6, 6, COUNT)
        values[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5]
        with np.errstate(over="ignore"):
            return rng.permutation(values).astype(numpy_dtype(dtype))
    low, high = dt.integer_range(dtype)
    whole = [int(rng.integers(low, high, dtype=dtype, endpoint=True)) for _ in range(COUNT)]
    whole[:12] = [low, low, high, high, 0, 0, 1, 1, high - 1, low + 1, 7, max(low, -7)]
    return np.array(whole, dtype)[rng.permutation(COUNT)]


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, dtype)) if dtype in ("bfloat16", *FP8) else np.dtype(dtype)


def check(kernels: dict[str, PrimFunc], inputs: dict[str, list[np.ndarray]], ulps: int = 0) -> None:
    """All kernels, compiled as one source, compute what the interpreter computes of the functions as they are."""
    lowered = lower(
        IRModule({name: func.with_attr("global_symbol", name) for name, func in kernels.items()}), TARGET
    )
    program = EmulatedProgram(lowered, generate(lowered))
    wrong = []
    for name, func in kernels.items():
        dtype = numpy_dtype(list(func.buffer_map.values())[-1].dtype)
        expected, found = np.zeros(COUNT, dtype), np.zeros(COUNT, dtype)
        run(func, *inputs[name], expected)
        program(*inputs[name], found, name=name)
        if not is_close(found, expected, ulps):
            wrong.append(name)
    assert not wrong


def is_close(found: np.ndarray, expected: np.ndarray, ulps: int) -> bool:
    if expected.dtype.kind in "iub":
        return bool(np.array_equal(found, expected))
    a, b = found.astype("float64"), expected.astype("float64")
    spacing = np.spacing(np.abs(expected).astype("float64" if expected.dtype == "float64" else "float32"))
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= ulps * spacing
    return bool(np.all((a == b) | (np.isnan(a) & np.isnan(b)) | near))


OPERATIONS: dict[str, Compute] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "max": tir.max, "min": tir.min,
    "truncdiv": tir.truncdiv, "truncmod": tir.truncmod, "floordiv": tir.floordiv, "floormod": tir.floormod,
}  # fmt: skip
COMPARISONS: dict[str, Compute] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": lambda a, b: a.equal(b), "ne": lambda a, b: tir.NE(a, b),
}  # fmt: skip
BITS: dict[str, Compute] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def divisors(dtype: str, seed: int) -> np.ndarray:
    values = numbers(dtype, seed)
    return np.where(values == 0, np.array(3, values.dtype), values)


@needs_compiler
@pytest.mark.parametrize("dtype", INTEGERS)
def test_operations_on_integers(dtype: str) -> None:
    """They wrap; the smallest number divided by -1 is itself; shifts of signed numbers keep the sign."""
    kernels, inputs = {}, {}
    for name, compute in {**OPERATIONS, **BITS}.items():
        kernels[name] = kernel(compute, [dtype, dtype], dtype)
        inputs[name] = [numbers(dtype, 1), divisors(dtype, 2)]
    for name, compute in COMPARISONS.items():
        kernels[name] = kernel(compute, [dtype, dtype], "bool")
        inputs[name] = [numbers(dtype, 1), np.where(numbers("bool", 3), numbers(dtype, 1), numbers(dtype, 2))]
    amounts = (np.arange(COUNT) % dt.bits(dtype)).astype(dtype)
    for name, compute in {"left": operator.lshift, "right": operator.rshift}.items():
        kernels[name], inputs[name] = kernel(compute, [dtype, dtype], dtype), [numbers(dtype, 4), amounts]
    for divisor in (3, 8):  # constants, of which powers of two are shifts
        for name in ("truncdiv", "truncmod", "floordiv", "floormod"):
            label = f"{name}_by_{divisor}"
            kernels[label] = kernel(
                lambda a, name=name, divisor=divisor: OPERATIONS[name](a, tir.const(divisor, dtype)),
                [dtype],
                dtype,
            )
            inputs[label] = [numbers(dtype, 5)]
    kernels["popcount"], inputs["popcount"] = kernel(tir.popcount, [dtype], dtype), [numbers(dtype, 6)]
    kernels["clz"], inputs["clz"] = kernel(tir.clz, [dtype], "int32"), [numbers(dtype, 7)]
    check(kernels, inputs)


@needs_compiler
@pytest.mark.parametrize("dtype", FLOATS)
def test_operations_on_floats(dtype: str) -> None:
    """Operations are rounded once; NaN goes through minimum and maximum; remainders have the divisor's sign."""
    kernels, inputs = {}, {}
    operations = {**OPERATIONS, "div": operator.truediv}
    del operations["truncdiv"]
    for name, compute in operations.items():
        kernels[name] = kernel(compute, [dtype, dtype], dtype)
        inputs[name] = [numbers(dtype, 1), numbers(dtype, 2)]
    for name, compute in COMPARISONS.items():
        kernels[name] = kernel(compute, [dtype, dtype], "bool")
        inputs[name] = [numbers(dtype, 1), np.where(numbers("bool", 3), numbers(dtype, 1), numbers(dtype, 2))]
    check(kernels, inputs)


FUNCTIONS = (
    "exp", "exp2", "exp10", "expm1", "erf", "tanh", "sigmoid", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "tan", "cos", "sin",
    "cosh", "sinh", "acos", "acosh", "asin", "asinh", "atan", "atanh", "floor", "ceil", "trunc", "round", "nearbyint", "fabs",
)  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("dtype", ("float16", "float32", "float64"))
def test_functions_of_floats(dtype: str) -> None:
    """Within 4 units in the last place of float32 and float64; halves are rounded from float32."""
    ulps = 8192 * 2 if dtype == "float16" else 5  # of float32: the last place of a half is 8192 of them
    kernels, inputs = {}, {}
    for name in FUNCTIONS:
        kernels[name] = kernel(getattr(tir, name), [dtype], dtype)
        inputs[name] = [numbers(dtype, 1)]
    for name in ("pow", "atan2", "hypot", "copysign", "fmod"):
        kernels[name] = kernel(getattr(tir, name), [dtype, dtype], dtype)
        inputs[name] = [numbers(dtype, 1), numbers(dtype, 2)]
    for name in ("isnan", "isinf", "isfinite"):
        kernels[name] = kernel(getattr(tir, name), [dtype], "bool")
        inputs[name] = [numbers(dtype, 1)]
    check(kernels, inputs, ulps)


@needs_compiler
@pytest.mark.parametrize("source", (*INTEGERS, *FLOATS, *FP8, "bool"))
def test_casts(source: str) -> None:
    """From a dtype to all others: once rounded, saturated, wrapped."""
    kernels, inputs = {}, {}
    for target in (*INTEGERS, *FLOATS, *FP8, "bool"):
        kernels[target] = kernel(lambda x, target=target: tir.Cast(target, x), [source], target)
        inputs[target] = [numbers(source, 1)]
        if target in ("float16", "bfloat16", *FP8):  # rounded where it is cast, not where it is stored
            kernels[f"{target}_and_on"] = kernel(
                lambda x, target=target: tir.Cast("float64", tir.Cast(target, x)) + tir.const(1, "float64"),
                [source],
                "float64",
            )
            inputs[f"{target}_and_on"] = [numbers(source, 1)]
    check(kernels, inputs)


@needs_compiler
@pytest.mark.parametrize("dtype", FP8)
def test_where_floats_of_8_bits_end(dtype: str) -> None:
    """Ties beyond the largest number, and its neighbours, of float32 and float64."""
    largest = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}[dtype]
    half_step = {"float8_e4m3fn": 16.0, "float8_e5m2": 4096.0}[dtype]
    edges = [largest, largest + half_step, np.nextafter(np.float32(largest + half_step), np.float32(np.inf))]
    edges += [np.nextafter(np.float32(largest + half_step), np.float32(0)), np.inf, np.nan, 0.0, 2.0**-20]
    values = np.resize([*edges, *[-item for item in edges]], COUNT)
    kernels = {
        source: kernel(lambda x: tir.Cast(dtype, x), [source], dtype) for source in ("float32", "float64")
    }
    check(kernels, {source: [values.astype(source)] for source in kernels})


@needs_compiler
def test_choices_and_bits() -> None:
    """What is not chosen is not evaluated; bits keep."""
    kernels = {
        "guarded": kernel(
            lambda x, y: tir.if_then_else(y.equal(0), tir.const(-1, "int32"), tir.truncdiv(x, y)),
            ["int32", "int32"],
            "int32",
        ),
        "selected": kernel(lambda x, y: tir.Select(x < y, x, y), ["float32", "float32"], "float32"),
        "connected": kernel(
            lambda x, y: tir.And(tir.NE(y, 0), tir.truncmod(x, y).equal(0)), ["int32", "int32"], "bool"
        ),
        "not": kernel(lambda x: tir.Not(x), ["bool"], "bool"),
        "bits": kernel(lambda x: tir.reinterpret("int32", x), ["float32"], "int32"),
        "half_bits": kernel(lambda x: tir.reinterpret("uint16", x), ["float16"], "uint16"),
        "let": kernel(lambda x: let(x), ["int32"], "int32"),
    }
    pair = [numbers("int32", 1), (np.arange(COUNT) % 5 - 2).astype("int32")]
    inputs = {
        "guarded": pair, "connected": pair, "selected": [numbers("float32", 1), numbers("float32", 2)], "not": [numbers("bool", 1)],
        "bits": [numbers("float32", 1)], "half_bits": [numbers("float16", 1)], "let": [numbers("int32", 1)],
    }  # fmt: skip
    check(kernels, inputs)


def let(x: tir.PrimExpr) -> tir.PrimExpr:
    var = tir.Var("twice", "int32")
    return tir.Let(var, x * 2, tir.Select(var < 0, var - 1, var))


@pytest.fixture
def printed() -> Iterator[Callable[[str], str]]:
    """The CUDA source of a function in script."""

    def source(text: str) -> str:
        return generate(lower(from_source(text), TARGET)).text

    return source


def test_products_and_sums_are_fused_where_programs_may_be_contracted(printed: Callable[[str], str]) -> None:
    text = printed("""
        @T.prim_func
        def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), C: T.Buffer((32,), "bool")):
            for i in T.thread_binding(32, thread="threadIdx.x"):
                B[i] = A[i] * A[i] - B[i]
                C[i] = A[i] * A[i] + B[i] < T.float32(1)
    """)
    assert "fmaf(A[threadIdx_x], A[threadIdx_x], -B[threadIdx_x])" in text
    assert (
        "A[threadIdx_x] * A[threadIdx_x] + B[threadIdx_x] < 1.0f" in text
    )  # what decides something is exact


VECTORS = """
    @T.prim_func
    def main(A: T.Buffer((1024,), "{dtype}"), B: T.Buffer((1024,), "{dtype}")):
        for i in T.thread_binding(32, thread="threadIdx.x"):
            for v in T.vectorized({lanes}):
                B[i * {step} + v] = A[i * {step} + v]
"""


@pytest.mark.parametrize(
    ("dtype", "lanes", "step", "is_vector"),
    [
        ("float32", 4, 4, True),
        ("float32", 2, 2, True),
        ("float32", 4, 6, False),  # rows of six begin between multiples of four
        ("float32", 4, 8, True),
        ("float16", 8, 8, True),
        ("int8", 16, 16, True),
        ("float8_e4m3fn", 16, 16, True),
        ("float64", 2, 2, True),
    ],
)
def test_neighbours_at_multiples_of_their_size_are_accessed_at_once(
    printed: Callable[[str], str], dtype: str, lanes: int, step: int, is_vector: bool
) -> None:
    text = printed(VECTORS.format(dtype=dtype, lanes=lanes, step=step))
    assert (f"load_vec<{lanes}>(A + " in text) == is_vector
    assert ("store_vec(B + " in text) == is_vector


def test_threads_that_nobody_asks_for_have_no_name(printed: Callable[[str], str]) -> None:
    text = printed("""
        @T.prim_func
        def main(A: T.Buffer((1,), "float32")):
            for bx in T.thread_binding(1, thread="blockIdx.x"):
                for i in T.thread_binding(1, thread="threadIdx.x"):
                    A[0] = T.float32(1)
    """)
    assert "blockIdx" not in text and "__launch_bounds__(1)" in text


def test_what_a_kernel_only_reads_is_constant(printed: Callable[[str], str]) -> None:
    text = printed("""
        @T.prim_func
        def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
            T.func_attr({"tir.noalias": True})
            for i in T.thread_binding(32, thread="threadIdx.x"):
                B[i] = A[i]
    """)
    assert "const float* __restrict__ A" in text and "float* __restrict__ B" in text
    assert "const float* __restrict__ B" not in text


def test_names_of_cpp_and_of_cuda_are_left_to_them(printed: Callable[[str], str]) -> None:
    text = printed("""
        @T.prim_func
        def main(float_: T.Buffer((32,), "float32"), template: T.Buffer((32,), "float32")):
            for threadIdx in T.thread_binding(32, thread="threadIdx.x"):
                template[threadIdx] = float_[threadIdx]
    """)
    assert "v_template[" in text and " template" not in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            """
            @T.prim_func
            def main(A: T.Buffer((32,), "float4_e2m1fn"), B: T.Buffer((32,), "float4_e2m1fn")):
                for i in T.thread_binding(32, thread="threadIdx.x"):
                    B[i] = A[i]
            """,
            "do not compute with float4_e2m1fn",
        ),
        (
            """
            @T.prim_func
            def main(n: T.int32, B: T.Buffer((32,), "float32")):
                for i in T.thread_binding(32, thread="threadIdx.x"):
                    with T.block(""):
                        T.reads()
                        T.writes(B[i])
                        mine = T.alloc_buffer((n,), scope="local")
                        for j in range(n):
                            mine[j] = T.float32(1)
                        B[i] = mine[n - 1]
            """,
            "their number must be constant",
        ),
        (
            """
            @T.prim_func
            def main(B: T.Buffer((2048,), "float32")):
                for i in T.thread_binding(2048, thread="threadIdx.x"):
                    B[i] = T.float32(1)
            """,
            "a block has 2048 threads, the target's have at most 1024",
        ),
    ],
)
def test_what_has_no_form_is_refused_with_the_kernel_named(
    printed: Callable[[str], str], text: str, says: str
) -> None:
    with pytest.raises(CodegenError, match=says) as error:
        printed(text)
    assert any("main_kernel" in note for note in error.value.__notes__)
