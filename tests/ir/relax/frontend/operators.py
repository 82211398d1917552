"""What tests of frontends ask about the operators of an imported function."""

from __future__ import annotations

from typing import Any

from ir import IRModule
from ir.relax.expr import Call


def op_names(mod: IRModule, func: str = "main") -> list[str]:
    """The operators that a function calls, in order, without ``relax.``."""
    names: list[str] = []
    function: Any = mod[func]
    for block in function.body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, Call):
                op = binding.value.op
                names.append(getattr(op, "name", getattr(op, "name_hint", "?")).removeprefix("relax."))
    return names
