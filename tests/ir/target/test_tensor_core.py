"""What tensor cores compute, by architecture: the tables against the assembler, and targets asked."""

from __future__ import annotations

from functools import lru_cache

import pytest

from ir.codegen.cuda.nvrtc import compile_cuda, supported_architectures
from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.error import CudaCompileError, CudaToolkitError
from ir.target import Target, TargetError
from ir.target.tensor_core import TensorCoreShape, tensor_core_shapes

ARCHS = (
    "sm_70",
    "sm_72",
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
_PTX = {
    "float16": "f16", "bfloat16": "bf16", "tf32": "tf32", "float64": "f64", "float32": "f32", "int8": "s8", "uint8": "u8", "int4": "s4",
    "uint4": "u4", "int32": "s32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip
_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "f32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "s32": 32, "e4m3": 8, "e5m2": 8,
}  # fmt: skip
_C = {"f": "float", "r": "unsigned", "d": "double"}
OPERANDS = [
    ("float16", "float16"), ("float16", "float32"), ("bfloat16", "float32"), ("tf32", "float32"), ("float64", "float64"), ("int8", "int32"),
    ("uint8", "int32"), ("int4", "int32"), ("uint4", "int32"), ("float8_e4m3fn", "float16"), ("float8_e4m3fn", "float32"),
    ("float8_e5m2", "float32"),
]  # fmt: skip


@pytest.fixture(scope="module")
def assembler() -> None:
    try:
        toolkit()
    except CudaToolkitError as error:
        pytest.skip(str(error))


def _registers(count: int, dtype: str) -> list[str]:
    """The registers of a thread for so many elements of a warp, by their letters in inline assembly."""
    if dtype in ("f32", "f64"):
        return [{"f32": "f", "f64": "d"}[dtype]] * (count // 32)
    return ["r"] * max(1, count * _BITS[dtype] // 32 // 32)


def _mma(shape: TensorCoreShape, a: str, c: str) -> str:
    """A kernel with one instruction of this shape."""
    m, n, k = shape
    if (shape, a) == ((8, 8, 4), "f16"):  # four products at once: each thread has a row of four elements
        groups = [["f"] * 8 if c == "f32" else ["r"] * 4, ["r"] * 2, ["r"] * 2]
    else:
        groups = [_registers(m * n, c), _registers(m * k, a), _registers(k * n, a)]
    results, inputs = groups[0], [*groups[1], *groups[2], *groups[0]]
    operands, position = [], 0
    for group in (*groups, groups[0]):
        operands.append("{" + ", ".join(f"%{position + i}" for i in range(len(group))) + "}")
        position += len(group)
    outputs = ", ".join(f'"={kind}"((({_C[kind]}*)p)[{i}])' for i, kind in enumerate(results))
    given = ", ".join(f'"{kind}"((({_C[kind]}*)p)[{64 + i}])' for i, kind in enumerate(inputs))
    instruction = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{c}.{a}.{a}.{c} {', '.join(operands)};"
    return f'asm volatile("{instruction}" : {outputs} : {given});'


@lru_cache(maxsize=None)
def _compiles(statements: str, arch: str, prelude: str = "") -> bool:
    try:
        compile_cuda(f'{prelude}\nextern "C" __global__ void f(void* p) {{ {statements} }}', arch)
    except CudaCompileError:
        return False
    return True


def _known(archs: tuple[str, ...] = ARCHS) -> list[str]:
    """The architectures that the assembler knows: newer ones have lost the oldest."""
    return [arch for arch in archs if int(arch[3:].rstrip("a")) in supported_architectures()]


@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize(("a", "c"), OPERANDS)
def test_the_assembler_takes_exactly_the_shapes_that_are_named(a: str, c: str):
    newest = {shape for arch in ARCHS if arch != "sm_70" for shape in tensor_core_shapes(arch, a, c)}
    assert newest
    for arch in _known(("sm_75", "sm_80", "sm_89", "sm_90")):
        taken = {shape for shape in newest if _compiles(_mma(shape, _PTX[a], _PTX[c]), arch)}
        named = set(tensor_core_shapes(arch, a, c))
        assert taken - {TensorCoreShape(8, 8, 4)} == named - {TensorCoreShape(8, 8, 4)}, arch
        assert named <= taken, arch


@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize("arch", ["sm_70", "sm_100a", "sm_120a"])
def test_the_oldest_and_the_newest_take_what_is_named(arch: str):
    if arch not in _known():
        pytest.skip(f"the assembler does not know {arch}")
    for a, c in OPERANDS:
        for shape in tensor_core_shapes(arch, a, c):
            assert _compiles(_mma(shape, _PTX[a], _PTX[c]), arch), (a, c, shape)


_WMMA_TYPES = {
    "float16": "half", "bfloat16": "__nv_bfloat16", "tf32": "precision::tf32", "float64": "double", "int8": "signed char",
    "uint8": "unsigned char", "int4": "experimental::precision::s4", "uint4": "experimental::precision::u4", "float32": "float",
    "int32": "int",
}  # fmt: skip


@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize("arch", ["sm_70", "sm_75", "sm_80", "sm_90a"])
def test_the_tiles_of_the_language_are_those_that_are_named(arch: str):
    if arch not in _known():
        pytest.skip(f"the assembler does not know {arch}")
    prelude = (
        "#include <mma.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nusing namespace nvcuda::wmma;"
    )
    for a, c in OPERANDS:
        if a.startswith("float8"):
            assert tensor_core_shapes(arch, a, c, "wmma") == ()
            continue
        for shape in tensor_core_shapes("sm_90a", a, c, "wmma"):
            m, n, k = shape
            of = f"{m}, {n}, {k}, {_WMMA_TYPES[a]}"
            statements = (
                f"fragment<matrix_a, {of}, row_major> a; fragment<matrix_b, {of}, col_major> b;"
                f" fragment<accumulator, {m}, {n}, {k}, {_WMMA_TYPES[c]}> c; fill_fragment(c, 0); mma_sync(c, a, b, c);"
            )
            named = shape in tensor_core_shapes(arch, a, c, "wmma")
            assert _compiles(statements, arch, prelude) == named, (a, c, shape)


_FEATURES = {
    "supports_load_matrix": (
        'asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(*(unsigned*)p) : "r"(0));'
    ),
    "supports_store_matrix": 'asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" :: "r"(0), "r"(1));',
    "supports_async_copy": 'asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(0), "l"(p));',
    "supports_bulk_tensor_copy": (
        'asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];"'
        ' :: "r"(0), "l"(p), "r"(0), "r"(0));'
    ),
    "supports_clusters": 'asm volatile("barrier.cluster.arrive;"); asm volatile("barrier.cluster.wait;");',
    "supports_warpgroup_mma": 'asm volatile("wgmma.fence.sync.aligned;");',
}


@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize("feature", _FEATURES)
def test_instructions_are_there_where_the_target_says_so(feature: str):
    said = {arch: getattr(Target({"kind": "cuda", "arch": arch}), feature) for arch in _known()}
    assert said == {arch: _compiles(_FEATURES[feature], arch) for arch in said}
    assert True in said.values() and False in said.values()


@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize(
    ("a", "c", "shape"),
    [("f16", "f32", (64, 16, 16)), ("s8", "s32", (64, 48, 32)), ("e4m3", "f32", (64, 8, 32))],
)
def test_a_product_of_four_warps_is_assembled(a: str, c: str, shape: tuple[int, int, int]):
    dtype = next(name for name, ptx in _PTX.items() if ptx == a)
    named = tensor_core_shapes("sm_90a", dtype, {"f32": "float32", "s32": "int32"}[c], "wgmma")
    assert TensorCoreShape(*shape) in named
    m, n, k = shape
    kind = "f" if c == "f32" else "r"
    count = m * n // 128
    registers = "{" + ", ".join(f"%{i}" for i in range(count)) + "}"
    signs = {"f16": ", 1, 1, 0, 0", "e4m3": ", 1, 1", "s8": ""}[a]
    outputs = ", ".join(f'"+{kind}"((({_C[kind]}*)p)[{i}])' for i in range(count))
    text = (
        f'asm volatile("wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{c}.{a}.{a} {registers},'
        f' %{count}, %{count + 1}, 1{signs}; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"'
        f' : {outputs} : "l"(((long long*)p)[90]), "l"(((long long*)p)[91]));'
    )
    assert _compiles(text, "sm_90a")


def test_shapes_are_asked_of_a_target_and_come_smallest_first():
    target = Target("nvidia/geforce-rtx-3090")
    assert target.tensor_core_shapes("float16", "float32") == ((16, 8, 8), (16, 8, 16))
    assert target.tensor_core_shapes("float16", "float32", "wmma") == ((8, 32, 16), (16, 16, 16), (32, 8, 16))
    assert target.tensor_core_shapes("float16", "float32", "wgmma") == ()
    assert target.tensor_core_shapes("float32", "float32") == ()
    assert Target("nvidia/tesla-v100").tensor_core_shapes("float16", "float32") == ((8, 8, 4),)
    assert Target("nvidia/tesla-p100").tensor_core_shapes("float16", "float32") == ()
    wide = Target("nvidia/h100").tensor_core_shapes("bfloat16", "float32", "wgmma")
    assert wide[0] == (64, 8, 16) and wide[-1] == (64, 256, 16) and len(wide) == 32


@pytest.mark.parametrize("text", ["llvm", "rocm -arch=gfx90a", "vulkan", "nvptx"])
def test_targets_without_an_architecture_of_cuda_have_none_of_it(text: str):
    target = Target(text)
    assert target.compute_capability is None
    assert target.tensor_core_shapes("float16", "float32") == ()
    assert not any(getattr(target, feature) for feature in _FEATURES)


def test_wrong_questions_are_refused():
    with pytest.raises(TargetError, match="asked by mma, wmma, wgmma, got 'dp4a'"):
        tensor_core_shapes("sm_80", "int8", "int32", "dp4a")
    with pytest.raises(TargetError, match=r"written as in 'sm_80' or 'sm_90a', got 'gfx90a'"):
        Target("cuda -arch=gfx90a")
