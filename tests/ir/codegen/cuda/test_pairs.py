"""Vectors of narrow floats: two numbers at a time in PTX, in the emulation and within the bounds of the roundings that a program has."""

from __future__ import annotations

import re
from functools import cache

import ml_dtypes  # noqa: F401  numpy's names of the formats
import numpy as np
import pytest

from ir import dtype as dt
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.program import CudaProgram, build_cuda
from ir.script import from_source
from ir.target import Target
from ir.tir.interpreter import run

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
HALVES = ("float16", "bfloat16")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
COUNT = 512
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""How far a number may be from its rounded one, relative to it."""


@cache
def built(value: str, dtype: str, arch: str, out: str = "", lanes: int = 8) -> CudaProgram:
    """``C[i] = value`` for vectors."""
    step = COUNT // lanes
    func = from_source(f"""
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer(({COUNT},), "{dtype}"), B: T.Buffer(({COUNT},), "{dtype}"), C: T.Buffer(({COUNT},), "{out or dtype}")):
    T.func_attr({{"tir.noalias": True}})
    for t in T.thread_binding({step}, "threadIdx.x"):
        for v in T.vectorized({lanes}):
            with T.block("c"):
                i = T.axis.spatial({COUNT}, t * {lanes} + v)
                C[i] = {value}
""")
    return build_cuda(func, Target({"kind": "cuda", "arch": arch}))


def instructions(program: CudaProgram) -> dict[str, int]:
    """How often each instruction stands in the PTX."""
    found = re.findall(r"^\s*(?:@!?%p\d+ )?\{?\s*([a-z][a-zA-Z0-9_.]+) ", program.source("ptx"), re.M)
    return {name: found.count(name) for name in set(found)}


def computed(program: CudaProgram, a: np.ndarray, b: np.ndarray, out: str) -> np.ndarray:
    c = np.zeros(COUNT, dt.to_numpy(out))
    program.emulate()(a, b, c)
    return c


def numbers(dtype: str, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-3, 3, COUNT).astype(dt.to_numpy(dtype))


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("dtype", HALVES)
def test_arithmetic_is_on_two_numbers_at_once(nvrtc: None, dtype: str, arch: str) -> None:
    found = instructions(built("A[i] * B[i] + T.max(A[i], B[i])", dtype, arch))
    kind = "f16x2" if dtype == "float16" else "bf16x2"
    assert found[f"fma.rn.{kind}"] == 4 and found[f"max.NaN.{kind}"] == 4
    assert not any("f32" in name for name in found)
    assert found["ld.global.nc.v4.u32"] == 2 and found["st.global.v4.u32"] == 1


def test_before_sm_80_float16_alone_is_computed_so(nvrtc: None) -> None:
    assert instructions(built("A[i] * B[i] + A[i]", "float16", "sm_75"))["fma.rn.f16x2"] == 4
    text = built("A[i] * B[i] + A[i]", "bfloat16", "sm_75").source()
    assert "bfloat16" not in text and "fmaf(" in text  # codes, and products that are contracted
    assert "__hmax2" not in built("T.max(A[i], B[i]) + A[i]", "float16", "sm_75").source()


@pytest.mark.parametrize(
    ("dtype", "convert"), [("float16", "cvt.rn.f16x2.f32"), ("bfloat16", "cvt.rn.bf16x2.f32")]
)
def test_numbers_are_rounded_two_at_once(nvrtc: None, dtype: str, convert: str) -> None:
    program = built("T.exp(A[i])", dtype, "sm_80")
    assert instructions(program)[convert] == 4
    assert f"__{'half' if dtype == 'float16' else 'bfloat16'}22float2(" in program.source()


@pytest.mark.parametrize(("dtype", "kind"), [("float8_e4m3fn", "e4m3x2"), ("float8_e5m2", "e5m2x2")])
def test_floats_of_8_bits_are_converted_two_at_once(nvrtc: None, dtype: str, kind: str) -> None:
    found = instructions(built("A[i] * A[i]", dtype, "sm_89"))
    assert found[f"cvt.rn.f16x2.{kind}"] == found[f"cvt.rn.satfinite.{kind}.f32"] == 4


def test_what_is_moved_is_moved_as_it_is() -> None:
    text = built("A[i]", "float16", "sm_80").source()
    assert "float2" not in text and "half2" not in text


def test_sums_in_float32_stay_there(nvrtc: None) -> None:
    found = instructions(
        built('T.Cast("float32", A[i]) * T.Cast("float32", B[i])', "float16", "sm_90a", out="float32")
    )
    assert found["mul.rn.f32"] == 8 if "mul.rn.f32" in found else found["mul.f32"] == 8
    assert not any("x2" in name and not name.startswith("cvt") for name in found)


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "value", ["A[i] + B[i]", "A[i] - B[i]", "A[i] * B[i]", "T.max(A[i], B[i])", "T.min(A[i], T.half(1))"]
)
def test_one_operation_is_what_the_interpreter_computes(value: str, dtype: str, arch: str) -> None:
    value = value.replace("T.half", f"T.{dtype}")
    program, a, b = built(value, dtype, arch), numbers(dtype, 1), numbers(dtype, 2)
    a[:2] = np.nan, np.inf
    expected = np.zeros_like(a)
    run(_written(value, dtype), a, b, expected)
    np.testing.assert_array_equal(
        computed(program, a, b, dtype).astype("float32"), expected.astype("float32")
    )


def _written(value: str, dtype: str):  # type: ignore[no-untyped-def]
    return from_source(f"""
from ir.script import tir as T
@T.prim_func
def main(A: T.Buffer(({COUNT},), "{dtype}"), B: T.Buffer(({COUNT},), "{dtype}"), C: T.Buffer(({COUNT},), "{dtype}")):
    for i in range({COUNT}):
        C[i] = {value}
""")


@needs_compiler
@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("value", "exact", "operations"),
    [
        ("A[i] * B[i] + A[i]", lambda a, b: (a * b + a, abs(a * b) + abs(a)), 2),
        ("A[i] - A[i] * B[i]", lambda a, b: (a - a * b, abs(a * b) + abs(a)), 2),
        ("A[i] * B[i] - B[i]", lambda a, b: (a * b - b, abs(a * b) + abs(b)), 2),
        ("(A[i] + B[i]) * (A[i] - T.half(2)) / B[i]", lambda a, b: ((a + b) * (a - 2) / b, (abs(a) + abs(b)) * (abs(a) + 2) / abs(b)), 4),
        ("T.exp(A[i]) + B[i] * T.half(0.5)", lambda a, b: (np.exp(a) + b / 2, np.exp(a) + abs(b)), 3),
        ("T.if_then_else(i % 3 == 0, A[i], B[i]) + A[i]", None, 1),
    ],
)  # fmt: skip
def test_several_operations_are_within_their_roundings(
    value: str, exact, operations: int, dtype: str, lanes: int
) -> None:  # type: ignore[no-untyped-def]
    value = value.replace("T.half", f"T.{dtype}")
    program, a, b = built(value, dtype, "sm_80", lanes=lanes), numbers(dtype, 3), numbers(dtype, 4)
    b[np.abs(b.astype("float32")) < 0.25] = 1
    found = computed(program, a, b, dtype).astype("float64")
    x, y = a.astype("float64"), b.astype("float64")
    if exact is None:
        wanted = np.where(np.arange(COUNT) % 3 == 0, x, y) + x
        size = abs(x) + abs(y)
    else:
        wanted, size = exact(x, y)
    assert (np.abs(found - wanted) <= operations * UNIT[dtype] * size * 1.01).all()


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_float_of_8_bits_and_the_ends_of_its_range(dtype: str, arch: str) -> None:
    """In both forms: instructions that saturate, and arithmetic of integers."""
    kind = dt.to_numpy(dtype)
    a = np.tile(np.arange(256, dtype="uint8"), COUNT // 256).view(kind)
    value = f"A[i] * T.{dtype}(1.5)"
    expected = np.zeros(COUNT, kind)
    run(_written(value, dtype), a, a, expected)
    found = computed(built(value, dtype, arch), a, a, dtype)
    np.testing.assert_array_equal(found.astype("float32"), expected.astype("float32"))
    assert np.isnan(found.astype("float32")).sum() + np.isinf(found.astype("float32")).sum() > 4


@needs_compiler
@pytest.mark.parametrize("source", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_casts_to_8_bits(dtype: str, source: str) -> None:
    rng = np.random.default_rng(6)
    a = (rng.standard_normal(COUNT) * 10.0 ** rng.integers(-4, 6, COUNT)).clip(-60000, 60000).astype(source)
    limits = [464, 465, 448, 480, 61440, 61439, 57344, 0]
    a[:8] = np.array(limits).astype(source)
    a[8:16] = -a[:8]
    value = f'T.Cast("{dtype}", A[i])'
    program = built(value, source, "sm_89", out=dtype, lanes=2 if source == "float64" else 4)
    with np.errstate(over="ignore"):
        expected = a.astype(dt.to_numpy(dtype))
    np.testing.assert_array_equal(
        computed(program, a, a, dtype).astype("float32"), expected.astype("float32")
    )
