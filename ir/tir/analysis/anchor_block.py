"""The block of a module that dominates its cost."""

from __future__ import annotations

from typing import Any

from ...module import IRModule
from ...node import post_order_visit
from .. import stmt as S
from ..expr import IntImm
from ..function import PrimFunc
from .flops import estimate_tir_flops


def find_anchor_block(mod: IRModule) -> S.Block | None:
    """The reduction block with the most arithmetic, over the ranges of its iteration variables; None without reductions."""
    best: tuple[float, S.Block | None] = (-1.0, None)

    def consider(node: Any) -> None:
        nonlocal best
        if isinstance(node, S.Block) and node.init is not None:
            cost = max(estimate_tir_flops(node.body), 1.0)
            for iv in node.iter_vars:
                cost *= iv.dom.extent.value if isinstance(iv.dom.extent, IntImm) else 1
            if cost > best[0]:
                best = (cost, node)

    for _, func in mod.functions_items():
        if isinstance(func, PrimFunc):
            post_order_visit(func.body, consider)
    return best[1]
