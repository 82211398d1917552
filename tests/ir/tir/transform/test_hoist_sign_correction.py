"""HoistSignCorrection: bytes of one dtype are multiplied as unsigned by signed ones; what that adds is taken away behind the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ir import IRModule, tir
from ir.codegen.build import build
from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc
from ir.transform import Pass

HOIST = tir.transform.HoistSignCorrection()
SHARED = "T.dot_accumulate(X[{place}], a[k * 4 + {row} : k * 4 + {row} + 4], b[k * 32 + {column} : k * 32 + {column} + 16])"


def step(place: str = "0:4", row: int = 0, column: int = 0, value: str = SHARED) -> str:
    return f"X[{place}] = {value.format(place=place, row=row, column=column)}"


def sums(
    *steps: str,
    dtype: str = "int8",
    other: str = "",
    scope: str = "local",
    loop: str = "range(6)",
    before: str = "",
) -> PrimFunc:
    """A loop of steps, behind which the sums are written."""
    body = "\n        ".join(steps)
    return from_source(f"""@T.prim_func
def main(a: T.Buffer((64,), "{dtype}"), b: T.Buffer((256,), "{other or dtype}"), C: T.Buffer((16,), "int32")):
    X = T.decl_buffer((16,), "int32", scope="{scope}")
    X[0:16] = T.Broadcast(7, 16)
    {before}
    for k in {loop}:
        {body}
    C[0:16] = X[0:16]
""")


def test_one_correction_for_all_rows(check: Callable[..., None]) -> None:
    Z, F = T.int64(0), T.int64(4)

    @T.prim_func
    def after(a: T.Buffer((64,), "int8"), b: T.Buffer((256,), "int8"), C: T.Buffer((16,), "int32")):
        X = T.decl_buffer((16,), "int32", scope="local")
        X[0:16] = T.Broadcast(7, 16)
        with T.allocate([4], "int32", "local") as memory:
            M = T.Buffer((4,), "int32", data=memory, scope="local")
            M[Z : Z + 4] = T.Broadcast(0, 4)
            for k in range(6):
                M[Z : Z + 4] = T.dot_accumulate(
                    M[Z : Z + 4], T.Broadcast(T.uint8(128), 4), b[k * 32 : k * 32 + 16]
                )
                X[0:4] = T.dot_accumulate(
                    X[0:4],
                    T.reinterpret("uint8x4", a[k * 4 : k * 4 + 4] ^ T.Broadcast(T.int8(-128), 4)),
                    b[k * 32 : k * 32 + 16],
                )
                X[4:8] = T.dot_accumulate(
                    X[4:8],
                    T.reinterpret("uint8x4", a[k * 4 + 24 : k * 4 + 28] ^ T.Broadcast(T.int8(-128), 4)),
                    b[k * 32 : k * 32 + 16],
                )
            X[Z : Z + 4] = X[Z : Z + 4] - M[Z : Z + 4]
            X[F : F + 4] = X[F : F + 4] - M[Z : Z + 4]
        C[0:16] = X[0:16]

    check(HOIST, sums(step(), step("4:8", 24)), after)


TILE = [step("0:4"), step("4:8", 0, 16), step("8:12", 24), step("12:16", 24, 16)]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_tile_has_a_correction_for_each_column(
    apply: Callable[[Pass, PrimFunc], PrimFunc], dtype: str
) -> None:
    text = apply(HOIST, sums(*TILE, dtype=dtype)).script()
    assert text.count("T.dot_accumulate(corrections_1") == 2
    assert text.count("- corrections_1[") == 4


def test_rounds_that_were_copied_share_a_correction(
    apply: Callable[[Pass, PrimFunc], PrimFunc],
) -> None:
    """Both operands are added to the same sums."""
    text = apply(HOIST, sums(step(), step("4:8", 24), step(row=4, column=16), step("4:8", 28, 16))).script()
    assert 'T.allocate([4], "int32", "local") as corrections' in text
    assert text.count("T.dot_accumulate(corrections_1[T.int64(0):T.int64(4)]") == 2
    assert text.count("- corrections_1[T.int64(0):") == 2


def test_names_and_hints_stand_in_the_way_of_nothing(
    apply: Callable[[Pass, PrimFunc], PrimFunc],
) -> None:
    hint = "T.prefetch(T.address_of(b[k * 32 + 32]), 0, 3, 1)"
    named = step(value="T.dot_accumulate(X[{place}], a[n : n + 4], b[n * 8 : n * 8 + 16])")
    text = apply(HOIST, sums("n: T.int32 = k * 4", hint, named)).script()
    assert text.count("- corrections_1[") == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"dtype": "uint8", "other": "int8"},  # what the instruction takes
        {"dtype": "int8", "other": "uint8"},
        {"loop": "range(3)"},  # too short
        {"loop": "T.parallel(6)"},
        {"scope": "global"},
        {"steps": [step(), step()]},  # twice the same to one sum
        {"steps": [step(), "C[0] = 1"]},
        {"steps": [step(), "if k > 2:\n            C[0] = X[0]"]},
        {"steps": [step(), "b[0] = T.int8(1)"]},  # it is not the same operand then
        {"steps": [step(value="T.dot_accumulate(X[4:8], a[0:4], b[0:16])")]},
        {"steps": [step(value="T.dot_accumulate(X[{place}], T.Cast('int8x4', X[8:12]), b[0:16])")]},
        {"steps": ["n: T.int32 = X[0]", step(), "C[n % 2] = 1"]},
        {"steps": [step("k * 2:k * 2 + 4")]},
        {
            "steps": [
                step(
                    value=SHARED.replace(
                        "X[{place}]", "X.vload([T.Ramp(0, 1, 4)], predicate=T.Broadcast(k < 3, 4))"
                    )
                )
            ]
        },
    ],
)
def test_loops_that_stay(apply: Callable[..., PrimFunc], changed: dict[str, Any]) -> None:
    func = sums(*changed.pop("steps", [step()]), **changed)
    assert apply(HOIST, func, False) is func


def test_sums_that_another_step_reads_stay(apply: Callable[..., PrimFunc]) -> None:
    """A name that is made of a sum would have another value."""
    func = sums(
        "n: T.int32 = T.truncmod(X[0], 2)", step(value="T.dot_accumulate(X[{place}], a[0:4], b[0:16])")
    )
    assert apply(HOIST, func, False) is func


@pytest.mark.parametrize("address", ["X.data", "T.address_of(X[0])"])
def test_sums_that_are_read_by_another_name_stay(apply: Callable[..., PrimFunc], address: str) -> None:
    """Without their corrections they have other values."""
    names = f'p: T.handle("int8") = {address}\n    z = T.Buffer((64,), "int8", data=p)'
    func = sums(step(value="T.dot_accumulate(X[{place}], z[0:4], b[0:16])"), before=names)
    assert apply(HOIST, func, False) is func


def test_sums_that_may_be_another_parameter_stay(apply: Callable[..., PrimFunc]) -> None:
    func = from_source("""@T.prim_func
def main(a: T.handle, x: T.handle):
    b = T.match_buffer(a, (64,), "int8")
    X = T.match_buffer(x, (16,), "int32", scope="local")
    for k in range(6):
        X[0:4] = T.dot_accumulate(X[0:4], b[0:4], b[0:16])
""")
    assert apply(HOIST, func, False) is func
    promised = func.with_attr("tir.noalias", True)
    assert apply(HOIST, promised, False) is not promised


def test_one_lane_stays() -> None:
    """Code is printed for numbers that are no vectors, too."""
    func = sums("X[0:1] = T.dot_accumulate(X[0:1], a[k * 4 : k * 4 + 4], b[k * 4 : k * 4 + 4])")
    a, b, c = np.full(64, -128, "int8"), np.full(256, 127, "int8"), np.zeros(16, "int32")
    build(func, "llvm -mcpu=znver4 -mtriple=x86_64-linux-gnu")  # LLVM takes it
    build(func)["main"](a, b, c)
    assert c[0] == 7 + 6 * 4 * -128 * 127 and (c[1:] == 7).all()


@pytest.mark.parametrize(("processor", "corrections"), [("znver4", 1), ("skylake-avx512", 0)])
def test_only_machines_that_need_it_are_corrected(processor: str, corrections: int) -> None:
    func = sums(step(), step("4:8", 24), loop="range(40)")
    text = build(func, f"llvm -mcpu={processor} -mtriple=x86_64-linux-gnu").assembly
    in_loop = 2 + corrections
    assert text.count("vpdpbusd") == (in_loop if corrections else 0)
    assert " xor " not in build(func, "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1").llvm_ir
    assert IRModule({"main": func}) is not HOIST(IRModule({"main": func}))
