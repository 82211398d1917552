"""How many products tensor cores of a multiprocessor add up in a cycle, on each CUDA architecture.

The figures follow from the peaks that NVIDIA's data sheets give of dense matrices: FLOP/s / (2 * multiprocessors * clock). V100
125 TFLOP/s, T4 65 (int8: 130), A100 312 (tf32 156, int8 624, float64 19.5), A10 125, L4 121, H100 989 (at 1.83 GHz; tf32 495, int8
and float8 1979). They were written down from memory, like those of :mod:`.cuda_cards`.

What a warp multiplies (``mma``, ``wmma``) does not reach the peak of Hopper, whose tensor cores are fed by ``wgmma``: 62 % of it (Luo et
al.: "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", 2024). What warps reach on Blackwell's
data-centre GPUs is not known here; they count as Ampere's.
"""

from __future__ import annotations

from .gpu_facts import architecture_number
from .tensor_core import TF32, tensor_core_shapes

_COLUMNS = (
    "float16",
    "bfloat16",
    TF32,
    "float64",
    "int8",
    "uint8",
    "int4",
    "uint4",
    "float8_e4m3fn",
    "float8_e5m2",
)
_ROWS = {
    70: (512, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    72: (512, 0, 0, 0, 1024, 1024, 0, 0, 0, 0),
    75: (512, 0, 0, 0, 1024, 1024, 2048, 2048, 0, 0),
    80: (1024, 1024, 512, 64, 2048, 2048, 4096, 4096, 0, 0),
    86: (512, 512, 256, 2, 1024, 1024, 2048, 2048, 0, 0),
    87: (1024, 1024, 512, 2, 2048, 2048, 4096, 4096, 0, 0),
    89: (512, 512, 256, 2, 1024, 1024, 2048, 2048, 1024, 1024),
    90: (2048, 2048, 1024, 128, 4096, 4096, 4096, 4096, 4096, 4096),
    100: (1024, 1024, 512, 64, 2048, 2048, 2048, 2048, 2048, 2048),
    120: (512, 512, 256, 2, 1024, 1024, 1024, 1024, 1024, 1024),
}  # fmt: skip
"""From each architecture on, of operands of a type."""
_HOPPER = 90
_OF_WARPS_ON_HOPPER = 0.62


def tensor_core_rate(
    arch: str, dtype_a: str, dtype_acc: str, instruction: str = "mma", halves_float32_sums: bool = False
) -> float:
    """Multiply-adds of a cycle of a multiprocessor's tensor cores; 0 where they have no such products.

    >>> tensor_core_rate("sm_80", "float16", "float32"), tensor_core_rate("sm_75", "bfloat16", "float32")
    (1024.0, 0.0)

    Args:
        arch: such as ``"sm_90a"``.
        dtype_a: of the operands; ``"tf32"`` for float32 operands that are rounded to 10 bits of fraction.
        dtype_acc: of the accumulator.
        instruction: ``"mma"``, ``"wmma"`` or ``"wgmma"``.
        halves_float32_sums: whether sums of float32 take twice as long, as on cards for desktops.

    Raises:
        TargetError: the architecture is not written so, or there is no such instruction on any.
    """
    if not tensor_core_shapes(arch, dtype_a, dtype_acc, instruction):
        return 0.0
    number = architecture_number(arch)
    row = _ROWS[max(first for first in _ROWS if first <= number)]
    rate = float(row[_COLUMNS.index(dtype_a)])
    if halves_float32_sums and dtype_acc == "float32":
        rate /= 2
    of_warps = number // 10 == _HOPPER // 10 and instruction != "wgmma"
    return rate * _OF_WARPS_ON_HOPPER if of_warps else rate
