"""Shapes, layouts, indexing and dtypes of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from ir.relax import op as _op
from ir.relax.expr import ShapeExpr
from ir.relax.expr import Tuple as RxTuple
from ir.tir.expr import PrimExpr

from ..error import NNTypeError, NNValueError
from ..tensor import Tensor, wrap_nested

IntExpr = int | PrimExpr


def _check_one_list(function: str, argument: str, value: object, name: object) -> None:
    """Refuse separate integers, as the methods of a tensor take them: the second would be the name of the result."""
    if isinstance(name, int | PrimExpr):
        raise NNTypeError(
            f"{function}: {argument} is one list, and name a string; got {argument} {value} and name {name}; "
            f"write {function}(x, [{value}, {name}])"
        )


def unsqueeze(x: Tensor, dim: int, name: str = "unsqueeze") -> Tensor:
    """The tensor with a new axis of extent one at ``dim``."""
    return wrap_nested(_op.expand_dims(x._expr, dim), name)


def squeeze(x: Tensor, axis: int = -1, name: str = "squeeze") -> Tensor:
    """The tensor without the given axis (or list of axes), of extent one; ``axis=None`` removes all such axes."""
    return wrap_nested(_op.squeeze(x._expr, axis), name)


def concat(x: list[Tensor], dim: int, name: str = "concat") -> Tensor:
    """The tensors joined along an axis."""
    return wrap_nested(_op.concat(RxTuple([item._expr for item in x]), dim), name)


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> tuple[Tensor, ...]:
    """The tensor cut along ``dim`` into ``chunks`` pieces."""
    return wrap_nested(_op.split(x._expr, chunks, dim), name)


def split(
    ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0, name: str = "split"
) -> tuple[Tensor, ...]:
    """The tensor cut along an axis, into a number of equal sections or at indices."""
    return wrap_nested(_op.split(ary._expr, indices_or_sections, axis), name)


def broadcast_to(x: Tensor, shape: Sequence[IntExpr], name: str = "broadcast_to") -> Tensor:
    """The tensor broadcast to a shape."""
    _check_one_list("broadcast_to", "shape", shape, name)
    return wrap_nested(_op.broadcast_to(x._expr, ShapeExpr(shape)), name)


def permute_dims(x: Tensor, axes: list[int] | None = None, name: str | None = None) -> Tensor:
    """The dimensions in the order of ``axes``; reversed by default."""
    _check_one_list("permute_dims", "axes", axes, name)
    return wrap_nested(_op.permute_dims(x._expr, axes=axes), name or "permute_dims")


def permute(x: Tensor, axes: list[int] | None, name: str = "permute") -> Tensor:
    """The dimensions in the order of ``axes``; reversed for None."""
    _check_one_list("permute", "axes", axes, name)
    return wrap_nested(_op.permute_dims(x._expr, axes=axes), name)


def reshape(x: Tensor, shape: Sequence[IntExpr], name: str = "reshape") -> Tensor:
    """The elements in another shape; at most one extent may be -1 and is inferred, at compile time.

    ::

        x.shape = (2, 3, 4), shape = (6, 1, -1), result.shape = (6, 1, 4)
        x.shape = (2, 3, 4), shape = (3, -1, 8), result.shape = (3, 1, 8)
        x.shape = (2, 3, 4), shape = (-1,), result.shape = (24,)
    """
    _check_one_list("reshape", "shape", shape, name)
    return wrap_nested(_op.reshape(x._expr, shape), name)


def repeat(x: Tensor, repeats: int, axis: int | None = None, name: str = "repeat") -> Tensor:
    """Every element ``repeats`` times along an axis; without one the flattened input is used and the result is flat.

    ::

        np_x = numpy.array([[1, 2], [3, 4]])
        x = Tensor.from_const(np_x)
        lv1 = repeat(x, repeats=2)          # [1, 1, 2, 2, 3, 3, 4, 4]
        lv2 = repeat(x, repeats=2, axis=1)  # [[1., 1., 2., 2.],
                                            #  [3., 3., 4., 4.]]
    """
    return wrap_nested(_op.repeat(x._expr, repeats, axis), name)


def take(x: Tensor, indices: Tensor, axis: int | None = None, name: str = "take") -> Tensor:
    """The slices of ``x`` along ``axis`` that ``indices`` (of any shape) names; as ``numpy.take`` and ONNX's Gather.

    Without an axis ``x`` must have one dimension.
    """
    if axis is None and x.ndim != 1:
        raise NNValueError(
            f"take: without an axis the input must have one dimension, it has {x.ndim}; pass axis"
        )
    return wrap_nested(_op.take(x._expr, indices._expr, axis), name)


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """The tensor converted to a dtype; as it is when it has that dtype already."""
    if x.dtype == dtype:
        return x
    return wrap_nested(_op.astype(x._expr, dtype), name)


def pad(x: Tensor, pad: list[int], mode: str = "constant", value: float = 0.0, name: str = "pad") -> Tensor:
    """Padding of all axes.

    Args:
        x: the input.
        pad: ``[before_0, after_0, before_1, after_1, ...]``.
        mode: ``"constant"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        value: what to pad with in constant mode.
    """
    return wrap_nested(_op.nn.pad(x._expr, pad_width=pad, pad_value=value, pad_mode=mode), name)


def triu(x: Tensor, diagonal: int = 0, name: str = "triu") -> Tensor:
    """The upper triangle of a matrix or of a batch of matrices, from the given diagonal on; the rest is zero."""
    return wrap_nested(_op.triu(x._expr, diagonal), name)
