"""Products of tensors over arbitrary axes: matmul, tensordot, einsum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..error import IRValueError
from ..te.reduction import sum as te_sum
from ..te.tensor import Tensor
from ..tir.expr import IterVar, PrimExpr, Range, Var
from ..tir.operators import const
from . import tag
from .accumulate import accumulator, rounded
from .broadcast import _is_one
from .shape import ax_compute, normalize_axes


def _axis(extent: PrimExpr, name: str) -> IterVar:
    return IterVar(
        Range.from_min_extent(const(0, extent.dtype), extent), Var(name, extent.dtype), IterVar.CommReduce
    )


def matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """``a @ b`` of two matrices, each perhaps transposed."""
    rows, inner = reversed(a.shape) if transp_a else a.shape
    columns = b.shape[0] if transp_b else b.shape[1]
    k = _axis(inner, "k")
    total = accumulator(a.dtype)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        left = a(k.var, i[0]) if transp_a else a(i[0], k.var)
        right = b(i[1], k.var) if transp_b else b(k.var, i[1])
        return te_sum(left.astype(total) * right.astype(total), axis=k)

    return rounded(ax_compute((rows, columns), element, "T_matmul", "matmul"), a.dtype)


def tensordot(a: Tensor, b: Tensor, axes: Any) -> Tensor:
    """Sum of products over the last ``axes`` axes of ``a`` and the first of ``b``, or over the pair of axis lists ``axes``."""
    if isinstance(axes, int):
        axes_a, axes_b = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        first, second = axes
        axes_a = normalize_axes(first, a.ndim)
        axes_b = normalize_axes(second, b.ndim)
    if len(axes_a) != len(axes_b):
        raise IRValueError(f"tensordot: {len(axes_a)} axes of the first tensor, {len(axes_b)} of the second")
    inner = [_axis(a.shape[axis], f"k{number}") for number, axis in enumerate(axes_a)]
    free_a = [axis for axis in range(a.ndim) if axis not in axes_a]
    free_b = [axis for axis in range(b.ndim) if axis not in axes_b]
    shape = [*[a.shape[axis] for axis in free_a], *[b.shape[axis] for axis in free_b]]
    total = accumulator(a.dtype)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        at_a: list[Any] = [None] * a.ndim
        at_b: list[Any] = [None] * b.ndim
        for axis_a, axis_b, reduced in zip(axes_a, axes_b, inner, strict=True):
            at_a[axis_a] = at_b[axis_b] = reduced.var
        for position, axis in enumerate(free_a):
            at_a[axis] = i[position]
        for position, axis in enumerate(free_b, len(free_a)):
            at_b[axis] = i[position]
        product = a(*at_a).astype(total) * b(*at_b).astype(total)
        return te_sum(product, axis=inner) if inner else product

    return rounded(ax_compute(shape, element, "T_tensordot", "matmul"), a.dtype)


def _subscripts(text: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """Index letters of each operand and of the result; an ellipsis becomes letters of its own."""
    text = text.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise IRValueError(f"einsum: {text!r} names {len(terms)} operands, got {len(operands)}")
    widest = 0
    for term, operand in zip(terms, operands, strict=True):
        if "..." in term:
            widest = max(widest, operand.ndim - (len(term) - 3))
    spare = [chr(0x3B1 + n) for n in range(widest)]
    named = []
    for term, operand in zip(terms, operands, strict=True):
        if "..." in term:
            count = operand.ndim - (len(term) - 3)
            term = term.replace("...", "".join(spare[widest - count :]))
        if len(term) != operand.ndim:
            raise IRValueError(
                f"einsum: {term!r} has {len(term)} indices, {operand.name} has {operand.ndim} dimensions"
            )
        named.append(term)
    if arrow:
        result = right.replace("...", "".join(spare))
    else:
        letters = sorted(
            {letter for letter in "".join(named) if "".join(named).count(letter) == 1} - set(spare)
        )
        result = "".join(spare) + "".join(letters)
    return named, result


def einsum(subscripts: str, *operands: Tensor) -> Tensor:
    """Sum of products in Einstein's notation, as numpy.einsum: ``einsum("bij,bjk->bik", A, B)``; ellipses broadcast."""
    tensors = (
        list(operands[0]) if len(operands) == 1 and isinstance(operands[0], list | tuple) else list(operands)
    )
    named, result = _subscripts(subscripts, tensors)
    extents: dict[str, PrimExpr] = {}
    for term, operand in zip(named, tensors, strict=True):
        for letter, extent in zip(term, operand.shape, strict=True):
            known = extents.get(letter)
            if known is None or _is_one(known):
                extents[letter] = extent
    unknown = set(result) - set(extents)
    if unknown:
        raise IRValueError(
            f"einsum: the result's indices {sorted(unknown)} are in no operand of {subscripts!r}"
        )
    inner = {
        letter: _axis(extent, f"k{number}")
        for number, (letter, extent) in enumerate(item for item in extents.items() if item[0] not in result)
    }

    total = accumulator(tensors[0].dtype)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        at: dict[str, Any] = dict(zip(result, i, strict=True)) | {
            name: axis.var for name, axis in inner.items()
        }
        value: Any = None
        for term, operand in zip(named, tensors, strict=True):
            places = [
                const(0, extent.dtype) if _is_one(extent) else at[letter]
                for letter, extent in zip(term, operand.shape, strict=True)
            ]
            factor = operand(*places).astype(total)
            value = factor if value is None else value * factor
        return te_sum(value, axis=list(inner.values())) if inner else value

    found = ax_compute([extents[letter] for letter in result], element, "T_einsum", tag.COMM_REDUCE)
    return rounded(found, tensors[0].dtype)
