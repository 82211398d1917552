"""order_rows: what sorts a row, or finds its first elements, does so by another algorithm.

A block that sorts says what it computes (:mod:`ir.topi.row_order`), and so do its statements, which are those that the operator makes of
this declaration. So nothing is believed: where a program was changed since, or says what it does not do, the step is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir import tir
from ir.error import IRValueError
from ir.structural import structural_equal
from ir.topi.row_algorithms import ordered_row
from ir.topi.row_order import ROW_ORDER, RowOrder

from ..analysis import require
from ..argument import Argument, Block, Integers
from ..declaration import PrimitiveFamily, primitive
from ..error import ScheduleError
from ..random_variable import BlockRV
from ..tree import BlockNode, LoopNode, tree_of

_NAME = "order_rows"


class RowOrderPrimitives(PrimitiveFamily):
    """Other algorithms for rows that are put in order."""

    @primitive("OrderRows", block=Block(), algorithm=Argument(), numbers=Integers())
    def order_rows(self, block: BlockRV | str, algorithm: str, numbers: Sequence[int] = ()) -> None:
        """Compute a row that is sorted, or of which the first elements are wanted, by another algorithm.

        ``block`` is that of one row, such as ``topk_cpu_row``, as :func:`ir.topi.topk`, ``sort`` and ``argsort`` make it. Results are the
        same to the bit. It loses its declaration: what it computes by now is for nobody to recognise.

        Args:
            block: the block of a row.
            algorithm, numbers: "merge"; "radix" and the bits of a digit; "buffer" and its capacity; "threshold" and the numbers of groups
                and of elements in a chunk: the table in :mod:`ir.topi.row_algorithms`. Of the threads of a block of a GPU, which
                :mod:`ir.topi.row_threads` tells of: "bitonic" or "selection" and how many there are; the loop over rows is one over
                blocks then.

        Raises:
            ScheduleError: the block does not declare what it computes of a row, or computes something else; there is no such algorithm,
                or it does not sort rows of this length by these numbers.
        """
        node = self._block(block)
        made = _by(node, algorithm, numbers)
        node.set_body(tree_of(made.body))
        node.change(
            alloc_buffers=made.alloc_buffers,
            annotations={key: value for key, value in node.annotations.items() if key != ROW_ORDER},
        )


def row_of(node: BlockNode) -> RowOrder:
    """What a block declares of a row, and computes.

    Raises:
        ScheduleError: it declares nothing, or something else than it computes.
    """
    require(
        ROW_ORDER in node.annotations and node.reads and node.writes,
        _NAME,
        f"block {node.name!r} does not declare an order of rows; sort, argsort and topk make blocks that do",
    )
    declared = _made(node, None, ()).replace(
        reads=node.reads, writes=node.writes, annotations=node.annotations
    )
    require(
        structural_equal(node.block(), declared),
        _NAME,
        f"block {node.name!r} is not what the operator makes of its declaration: it was changed before",
    )
    return RowOrder.declared(node.annotations[ROW_ORDER])


def _by(node: BlockNode, algorithm: str, numbers: Sequence[int]) -> tir.Block:
    """The block of a row by another algorithm."""
    row_of(node)
    return _made(node, algorithm, numbers)


def _made(node: BlockNode, algorithm: str | None, numbers: Sequence[int]) -> tir.Block:
    """The block that is made of a block's declaration; no algorithm is the operator's choice."""
    number = node.parent.var if isinstance(node.parent, LoopNode) else tir.const(0, "int32")
    outs = [region.buffer for region in node.writes]
    try:
        order = RowOrder.declared(node.annotations[ROW_ORDER])
        realize: Any = ordered_row(order, node.reads[0].buffer, outs, number, node.name, algorithm, numbers)
    except IRValueError as error:
        raise ScheduleError(f"{_NAME}: block {node.name!r}: {error}") from error
    return realize.block  # type: ignore[no-any-return]
