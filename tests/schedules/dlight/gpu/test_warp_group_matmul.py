"""WarpGroupMatmul: which products it takes, and what its schedules compute."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ir import te, tir
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.program import build_cuda
from ir.target import Target
from schedules.dlight import gpu
from schedules.dlight.default import default_schedule
from tests.programs.warp_groups import Product

HOPPER = Target("nvidia/nvidia-h200")
RULE = gpu.WarpGroupMatmul()
needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")


def layer(batch: int, m: int, n: int, k: int, index: str) -> tir.PrimFunc:
    """``relu(x @ w + bias)`` in float16, with sums of float32 that nothing rounds before."""
    batch, m, n, k = (tir.IntImm(index, extent) for extent in (batch, m, n, k))  # type: ignore[assignment]
    x = te.placeholder((batch, m, k), "float16", name="X")
    w = te.placeholder((k, n), "float16", name="W")
    bias = te.placeholder((n,), "float32", name="bias")
    s = te.reduce_axis((tir.IntImm(index, 0), k), name="s")
    sums = te.compute(
        (batch, m, n),
        lambda b, i, j: te.sum(x[b, i, s].astype("float32") * w[s, j].astype("float32"), axis=s),
        name="sums",
    )
    out = te.compute(
        (batch, m, n),
        lambda b, i, j: tir.max(sums[b, i, j] + bias[j], tir.const(0, "float32")).astype("float16"),
        name="Y",
    )
    return te.create_prim_func([x, w, bias, out])


def heads(batch: int, m: int, n: int, k: int) -> tir.PrimFunc:
    q = te.placeholder((batch, 2, m, k), "bfloat16", name="Q")
    p = te.placeholder((batch, 2, n, k), "bfloat16", name="P")
    s = te.reduce_axis((0, k), name="s")
    return te.create_prim_func(
        [
            q,
            p,
            te.compute(
                (batch, 2, m, n),
                lambda b, h, i, j: te.sum(
                    q[b, h, i, s].astype("float32") * p[b, h, j, s].astype("float32"), axis=s
                ),
                name="S",
            ),
        ]
    )


@pytest.mark.parametrize(
    ("product", "kind"),
    [
        (Product(4096, 4096, 4096, "float16", "float32"), "wgmma_128x256x4096_f16f16f32_nk_shared_dyn_4"),
        (
            Product(4096, 4096, 4096, "float16", "float32", False),
            "wgmma_128x256x4096_f16f16f32_kn_shared_dyn_4",
        ),
        (Product(2048, 2048, 1024, "bfloat16", "float32"), "wgmma_128x128x1024_bf16bf16f32_nk_shared_dyn_7"),
        (Product(512, 512, 512, "tf32", "float32"), "wgmma_64x64x512_tf32tf32f32_nk_shared_dyn_8"),
        (Product(4096, 4096, 4096, "int8", "int32"), "wgmma_128x256x4096_s8s8s32_nk_shared_dyn_4"),
        (
            Product(8192, 8192, 8192, "float8_e4m3fn", "float32"),
            "wgmma_128x256x8192_e4m3e4m3f32_nk_shared_dyn_4",
        ),
        (Product(128, 192, 64, "float16", "float16"), "wgmma_64x64x64_f16f16f16_nk_shared_dyn_2"),
    ],
    ids=str,
)
def test_tiles(product: Product, kind: str) -> None:
    sch = RULE.apply(product.function(), HOPPER)
    assert sch is not None
    assert f'"{kind}"' in str(sch.trace)


@pytest.mark.parametrize(
    "product",
    [
        Product(100, 128, 128, "float16", "float32"),  # no whole tiles
        Product(128, 100, 128, "float16", "float32"),
        Product(128, 128, 100, "float16", "float32"),
        Product(128, 128, 128, "float32", "float32"),  # of full precision
        Product(128, 128, 128, "int8", "int32", False),  # wgmma reads its operands along k
    ],
    ids=str,
)
def test_other_products_are_left_to_others(product: Product) -> None:
    assert RULE.apply(product.function(), HOPPER) is None
    assert default_schedule(product.function(), HOPPER) is not None


@pytest.mark.parametrize("name", ["nvidia/nvidia-a100", "nvidia/geforce-rtx-4090", "llvm"])
def test_other_targets_are_left_to_others(name: str) -> None:
    assert RULE.apply(Product(512, 512, 512, "float16", "float32").function(), Target(name)) is None


def test_it_is_the_default_on_hopper() -> None:
    func = Product(512, 512, 512, "float16", "float32").function()
    assert "ptx_wgmma_mma_async" in default_schedule(func, HOPPER).mod.script()


@needs_compiler
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_a_layer_with_its_epilogue(index: str) -> None:
    """Bias, relu and rounding are part of the kernel, whose sums nothing else keeps in memory."""
    sch = RULE.apply(layer(2, 128, 64, 128, index), HOPPER)
    assert sch is not None
    program = build_cuda(sch.mod, HOPPER)
    assert len(program.kernels.kernels) == 1
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 128, 128)).astype("float16")
    w, bias = rng.standard_normal((128, 64)).astype("float16"), rng.standard_normal(64).astype("float32")
    y = np.zeros((2, 128, 64), "float16")
    program.emulate()(x, w, bias, y, seed=3)
    expected = np.maximum(x.astype("float64") @ w.astype("float64") + bias, 0)
    np.testing.assert_allclose(y, expected, rtol=2e-3, atol=2e-3)


@needs_compiler
def test_batches_are_blocks() -> None:
    sch = RULE.apply(heads(3, 64, 128, 64), HOPPER)
    assert sch is not None
    program = build_cuda(sch.mod, HOPPER)
    rng = np.random.default_rng(0)
    q, p = (rng.standard_normal((3, 2, rows, 64)).astype(ml_dtypes.bfloat16) for rows in (64, 128))
    s = np.zeros((3, 2, 64, 128), "float32")
    program.emulate()(q, p, s)
    expected = q.astype("float64") @ p.astype("float64").swapaxes(2, 3)
    assert np.abs(s - expected).max() < 1e-4
