"""Extremes of whole vectors that are repaired where they lose NaN: the same numbers as numpy's, for every pair of special ones."""

from __future__ import annotations

import itertools

import llvmlite.binding as llvm
import numpy as np
import pytest

from ir.codegen.build import NativeModule, build
from ir.codegen.llvm import compile as native
from ir.script import from_source

HAS_512 = bool(llvm.get_host_cpu_features().get("avx512f"))
COUNT = 256


@pytest.fixture
def repairing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor on which it is faster."""
    if not HAS_512:
        pytest.skip("no vectors of 512 bits")
    monkeypatch.setattr(native, "repairs_nan", lambda options: True)


def kernel(value: str, dtype: str, lanes: int) -> NativeModule:
    return build(
        from_source(
            "@T.prim_func\n"
            f'def main(A: T.Buffer(({COUNT},), "{dtype}"), B: T.Buffer(({COUNT},), "{dtype}"), C: T.Buffer(({COUNT},), "{dtype}")):\n'
            '    T.func_attr({"tir.noalias": True})\n'
            f"    for i in range({COUNT} // {lanes}):\n"
            f"        for v in T.vectorized({lanes}):\n"
            f"            C[i * {lanes} + v] = {value}\n"
        ),
        "llvm -mcpu=x86-64-v4",
    )


def special(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of NaN of both signs and both kinds, infinities, zeros, subnormal and ordinary numbers."""
    bits = np.dtype(dtype).itemsize * 8
    exponent = {32: 0x7F800000, 64: 0x7FF0000000000000}[bits]
    codes = [exponent | 1, exponent | exponent >> 1, exponent, 0, 1, exponent >> 1]
    numbers = np.array([sign << (bits - 1) | code for code in codes for sign in (0, 1)], f"uint{bits}")
    pairs = np.array(list(itertools.product(numbers, repeat=2)), f"uint{bits}")
    a, b = np.resize(pairs[:, 0], COUNT).view(dtype), np.resize(pairs[:, 1], COUNT).view(dtype)
    return a, b


@pytest.mark.meaning("minmax-nan")
@pytest.mark.parametrize(
    "dtype, lanes", [("float32", 16), ("float32", 64), ("float32", 128), ("float64", 8), ("float64", 32)]
)
@pytest.mark.parametrize("name", ["max", "min"])
def test_special_numbers(repairing: None, name: str, dtype: str, lanes: int) -> None:
    module = kernel(f"T.{name}(A[i * {lanes} + v], B[i * {lanes} + v])", dtype, lanes)
    assert "fixupimm" in module.llvm_ir
    (a, b), c = special(dtype), np.zeros(COUNT, dtype)
    module["main"](a, b, c)
    with np.errstate(all="ignore"):
        expected = np.maximum(a, b) if name == "max" else np.minimum(a, b)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.meaning("reduce-nan")
@pytest.mark.parametrize("place", [0, 17, 255])
def test_a_reduction_keeps_nan(repairing: None, place: int) -> None:
    """Wherever it stands: numbers that come after do not replace it."""
    module = build(
        from_source(
            "@T.prim_func\n"
            'def main(A: T.Buffer((256,), "float32"), C: T.Buffer((16,), "float32")):\n'
            '    T.func_attr({"tir.noalias": True})\n'
            "    for v in T.vectorized(16):\n"
            '        C[v] = T.float32("-inf")\n'
            "    for k in range(16):\n"
            "        for v in T.vectorized(16):\n"
            "            C[v] = T.max(C[v], A[k * 16 + v])\n"
        ),
        "llvm -mcpu=x86-64-v4",
    )
    assert "fixupimm" in module.llvm_ir
    a, c = np.random.default_rng(0).standard_normal(256).astype("float32"), np.zeros(16, "float32")
    a[place] = np.nan
    module["main"](a, c)
    np.testing.assert_array_equal(c, a.reshape(16, 16).max(0))


def test_what_needs_no_repair_stays_one_instruction(repairing: None) -> None:
    assert "fixupimm" not in kernel("T.max(A[i * 16 + v], T.float32(0))", "float32", 16).llvm_ir
    assert "fixupimm" not in kernel("T.max(A[i * 4 + v], B[i * 4 + v])", "float32", 4).llvm_ir


def test_which_processors_repair() -> None:
    assert native.repairs_nan(native.MachineOptions(cpu="znver5"))
    assert not native.repairs_nan(native.MachineOptions(cpu="znver5", features="-avx512f"))
    assert not native.repairs_nan(native.MachineOptions(cpu="skylake-avx512"))
