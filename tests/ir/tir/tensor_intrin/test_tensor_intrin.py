"""Registered tensor intrinsics: names, descriptions that schedules match, and implementations that compute what these say."""

from __future__ import annotations

import numpy as np
import pytest

from ir import IRModule, te, tir
from ir.codegen.build import build
from ir.error import IRValueError
from ir.tir import TensorIntrin
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.tir.tensor_intrin import arm_cpu, cuda, dot_product_common, get_wmma_intrin_group, x86
from schedules import Schedule
from tests.programs.tensor_cores import drawn


def test_names_are_those_of_the_field() -> None:
    assert cuda.WMMA_SYNC_16x16x16_f16f16f32_INTRIN == "wmma_sync_16x16x16_f16f16f32"
    assert cuda.WMMA_SYNC_16x16x16_s8s8s32_TRANS_INTRIN == "wmma_sync_16x16x16_s8s8s32_trans"
    assert cuda.WMMA_LOAD_16x16x16_F16_A_INTRIN == "wmma_load_16x16x16_f16_a_shared"
    assert cuda.WMMA_LOAD_16x16x16_S8_B_TRANS_DYN_INTRIN == "wmma_load_16x16x16_s8_b_trans_shared_dyn"
    assert cuda.WMMA_FILL_16x16x16_F32_INTRIN == "wmma_fill_16x16x16_f32"
    assert cuda.WMMA_STORE_16x16x16_F32_GLOBAL_INTRIN == "wmma_store_16x16x16_f32_global"
    assert cuda.WMMA_STORE_16x16x16_S32_SHARED_DYN_INTRIN == "wmma_store_16x16x16_s32_shared_dyn"
    assert dot_product_common.DP4A_INTRIN == "dp4a"
    assert x86.VNNI_DOT_16x4_INTRIN == "dot_16x4_vnni"
    assert arm_cpu.ARM_DOT_4x4_i8_NEON_INTRIN == "dot_4x4_i8i8s32_neon"


def test_all_can_be_made() -> None:
    for name in TensorIntrin.names():
        intrin = TensorIntrin.get(name)
        assert intrin is not None
        assert len(intrin.desc.params) == len(intrin.impl.params)


def test_groups() -> None:
    group = get_wmma_intrin_group("shared.dyn", "shared", "int8", "int32", True)
    assert group == {
        "init": "wmma_fill_16x16x16_s32",
        "load_a": "wmma_load_16x16x16_s8_a_shared_dyn",
        "load_b": "wmma_load_16x16x16_s8_b_trans_shared_dyn",
        "compute": "wmma_sync_16x16x16_s8s8s32_trans",
        "store": "wmma_store_16x16x16_s32_shared",
    }
    with pytest.raises(IRValueError, match="float64"):
        get_wmma_intrin_group("shared", "shared", "float64", "float64", False)
    with pytest.raises(IRValueError, match="'global'"):
        get_wmma_intrin_group("global", "shared", "float16", "float32", False)


def test_a_name_is_registered_once() -> None:
    func = TensorIntrin.get("dp4a")
    assert func is not None
    with pytest.raises(IRValueError, match="registered already"):
        TensorIntrin.register_made("dp4a", lambda: (func.desc, func.impl))
    with pytest.raises(IRValueError, match="registered already"):
        TensorIntrin.register("dot_16x4_avx512", func.desc, func.impl)


def packed_product(lanes: int, first: str, second: str) -> tir.PrimFunc:
    """C[i, jo, ji] = sum over k of A[i, k] * B[jo, ko, ji, ki], whose innermost axes are a tile."""
    a = te.placeholder((3, 16), first, "A")
    b = te.placeholder((2, 4, lanes, 4), second, "B")
    ko, ki = te.reduce_axis((0, 4), "ko"), te.reduce_axis((0, 4), "ki")
    c = te.compute(
        (3, 2, lanes),
        lambda i, jo, ji: te.sum(
            a[i, ko * 4 + ki].astype("int32") * b[jo, ko, ji, ki].astype("int32"), axis=[ko, ki]
        ),
        name="C",
    )
    return te.create_prim_func([a, b, c])


@pytest.mark.parametrize(
    ("name", "lanes", "first", "second"),
    [
        ("dot_16x4_vnni", 16, "uint8", "int8"),
        ("dot_16x4_avx512", 16, "uint8", "int8"),
        ("dot_4x4_i8i8s32_neon", 4, "int8", "int8"),
        ("dot_4x4_i8i8s32_sdot", 4, "int8", "int8"),
        ("dot_4x4_u8u8i32_hdot", 4, "uint8", "uint8"),
    ],
)
def test_dot_products(name: str, lanes: int, first: str, second: str) -> None:
    func = packed_product(lanes, first, second)
    sch = Schedule(func)
    block = sch.get_block("C")
    i, jo, ji, ko, ki = sch.get_loops(block)
    sch.reorder(i, jo, ko, ji, ki)
    init = sch.decompose_reduction(block, ko)
    sch.vectorize(sch.get_loops(init)[-1])
    sch.tensorize(ji, name)
    assert "dot_accumulate" in str(lower(sch.mod, "llvm").script())
    a, b = drawn((3, 16), first, 0), drawn((2, 4, lanes, 4), second, 1)
    expected, found, native = (np.zeros((3, 2, lanes), "int32") for _ in range(3))
    run(func, a, b, expected)
    run(sch.mod, a, b, found)
    assert np.array_equal(found, expected)
    build(IRModule({"main": sch.mod["main"]}), "llvm")(a, b, native)
    assert np.array_equal(native, expected)
