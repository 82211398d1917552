"""Statements in errors: the line that a person would look for."""

from __future__ import annotations

from . import stmt as S


def spelled(node: S.Stmt) -> str:
    """A statement as script, without what is in it, for errors that name it."""
    if isinstance(node, S.BufferStore):
        return f"{node.buffer.name}[{', '.join(map(str, node.indices))}] = {node.value}"
    if isinstance(node, S.Evaluate):
        return str(node.value)
    if isinstance(node, S.LetStmt):
        return f"{node.var.name} = {node.value}"
    if isinstance(node, S.For):
        return f"the bounds of the loop over {node.loop_var.name}"
    if isinstance(node, S.IfThenElse):
        return f"if {node.condition}"
    if isinstance(node, S.While):
        return f"while {node.condition}"
    if isinstance(node, S.AssertStmt):
        return f"assert {node.condition}"
    if isinstance(node, S.BlockRealize):
        return f"the bindings of block {node.block.name_hint}"
    if isinstance(node, S.AttrStmt):
        return spelled(node.body)
    return type(node).__name__
