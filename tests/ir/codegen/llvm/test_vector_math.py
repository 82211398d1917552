"""Every float32 function against numpy in float64: stated error, special values, all widths alike."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest

from ir.codegen.llvm import vector_math
from ir.codegen.llvm.builder import FunctionBuilder, ModuleBuilder, Value, vector
from ir.codegen.llvm.compile import (
    MachineOptions,
    emit_object,
    has_fused_instructions,
    has_scaling_instruction,
    optimize,
)
from ir.codegen.llvm.loaded_object import LoadedObject
from ir.codegen.llvm.runtime import runtime

ErrorFunction = np.vectorize(math.erf, otypes=[float])

REFERENCE: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "tanh": np.tanh, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "pow": np.power, "atan2": np.arctan2,
    "exp10": lambda x: np.power(10.0, x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: np.where(x >= 0, 1.0, np.exp(-np.abs(x))) / (1 + np.exp(-np.abs(x))),
    "erf": lambda x: ErrorFunction(x),
    "erfc": np.vectorize(math.erfc, otypes=[float]), "fmod": np.fmod, "hypot": np.hypot,
    "ldexp": lambda x, n: x * np.exp2(np.clip(n, -1000, 1000)),
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 1.17e-38, 3.4e38, -3.4e38, 88.72, 88.73, -87.3, -103.9,
     89.41598, 89.415985, 89.41599, -89.415985, -104.1, 38.53, 38.54, 127.99, 128, -149, -150, 0.5, 2, 16777217.0, 1e-8, -1e-8],
    dtype="float32",
)  # fmt: skip

HARDEST = np.array(
    [1522788990976.0, 237161775104.0, 87997538304.0, 7376100864.0, 277793824.0, 31942902.0, 1068235.75, 105032.8671875,
     4476.76953125, 505.7964172363281, 18.84955596923828, 1.5707963705062866],
    dtype="float32",
)  # fmt: skip
"""Angles closest to a multiple of pi/2 in their surroundings."""

_NEEDED = {
    "x86-64": "sse2",
    "nehalem": "sse4.2",
    "sandybridge": "avx",
    "x86-64-v3": "avx2",
    "x86-64-v4": "avx512f",
}
MACHINES = ["", *(cpu for cpu, feature in _NEEDED.items() if llvm.get_host_cpu_features().get(feature))]
"""The machine as it is, and those whose code it runs: with and without operations that multiply and add, of every width."""


def compiled(name: str, lanes: int, element: str = "float", cpu: str = "") -> Callable[..., np.ndarray]:
    """A function over arrays whose length is a multiple of ``lanes``."""
    runtime()
    options = MachineOptions(cpu=cpu)
    module = ModuleBuilder(has_fused_instructions(options), has_scaling_instruction(options))
    type_ = vector(element, lanes)
    symbol = vector_math.vector_function(module, name, type_)
    builder = FunctionBuilder("loop", "void", [("ptr", "o"), ("ptr", "x"), ("ptr", "y"), ("i64", "n")])
    builder.branch("head")
    builder.label("head")
    builder.emit("%i = phi i64 [0, %entry], [%i1, %head]")
    index = Value("%i", "i64")
    args = [
        builder.load(type_, builder.element_pointer(Value(p, "ptr"), element, index), 4)
        for p in ("%x", "%y")[: vector_math.arity(name)]
    ]
    out = builder.element_pointer(Value("%o", "ptr"), element, index)
    builder.store(builder.call(symbol, type_, args), out, 4)
    builder.emit(f"%i1 = add i64 %i, {lanes}")
    builder.emit("%more = icmp slt i64 %i1, %n")
    builder.emit("br i1 %more, label %head, label %done")
    builder.label("done")
    builder.ret()
    module.define("loop", builder.text())
    loaded = LoadedObject(emit_object(optimize(module.text(), options), options))
    entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(loaded.address("loop"))

    def run(x: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
        count = len(x)
        x = np.resize(x, count + -count % lanes)
        y = x if y is None else np.resize(y, len(x))
        out = np.empty_like(x)
        entry(out.ctypes.data, x.ctypes.data, y.ctypes.data, len(x))
        assert loaded is not None  # keeps the code mapped
        return out[:count]

    return run


def ulp_error(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Error in units in the last place of float32; infinite where the kind of value differs."""
    with np.errstate(all="ignore"):
        rounded = exact.astype("float32")
        finite = np.isfinite(rounded)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        spacing = np.where(finite, np.spacing(np.abs(rounded)), 1).astype(float)
        error = np.abs(got.astype(float) - exact) / spacing
    return np.where(finite, np.where(np.isnan(error), np.inf, error), np.where(same, 0, np.inf))


def sample() -> np.ndarray:
    bits = np.arange(0, 2**32, 40093, dtype=np.uint64).astype(np.uint32).view("float32")
    lines = [np.linspace(-20, 20, 30001), np.linspace(-110, 110, 15001), np.linspace(0.5, 2, 10001)]
    return np.concatenate([bits, *[line.astype("float32") for line in lines], SPECIAL])


@pytest.mark.meaning("float-function")
@pytest.mark.parametrize("cpu", MACHINES)
@pytest.mark.parametrize(
    "name", sorted(name for name in vector_math.FUNCTIONS if vector_math.arity(name) == 1)
)
def test_error_is_within_the_stated_bound(name: str, cpu: str) -> None:
    x = sample()
    got = compiled(name, 16, cpu=cpu)(x)
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](x.astype(float))
    error = ulp_error(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= vector_math.MAX_ULP[name], (
        f"{name}({x[worst]!r}) = {got[worst]!r}, not {exact[worst]!r}"
    )
    zeros = exact == 0
    assert (np.signbit(got[zeros]) == np.signbit(exact[zeros])).all()


@pytest.mark.meaning("float-function")
@pytest.mark.parametrize("cpu", MACHINES)
@pytest.mark.parametrize(
    "name", sorted(name for name in vector_math.FUNCTIONS if vector_math.arity(name) == 2)
)
def test_error_of_binary_functions(name: str, cpu: str) -> None:
    rng = np.random.default_rng(1)
    specials = np.array(
        [0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-40, 1e30, 16777217.0]
    )
    a, b = (grid.ravel() for grid in np.meshgrid(specials, specials))
    x = np.concatenate([rng.uniform(0, 50, 30000), rng.uniform(-3, 3, 10000), a]).astype("float32")
    y = np.concatenate([rng.uniform(-20, 20, 30000), rng.integers(-9, 9, 10000), b]).astype("float32")
    got = compiled(name, 8, cpu=cpu)(x, y)
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](x.astype(float), y.astype(float))
    error = ulp_error(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= vector_math.MAX_ULP[name], f"{name}({x[worst]!r}, {y[worst]!r}) = {got[worst]!r}"


@pytest.mark.meaning("float-function")
@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_a_power_of_two_beyond_the_type_brings_a_number_into_it(element: str, lanes: int) -> None:
    """And keeps zeros and infinities."""
    dtype = np.dtype("float32" if element == "float" else "float64")
    info = np.finfo(dtype)
    numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0, info.smallest_subnormal, info.tiny, info.max]
    powers = [
        -(2**31),
        -3000,
        -2100,
        -1075,
        -400,
        -278,
        -200,
        -149,
        -1,
        0,
        1,
        129,
        200,
        277,
        1025,
        2099,
        2**31 - 1,
    ]
    x, n = (grid.ravel().astype(dtype) for grid in np.meshgrid(numbers, powers))
    x, n = np.resize(x, 176), np.resize(n, 176)
    with np.errstate(all="ignore"):
        expected = np.ldexp(x, np.clip(n, -(2**30), 2**30).astype(np.int32))
    np.testing.assert_array_equal(compiled("ldexp", lanes, element)(x, n), expected)


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 32, 48, 64])
def test_every_width_gives_the_same_bits(lanes: int) -> None:
    x = np.linspace(-9, 9, 96).astype("float32")
    for name in ("exp", "erf", "tanh", "log1p"):
        np.testing.assert_array_equal(compiled(name, lanes)(x), compiled(name, 16)(x))


@pytest.mark.meaning("float-function")
@pytest.mark.parametrize("lanes", [1, 3, 16])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_beyond_the_reduction_do_not_change_their_neighbours(name: str, lanes: int) -> None:
    near = np.linspace(-1e5, 1e5, 48).astype("float32")
    mixed = near.copy()
    mixed[::5] = np.resize([2.0**40 + 2.0**20, 7e18, -1e30, 3.4e38, np.inf], len(mixed[::5]))
    run = compiled(name, lanes)
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](mixed.astype(float))
    assert ulp_error(run(mixed), exact).max() <= vector_math.MAX_ULP[name]
    kept = np.arange(48) % 5 != 0
    np.testing.assert_array_equal(run(mixed)[kept], run(near)[kept])


@pytest.mark.meaning("float-function")
@pytest.mark.parametrize("cpu", MACHINES)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_every_size(name: str, cpu: str) -> None:
    """Also those next to multiples of pi/2, where nearly all digits of the angle cancel."""
    rng = np.random.default_rng(0)
    exponents = np.arange(-149, 128)
    spread = (rng.uniform(1, 2, (len(exponents), 400)) * 2.0 ** exponents[:, None]).ravel()
    turns = np.rint(rng.uniform(1, 2, (44, 400)) * 2.0 ** np.arange(44)[:, None]).ravel()
    near = (turns * (math.pi / 2)).astype("float32")
    x = np.concatenate([spread, near, HARDEST, np.nextafter(HARDEST, 0)]).astype("float32")
    x = np.concatenate([x, -x])
    error = ulp_error(compiled(name, 16, cpu=cpu)(x), REFERENCE[name](x.astype(float)))
    worst = int(np.argmax(error))
    assert error[worst] <= vector_math.MAX_ULP[name], f"{name}({x[worst]!r}) is off by {error[worst]} units"


@pytest.mark.parametrize("name", ["exp", "erf", "erfc", "tanh", "sigmoid", "rsqrt", "log", "round"])
def test_double_is_exact_to_rounding(name: str) -> None:
    x = np.linspace(0.01, 9, 64)
    np.testing.assert_allclose(compiled(name, 4, "double")(x), REFERENCE[name](x), rtol=4e-16)


def test_unknown_function_is_refused() -> None:
    with pytest.raises(KeyError):
        vector_math.vector_function(ModuleBuilder(), "gamma", "float")
