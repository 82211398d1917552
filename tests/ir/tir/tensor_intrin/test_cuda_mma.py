"""Intrinsics of ``mma``: each computes what its description says, in threads, in the C++ that is generated, and with the instructions."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

from ir import IRModule
from ir import dtype as dt
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.compile import has_compiler
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.codegen.cuda.nvrtc import compile_cuda
from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.error import CudaToolkitError
from ir.error import IRValueError
from ir.script import from_source
from ir.target import Target
from ir.tir import Buffer, PrimFunc, TensorIntrin
from ir.tir.interpreter import run
from ir.tir.lower import lower
from ir.tir.tensor_intrin import cuda, get_mma_intrin_group
from schedules import Schedule
from tests.programs.tensor_cores import drawn

TARGET = Target("nvidia/nvidia-h200")
NAMES = [name for name in TensorIntrin.names() if name.startswith("mma_")]
FP8 = ("e4m3", "e5m2")


def has_nvrtc() -> bool:
    try:
        return toolkit().has_headers
    except CudaToolkitError:
        return False


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC with headers")


# ---- a kernel of one warp around an intrinsic ------------------------------------------------------------------------
def described(name: str) -> tuple[list[Buffer], list[str], list[Buffer]]:
    """The buffers of a description, the lines of its nest, and what it writes."""
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    lines = intrin.desc.script().splitlines()
    begin = next(at for at, line in enumerate(lines) if line.strip().startswith("for "))
    written = [region.buffer for region in intrin.desc.body.block.writes]  # type: ignore[attr-defined]
    return list(intrin.desc.buffer_map.values()), [line[8:] for line in lines[begin:]], written


def copy(buffer: Buffer, source: str, target: str) -> list[str]:
    """By 32 threads: rows that they share, or what each lane has."""
    rows, columns = (int(extent) for extent in buffer.shape)
    count = rows * columns // 32
    place = (
        "tx, e"
        if buffer.scope() == "warp"
        else f"(tx * {count} + e) // {columns}, (tx * {count} + e) % {columns}"
    )
    return [
        'for tx in T.thread_binding(32, thread="threadIdx.x"):',
        f"    for e in range({count}):",
        f"        {target}[{place}] = {source}[{place}]",
    ]


def kernel(name: str) -> PrimFunc:
    """What the intrinsic needs comes from global memory, and what it makes goes there. Rows of shared memory begin 16 bytes behind each
    other's ends, so that no offset is right by chance."""
    buffers, nest, written = described(name)
    inside = [buffer for buffer in buffers if buffer.scope() != "global"]
    params = [buffer.name + ("_given" if buffer in inside else "") for buffer in buffers]
    types = [f'T.Buffer({tuple(map(int, buffer.shape))}, "{buffer.dtype}")' for buffer in buffers]
    lines = [
        f"@T.prim_func\ndef {name}({', '.join(f'{p}: {t}' for p, t in zip(params, types, strict=True))}):"
    ]
    lines += ['    for bx in T.thread_binding(1, thread="blockIdx.x"):', '        with T.block("whole"):']
    body = []
    for buffer in inside:
        rows, columns = map(int, buffer.shape)
        gap = 0 if buffer.scope() == "warp" else 16 // dt.bytes_of(buffer.dtype)
        body.append(
            f'{buffer.name} = T.alloc_buffer(({rows}, {columns + gap}), "{buffer.dtype}", scope="{buffer.scope()}")'
        )
    body += chain.from_iterable(copy(item, f"{item.name}_given", item.name) for item in inside)
    body += nest
    body += chain.from_iterable(
        copy(item, item.name, f"{item.name}_given") for item in inside if item in written
    )
    sch = Schedule(from_source("\n".join([*lines, *[f"            {line}" for line in body]])))
    block = sch.get_block(str(nest_block(nest)))
    sch.tensorize(sch.get_loops(block)[0], name)
    return sch.mod["main"].with_attr("global_symbol", name)


def nest_block(nest: list[str]) -> str:
    return next(line for line in nest if "T.block" in line).split('"')[1]


def arrays(name: str) -> list[np.ndarray]:
    """Numbers for the buffers of a description; operands that tensor cores read as tf32 have more bits than that."""
    return [drawn(tuple(map(int, item.shape)), item.dtype, at) for at, item in enumerate(described(name)[0])]


def expected(name: str) -> list[np.ndarray]:
    """What the description computes."""
    intrin, found = TensorIntrin.get(name), arrays(name)
    assert intrin is not None
    run(intrin.desc, *found)
    return found


def is_close(found: np.ndarray, right: np.ndarray, tolerance: float) -> bool:
    """Sums are added in another order, and rounded once."""
    if not tolerance:
        return found.tobytes() == right.tobytes()
    wide, other = found.astype("float64"), right.astype("float64")
    return bool(np.abs(wide - other).max() <= tolerance * max(1.0, np.abs(other).max()))


def tolerance_of(name: str) -> float:
    """Of products of floats, in parts of the largest result."""
    if name.startswith(("mma_ldmatrix", "mma_fill", "mma_store")) or "i32" in name:
        return 0.0
    return 2e-2 if "f16" in name.split("_")[1][-3:] else 1e-6


KINDS = {
    "loads": [name for name in NAMES if name.startswith("mma_ldmatrix")],
    "sums": [name for name in NAMES if name.startswith(("mma_fill", "mma_store"))],
    "products": [name for name in NAMES if not name.startswith(("mma_ldmatrix", "mma_fill", "mma_store"))],
}


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_implementations_compute_what_descriptions_say(kind: str) -> None:
    """In the interpreter's threads, and in the generated C++ on the processor: one module of kernels, each of an intrinsic."""
    names = KINDS[kind]
    lowered = lower(IRModule({name: kernel(name) for name in names}), TARGET)
    emulated = EmulatedProgram(lowered, generate(lowered))
    wrong = []
    for name in names:
        right = expected(name)
        for what in (emulated, lambda *given, name: run(lowered, *given, name=name)):
            found = arrays(name)
            what(*found, name=name)
            if not all(is_close(a, b, tolerance_of(name)) for a, b in zip(found, right, strict=True)):
                wrong.append(name)
    assert not wrong
    assert len(names) == {"loads": 56, "sums": 39, "products": 72}[kind]


@needs_nvrtc
@pytest.mark.parametrize(("arch", "has_fp8"), [("sm_80", False), ("sm_89", True), ("sm_90a", True)])
def test_they_are_the_instructions(arch: str, has_fp8: bool) -> None:
    names = [name for name in NAMES if has_fp8 or not any(item in name for item in FP8)]
    lowered = lower(IRModule({name: kernel(name) for name in names}), TARGET)
    code = compile_cuda(generate(lowered).text, arch)
    assert not code.warnings
    entries = {part.split("(")[0].split()[-1]: part for part in code.ptx.split(".entry")[1:]}
    for name in names:
        ptx = entries[f"{name}_kernel"]
        if name in KINDS["products"]:
            assert ptx.count("mma.sync.aligned") == (4 if "_k8" in name else 2), name
        elif name in KINDS["loads"]:
            dtype, side, *rest = name.removeprefix("mma_ldmatrix_").split("_")
            by_rows = (side == "b") == ("trans" in rest)
            assert ("ldmatrix.sync" in ptx) == (by_rows or dtype in ("f16", "bf16")), name
            assert (".trans" in ptx) == (not by_rows and dtype in ("f16", "bf16")), name


# ---- names -----------------------------------------------------------------------------------------------------------
def test_names_are_those_of_the_field() -> None:
    assert cuda.LDMATRIX_f16_A_INTRIN == "mma_ldmatrix_f16_a"  # type: ignore[attr-defined]
    assert cuda.LDMATRIX_f16_B_TRANS_DYN_INTRIN == "mma_ldmatrix_f16_b_trans_dyn"  # type: ignore[attr-defined]
    assert cuda.LDMATRIX_i8_A_DYN_INTRIN == "mma_ldmatrix_i8_a_dyn"  # type: ignore[attr-defined]
    assert cuda.LDMATRIX_e4m3_B_TRANS_INTRIN == "mma_ldmatrix_e4m3_b_trans"  # type: ignore[attr-defined]
    assert cuda.MMA_f16f16f32_TRANS_A_TRANS_B_INTRIN == "mma_f16f16f32_trans_a_trans_b"  # type: ignore[attr-defined]
    assert cuda.MMA_i8i8i32_TRANS_B_INTRIN == "mma_i8i8i32_trans_b"  # type: ignore[attr-defined]
    assert cuda.MMA_e5m2e5m2f32_INTRIN == "mma_e5m2e5m2f32"  # type: ignore[attr-defined]
    assert cuda.MMA_fill_16x16_f32_INTRIN == "mma_fill_16x16_f32"  # type: ignore[attr-defined]
    assert cuda.MMA_store_16x16_f32_global_INTRIN == "mma_store_16x16_f32_global_"  # type: ignore[attr-defined]
    assert cuda.MMA_store_16x16_f32_shared_dyn_simple_INTRIN == "mma_store_16x16_f32_shared_dyn_simple_"  # type: ignore[attr-defined]


def test_layouts_are_those_of_the_field() -> None:
    for i, j in np.ndindex(16, 16):
        place = (4 * (i % 8) + (j % 8) // 2, 4 * (j // 8) + (i // 8) * 2 + j % 2)
        assert cuda.shared_16x16_to_ldmatrix_32x8_layout(i, j) == place
    for i, j in np.ndindex(16, 32):
        place = (4 * (i % 8) + (j % 16) // 4, 8 * (j // 16) + (i // 8) * 4 + j % 4)
        assert cuda.shared_16x32_to_ldmatrix_32x16_layout(i, j) == place
        place = ((j % 16) // 4 + 4 * (i % 8), 8 * (i // 8) + (j // 16) * 4 + j % 4)
        assert cuda.shared_32x16_to_ldmatrix_32x16_layout(j, i) == place


def test_groups() -> None:
    group = get_mma_intrin_group("shared.dyn", "shared", "float16", "float32", False, True, True, "float16")
    maps: Any = group.pop("index_map")
    assert group == {
        "init": "mma_fill_16x16_f32",
        "load_a": "mma_ldmatrix_f16_a_dyn",
        "load_b": "mma_ldmatrix_f16_b_trans_dyn",
        "compute": "mma_f16f16f32_trans_b",
        "store": "mma_store_16x16_f32_f16_shared_simple_",
    }
    assert [item(9, 3) for item in maps] == [(5, 3), (5, 5), (5, 3)]
    assert set(group.values()) < set(TensorIntrin.names())
    halves = get_mma_intrin_group("shared", "global", "float16", "float32", False, True, in_halves=True)
    assert halves["compute"] == "mma_f16f16f32_k8_trans_b"
    stored = get_mma_intrin_group("shared", "global", "int8", "int32", True, False, False)
    assert (stored["store"], stored["load_a"]) == ("mma_store_16x16_i32_global_", "mma_ldmatrix_i8_a_trans")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("shared", "shared", "float64", "float64", False, False), "float64"),
        (("shared", "shared", "float32", "float32", False, False), "there is no mma"),
        (("global", "shared", "float16", "float32", False, False), "'global'"),
        (("shared", "shared", "float16", "float32", False, False, False, "float16"), "by pairs only"),
    ],
)
def test_what_there_is_not_is_refused(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(IRValueError, match=says):
        get_mma_intrin_group(*arguments)


def test_only_float16_is_multiplied_in_halves() -> None:
    with pytest.raises(IRValueError, match="no mma in halves for products of int8"):
        get_mma_intrin_group("shared", "global", "int8", "int32", False, False, in_halves=True)
