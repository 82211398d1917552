"""What kind of product a reduction is: which of its axes both operands have, and which only one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ir import tir
from ir.tir.stmt_functor import variables_in

from ..block_facts import is_leaf_block, is_one, operand_loads, reduce_vars, stands_alone
from ..tree import BlockNode

NARROW = 8
"""Products with fewer rows or columns are not worth tiles."""


@dataclass(frozen=True)
class ProductAxes:
    """The variables of ``C[b, m, n] += A[b, m, k] * B[b, n, k]``, each kind in the block's order.

    Convolutions are such products, too: the positions of the image are m, the channels of the result n, and k is what the window is over.
    """

    batch: tuple[Any, ...]
    m: tuple[Any, ...]
    n: tuple[Any, ...]
    k: tuple[Any, ...]
    lhs: int
    """The position of A among what the block reads."""
    rhs: int

    def is_matrix(self) -> bool:
        """Whether m, n and k are one variable each."""
        return len(self.m) == len(self.n) == len(self.k) == 1


def product_axes(node: BlockNode) -> ProductAxes | None:
    """The axes of a sum of products of two operands; None of other blocks."""
    loads = _factors(node)
    if loads is None or not stands_alone(node):
        return None
    first, second = loads
    reads = [region.buffer for region in node.reads]
    if first.buffer is second.buffer or not {first.buffer, second.buffer} <= set(reads):
        return None
    used_first, used_second = (set(variables_in(*load.indices)) for load in loads)
    batch: list[Any] = []
    left: list[Any] = []
    right: list[Any] = []
    for item in node.iter_vars:
        if item.iter_type != tir.IterVar.DataPar or is_one(item.dom.extent):
            continue
        in_first, in_second = item.var in used_first, item.var in used_second
        if not in_first and not in_second:
            return None
        (batch if in_first and in_second else left if in_first else right).append(item.var)
    k = tuple(var for var in reduce_vars(node) if not is_one(_domain(node, var)))
    if not k or any(var not in used_first or var not in used_second for var in k):
        return None
    return ProductAxes(
        tuple(batch),
        tuple(left),
        tuple(right),
        k,
        reads.index(first.buffer),
        reads.index(second.buffer),
    )


def _domain(node: BlockNode, var: Any) -> tir.PrimExpr:
    return next(item.dom.extent for item in node.iter_vars if item.var is var)


def is_matrix_product(node: BlockNode) -> bool:
    """Whether a block is a product with more than a few rows and columns, each of which uses the operands again."""
    axes = product_axes(node)
    if axes is None or not axes.m or not axes.n:
        return False
    sides = (extent_of(node, axes.m), extent_of(node, axes.n))
    return all(extent is None or extent >= NARROW for extent in sides)


def extent_of(node: BlockNode, variables: Sequence[Any]) -> int | None:
    """How many values some variables have together; None where that is symbolic."""
    total = 1
    for var in variables:
        extent = _domain(node, var)
        if not isinstance(extent, tir.IntImm):
            return None
        total *= extent.value
    return total


def _factors(node: BlockNode) -> tuple[tir.BufferLoad, tir.BufferLoad] | None:
    """The two loads, casts and roundings apart, whose products a block adds up."""
    if not is_leaf_block(node) or not reduce_vars(node):
        return None
    store = node.body.leaf  # type: ignore[attr-defined]
    value = store.value
    if not isinstance(value, tir.Add):
        return None
    own, product = value.a, _without_casts(value.b)
    if (
        not isinstance(own, tir.BufferLoad)
        or own.buffer is not store.buffer
        or not isinstance(product, tir.Mul)
    ):
        return None
    first, second = _without_casts(product.a), _without_casts(product.b)
    if not isinstance(first, tir.BufferLoad) or not isinstance(second, tir.BufferLoad):
        return None
    return (first, second) if len(operand_loads(node)) == 2 else None


def _without_casts(value: tir.PrimExpr) -> tir.PrimExpr:
    while isinstance(value, tir.Cast) or _is_rounded(value):
        value = value.value if isinstance(value, tir.Cast) else value.args[0]  # type: ignore[attr-defined]
    return value


def _is_rounded(value: tir.PrimExpr) -> bool:
    """Whether a value is another one of the same dtype in fewer bits, as tensor cores take it."""
    return isinstance(value, tir.Call) and getattr(value.op, "name", "") == "tir.round_to_tf32"
