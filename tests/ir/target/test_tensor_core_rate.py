"""What tensor cores multiply in a cycle: against the peaks that data sheets give of cards."""

from __future__ import annotations

import pytest

from ir.target import Target, TargetError
from ir.target.tensor_core import INSTRUCTIONS
from ir.target.tensor_core_rate import tensor_core_rate


@pytest.mark.parametrize(
    ("card", "operand", "sums", "tera"),
    [
        ("tesla-v100", "float16", "float32", 125),
        ("tesla-t4", "float16", "float32", 65),
        ("tesla-t4", "int8", "int32", 130),
        ("nvidia-a100", "float16", "float32", 312),
        ("nvidia-a100", "bfloat16", "float32", 312),
        ("nvidia-a100", "tf32", "float32", 156),
        ("nvidia-a100", "int8", "int32", 624),
        ("nvidia-a100", "float64", "float64", 19.5),
        ("nvidia-a10", "float16", "float32", 125),
        ("nvidia-l4", "float16", "float32", 121),
        ("geforce-rtx-2080-ti", "float16", "float32", 53.8),
        ("geforce-rtx-3090", "float16", "float16", 142),
        ("geforce-rtx-3090", "bfloat16", "float32", 71),
        ("geforce-rtx-3090", "tf32", "float32", 35.6),
        ("geforce-rtx-4090", "float16", "float16", 330.3),
        ("geforce-rtx-4090", "float16", "float32", 165.2),
        ("geforce-rtx-4090", "tf32", "float32", 82.6),
        ("geforce-rtx-4090", "int8", "int32", 660.6),
        ("geforce-rtx-4090", "float8_e4m3fn", "float32", 330.3),
        ("nvidia-h200", "float16", "float32", 989),
        ("nvidia-h200", "tf32", "float32", 495),
        ("nvidia-h200", "int8", "int32", 1979),
        ("nvidia-h200", "float8_e5m2", "float32", 1979),
    ],
)
def test_peaks_are_those_of_data_sheets(card: str, operand: str, sums: str, tera: float) -> None:
    """Operations in a second, dense; those of Hopper are given at a lower clock than the highest one."""
    target = Target(f"nvidia/{card}")
    rate = max(target.tensor_core_rate(operand, sums, instruction) for instruction in INSTRUCTIONS)
    peak = 2 * rate * target.multi_processor_count * target.clock_mhz * 1e6
    assert tera * 0.97 < peak / 1e12 < tera * 1.1


def test_warps_do_not_reach_what_groups_of_warps_do() -> None:
    warps, groups = (tensor_core_rate("sm_90a", "float16", "float32", item) for item in ("mma", "wgmma"))
    assert 0.5 * groups < warps < 0.75 * groups
    assert tensor_core_rate("sm_90a", "float16", "float32", "wmma") == warps


def test_there_is_no_rate_where_there_are_no_products() -> None:
    assert tensor_core_rate("sm_75", "bfloat16", "float32") == 0
    assert tensor_core_rate("sm_90", "float16", "float32", "wgmma") == 0
    assert Target("llvm").tensor_core_rate("float16", "float32") == 0
    with pytest.raises(TargetError, match="sm_80"):
        tensor_core_rate("hopper", "float16", "float32")


def test_every_shape_has_a_rate() -> None:
    from ir.target.tensor_core import _MMA, _WGMMA, _WMMA

    for instruction, rows in (("mma", _MMA), ("wmma", _WMMA), ("wgmma", _WGMMA)):
        for operand, sums, first, _ in rows:
            arch = "sm_90a" if instruction == "wgmma" else f"sm_{first}"
            assert tensor_core_rate(arch, operand, sums, instruction) > 0, (arch, operand, sums)
