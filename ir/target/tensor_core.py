"""Which products tensor cores of each CUDA architecture compute in one instruction, and which instructions feed them.

Sources: PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions", "Asynchronous Warpgroup Level Matrix Instructions" and the target
notes of ``ldmatrix``, ``cp.async`` and ``cp.async.bulk.tensor``; CUDA C++ Programming Guide, "Warp Matrix Functions".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .error import TargetError
from .gpu_facts import architecture_number


class TensorCoreShape(NamedTuple):
    """``m`` times ``n`` results, each a sum of ``k`` products, that an instruction adds to its accumulator."""

    m: int
    n: int
    k: int


TF32 = "tf32"
"""What operands of float32 are rounded to (10 bits of fraction): whoever asks for it says that this may be."""

_Rows = tuple[tuple[str, str, int, tuple[tuple[int, int, int], ...]], ...]
_FP8 = ("float8_e4m3fn", "float8_e5m2")
_INT8 = ("int8", "uint8")
_INT4 = ("int4", "uint4")


def _rows(
    operands: Iterable[str], accumulators: Iterable[str], arch: int, *shapes: tuple[int, int, int]
) -> _Rows:
    return tuple((a, c, arch, shapes) for a in operands for c in accumulators)


# dtype of both operands, dtype of the accumulator, first architecture, shapes
_MMA: _Rows = (
    *_rows(["float16"], ["float16", "float32"], 75, (16, 8, 8)),
    *_rows(["float16"], ["float16", "float32"], 80, (16, 8, 16)),
    *_rows(["bfloat16"], ["float32"], 80, (16, 8, 8), (16, 8, 16)),
    *_rows([TF32], ["float32"], 80, (16, 8, 4), (16, 8, 8)),
    *_rows(["float64"], ["float64"], 80, (8, 8, 4)),
    *_rows(["float64"], ["float64"], 90, (16, 8, 4), (16, 8, 8), (16, 8, 16)),
    *_rows(_INT8, ["int32"], 75, (8, 8, 16)),
    *_rows(_INT8, ["int32"], 80, (16, 8, 16), (16, 8, 32)),
    *_rows(_INT4, ["int32"], 75, (8, 8, 32)),
    *_rows(_INT4, ["int32"], 80, (16, 8, 32), (16, 8, 64)),
    *_rows(_FP8, ["float16", "float32"], 89, (16, 8, 16), (16, 8, 32)),
)
_VOLTA_MMA: _Rows = _rows(["float16"], ["float16", "float32"], 70, (8, 8, 4))
"""Newer architectures take this shape as well, and compute it slowly."""
_WMMA_TILES = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
_WMMA: _Rows = (
    *_rows(["float16"], ["float16", "float32"], 70, *_WMMA_TILES),
    *_rows(_INT8, ["int32"], 72, *_WMMA_TILES),
    *_rows(["bfloat16"], ["float32"], 80, *_WMMA_TILES),
    *_rows([TF32], ["float32"], 80, (16, 16, 8)),
    *_rows(["float64"], ["float64"], 80, (8, 8, 4)),
    *_rows(_INT4, ["int32"], 75, (8, 8, 32)),
)
_FLOAT_WIDTHS = tuple(range(8, 257, 8))
_INTEGER_WIDTHS = (8, 16, 24, *range(32, 257, 16))
_WGMMA: _Rows = (
    *_rows(["float16"], ["float16", "float32"], 90, *((64, n, 16) for n in _FLOAT_WIDTHS)),
    *_rows(["bfloat16"], ["float32"], 90, *((64, n, 16) for n in _FLOAT_WIDTHS)),
    *_rows([TF32], ["float32"], 90, *((64, n, 8) for n in _FLOAT_WIDTHS)),
    *_rows(_FP8, ["float16", "float32"], 90, *((64, n, 32) for n in _FLOAT_WIDTHS)),
    *_rows(_INT8, ["int32"], 90, *((64, n, 32) for n in _INTEGER_WIDTHS)),
)
INSTRUCTIONS = ("mma", "wmma", "wgmma")
"""PTX's ``mma.sync`` of a warp, the tiles of C++'s ``nvcuda::wmma``, and ``wgmma.mma_async`` of four warps."""


def tensor_core_shapes(
    arch: str, dtype_a: str, dtype_acc: str, instruction: str = "mma"
) -> tuple[TensorCoreShape, ...]:
    """The shapes of one instruction's product on an architecture, smallest first; none where it has no such instruction.

    >>> tensor_core_shapes("sm_86", "float16", "float32")
    (TensorCoreShape(m=16, n=8, k=8), TensorCoreShape(m=16, n=8, k=16))
    >>> tensor_core_shapes("sm_75", "bfloat16", "float32")
    ()

    Args:
        arch: such as ``"sm_90a"``.
        dtype_a: of the operands; ``"tf32"`` for float32 operands that are rounded to 10 bits of fraction.
        dtype_acc: of the accumulator.
        instruction: ``"mma"``, ``"wmma"`` or ``"wgmma"``.

    Raises:
        TargetError: the architecture is not written so, or there is no such instruction on any.
    """
    number = architecture_number(arch)
    if instruction == "mma":
        rows = _MMA if number >= 75 else _VOLTA_MMA
    elif instruction == "wmma":
        rows = _WMMA
    elif instruction == "wgmma":
        rows = _WGMMA if has_warpgroup_mma(arch) else ()
    else:
        raise TargetError(f"tensor cores are asked by {', '.join(INSTRUCTIONS)}, got {instruction!r}")
    found = (
        TensorCoreShape(*shape)
        for a, c, first, shapes in rows
        if (a, c) == (dtype_a, dtype_acc) and number >= first
        for shape in shapes
    )
    return tuple(sorted(found, key=lambda shape: (shape.m * shape.n * shape.k, shape)))


def has_load_matrix(arch: str) -> bool:
    """``ldmatrix``: a warp loads 8 x 8 tiles of 16-bit elements from shared memory as operands of ``mma``."""
    return architecture_number(arch) >= 75


def has_store_matrix(arch: str) -> bool:
    """``stmatrix``: a warp stores such tiles to shared memory."""
    return architecture_number(arch) >= 90


def has_async_copy(arch: str) -> bool:
    """``cp.async``: copies of 4, 8 or 16 bytes from global to shared memory that threads do not wait for."""
    return architecture_number(arch) >= 80


def has_bulk_tensor_copy(arch: str) -> bool:
    """``cp.async.bulk.tensor``: one thread copies a box of a tensor."""
    return architecture_number(arch) >= 90


def has_clusters(arch: str) -> bool:
    """Clusters of blocks, which read each other's shared memory."""
    return architecture_number(arch) >= 90


def has_warpgroup_mma(arch: str) -> bool:
    """``wgmma``: only ``sm_90a`` has it, and neither ``sm_90``, whose code runs on what comes after, nor what comes after."""
    return arch == "sm_90a"
