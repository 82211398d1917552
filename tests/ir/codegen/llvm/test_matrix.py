"""Matrix units: which machines have one, and that registers and the vectors in their place give the same sums."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ir.codegen.build import build
from ir.codegen.entry import KernelError
from ir.codegen.error import CodegenError
from ir.codegen.llvm import matrix
from ir.codegen.llvm.compile import MachineOptions
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


def test_the_level_of_optimization_does_not_matter() -> None:
    assert has_matrix_unit(MachineOptions("x86_64-unknown-linux-gnu", "sapphirerapids", opt_level=0))


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


def held_beside(first: int, second: int) -> PrimFunc:
    """Two registers one after the other, while a third one holds something; what they are copied to is ``B``."""
    inner = "".join(
        f"""        with T.allocate([{count * 16}], "int32", "matrix") as held_{n}:
            register_{n} = T.Buffer(({count * 16},), "int32", data=held_{n}, scope="matrix")
            T.matrix_load(T.address_of(register_{n}[0]), T.address_of(A[{n * 256}]), 16)
            T.matrix_store(T.address_of(B[{n * 256}]), T.address_of(register_{n}[0]), 16)
"""
        for n, count in enumerate((first, second), 1)
    )
    return from_source(f"""@T.prim_func
def main(A: T.Buffer((768,), "int32"), B: T.Buffer((768,), "int32")):
    with T.allocate([256], "int32", "matrix") as held_0:
        register_0 = T.Buffer((256,), "int32", data=held_0, scope="matrix")
        T.matrix_load(T.address_of(register_0[0]), T.address_of(A[0]), 16)
{inner}        T.matrix_store(T.address_of(B[0]), T.address_of(register_0[0]), 16)
""")


@pytest.mark.parametrize("rows", [(16, 16), (16, 5), (5, 16)])
def test_registers_beside_each_other_in_a_nest(rows: tuple[int, int]) -> None:
    """Of different numbers of rows they are different registers."""
    func = held_beside(*rows)
    assert steps(build(func, WITH_UNIT).assembly).count("ldtilecfg") == 1
    source, copy = np.arange(768, dtype="int32"), np.zeros(768, "int32")
    build(func)(source, copy)
    wanted = source.copy()
    for n, count in enumerate(rows, 1):
        wanted[n * 256 + count * 16 : (n + 1) * 256] = 0
    np.testing.assert_array_equal(copy, wanted)


def copying(between: str = "T.evaluate(0)", rows: int = 16, load: str = "T.evaluate({load})") -> PrimFunc:
    """One register, and something that happens while it holds rows."""
    load = load.format(load="T.matrix_load(T.address_of(register[0]), T.address_of(A[0]), 16)")
    return from_source(f"""@T.prim_func
def main(A: T.Buffer((256,), "int32"), B: T.Buffer((256,), "int32")):
    held = T.allocate([256], "int32", "matrix")
    register = T.Buffer(({rows * 16},), "int32", data=held, scope="matrix")
    {load}
    {between}
    T.matrix_store(T.address_of(B[0]), T.address_of(register[0]), 16)
""")


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (copying('T.call_extern("int32", "getpid")'), "is called while matrix registers hold something"),
        (copying('T.call_packed("a.function")'), "is called while matrix registers hold something"),
        (copying(rows=4), "of 4 rows: what it lies in has 16 rows"),
        (copying("B[0] = register[0]"), "matrix register held is no memory"),
    ],
)
def test_what_registers_are_not_for(func: PrimFunc, message: str) -> None:
    with pytest.raises(CodegenError, match=message):
        build(func, WITH_UNIT)


def test_instructions_have_a_value() -> None:
    """Zero, as hints have."""
    func = copying(load="B[1] = {load} + 5")
    assert "tileloadd" in build(func, WITH_UNIT).assembly


def test_what_is_written_may_not_be_read_only() -> None:
    func = copying()
    array = np.zeros(256, "int32")
    array.flags.writeable = False
    with pytest.raises(KernelError, match="B.*(read-only|writ)"):
        build(func)(np.zeros(256, "int32"), array)


def test_code_for_machines_without_a_unit_is_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sixteen steps, not as many copies."""
    kernel = build(accumulation(16, "int8", "int8", "int32"), "llvm -mcpu=x86-64 -mtriple=x86_64-linux-gnu")
    assert kernel.code_bytes is not None and kernel.code_bytes < 12_000


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
