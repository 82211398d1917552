"""Traces as Python: every instruction becomes the call that made it, so that the text runs on a schedule called ``sch``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ir import tir

from .instruction import Instruction
from .random_variable import BlockRV, ExprRV, LoopRV


def python_lines(insts: Sequence[Instruction], decisions: Mapping[Instruction, Any]) -> list[str]:
    """One line per instruction; blocks are b0, b1, ..., loops l0, ..., sampled integers v0, ..., numbered together."""
    names: dict[Any, str] = {}
    lines = []
    for inst in insts:
        arguments = _arguments(inst, names)
        if inst in decisions:
            arguments.append(f"{inst.kind.decision}={_text(decisions[inst], names)}")
        call = f"sch.{inst.kind.method}({', '.join(arguments)})"
        for item in inst.outputs:
            prefix = "b" if isinstance(item, BlockRV) else "l" if isinstance(item, LoopRV) else "v"
            names[item] = f"{prefix}{len(names)}"
        outputs = ", ".join(names[item] for item in inst.outputs)
        if len(inst.outputs) == 1 and inst.kind.returns_list:
            outputs += ","
        lines.append(f"{outputs} = {call}" if outputs else call)
    return lines


def _arguments(inst: Instruction, names: Mapping[Any, str]) -> list[str]:
    given = inst.kind.replayed(inst.inputs, inst.attrs)
    texts = [
        inst.kind.arguments[name].text(name, value, lambda item: _text(item, names))
        for name, value in given.items()
    ]
    return [text for text in texts if text is not None]


def _text(item: Any, names: Mapping[Any, str]) -> str:
    if isinstance(item, BlockRV | LoopRV | ExprRV):
        return names[item]
    if isinstance(item, str):
        return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(item, list | tuple):
        return "[" + ", ".join(_text(value, names) for value in item) + "]"
    if isinstance(item, dict):
        return (
            "{"
            + ", ".join(f"{_text(key, names)}: {_text(value, names)}" for key, value in item.items())
            + "}"
        )
    if isinstance(item, tir.IndexMap):
        return _lambda(item)
    if isinstance(item, tir.IntImm | tir.FloatImm | tir.StringImm):
        return _text(item.value, names) if isinstance(item.value, str) else repr(item.value)
    if isinstance(item, tir.PrimExpr):
        return str(
            tir.substitute(
                item, {key: tir.Var(name) for key, name in names.items() if isinstance(key, ExprRV)}
            )
        )
    if isinstance(item, float):
        digits = f"{item:.17g}"  # as the field prints doubles: all digits that distinguish them
        return digits if any(mark in digits for mark in ".en") else f"{digits}.0"
    return repr(item)


def _lambda(index_map: tir.IndexMap) -> str:
    """The map as a lambda over the names of its variables, numbered where they repeat."""
    taken: dict[str, int] = {}
    variables = []
    for var in index_map.initial_indices:
        count = taken[var.name] = taken.get(var.name, -1) + 1
        variables.append(tir.Var(f"{var.name}_{count}" if count else var.name, var.dtype))
    values: dict[Any, Any] = dict(zip(index_map.initial_indices, variables, strict=True))
    finals = [str(tir.substitute(item, values)) for item in index_map.final_indices]
    return f"lambda {', '.join(var.name for var in variables)}: ({', '.join(finals)},)"
