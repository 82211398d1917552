"""Matrix units: which machines have one, and that registers and the vectors in their place give the same sums."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ir.codegen.build import build
from ir.codegen.llvm import matrix
from ir.codegen.llvm.compile import CodegenError, MachineOptions
from ir.codegen.llvm.matrix import has_matrix_unit
from ir.script import from_source
from ir.tir import PrimFunc
from ir.tir.intrinsic.matrix_registers import MATRIX_PRODUCTS
from tests.ir.tir.intrinsic.test_matrix import accumulation, arguments, expected

WITH_UNIT = "llvm -mcpu=sapphirerapids -mtriple=x86_64-unknown-linux-gnu"
INSTRUCTIONS = dict(zip(MATRIX_PRODUCTS, ("tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud", "tdpbf16ps")))
HOST_HAS_ONE = has_matrix_unit()


def steps(assembly: str) -> list[str]:
    """The instructions of a matrix unit in the order of the text."""
    return re.findall(r"^\s+(ldtilecfg|tile\w+|tdp\w+)\b", assembly, re.MULTILINE)


# ---- which machines have one -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "features", "triple", "has_one"),
    [
        ("sapphirerapids", "", "x86_64-unknown-linux-gnu", True),
        ("graniterapids", "", "x86_64-unknown-linux-gnu", True),
        ("sapphirerapids", "-amx-bf16", "x86_64-unknown-linux-gnu", False),
        ("sapphirerapids", "-amx-tile", "x86_64-unknown-linux-gnu", False),
        ("x86-64-v4", "+amx-int8,+amx-bf16", "x86_64-unknown-linux-gnu", True),
        ("x86-64-v4", "+amx-int8", "x86_64-unknown-linux-gnu", False),
        ("znver5", "", "x86_64-unknown-linux-gnu", False),
        ("icelake-server", "", "x86_64-unknown-linux-gnu", False),
        ("neoverse-v2", "", "aarch64-linux-gnu", False),
    ],
)
def test_llvm_tells_which_processors_have_one(cpu: str, features: str, triple: str, has_one: bool) -> None:
    assert has_matrix_unit(MachineOptions(triple, cpu, features)) is has_one


def test_the_host_has_one_where_the_system_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused:
        def use_matrix_unit(self) -> bool:
            return False

    monkeypatch.setattr(matrix, "runtime", Refused)
    assert not has_matrix_unit.__wrapped__(MachineOptions())


# ---- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", MATRIX_PRODUCTS)
@pytest.mark.parametrize(("rows", "stride"), [(16, 0), (3, 5)])
def test_the_hosts_registers_or_vectors_multiply(kinds: tuple[str, str, str], rows: int, stride: int) -> None:
    func = accumulation(rows, *kinds, stride)
    arrays = arguments(func, rows)
    wanted = expected(arrays, rows)
    kernel = build(func)
    assert (INSTRUCTIONS[kinds] in kernel.assembly) is HOST_HAS_ONE
    kernel(*arrays)
    np.testing.assert_array_equal(arrays[2], wanted)


@pytest.mark.parametrize("kinds", MATRIX_PRODUCTS)
@pytest.mark.parametrize(("rows", "stride"), [(16, 0), (1, 3)])
def test_vectors_multiply_where_there_is_no_unit(
    monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, str, str], rows: int, stride: int
) -> None:
    monkeypatch.setattr("ir.codegen.build.has_matrix_unit", lambda options: False)
    func = accumulation(rows, *kinds, stride)
    arrays = arguments(func, rows)
    wanted = expected(arrays, rows)
    kernel = build(func)
    assert "tile" not in kernel.assembly and not kernel.features & set(matrix.MATRIX_FEATURES)
    kernel(*arrays)
    np.testing.assert_array_equal(arrays[2], wanted)


@pytest.mark.parametrize("kinds", MATRIX_PRODUCTS)
def test_code_for_a_machine_that_has_one(kinds: tuple[str, str, str]) -> None:
    kernel = build(accumulation(16, *kinds), WITH_UNIT)
    loads = ["tileloadd"] * 3
    assert steps(kernel.assembly) == [
        "ldtilecfg", *loads, INSTRUCTIONS[kinds], "tilestored", "tilerelease"
    ]  # fmt: skip
    assert kernel.features >= {"amx-tile", "amx-int8", "amx-bf16"}


# ---- where registers are set up ----------------------------------------------------------------------------------------


def two_parts(rows: tuple[int, int], between: str = "T.evaluate(0)") -> PrimFunc:
    """Two copies of rows by registers, one after the other."""
    parts = "".join(
        f"""    with T.allocate([{count * 16}], "int32", "matrix") as held_{n}:
        register_{n} = T.Buffer(({count * 16},), "int32", data=held_{n}, scope="matrix")
        T.matrix_load(T.address_of(register_{n}[0]), T.address_of(A[{n * 256}]), 16)
        T.matrix_store(T.address_of(B[{n * 256}]), T.address_of(register_{n}[0]), 16)
    {between if n == 0 else "T.evaluate(0)"}
"""
        for n, count in enumerate(rows)
    )
    return from_source(f"""@T.prim_func
def main(A: T.Buffer((512,), "int32"), B: T.Buffer((512,), "int32")):
{parts}""")


@pytest.mark.parametrize(
    ("rows", "between", "set_up"),
    [
        ((16, 16), "T.evaluate(0)", 1),
        ((16, 5), "T.evaluate(0)", 2),
        ((16, 16), 'T.call_extern("int32", "getpid")', 2),  # which may use the unit, too
    ],
)
def test_registers_are_set_up_once_where_that_is_possible(
    rows: tuple[int, int], between: str, set_up: int
) -> None:
    func = two_parts(rows, between)
    assert steps(build(func, WITH_UNIT).assembly).count("ldtilecfg") == set_up
    source, copy = np.arange(512, dtype="int32"), np.zeros(512, "int32")
    build(func)(source, copy)
    wanted = source.copy()
    wanted[rows[0] * 16 : 256] = wanted[256 + rows[1] * 16 :] = 0
    np.testing.assert_array_equal(copy, wanted)


def test_an_error_gives_the_registers_up(monkeypatch: pytest.MonkeyPatch) -> None:
    func = two_parts((16, 16), 'assert A[0] == 0, "first"')
    text = build(func, WITH_UNIT).assembly
    assert text.count("tilerelease") == 2  # behind the assertion, and at the end


def test_more_registers_than_there_are() -> None:
    held = "\n".join(
        f"""    held_{n} = T.allocate([16], "int32", "matrix")
    register_{n} = T.Buffer((16,), "int32", data=held_{n}, scope="matrix")
    T.matrix_load(T.address_of(register_{n}[0]), T.address_of(A[0]), 16)"""
        for n in range(9)
    )
    func = from_source(f"""@T.prim_func
def main(A: T.Buffer((16,), "int32")):
{held}
""")
    with pytest.raises(CodegenError, match="more than 8 matrix registers"):
        build(func, WITH_UNIT)


def test_a_system_that_refuses_is_an_error() -> None:
    text = build(accumulation(16, "int8", "int8", "int32"), WITH_UNIT).llvm_ir
    assert text.count("call i32 @loopsmith_use_matrix_unit()") == 1
    assert "the system does not let this process use" in text
