"""Products of warp groups in CUDA C++: what compiles for sm_90a, and what the emulation computes of it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.errors import BarrierError, EmulationError, TrapError
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.program import CudaProgram, build_cuda
from ir.codegen.error import CodegenError
from ir.script import from_source
from ir.target import Target
from tests.programs.warp_groups import Product, scheduled

from .test_tensor_cores import needs_compiler, needs_nvrtc

TARGET = Target("nvidia/nvidia-h200")


def built(product: Product, m: int, n: int, stages: int, scope: str = "global") -> CudaProgram:
    return build_cuda(scheduled(product, m, n, stages, scope).mod, TARGET)


def refuse(product: Product, found: np.ndarray, expected: np.ndarray) -> None:
    if product.total == "int32":
        assert (found == expected).all()
    else:
        close = 1e-2 if product.total == "float16" else 1e-5
        assert np.abs(found - expected).max() <= close * np.abs(expected).max()


@needs_compiler
@pytest.mark.parametrize(
    ("product", "tile", "stages", "scope"),
    [
        (Product(128, 64, 448, "float16", "float32"), (64, 64), 3, "global"),
        (Product(128, 128, 256, "bfloat16", "float32", False), (128, 128), 2, "shared.dyn"),
        (Product(64, 32, 128, "float16", "float16"), (64, 32), 4, "global"),
        (Product(64, 24, 96, "tf32", "float32"), (64, 24), 2, "global"),
        (Product(128, 64, 512, "int8", "int32"), (128, 64), 3, "shared.dyn"),
    ],
    ids=str,
)
def test_the_emulation_computes_the_product(
    product: Product, tile: tuple[int, int], stages: int, scope: str
) -> None:
    program, (a, b) = built(product, *tile, stages, scope).emulate(), product.values()
    for seed in (0, 7):
        c = np.zeros((product.m, product.n), product.total)
        program(a, b, c, seed=seed)
        refuse(product, c, product.expected(a, b))


@needs_nvrtc
@pytest.mark.parametrize(
    ("product", "tile", "stages", "scope"),
    [
        (Product(4096, 4096, 4096, "float16", "float32"), (128, 256), 4, "global"),
        (Product(4096, 4096, 4096, "float16", "float32", False), (128, 256), 3, "shared.dyn"),
        (Product(4096, 4096, 4096, "bfloat16", "float32"), (128, 128), 5, "shared.dyn"),
        (Product(4096, 4096, 4096, "float16", "float16"), (256, 128), 4, "global"),
        (Product(4096, 4096, 4096, "tf32", "float32"), (128, 128), 4, "shared.dyn"),
        (Product(4096, 4096, 4096, "int8", "int32"), (128, 256), 4, "shared.dyn"),
        (Product(4096, 4096, 4096, "uint8", "int32"), (64, 256), 4, "global"),
    ],
    ids=str,
)
def test_nvrtc_compiles_without_warnings_and_spills(
    product: Product, tile: tuple[int, int], stages: int, scope: str
) -> None:
    code = built(product, *tile, stages, scope).code
    resources = code.resources["main_kernel"]
    assert not code.warnings and "wgmma" not in code.log  # nor that products are serialized
    assert resources.spill_store_bytes == resources.spill_load_bytes == resources.local_bytes == 0
    assert len(re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n\d+k", code.ptx)) >= 4
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.2d\.", code.ptx)) >= 4
    assert "mbarrier.try_wait.parity" in code.ptx


@needs_compiler
@pytest.mark.parametrize(
    ("taken", "error", "told"),
    [
        (r"ptx_wait_barrier\(barriers \+ \(?k\b[^2]*$", BarrierError, "its copies are under way"),
        (r"ptx_wgmma_wait_group<1>", AssertionError, None),  # a stage is filled while products read it
        (r"ptx_arrive_barrier\(barriers", BarrierError, "ptx_wait_barrier"),
        (r"ptx_wgmma_fence\(\);", TrapError, "no ptx_wgmma_fence"),
        (r"ptx_wgmma_wait_group<0>", AssertionError, None),
        (r"ptx_arrive_barrier_expect_tx\(barriers\W+\d", BarrierError, "no thread can go on"),
    ],
)
def test_what_is_not_waited_for_is_seen(taken: str, error: type[Exception], told: str | None) -> None:
    product = Product(64, 32, 320, "float16", "float32")
    program = built(product, 64, 32, 2)
    lines = program.kernels.text.splitlines()
    kept = [line for line in lines if not re.match(rf"\s*{taken}", line)]
    assert len(kept) == len(lines) - 1
    source = type(program.kernels)("\n".join(kept), program.kernels.kernels, program.kernels.launches)
    a, b = product.values()
    c = np.zeros((64, 32), "float32")
    with pytest.raises(error, match=told):
        EmulatedProgram(program.module, source)(a, b, c)
        refuse(product, c, product.expected(a, b))


KERNEL = """
from ir.script import tir as T

@T.prim_func
def main(a: T.handle):
    A = T.match_buffer(a, (64,), "float16")
    tx = T.launch_thread("threadIdx.x", 128)
    s = T.allocate([4096], "float16", "shared.dyn")
    d = T.allocate([64], "float32", "local")
    {line}
"""
WGMMA = 'T.evaluate(T.ptx_wgmma_mma_async("float32", {}, s, 0, s, 0, d, 0, True, 128, 16, 1024, 16, 1024))'


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            WGMMA.format('"m64n12k16", "row", "col", "float16", "float16", "float32"'),
            "no product of the shape m64n12k16",
        ),
        (
            WGMMA.format('"m64n8k8", "row", "col", "float16", "float16", "float32"'),
            "no product of the shape m64n8k8",
        ),
        (WGMMA.format('"m64n8k32", "row", "row", "int8", "int8", "int32"'), "s8 by row"),
        (WGMMA.format('"m64n8k16", "row", "col", "float16", "bfloat16", "float32"'), "f16 by row and bf16"),
        (
            WGMMA.format('"m64n8k16", "row", "col", "float16", "float16", "float32"').replace("128,", "16,"),
            "rows of 32, 64 or 128",
        ),
        ("T.evaluate(T.ptx_wgmma_wait_group(tx))", "a constant from 0 to 7"),
        ("T.evaluate(T.create_barriers(tx))", "takes a constant"),
        ("T.evaluate(T.ptx_arrive_barrier(0))", "before create_barriers"),
    ],
)
def test_refusals(line: str, told: str) -> None:
    with pytest.raises(CodegenError, match=told):
        build_cuda(from_source(KERNEL.format(line=line)), TARGET)


@needs_compiler
def test_operands_are_in_dynamic_shared_memory() -> None:
    line = WGMMA.format('"m64n8k16", "row", "col", "float16", "float16", "float32"')
    text = KERNEL.format(line=line).replace('"shared.dyn"', '"shared"')
    with pytest.raises(EmulationError, match="not in dynamic shared memory"):
        build_cuda(from_source(text), TARGET).emulate()(np.zeros(64, "float16"))
    assert has_compiler()
