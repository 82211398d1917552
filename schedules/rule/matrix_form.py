"""Products in other axes - convolutions, batches of several dimensions - as products of matrices: one axis each for batch, m, n and k."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ir import tir

from ..block_facts import node_of
from ..random_variable import BlockRV
from ..schedule import Schedule
from .product_form import ProductAxes

Kind = Literal["batch", "m", "n", "k"]
Order = Sequence[Kind]
_ORDER: Order = ("batch", "m", "n", "k")


def as_matrices(
    sch: Schedule, block: BlockRV, axes: ProductAxes, lhs: Order = _ORDER, rhs: Order = _ORDER
) -> BlockRV:
    """Give a product operands and a result that are matrices; returns the block that writes the result into its place.

    ``C[n, h, w, f] += A[n, h + r, w + s, c] * B[r, s, c, f]`` becomes, with h * W + w as the first axis,
    ``C2[m, f] += A2[m, k] * B2[k, f]``, beside blocks that make A2 and B2 and spread C2.

    Args:
        axes: the block's; variables of one kind are joined in this order, the first counts most.
        lhs, rhs: the order of the dimensions of the operands, as far as they have such.

    Raises:
        ScheduleError: an operand is read in several ways, say.
    """
    sides: dict[tuple[str, int], Order] = {
        ("read", axes.lhs): lhs,
        ("read", axes.rhs): rhs,
        ("write", 0): _ORDER,
    }
    copies = {side: sch.reindex(block, side) for side in sides}
    node = node_of(sch, block)
    extents = {item.var: item.dom.extent for item in node.iter_vars}
    for side, order in sides.items():
        kind, position = side
        region = (node.reads if kind == "read" else node.writes)[position]
        joined = _joined([item.min for item in region.region], axes, extents, order)
        sch.transform_layout(block, side, joined)
        sch.transform_block_layout(copies[side], joined)
    sch.transform_block_layout(block, _joined([item.var for item in node.iter_vars], axes, extents, _ORDER))
    return copies["write", 0]


def _joined(
    variables: Sequence[Any], axes: ProductAxes, extents: Mapping[Any, tir.PrimExpr], order: Order
) -> Callable[..., list[Any]]:
    """Of an index for each variable, one for each kind of axis that is among them."""

    def joined(*indices: Any) -> list[Any]:
        index_of = dict(zip(variables, indices, strict=True))
        found = []
        for kind in order:
            digits = [var for var in getattr(axes, kind) if var in index_of]
            if digits:
                total = index_of[digits[0]]
                for var in digits[1:]:
                    total = total * extents[var] + index_of[var]
                found.append(total)
        return found

    return joined
