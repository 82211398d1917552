"""Tensor cores and asynchronous copies in CUDA C++: what is printed, for which architectures it compiles, and what it computes."""

from __future__ import annotations

import numpy as np
import pytest

from ir import dtype as dt
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.codegen.cuda.prelude_text import prelude_functions, prelude_text
from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.error import CodegenError, CudaToolkitError
from ir.script import from_source
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower
from tests.programs.tensor_cores import LDMATRIX, STMATRIX, drawn, mma_product, wmma_product

TARGET = Target("nvidia/nvidia-h200")
needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")


def has_nvrtc() -> bool:
    try:
        return toolkit().has_headers
    except CudaToolkitError:
        return False


needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC with headers")


def check(func: PrimFunc, arrays: list[np.ndarray], expected: np.ndarray, tolerance: float) -> None:
    """The emulation and the interpreter, of what is lowered and of the program itself, compute the same."""
    lowered = lower(func, TARGET)
    for what in (
        EmulatedProgram(lowered, generate(lowered)),
        lambda *given: run(lowered, *given),
        lambda *given: run(func, *given),
    ):
        out = np.zeros(expected.shape, expected.dtype)
        what(*arrays, out)
        if tolerance:
            error = np.abs(out.astype("float64") - expected.astype("float64")).max()
            assert error <= tolerance * max(1.0, np.abs(expected.astype("float64")).max())
        else:
            assert np.array_equal(out, expected)


def product(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    if dt.is_integral(dtype):
        return (a.astype("int64") @ b.astype("int64")).astype(dtype)
    return (a.astype("float64") @ b.astype("float64")).astype(dt.to_numpy(dtype))


def as_tf32(values: np.ndarray) -> np.ndarray:
    """Rounded to 10 bits of fraction, ties away from zero."""
    return ((values.view("uint32") + 0x1000) & 0xFFFFE000).view("float32")


WMMA = [
    ((16, 16, 16), "float16", "float32", 70, 1e-5),
    ((32, 8, 16), "float16", "float16", 70, 2e-3),
    ((8, 32, 16), "bfloat16", "float32", 80, 1e-5),
    ((16, 16, 8), "float32", "float32", 80, 1e-5),
    ((16, 16, 16), "int8", "int32", 72, 0),
    ((16, 16, 16), "uint8", "int32", 72, 0),
]


@needs_compiler
@pytest.mark.parametrize("columns", [(False, False), (True, True)])
@pytest.mark.parametrize(("shape", "dtype", "total", "arch", "tolerance"), WMMA)
def test_fragments(
    shape: tuple[int, int, int],
    dtype: str,
    total: str,
    arch: int,
    tolerance: float,
    columns: tuple[bool, bool],
) -> None:
    m, n, k = shape
    a, b = drawn((2 * m, 3 * k), dtype, 0), drawn((3 * k, 2 * n), dtype, 1)
    read = [as_tf32(item) if dtype == "float32" else item for item in (a, b)]
    stored = [np.ascontiguousarray(item.T if by else item) for item, by in zip((a, b), columns, strict=True)]
    check(wmma_product(shape, dtype, total, columns), stored, product(*read, total), tolerance)


@needs_nvrtc
@pytest.mark.parametrize(("shape", "dtype", "total", "arch", "tolerance"), WMMA)
def test_fragments_compile(
    shape: tuple[int, int, int], dtype: str, total: str, arch: int, tolerance: float
) -> None:
    source = generate(lower(wmma_product(shape, dtype, total), TARGET)).text
    assert "#include <mma.h>" in source
    for name in (f"sm_{max(arch, 75)}", "sm_90a"):
        code = compile_cuda(source, name)
        assert not code.warnings
        assert "wmma.mma.sync" in code.ptx


MMA = [
    ((16, 8, 8), ("fp16", "fp16", "fp32"), ("float16", "float16", "float32"), 75, 1e-5),
    ((16, 8, 8), ("fp16", "fp16", "fp16"), ("float16", "float16", "float16"), 75, 5e-3),
    ((16, 8, 16), ("fp16", "fp16", "fp32"), ("float16", "float16", "float32"), 80, 1e-5),
    ((16, 8, 16), ("bf16", "bf16", "fp32"), ("bfloat16", "bfloat16", "float32"), 80, 1e-5),
    ((16, 8, 8), ("tf32", "tf32", "fp32"), ("float32", "float32", "float32"), 80, 1e-5),
    ((8, 8, 4), ("fp64", "fp64", "fp64"), ("float64", "float64", "float64"), 80, 1e-12),
    ((8, 8, 16), ("int8", "int8", "int32"), ("int8", "int8", "int32"), 75, 0),
    ((16, 8, 32), ("int8", "uint8", "int32"), ("int8", "uint8", "int32"), 80, 0),
]


@needs_compiler
@pytest.mark.parametrize(("shape", "types", "dtypes", "arch", "tolerance"), MMA)
def test_products_of_registers(
    shape: tuple[int, int, int],
    types: tuple[str, str, str],
    dtypes: tuple[str, str, str],
    arch: int,
    tolerance: float,
) -> None:
    m, n, k = shape
    a, b = drawn((m, k), dtypes[0], 0), drawn((k, n), dtypes[1], 1)
    if types[0] == "tf32":  # so that it does not matter how registers that are no tf32 are read
        a, b = as_tf32(a), as_tf32(b)
    expected = product(a, b, "int64" if dtypes[2] == "int32" else "float64") * 2
    check(mma_product(shape, types, dtypes), [a, b], expected.astype(dt.to_numpy(dtypes[2])), tolerance)


@needs_nvrtc
@pytest.mark.parametrize(("shape", "types", "dtypes", "arch", "tolerance"), MMA)
def test_products_of_registers_compile(
    shape: tuple[int, int, int],
    types: tuple[str, str, str],
    dtypes: tuple[str, str, str],
    arch: int,
    tolerance: float,
) -> None:
    source = generate(lower(mma_product(shape, types, dtypes), TARGET)).text
    for name in (f"sm_{arch}", "sm_90a"):
        code = compile_cuda(source, name)
        assert not code.warnings
        assert "mma.sync.aligned" in code.ptx


@needs_compiler
def test_matrices_from_shared_memory() -> None:
    a, b = drawn((16, 16), "float16", 0), drawn((16, 8), "float16", 1)
    check(from_source(LDMATRIX), [a, b], product(a, b, "float32"), 1e-5)


@needs_compiler
@pytest.mark.parametrize("is_transposed", [False, True])
def test_matrices_to_shared_memory(is_transposed: bool) -> None:
    a = drawn((16, 16), "float16", 0)
    row = "tx % 8 * 16 + tx // 16 * 128 + tx // 8 % 2 * 8" if is_transposed else "tx % 16 * 16 + tx // 16 * 8"
    check(
        from_source(STMATRIX.format(trans=is_transposed, row=row)),
        [a],
        np.array(a.T if is_transposed else a),
        0,
    )


@needs_nvrtc
def test_loads_and_stores_of_matrices_compile() -> None:
    for text, word, arch in (
        (LDMATRIX, "ldmatrix.sync", "sm_80"),
        (STMATRIX.format(trans=False, row="tx % 16 * 16 + tx // 16 * 8"), "stmatrix.sync", "sm_90"),
    ):
        code = compile_cuda(generate(lower(from_source(text), TARGET)).text, arch)
        assert not code.warnings
        assert word in code.ptx


def test_the_source_holds_what_it_calls_of_the_prelude() -> None:
    text = generate(lower(from_source(LDMATRIX), TARGET)).text
    assert text.count("PTX_MMA_A4_B2_F32(") == 2  # the macro, and its use
    assert "ptx_ldmatrix_x4" in text
    assert "ptx_ldmatrix_x1" not in text
    assert "cp_async" not in text


@needs_nvrtc
def test_every_function_of_the_prelude_is_found() -> None:
    for name in sorted(prelude_functions()):
        assert name in prelude_text([name]) or "PTX_CP_ASYNC(" in prelude_text([name])
    every = prelude_text(prelude_functions())
    assert not compile_cuda(every + '\nextern "C" __global__ void f() {}', "sm_90a").warnings


ASYNC = """@T.prim_func
def main(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (256,), "float32")
    B = T.match_buffer(b, (128,), "float32")
    tx = T.launch_thread("threadIdx.x", 32)
    memory = T.decl_buffer((128,), "float32", scope="shared")
    T.evaluate(T.ptx_cp_async("float32", memory.data, tx * 4, A.data, tx * 4 + 64, 16{predicate}))
    T.evaluate(T.ptx_commit_group())
    T.evaluate(T.ptx_wait_group(0))
    T.evaluate(T.tvm_storage_sync("shared"))
    for i in range(4):
        B[tx * 4 + i] = memory[127 - tx * 4 - i]
"""


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("predicate", ["", ", tx < 20"])
def test_asynchronous_copies(predicate: str) -> None:
    func = from_source(ASYNC.format(predicate=predicate))
    a = drawn((256,), "float32", 0)
    copied = a[64:192].copy()
    copied[80 if predicate else 128 :] = 0
    check(func, [a], copied[::-1].copy(), 0)
    source = generate(lower(func, TARGET)).text
    assert "const float*" in source
    code = compile_cuda(source, "sm_80")
    assert not code.warnings
    assert "cp.async.cg.shared.global" in code.ptx


def test_what_has_no_instruction_is_refused() -> None:
    func = mma_product((16, 8, 8), ("fp16", "fp16", "fp32"), ("float16", "float16", "float32"))
    wrong = from_source(func.script().replace("m16n8k8", "m16n8k12"))
    with pytest.raises(CodegenError, match="ptx_mma_m16n8k12_f16_f16_f32"):
        generate(lower(wrong, TARGET))
    wrong = from_source(func.script().replace('"row", "col"', '"row", "row"'))
    with pytest.raises(CodegenError, match="A by rows and B by columns"):
        generate(lower(wrong, TARGET))


DP4A = """@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (128,), "int8")
    B = T.match_buffer(b, (128,), "int8")
    C = T.match_buffer(c, (32,), "int32")
    tx = T.launch_thread("threadIdx.x", 32)
    C[tx] = T.dp4a(A[tx * 4 : tx * 4 + 4], B[tx * 4 : tx * 4 + 4], tx)
"""


@needs_compiler
@needs_nvrtc
def test_sums_of_four_products_of_bytes() -> None:
    a, b = drawn((128,), "int8", 0), drawn((128,), "int8", 1)
    expected = (a.astype("int32") * b).reshape(32, 4).sum(1, dtype="int32") + np.arange(32, dtype="int32")
    check(from_source(DP4A), [a, b], expected, 0)
    code = compile_cuda(generate(lower(from_source(DP4A), TARGET)).text, "sm_75")
    assert not code.warnings
    assert "dp4a.s32.s32" in code.ptx
