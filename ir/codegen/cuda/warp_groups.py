"""Barriers with transactions, bulk copies, tensor maps and products of warp groups, as a kernel's source has them."""

from __future__ import annotations

import re

from ...tir import expr as E
from ...tir.intrinsic.bulk_copies import is_tensor_map
from ...tir.intrinsic.matrix_types import ptx_type
from ..error import CodegenError
from .emitter import KernelEmitter, Lanes
from .prelude_text import prelude_functions
from .text import Text, binary, call

TENSOR_MAP = "CUtensorMap"
"""The type of a parameter that is a tensor map."""
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_STEP_BYTES = 32
"""Of k of one product."""
_MOST_COLUMNS = 256
_SUMS = {
    ("f16", "f16"): ("f16", "f32"), ("bf16", "bf16"): ("f32",), ("tf32", "tf32"): ("f32",), ("s8", "s8"): ("s32",), ("u8", "u8"): ("s32",),
    ("s8", "u8"): ("s32",), ("u8", "s8"): ("s32",), **{(a, b): ("f32",) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")},
}  # fmt: skip
"""By the types of operands: those of sums."""
_WIDTHS = {"f16": 2, "bf16": 2, "tf32": 4}
"""Bytes of an element; others have one."""


def _use(emitter: KernelEmitter, name: str) -> str:
    assert name in prelude_functions(), name
    emitter.instructions.add(name)
    return name


def _moved(emitter: KernelEmitter, node: E.Call, address: int) -> Text:
    return binary("+", emitter.scalar(node.args[address]), emitter.index(node.args[address + 1]))


# -- barriers ----------------------------------------------------------------------
def _create(emitter: KernelEmitter, node: E.Call) -> Lanes:
    count = getattr(node.args[0], "value", None)
    if count is None:
        raise CodegenError(f"create_barriers takes a constant, got {node.args[0]}")
    if emitter.barriers:
        raise CodegenError("a kernel creates its barriers once")
    emitter.barriers = emitter.fresh("barriers")
    emitter.line(f"__shared__ __align__(8) unsigned long long {emitter.barriers}[{count}];")
    return []


def _barrier(emitter: KernelEmitter, number: E.PrimExpr) -> Text:
    if not emitter.barriers:
        raise CodegenError("a barrier is used before create_barriers has made the kernel's")
    return binary("+", Text(emitter.barriers), emitter.index(number))


def _at_barrier(emitter: KernelEmitter, node: E.Call) -> Lanes:
    """A call on a barrier, and a number if the function has one."""
    name = node.op.name.removeprefix("tir.")
    return [
        call(
            _use(emitter, name),
            _barrier(emitter, node.args[0]),
            *[emitter.index(arg) for arg in node.args[1:]],
        )
    ]


def _plain(emitter: KernelEmitter, node: E.Call) -> Lanes:
    return [call(_use(emitter, node.op.name.removeprefix("tir.")))]


# -- copies ------------------------------------------------------------------------
def _copy(emitter: KernelEmitter, node: E.Call) -> Lanes:
    function = _use(emitter, "ptx_cp_async_bulk")
    to, of = _moved(emitter, node, 0), _moved(emitter, node, 2)
    return [call(function, to, of, emitter.index(node.args[4]), _barrier(emitter, node.args[5]))]


def _copy_box(emitter: KernelEmitter, node: E.Call) -> Lanes:
    coordinates = [emitter.index(arg) for arg in reversed(node.args[4:])]
    function = _use(emitter, f"ptx_cp_async_bulk_tensor_{len(coordinates)}d")
    tensor_map = node.args[2]
    if not isinstance(tensor_map, E.Var) or not is_tensor_map(tensor_map):
        raise CodegenError(
            f"a tensor map is a parameter of the kernel, not {tensor_map}; run ir.tir.transform.HoistTensorMaps first"
        )
    place = Text(f"&{emitter.address(tensor_map)}", 1)
    return [call(function, _moved(emitter, node, 0), place, _barrier(emitter, node.args[3]), *coordinates)]


def _encode(emitter: KernelEmitter, node: E.Call) -> Lanes:
    raise CodegenError("a kernel makes no tensor maps; run ir.tir.transform.HoistTensorMaps first")


# -- products ----------------------------------------------------------------------
def _multiply(emitter: KernelEmitter, node: E.Call) -> Lanes:
    shape, a_layout, b_layout, *types = (str(getattr(item, "value", "")) for item in node.args[:6])
    name = _product(emitter, shape, a_layout, b_layout, *map(ptx_type, types))
    swizzle, *distances = (getattr(item, "value", None) for item in node.args[13:])
    if swizzle not in (32, 64, 128) or not all(
        isinstance(item, int) and item % 16 == 0 for item in distances
    ):
        raise CodegenError(
            f"wgmma reads operands in rows of 32, 64 or 128 bytes, at constant distances of multiples of 16; got {swizzle} and {distances}"
        )
    describe = _use(emitter, "ptx_wgmma_descriptor")
    operands = [
        call(
            describe,
            _moved(emitter, node, at),
            *[Text(str(item)) for item in (*distances[first : first + 2], swizzle)],
        )
        for at, first in ((6, 0), (8, 2))
    ]
    return [call(name, _moved(emitter, node, 10), *operands, emitter.index(node.args[12]))]


def _product(emitter: KernelEmitter, shape: str, a_layout: str, b_layout: str, a: str, b: str, c: str) -> str:
    """The function of one kind of product, which the source will define."""
    found = _SHAPE.fullmatch(shape)
    n, k = map(int, found.groups()) if found else (0, 0)
    width = _WIDTHS.get(a, 1)
    if (
        c not in _SUMS.get((a, b), ())
        or k * width != _STEP_BYTES
        or not 8 <= n <= _MOST_COLUMNS
        or n % (16 if c == "s32" and n > 32 else 8)
        or (width != 2 and (a_layout, b_layout) != ("row", "col"))
    ):
        raise CodegenError(
            f"wgmma has no product of the shape {shape} of {a} by {a_layout} and {b} by {b_layout} summed in {c}"
        )
    name = f"ptx_wgmma_{shape}_{a}_{b}_{c}_{a_layout}_{b_layout}"
    emitter.definitions.setdefault(
        name, _definition(name, n, k, a, b, c, a_layout == "row", b_layout == "col")
    )
    return name


def _definition(name: str, n: int, k: int, a: str, b: str, c: str, a_along_k: bool, b_along_k: bool) -> str:
    """The text of a product's function."""
    type_, constraint, count = {
        "f32": ("float", "f", n // 2),
        "s32": ("int", "r", n // 2),
        "f16": ("unsigned", "r", n // 4),
    }[c]
    sums = ", ".join(f"%{i}" for i in range(count))
    held = ", ".join(f'"+{constraint}"(d[{i}])' for i in range(count))
    is_float = c != "s32"
    flags = ", 1, 1" if is_float else ""
    if _WIDTHS.get(a) == 2:
        flags += f", {int(not a_along_k)}, {int(not b_along_k)}"
    pointer = "void* sums" if c == "f16" else f"{type_}* d"
    cast = "\n  unsigned* d = static_cast<unsigned*>(sums);" if c == "f16" else ""
    along = f"{str(a_along_k).lower()}, {str(b_along_k).lower()}"
    return f"""#if defined(__CUDA_ARCH__)
__device__ __forceinline__ void {name}({pointer}, unsigned long long a, unsigned long long b, bool keeps) {{{cast}
  asm volatile("{{\\n"
               ".reg .pred p;\\n"
               "setp.ne.b32 p, %{count + 2}, 0;\\n"
               "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{c}.{a}.{b} {{{sums}}}, %{count}, %{count + 1}, p{flags};\\n"
               "}}"
               : {held}
               : "l"(a), "l"(b), "r"((int)keeps));
}}
#else
EMULATION_WGMMA({name}, {n}, {k}, {a}, {b}, {c}, {along})
#endif"""


def _wait(emitter: KernelEmitter, node: E.Call) -> Lanes:
    count = getattr(node.args[0], "value", None)
    if count is None or not 0 <= count <= 7:
        raise CodegenError(f"ptx_wgmma_wait_group takes a constant from 0 to 7, got {node.args[0]}")
    return [call(f"{_use(emitter, 'ptx_wgmma_wait_group')}<{count}>")]


FORMS = {
    "tir.create_barriers": _create, "tir.ptx_init_barrier_thread_count": _at_barrier, "tir.ptx_arrive_barrier": _at_barrier,
    "tir.ptx_arrive_barrier_expect_tx": _at_barrier, "tir.ptx_wait_barrier": _at_barrier, "tir.ptx_fence_proxy_async": _plain,
    "tir.ptx_cp_async_bulk": _copy, "tir.ptx_cp_async_bulk_tensor": _copy_box, "tir.tensor_map_encode_tiled": _encode,
    "tir.ptx_wgmma_mma_async": _multiply, "tir.ptx_wgmma_fence": _plain, "tir.ptx_wgmma_commit_group": _plain,
    "tir.ptx_wgmma_wait_group": _wait,
}  # fmt: skip
"""How the calls are printed."""
