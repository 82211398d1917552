"""Which outputs hold something before a call that the program reads: what it updates, or writes in part and reads as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ir.tir.expr import IntImm, PrimExpr, Var
from ir.tir.stmt import Block, BufferStore
from ir.tir.stmt_functor import loads_in

from .accesses import Access, Accesses, Place, views_of
from .own_memory import read_unwritten


def updated_outputs(func: Any) -> set[Any]:
    """The data variables of outputs of which elements are loaded that were not stored to before.

    What nothing is known of, such as views, counts by the order of the program's text.
    """
    outputs = {buffer.data for buffer in func.buffer_map.values()}
    stored, early = _in_text(func)
    accesses = Accesses()
    accesses.collect(func.body, Place())
    late = (stored & outputs) - early - accesses.escaping
    groups = {data: [item for item in accesses.found if item.buffer.data is data] for data in late}
    return (early & stored & outputs) | {
        data
        for data, group in groups.items()
        if read_unwritten(list(_on_the_safe_side(group)), {}) is not None
    }


def _on_the_safe_side(group: Sequence[Access]) -> Iterator[Access]:
    """Accesses that do not depend on data: without stores that do, and with loads of everything instead of loads that do."""
    for item in group:
        steps = [step for step in item.path if not isinstance(step, int) and step not in item.extents]
        depends = steps or any(loads_in(expr) for expr in (*item.conditions, *item.begins, *item.indices))
        if not depends:
            yield item
        elif not item.stores:
            yield _of_everything(item, steps)


def _of_everything(item: Access, steps: Sequence[Any]) -> Access:
    """A load of all elements, in the first turn of loops of which nothing is known."""
    names = [Var("place", "int32") for _ in item.indices]
    spans = {
        name: (0, extent.value if isinstance(extent, IntImm) else 1)
        for name, extent in zip(names, item.buffer.shape, strict=True)
    }
    extents = {**item.extents, **dict.fromkeys(steps, (0, 1)), **spans}
    return replace(item, indices=tuple(names), conditions=(), begins=(), extents=extents)


def _in_text(func: Any) -> tuple[set[Any], set[Any]]:
    """(the data variables of what is stored to, of what is loaded before that in the program's text)."""
    stored: set[Any] = set()
    early: set[Any] = set()
    views = views_of(func)

    def visit(node: Any) -> None:
        data = node.buffer.data
        while data in views:
            data = views[data]
        if isinstance(node, BufferStore):
            stored.add(data)
        elif data not in stored:
            early.add(data)

    _in_order(func.body, visit)
    return stored, early


def _in_order(node: Any, visit: Any) -> None:
    """Loads of a store before the store, initializations before bodies."""
    if isinstance(node, PrimExpr):
        for load in loads_in(node):
            visit(load)
        return
    if isinstance(node, Block):
        for part in (node.init, node.body):
            if part is not None:
                _in_order(part, visit)
        return
    node._visit_children(lambda child: _in_order(child, visit))
    if isinstance(node, BufferStore):
        visit(node)
