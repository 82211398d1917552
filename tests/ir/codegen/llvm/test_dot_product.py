"""Dot products of narrow numbers: the right sums on every machine, and the instruction where there is one."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from ir.codegen.build import NativeModule, build
from ir.codegen.llvm import compile as native
from ir.codegen.llvm.dot_product import group_of
from ir.script import from_source
from ir.target.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run

BYTES = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")]
INTEGERS = [*BYTES, ("int16", "int16")]
LANES = (4, 8, 16, 32, 64)
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu="


def group(first: str) -> int:
    return 4 if first.endswith("int8") else 2


def accumulation(lanes: int, first: str, second: str, is_shared: bool) -> PrimFunc:
    """C += the dot products of the groups of A, or of its only one, and those of B."""
    sums = "float32" if first == "bfloat16" else "int32"
    width = lanes * group(first)
    count = group(first) if is_shared else width
    return from_source(f"""@T.prim_func
def main(A: T.Buffer(({count},), "{first}"), B: T.Buffer(({width},), "{second}"), C: T.Buffer(({lanes},), "{sums}")):
    C[0:{lanes}] = T.dot_accumulate(C[0:{lanes}], A[0:{count}], B[0:{width}])
""")


def by_numpy(a: np.ndarray, b: np.ndarray, c: np.ndarray, size: int) -> np.ndarray:
    """In float64 or in integers that do not overflow, whatever the width."""
    wide = "float64" if c.dtype == "float32" else "int64"
    products = np.broadcast_to(a.astype(wide).reshape(-1, size), (len(c), size)) * b.astype(wide).reshape(
        -1, size
    )
    total = products.sum(1) + c.astype(wide)
    return total if wide == "float64" else (total & 0xFFFFFFFF).astype("uint32").view("int32")


def cases(first: str, second: str, count: int, width: int, lanes: int) -> list[tuple[np.ndarray, ...]]:
    """Extremes of both dtypes against each other, sums at both ends of int32, and random numbers."""
    rng = np.random.default_rng(lanes)
    a, b, c = np.iinfo(first), np.iinfo(second), np.iinfo("int32")
    found = [
        (np.full(count, x), np.full(width, y), np.full(lanes, z))
        for x in (a.min, a.max)
        for y in (b.min, b.max)
        for z in (0, c.min, c.max)
    ]
    found += [
        tuple(
            rng.integers(info.min, info.max, size, endpoint=True)
            for info, size in ((a, count), (b, width), (c, lanes))
        )
        for _ in range(3)
    ]
    return [(x.astype(first), y.astype(second), z.astype("int32")) for x, y, z in found]


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("lanes", [1, 2, 3, 12, 20, 28, *LANES])
@pytest.mark.parametrize(("first", "second"), INTEGERS)
def test_integers_are_exact(first: str, second: str, lanes: int, is_shared: bool) -> None:
    func = accumulation(lanes, first, second, is_shared)
    kernel = build(func)["main"]
    size = group(first)
    count = size if is_shared else size * lanes
    for number, (a, b, c) in enumerate(cases(first, second, count, size * lanes, lanes)):
        expected = by_numpy(a, b, c, size)
        found = c.copy()
        kernel(a, b, found)
        np.testing.assert_array_equal(found, expected)
        if number % 5 == 0:
            run(func, a, b, c)
            np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("lanes", [1, 3, 20, *LANES])
def test_bfloat16(lanes: int, is_shared: bool) -> None:
    rng = np.random.default_rng(lanes)
    count = 2 if is_shared else 2 * lanes
    func = accumulation(lanes, "bfloat16", "bfloat16", is_shared)
    a, b = (rng.uniform(0.5, 2, size).astype(ml_dtypes.bfloat16) for size in (count, 2 * lanes))
    c = rng.uniform(0.5, 2, lanes).astype("float32")
    expected = by_numpy(a, b, c, 2)
    computed = c.copy()
    build(func)["main"](a, b, computed)
    run(func, a, b, c)
    for found in (computed, c):
        np.testing.assert_allclose(found, expected, rtol=2.0**-20)


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize(("first", "second"), INTEGERS)
def test_machines_without_instructions_compute_the_same(first: str, second: str, target: str) -> None:
    try:
        kernel = build(accumulation(16, first, second, True), target)["main"]
    except Exception as error:  # a host that is older than that, or no x86
        pytest.skip(str(error))
    size = group(first)
    for a, b, c in cases(first, second, size, size * 16, 16):
        expected = by_numpy(a, b, c, size)
        kernel(a, b, c)
        np.testing.assert_array_equal(c, expected)


# ---- instructions ----------------------------------------------------------------------------------------------------


def compiled(target: str, lanes: int, first: str, second: str) -> str:
    module: NativeModule = build(accumulation(lanes, first, second, True), target)
    return module.assembly


@pytest.mark.parametrize(
    ("processor", "operands", "instruction"),
    [
        *[(name, pair, "vpdpbusd") for name in ("znver4", "cascadelake", "sapphirerapids") for pair in BYTES],
        ("znver4", ("int16", "int16"), "vpdpwssd"),
        ("znver4", ("bfloat16", "bfloat16"), "vdpbf16ps"),
        # bytes in two operations on words
        *[("skylake-avx512", pair, "vpmaddwd") for pair in [("int16", "int16"), *BYTES]],
    ],
)
@pytest.mark.parametrize(("lanes", "register"), [(4, "xmm"), (8, "ymm"), (16, "zmm"), (32, "zmm")])
def test_instructions_of_x86(
    processor: str, operands: tuple[str, str], instruction: str, lanes: int, register: str
) -> None:
    text = compiled(f"llvm -mcpu={processor} -mtriple=x86_64-linux-gnu", lanes, *operands)
    assert re.search(rf"\b{instruction}\s.*%{register}", text)


@pytest.mark.parametrize("operands", BYTES)
def test_instructions_without_avx512(operands: tuple[str, str]) -> None:
    text = compiled("llvm -mcpu=alderlake -mtriple=x86_64-linux-gnu", 16, *operands)
    assert re.search(r"\{vex\}\s+vpdpbusd\s.*%ymm", text)
    assert "zmm" not in text


@pytest.mark.parametrize(
    ("processor", "operands", "instruction"),
    [
        ("neoverse-n1", ("int8", "int8"), "sdot"),
        ("neoverse-n1", ("uint8", "uint8"), "udot"),
        ("neoverse-v1", ("uint8", "int8"), "usdot"),
        ("neoverse-v1", ("int8", "uint8"), "usdot"),
        ("neoverse-v1", ("bfloat16", "bfloat16"), "bfdot"),
    ],
)
@pytest.mark.parametrize("lanes", [4, 16])
def test_instructions_of_arm(processor: str, operands: tuple[str, str], instruction: str, lanes: int) -> None:
    text = compiled(ARM + processor, lanes, *operands)
    assert len(re.findall(rf"\b{instruction}\s", text)) == lanes // 4


@pytest.mark.parametrize(("first", "second"), [("uint8", "int8"), ("int8", "uint8")])
def test_unsigned_bytes_are_the_first_operand_of_usdot(first: str, second: str) -> None:
    """In whichever order they are multiplied: x0 is the address of the first ones, x1 that of the second ones."""
    text = build(accumulation(4, first, second, False), ARM + "neoverse-v1").assembly
    address = dict(re.findall(r"ldr\tq(\d+), \[x(\d)\]", text))
    ((one, other),) = re.findall(r"usdot\tv\d+\.4s, v(\d+)\.16b, v(\d+)\.16b", text)
    assert (address[one], address[other]) == (("0", "1") if first == "uint8" else ("1", "0"))


@pytest.mark.parametrize(
    ("target", "operands"),
    [
        ("llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu", ("bfloat16", "bfloat16")),
        ("llvm -mcpu=sierraforest -mtriple=x86_64-linux-gnu", ("bfloat16", "bfloat16")),  # it only converts
        # instructions for vectors that are wider than those that are wanted
        ("llvm -mcpu=znver4 -mattr=-avx512vl -vector-width=256 -mtriple=x86_64-linux-gnu", ("int8", "int8")),
        (ARM + "cortex-a53", ("int8", "int8")),
        (ARM + "neoverse-n1", ("uint8", "int8")),
        (ARM + "neoverse-n1", ("bfloat16", "bfloat16")),
    ],
)
def test_what_a_machine_has_not_is_not_printed(target: str, operands: tuple[str, str]) -> None:
    """LLVM would end the process."""
    sums = "float32" if operands[0] == "bfloat16" else "int32"
    assert group_of(Target(target), *operands, sums) == 0
    assert not re.search(r"vpdpbusd|dpbf16|\bbfdot|\b[us]*dot\s", compiled(target, 16, *operands))


@pytest.mark.parametrize(
    ("target", "operands"),
    [
        ("llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu", ("uint8", "int8")),
        ("llvm -mcpu=x86-64-v3 -mtriple=x86_64-linux-gnu", ("int8", "int8")),
        ("llvm -mcpu=znver4 -mtriple=x86_64-linux-gnu -mattr=-avx512vnni", ("int8", "int8")),
    ],
)
def test_bytes_are_multiplied_as_words_where_there_is_nothing_better(
    target: str, operands: tuple[str, str]
) -> None:
    assert group_of(Target(target), *operands, "int32") == 4
    text = compiled(target, 16, *operands)
    assert "pmaddwd" in text and "vpdpbusd" not in text


@pytest.mark.parametrize(
    ("processor", "operands", "feature"),
    [
        ("alderlake", ("int8", "int8"), "avxvnni"),
        ("cascadelake", ("int8", "int8"), "avx512vnni"),
        ("alderlake", ("int16", "int16"), "avxvnni"),
        ("cascadelake", ("int16", "int16"), "avx512vnni"),
        ("cooperlake", ("bfloat16", "bfloat16"), "avx512bf16"),
    ],
)
def test_code_for_another_processor_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch, processor: str, operands: tuple[str, str], feature: str
) -> None:
    """It would end the process with a signal."""
    has = dict.fromkeys(native.llvm.get_host_cpu_features(), True) | {feature: False}
    monkeypatch.setattr(native.llvm, "get_host_cpu_features", lambda: has)
    target = f"llvm -mcpu={processor}"
    kernel = build(accumulation(16, *operands, True), target)
    with pytest.raises(native.CodegenError, match=rf"code for {processor} needs {feature}, which"):
        kernel.entry_pointer("main")
    others = "llvm -mcpu=skylake-avx512"
    build(accumulation(16, *operands, True), others).entry_pointer("main")  # which needs none of them


def test_groups_of_targets() -> None:
    machine = Target("llvm -mcpu=znver4 -mtriple=x86_64-linux-gnu")
    assert all(group_of(machine, a, b, "int32") == 4 for a, b in BYTES)
    assert group_of(machine, "int16", "int16", "int32") == 2
    assert group_of(machine, "bfloat16", "bfloat16", "float32") == 2
    assert group_of(machine, "int8", "int8", "float32") == 0
    assert group_of(machine, "int16", "uint16", "int32") == 0
    assert group_of(machine, "float32", "float32", "float32") == 0
    assert group_of(Target("nvidia/nvidia-a100"), "int8", "int8", "int32") == 0
    assert group_of(Target(ARM + "neoverse-n1"), "uint8", "uint8", "int32") == 4
    # LLVM must not be asked without NEON, where it ends the process for sums of products
    assert group_of(Target(ARM + "neoverse-v1 -mattr=-neon"), "uint8", "uint8", "int32") == 0
