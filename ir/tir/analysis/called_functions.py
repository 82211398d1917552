"""Which functions of its module a kernel calls."""

from __future__ import annotations

from ...expr import GlobalVar
from ...node import post_order_visit, remembered
from ..function import PrimFunc


@remembered
def called_functions(func: PrimFunc) -> tuple[GlobalVar, ...]:
    """The references to functions of the module in a kernel, each once.

    >>> from ir import te
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.compute((4,), lambda i: A[i], name="B")
    >>> called_functions(te.create_prim_func([A, B]))
    ()
    """
    found: dict[GlobalVar, None] = {}
    post_order_visit(func.body, lambda node: found.setdefault(node) if isinstance(node, GlobalVar) else None)
    return tuple(found)
