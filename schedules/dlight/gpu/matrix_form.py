"""Products in other axes - convolutions, batches of several dimensions - as products of matrices: one axis each for batch, m, n and k."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir import tir

from ...random_variable import BlockRV
from ...rule.block_facts import node_of
from ...schedule import Schedule
from .product_form import ProductAxes


def as_matrices(sch: Schedule, block: BlockRV, axes: ProductAxes) -> BlockRV:
    """Give a product operands and a result that are matrices; returns the block that writes the result into its place.

    ``C[n, h, w, f] += A[n, h + r, w + s, c] * B[r, s, c, f]`` becomes, with h * W + w as the first axis,
    ``C2[m, f] += A2[m, k] * B2[k, f]``, beside blocks that make A2 and B2 and spread C2.

    Raises:
        ScheduleError: an operand is read in several ways, say.
    """
    copies = {
        ("read", axes.lhs): sch.reindex(block, ("read", axes.lhs)),
        ("read", axes.rhs): sch.reindex(block, ("read", axes.rhs)),
        ("write", 0): sch.reindex(block, ("write", 0)),
    }
    node = node_of(sch, block)
    extents = {item.var: item.dom.extent for item in node.iter_vars}
    for (kind, position), copy in copies.items():
        region = (node.reads if kind == "read" else node.writes)[position]
        joined = _joined([item.min for item in region.region], axes, extents)
        sch.transform_layout(block, (kind, position), joined)
        sch.transform_block_layout(copy, joined)
    sch.transform_block_layout(block, _joined([item.var for item in node.iter_vars], axes, extents))
    return copies["write", 0]


def _joined(
    variables: Sequence[Any], axes: ProductAxes, extents: Mapping[Any, tir.PrimExpr]
) -> Callable[..., list[Any]]:
    """Of an index for each variable, one for each kind of axis that is among them."""

    def joined(*indices: Any) -> list[Any]:
        index_of = dict(zip(variables, indices, strict=True))
        found = []
        for kind in (axes.batch, axes.m, axes.n, axes.k):
            digits = [var for var in kind if var in index_of]
            if digits:
                total = index_of[digits[0]]
                for var in digits[1:]:
                    total = total * extents[var] + index_of[var]
                found.append(total)
        return found

    return joined
