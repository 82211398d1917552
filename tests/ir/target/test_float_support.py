"""Which floats architectures compute with and convert: the table against the assembler."""

from __future__ import annotations

import pytest

from ir.codegen.cuda.nvrtc import compile_cuda, supported_architectures
from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.error import CudaCompileError, CudaToolkitError
from ir.target.float_support import has_arithmetic, has_conversion, has_half_extremes
from ir.target.gpu_facts import architecture_number

ARCHS = (
    "sm_60",
    "sm_70",
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_87",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100a",
    "sm_120a",
)
ARITHMETIC = {
    "float16": "fma.rn.f16 %0, %1, %1, %1;",
    "bfloat16": "fma.rn.bf16 %0, %1, %1, %1;",
}
CONVERSION = {
    "float16": "{.reg .f32 x; mov.f32 x, 0f3F800000; cvt.rn.f16.f32 %0, x;}",
    "bfloat16": "{.reg .f32 x; mov.f32 x, 0f3F800000; cvt.rn.bf16.f32 %0, x;}",
    "float8_e4m3fn": "{.reg .f32 x; mov.f32 x, 0f3F800000; cvt.rn.satfinite.e4m3x2.f32 %0, x, x;}",
    "float8_e5m2": "{.reg .f32 x; mov.f32 x, 0f3F800000; cvt.rn.satfinite.e5m2x2.f32 %0, x, x;}",
}


@pytest.fixture(scope="module")
def assembler() -> None:
    try:
        toolkit()
    except CudaToolkitError as error:
        pytest.skip(str(error))


def _is_accepted(instruction: str, arch: str) -> bool:
    body = f'asm volatile("{instruction}" : "=h"(y) : "h"(x));'
    source = (
        f'extern "C" __global__ void k(unsigned short* p) {{ unsigned short x = *p, y = 0; {body} *p = y; }}'
    )
    try:
        compile_cuda(source, arch)
    except CudaCompileError:
        return False
    return True


@pytest.mark.parametrize("arch", ARCHS)
def test_the_table_is_the_assemblers(assembler: None, arch: str) -> None:
    if architecture_number(arch) not in supported_architectures():
        pytest.skip(f"NVRTC does not know {arch}")
    number = architecture_number(arch)
    for dtype, instruction in ARITHMETIC.items():
        assert has_arithmetic(dtype, number) == _is_accepted(instruction, arch), dtype
    for dtype, instruction in CONVERSION.items():
        assert has_conversion(dtype, number) == _is_accepted(instruction, arch), dtype
    extreme = "{.reg .b16 x; mov.b16 x, %1; max.NaN.f16 x, x, x; mov.b16 %0, x;}"
    assert has_half_extremes(number) == _is_accepted(extreme, arch)


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e8m0fnu", "float4_e2m1fn", "float8_e5m2"])
def test_nothing_computes_with_eight_bits(dtype: str) -> None:
    assert not has_arithmetic(dtype, 120)


def test_other_formats_are_not_converted() -> None:
    assert not has_conversion("float8_e4m3", 120)
