"""FuseTransposeMatmul: a product with a transposed matrix reads it as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import te
from ...module import IRModule
from ...topi.accumulate import accumulator, rounded
from ...transform import ModulePass, PassContext
from ..analysis.binding import get_var2val
from ..block_builder import BlockBuilder
from ..dpl.constructors import is_op, wildcard
from ..expr import Call, Expr, is_call_to
from ..function import Function
from ..function_signature import MapCall, replace_calls
from ..struct_info import TensorStructInfo
from .fuse_ops_by_pattern import FuseOpsByPattern, PatternCheckContext

NAME = "transpose_matmul_fuse"


def _last_axes_swapped(context: PatternCheckContext) -> bool:
    transpose: Any = context.annotated_expr["transpose"]
    info = transpose.args[0].struct_info_
    if not isinstance(info, TensorStructInfo) or info.ndim < 2:
        return False
    axes = transpose.attrs["axes"]
    order = [int(axis) % info.ndim for axis in axes] if axes is not None else list(reversed(range(info.ndim)))
    return order == [*range(info.ndim - 2), info.ndim - 1, info.ndim - 2]


def nt_matmul(a: Any, b: Any, out_dtype: str = "") -> Any:
    """``a @ b^T`` with broadcast batch axes, reading ``b`` along its rows."""
    dtype = out_dtype or a.dtype
    total = accumulator(dtype)
    k = te.reduce_axis((0, a.shape[-1]), name="k")
    rank = max(len(a.shape), len(b.shape))
    batch = [_batch_extent(a, b, rank, position) for position in range(rank - 2)]
    rows = [a.shape[-2]] if len(a.shape) > 1 else []
    shape = [*batch, *rows, b.shape[-2]]

    def value(*indices: Any) -> Any:
        left = _batch_indices(a, indices, rank)
        right = _batch_indices(b, indices, rank)
        own = [indices[-2]] if rows else []
        return te.sum(a[(*left, *own, k)].astype(total) * b[(*right, indices[-1], k)].astype(total), axis=k)

    return rounded(te.compute(shape, value, name="NT_matmul"), dtype)


def _batch_extent(a: Any, b: Any, rank: int, position: int) -> Any:
    for tensor in (a, b):
        axis = position - (rank - len(tensor.shape))
        if axis >= 0 and getattr(tensor.shape[axis], "value", None) != 1:
            return tensor.shape[axis]
    return a.shape[0] * 0 + 1


def _batch_indices(tensor: Any, indices: Any, rank: int) -> list[Any]:
    missing = rank - len(tensor.shape)
    return [
        0 if getattr(tensor.shape[axis], "value", None) == 1 else indices[axis + missing]
        for axis in range(len(tensor.shape) - 2)
    ]


def _kernel_call(func: Function) -> MapCall:
    """What calls of a composite function become: a call of its kernel."""
    values: list[Any] = list(get_var2val(func).values())
    product = next(value for value in values if is_call_to(value, "relax.matmul"))
    transpose = next(value for value in values if is_call_to(value, "relax.permute_dims"))
    out_dtype = str(product.attrs.get("out_dtype") or "")
    left, right = func.params.index(product.args[0]), func.params.index(transpose.args[0])

    def make(builder: BlockBuilder, call: Call) -> Expr:
        x, w = call.args[left], call.args[right]
        return builder.call_te(nt_matmul, x, w, out_dtype, primfunc_name_hint="NT_matmul")

    return make


@dataclass(frozen=True)
class FuseTransposeMatmul(ModulePass):
    """Fuse ``matmul(x, permute_dims(w))`` into one kernel without a transposed copy.

    Before::

        lv = R.permute_dims(w, axes=None)
        y = R.matmul(x, lv)

    After: ``y = R.call_tir(cls.NT_matmul, (x, w), out_sinfo=...)``
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with fused products."""
        w, x = wildcard(), wildcard()
        transpose = is_op("relax.permute_dims")(w)
        product = is_op("relax.matmul")(x, transpose)
        pattern = (NAME, product, {"transpose": transpose, "w": w, "x": x}, _last_axes_swapped)
        grouped = FuseOpsByPattern([pattern], bind_constants=False)(mod)
        composites = {
            var: func
            for var, func in grouped.functions.items()
            if isinstance(func, Function) and func.attrs.get("Composite") == NAME
        }
        if not composites:
            return mod
        rest = {var: func for var, func in grouped.functions.items() if var not in composites}
        calls = {var.name_hint: _kernel_call(func) for var, func in composites.items()}
        return replace_calls(grouped.replace(functions=rest), calls)
