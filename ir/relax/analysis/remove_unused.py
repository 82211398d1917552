"""Removing bindings whose variables nobody uses."""

from __future__ import annotations

from typing import Any

from ..expr import BindingBlock, DataflowBlock, DataflowVar, MatchCast, SeqExpr, Tuple
from ..expr_substitution import ExprMutatorBase
from ..function import Function
from ..symbolic_vars import definable_tir_vars_in_struct_info, tir_vars_in
from .binding import used_vars
from .purity import contains_impure_call


def _symbols_in(node: Any) -> set[Any]:
    """Symbolic variables that expressions and struct infos below mention."""
    found: set[Any] = set()

    def walk(item: Any) -> None:
        info = getattr(item, "struct_info_", None)
        if info is not None and not isinstance(item, Function):
            found.update(tir_vars_in(info))
        if not isinstance(item, Function):
            found.update(
                tir_vars_in(item) if not hasattr(item, "blocks") and not hasattr(item, "bindings") else ()
            )
        item._visit_children(walk)

    walk(node)
    return found


class _RemoveUnused(ExprMutatorBase):
    """Walks sequences backwards, keeping what later code needs."""

    def visit_seq_expr_(self, seq: Any) -> Any:
        live = {var.vid for var in used_vars(seq.body)}
        symbols = _symbols_in(seq.body)
        blocks: list[BindingBlock] = []
        for block in reversed(seq.blocks):
            kept = []
            for binding in reversed(block.bindings):
                if not self._needed(binding, live, symbols, isinstance(block, DataflowBlock)):
                    continue
                value = self.visit_expr(binding.value)
                if value is not binding.value:
                    binding = binding.replace(value=value)
                kept.append(binding)
                live.update(var.vid for var in used_vars(binding.value))
                symbols |= _symbols_in(binding.value)
                if binding.var.struct_info_ is not None:
                    symbols.update(tir_vars_in(binding.var.struct_info_))
            kept.reverse()
            if len(kept) == len(block.bindings) and all(
                a is b for a, b in zip(kept, block.bindings, strict=True)
            ):
                blocks.append(block)
            elif kept:
                blocks.append(type(block)(kept, block.span))
        blocks.reverse()
        if len(blocks) == len(seq.blocks) and all(a is b for a, b in zip(blocks, seq.blocks, strict=True)):
            return seq
        return SeqExpr(blocks, seq.body, seq.struct_info_, seq.span)

    def _needed(self, binding: Any, live: set[Any], symbols: set[Any], in_dataflow: bool) -> bool:
        if binding.var.vid in live:
            return True
        if isinstance(binding, MatchCast):
            defined = definable_tir_vars_in_struct_info(binding.struct_info)
            if any(var in symbols for var in defined):
                return True
            # outside dataflow a match cast is a check of the program's that must stay
            return not in_dataflow
        return contains_impure_call(binding.value)


def remove_all_unused(func: Any) -> Any:
    """A copy of a function (or dataflow block) without bindings that have no effect and whose variables nobody uses.

    In a dataflow block given by itself, all variables that are no DataflowVar count as used.
    """
    if isinstance(func, DataflowBlock):
        outputs = [binding.var for binding in func.bindings if not isinstance(binding.var, DataflowVar)]
        seq = _RemoveUnused().visit_expr(SeqExpr([func], Tuple(outputs)))
        return seq.blocks[0] if seq.blocks else DataflowBlock(())
    return _RemoveUnused().visit_expr(func)
