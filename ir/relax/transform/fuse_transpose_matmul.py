"""FuseTransposeMatmul: a product with a transposed matrix reads it as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import te
from ...module import IRModule
from ...topi.accumulate import accumulator, rounded
from ...transform import ModulePass, PassContext
from ..analysis.remove_unused import remove_all_unused
from ..expr import is_call_to
from ..struct_info import TensorStructInfo
from .function_pass import rewrite_functions
from .memory_mutator import MemoryMutator


def _last_axes_swapped(transpose: Any) -> bool:
    info = transpose.args[0].struct_info_
    if not isinstance(info, TensorStructInfo) or info.ndim < 2:
        return False
    axes = transpose.attrs["axes"]
    order = [int(axis) % info.ndim for axis in axes] if axes is not None else list(reversed(range(info.ndim)))
    return order == [*range(info.ndim - 2), info.ndim - 1, info.ndim - 2]


def nt_matmul(a: Any, b: Any, out_dtype: str = "") -> Any:
    """``a @ b^T`` with broadcast batch axes, reading ``b`` along its rows; sums of half floats are made in float32."""
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


class _Fuser(MemoryMutator):
    """Replaces products by kernels that read the second operand as it was before it was transposed."""

    def visit_call_(self, call: Any) -> Any:
        new = super().visit_call_(call)
        transpose: Any = self.lookup_binding(new.args[1]) if is_call_to(new, "relax.matmul") else None
        if not is_call_to(transpose, "relax.permute_dims") or not _last_axes_swapped(transpose):
            return new
        weight = transpose.args[0]
        if self.aliases.is_written(weight):  # it may not be what it was when it was transposed
            return new
        out_dtype = str(new.attrs.get("out_dtype") or "")
        operands = (new.args[0], weight, out_dtype)
        return self.builder_.call_te(nt_matmul, *operands, primfunc_name_hint="NT_matmul")


@dataclass(frozen=True)
class FuseTransposeMatmul(ModulePass):
    """Fuse ``matmul(x, permute_dims(w))`` into one kernel without a transposed copy.

    Before::

        lv = R.permute_dims(w, axes=None)
        y = R.matmul(x, lv)

    After: ``y = R.call_tir(cls.NT_matmul, (x, w), out_sinfo=...)``

    The copy stays where others use it.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with fused products."""
        fused = _Fuser(mod).rewrite_module(mod, lambda var, func: "Codegen" not in func.attrs)
        return (
            mod if fused is mod else rewrite_functions(fused, lambda var, func: remove_all_unused(func, mod))
        )
