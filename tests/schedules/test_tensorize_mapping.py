"""Mappings of blocks to descriptions of tensor intrinsics."""

from __future__ import annotations

from ir import te, tir
from ir.tir import TensorIntrin
from schedules import Schedule
from schedules.tensorize_mapping import (
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
)


def described() -> tir.PrimFunc:
    intrin = TensorIntrin.get("wmma_sync_16x16x16_f16f16f32")
    assert intrin is not None
    return intrin.desc


def matmul(m: int, n: int, k: int, dtype: str = "float16") -> tir.PrimFunc:
    x, y = te.placeholder((m, k), dtype, "x"), te.placeholder((k, n), dtype, "y")
    r = te.reduce_axis((0, k), "r")
    term = lambda i, j: te.sum(x[i, r].astype("float32") * y[r, j].astype("float32"), axis=r)
    return te.create_prim_func([x, y, te.compute((m, n), term, name="z")])


def convolution() -> tir.PrimFunc:
    x = te.placeholder((2, 10, 10, 16), "float16", "x")
    w = te.placeholder((3, 3, 16, 32), "float16", "w")
    rh, rw, rc = (te.reduce_axis((0, extent), name) for extent, name in ((3, "rh"), (3, "rw"), (16, "rc")))
    gathered = te.compute(
        (2, 8, 8, 3, 3, 16), lambda n, h, v, a, b, c: x[n, h + a, v + b, c], name="gathered"
    )
    out = te.compute(
        (2, 8, 8, 32),
        lambda n, h, v, f: te.sum(
            gathered[n, h, v, rh, rw, rc].astype("float32") * w[rh, rw, rc, f].astype("float32"),
            axis=[rh, rw, rc],
        ),
        name="z",
    )
    return te.create_prim_func([x, w, out])


def test_loops_of_a_product() -> None:
    sch = Schedule(matmul(32, 48, 64))
    found = get_tensorize_loop_mapping(sch, sch.get_block("z"), described())
    assert found is not None
    assert [int(loop.extent) for loop in found.loop_map] == [64, 48, 32]
    assert sorted(found.desc_loop_indexer.values()) == [0, 1, 2]
    assert found.block_iter_paddings is None


def test_extents_that_are_no_multiples() -> None:
    sch = Schedule(matmul(30, 48, 64))
    assert get_tensorize_loop_mapping(sch, sch.get_block("z"), described()) is None
    found = get_tensorize_loop_mapping(sch, sch.get_block("z"), described(), allow_padding=True)
    assert found is not None
    assert found.block_iter_paddings == [16, 1, 1]


def test_a_convolution_is_a_product() -> None:
    sch = Schedule(convolution())
    found = get_auto_tensorize_mapping_info(sch, sch.get_block("z"), described())
    assert found is not None
    (mapping,) = found.mappings
    n, h, v, f, a, b, c = range(1, 8)
    values = [int(item) for item in mapping.map_indices([tir.const(item) for item in (1, 2, 3, 4, 2, 1, 5)])]
    assert values == [(1 * 8 + 2) * 8 + 3, 4, (2 * 3 + 1) * 16 + 5]
    assert [buffer.name for buffer in found.lhs_buffer_map] == ["z", "gathered", "w"]
    assert len(found.rhs_iters) == 3


def test_another_dtype_does_not_fit() -> None:
    sch = Schedule(matmul(32, 48, 64, "bfloat16"))
    assert get_auto_tensorize_mapping_info(sch, sch.get_block("z"), described()) is None
