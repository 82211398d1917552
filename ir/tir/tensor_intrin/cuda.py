"""Tensor cores of NVIDIA's GPUs by ``nvcuda::wmma``: fill, load, multiply and store fragments; here are the names of :mod:`.cuda_mma`, too.

Names are those of the field: ``wmma_sync_16x16x16_f16f16f32``, ``wmma_load_16x16x16_f16_a_shared_dyn``; of operands that are rounded to
tf32 (:func:`~ir.tir.op.round_to_tf32` in the description) ``wmma_sync_16x16x8_tf32tf32f32``.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from ...error import IRValueError
from ..buffer import Buffer
from ..expr import PrimExpr
from ..function import TensorIntrin
from ..intrinsic.gpu import (
    tvm_fill_fragment,
    tvm_load_matrix_sync,
    tvm_mma_sync,
    tvm_store_matrix_sync,
)
from ..intrinsic.rounding import round_to_tf32
from ..operators import cast, const, floordiv, floormod
from ..stmt import BufferStore, Evaluate
from .cuda_mma import get_mma_intrin_group as get_mma_intrin_group
from .cuda_mma import register as register_mma
from .fragment_layouts import (
    shared_16x16_to_ldmatrix_32x8_layout as shared_16x16_to_ldmatrix_32x8_layout,
)
from .fragment_layouts import (
    shared_16x32_to_ldmatrix_32x16_layout as shared_16x32_to_ldmatrix_32x16_layout,
)
from .fragment_layouts import (
    shared_32x16_to_ldmatrix_32x16_layout as shared_32x16_to_ldmatrix_32x16_layout,
)
from .programs import Pair, function, nest, tile

_DTYPES = {
    "f16": "float16", "bf16": "bfloat16", "tf32": "float32", "s8": "int8", "u8": "uint8", "f32": "float32", "s32": "int32"
}  # fmt: skip
"""By what stands in names."""
_PRODUCTS = (
    ("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32"), ("s8", "s32"), ("u8", "s32")
)  # fmt: skip
"""Types of operands and of sums."""
_SCOPES = {"shared": "shared", "shared_dyn": "shared.dyn", "global": "global"}


def wmma_shape(operand: str) -> tuple[int, int, int]:
    """m, n and k of the fragments for a type of operands."""
    return (16, 16, 8) if operand == "tf32" else (16, 16, 16)


def _index(fragment: Buffer) -> PrimExpr:
    """The number of a fragment in its buffer: that of its tile, by rows of tiles."""
    rows, columns = fragment.shape
    row_elements = fragment.strides[0]
    in_row = floordiv(row_elements, columns)
    row = floordiv(floordiv(fragment.elem_offset, row_elements), rows)
    return row * in_row + floordiv(floormod(fragment.elem_offset, row_elements), columns)


def _fragment(name: str, kind: str, shape: tuple[int, int], dtype: str) -> Buffer:
    return tile(name, shape, dtype, f"wmma.{kind}", has_strides=True)


def _copy(source: Buffer, target: Buffer) -> Any:
    axes = [("S", int(extent)) for extent in source.shape]
    return nest("copy", axes, lambda i, j: BufferStore(target, source[i, j], (i, j)))


def _load(operand: str, kind: str, scope: str, is_transposed: bool) -> Pair:
    m, n, k = shape = wmma_shape(operand)
    extents = (m, k) if kind == "a" else (k, n)
    dtype = _DTYPES[operand]
    if is_transposed:
        extents = (extents[1], extents[0])

    def buffers() -> tuple[Buffer, Buffer]:
        source = tile("source", extents, dtype, _SCOPES[scope], has_strides=True)
        return source, _fragment("fragment", f"matrix_{kind}", extents, dtype)

    source, fragment = buffers()
    description = function([source, fragment], [source], [fragment], _copy(source, fragment))
    source, fragment = buffers()
    layout = "col_major" if is_transposed else "row_major"
    call = tvm_load_matrix_sync(
        fragment.data, *shape, _index(fragment), source.access_ptr("r"), source.strides[0], layout
    )
    return description, function([source, fragment], [source], [fragment], Evaluate(call))


def _store(operand: str, total: str, scope: str) -> Pair:
    m, n, _ = shape = wmma_shape(operand)

    def buffers() -> tuple[Buffer, Buffer]:
        fragment = _fragment("fragment", "accumulator", (m, n), _DTYPES[total])
        return fragment, tile("target", (m, n), _DTYPES[total], _SCOPES[scope], has_strides=True)

    fragment, target = buffers()
    description = function([fragment, target], [fragment], [target], _copy(fragment, target))
    fragment, target = buffers()
    call = tvm_store_matrix_sync(
        fragment.data, *shape, _index(fragment), target.access_ptr("w"), target.strides[0], "row_major"
    )
    return description, function([fragment, target], [fragment], [target], Evaluate(call))


def _fill(operand: str, total: str) -> Pair:
    m, n, _ = shape = wmma_shape(operand)
    dtype = _DTYPES[total]
    fragment = _fragment("fragment", "accumulator", (m, n), dtype)
    body = nest("init", [("S", m), ("S", n)], lambda i, j: BufferStore(fragment, const(0, dtype), (i, j)))
    description = function([fragment], [], [fragment], body)
    fragment = _fragment("fragment", "accumulator", (m, n), dtype)
    call = tvm_fill_fragment(fragment.data, *shape, _index(fragment), const(0, dtype))
    return description, function([fragment], [], [fragment], Evaluate(call))


def _multiply(operand: str, total: str, trans_a: bool, trans_b: bool) -> Pair:
    m, n, k = wmma_shape(operand)
    dtype, sums = _DTYPES[operand], _DTYPES[total]

    def buffers() -> tuple[Buffer, Buffer, Buffer]:
        return (
            _fragment("a", "matrix_a", (k, m) if trans_a else (m, k), dtype),
            _fragment("b", "matrix_b", (n, k) if trans_b else (k, n), dtype),
            _fragment("c", "accumulator", (m, n), sums),
        )

    def factor(value: PrimExpr) -> PrimExpr:
        return round_to_tf32(value) if operand == "tf32" else cast(sums, value)

    a, b, c = buffers()

    def update(i: Any, j: Any, s: Any) -> BufferStore:
        left = a[s, i] if trans_a else a[i, s]
        right = b[j, s] if trans_b else b[s, j]
        return BufferStore(c, c[i, j] + factor(left) * factor(right), (i, j))

    body = nest("update", [("S", m), ("S", n), ("R", k)], update)
    description = function([a, b, c], [c, a, b], [c], body)
    a, b, c = buffers()
    call = tvm_mma_sync(c.data, _index(c), a.data, _index(a), b.data, _index(b), c.data, _index(c))
    return description, function([a, b, c], [c, a, b], [c], Evaluate(call))


def _text(operand: str) -> str:
    return "x".join(map(str, wmma_shape(operand)))


def _load_name(operand: str, kind: str, scope: str, is_transposed: bool) -> str:
    return f"wmma_load_{_text(operand)}_{operand}_{kind}{'_trans' if is_transposed else ''}_{scope}"


def _sync_name(operand: str, total: str, trans_a: bool, trans_b: bool) -> str:
    turned = ("_a_trans" if trans_a else "") + ("_trans" if trans_b else "")
    return f"wmma_sync_{_text(operand)}_{operand}{operand}{total}{turned}"


def _fill_name(operand: str, total: str) -> str:
    return f"wmma_fill_{_text(operand)}_{total}"


def _store_name(operand: str, total: str, scope: str) -> str:
    return f"wmma_store_{_text(operand)}_{total}_{scope}"


def _constant(name: str) -> str:
    """What a name is called in this module: ``WMMA_LOAD_16x16x16_F16_A_TRANS_DYN_INTRIN``, where shared memory is not said."""
    kind, role, shape, *rest = name.split("_")
    scope = name.partition("shared")[2].upper() if "shared" in name else ""
    parts = [part for part in rest if part not in ("shared", "dyn")]
    if role == "store":
        parts += ["shared"] if "shared" in name else []
    shown = parts if role == "sync" else [part.upper() for part in parts]
    shown = [part.upper() if part in ("a", "trans") else part for part in shown]
    return "_".join([kind.upper(), role.upper(), shape, *shown]) + scope + "_INTRIN"


def _register() -> dict[str, str]:
    makers: dict[str, Any] = {}
    for operand in dict.fromkeys(operand for operand, _ in _PRODUCTS):
        for kind, scope, is_transposed in product("ab", ("shared", "shared_dyn"), (False, True)):
            name = _load_name(operand, kind, scope, is_transposed)
            makers[name] = partial(_load, operand, kind, scope, is_transposed)
    for operand, total in _PRODUCTS:
        for turned in product((False, True), repeat=2):
            makers[_sync_name(operand, total, *turned)] = partial(_multiply, operand, total, *turned)
        makers[_fill_name(operand, total)] = partial(_fill, operand, total)
        for scope in _SCOPES:
            makers[_store_name(operand, total, scope)] = partial(_store, operand, total, scope)
    return {_constant(name): TensorIntrin.register_made(name, make) for name, make in makers.items()}


globals().update(_register())  # WMMA_SYNC_16x16x16_f16f16f32_INTRIN and its like
globals().update(register_mma())  # MMA_f16f16f32_INTRIN, LDMATRIX_f16_A_INTRIN and their like


def get_wmma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_b: bool, trans_a: bool = False
) -> dict[str, str]:
    """The names of the intrinsics of a product: "init", "load_a", "load_b", "compute" and "store".

    >>> get_wmma_intrin_group("shared", "global", "float16", "float32", trans_b=True)["compute"]
    'wmma_sync_16x16x16_f16f16f32_trans'

    Args:
        load_scope: where operands are loaded from: "shared" or "shared.dyn".
        store_scope: where sums are stored to: one of these, or "global".
        in_dtype: of the operands; "tf32" for float32 that is rounded.
        out_dtype: of the sums.
        trans_b: whether the second operand is stored with the sum's axis innermost.
        trans_a: whether the first operand is stored with the sum's axis outermost.

    Raises:
        IRValueError: there are no such fragments.
    """
    names = {dtype: name for name, dtype in _DTYPES.items() if name not in ("tf32", "f32")}
    operand = "tf32" if in_dtype == "tf32" else names.get(in_dtype, in_dtype)
    total = {"float16": "f16", "float32": "f32", "int32": "s32"}.get(out_dtype, out_dtype)
    scopes = {scope: name for name, scope in _SCOPES.items()}
    if (operand, total) not in _PRODUCTS or load_scope not in scopes or store_scope not in scopes:
        known = ", ".join(f"{a} to {c}" for a, c in _PRODUCTS)
        raise IRValueError(
            f"there are no WMMA fragments for products of {in_dtype} summed in {out_dtype}, loaded from {load_scope!r} and stored to"
            f" {store_scope!r}; there are {known}, scopes 'shared', 'shared.dyn' and (for stores) 'global'"
        )
    if load_scope == "global":
        raise IRValueError("WMMA fragments are loaded from 'shared' or 'shared.dyn' here, not from 'global'")
    load = scopes[load_scope]
    return {
        "init": _fill_name(operand, total),
        "load_a": _load_name(operand, "a", load, trans_a),
        "load_b": _load_name(operand, "b", load, trans_b),
        "compute": _sync_name(operand, total, trans_a, trans_b),
        "store": _store_name(operand, total, scopes[store_scope]),
    }
