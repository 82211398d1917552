"""Which pass of the lowering first changes what a program computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ir.module import IRModule
from ir.target import Target
from ir.tir.function import PrimFunc
from ir.tir.lower import lowering_pipeline

from .oracle import TARGETS, interpreted


def first_wrong_pass(func: PrimFunc, arguments: Sequence[Any], target: str) -> str | None:
    """The name of the pass that raises, or after which the interpreter answers otherwise or not at all.

    None means that the lowered program is right: what is wrong comes from the code generator or LLVM.
    """
    expected = interpreted(func, arguments)
    module = IRModule({"main": func})
    with Target(TARGETS[target]) as current:
        for item in lowering_pipeline(current).passes:
            try:
                module = item(module)
                right = interpreted(module, arguments).agrees(expected)
            except Exception:  # a pass that fails, however it does, is the one that is looked for
                right = False
            if not right:
                return item.info.name
    return None
