"""ConvertToDataflow: put runs of pure bindings into dataflow blocks, where most passes work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...transform import PassContext
from ..analysis.binding import used_vars
from ..analysis.purity import contains_impure_call
from ..expr import Binding, BindingBlock, DataflowBlock, DataflowVar, If, SeqExpr, Var
from ..function import Function
from .binding_rewriter import BindingRewriter
from .function_pass import FunctionPass


def _is_dataflow(binding: Binding) -> bool:
    value: Any = binding.value  # type: ignore[attr-defined]
    return not isinstance(value, If | Function) and not contains_impure_call(value)


def _runs(block: BindingBlock) -> Iterator[tuple[bool, list[Binding]]]:
    """Maximal runs of bindings of one kind."""
    run: list[Binding] = []
    kind = False
    for binding in block.bindings:
        now = isinstance(block, DataflowBlock) or _is_dataflow(binding)
        if run and now is not kind:
            yield kind, run
            run = []
        kind = now
        run.append(binding)
    if run:
        yield kind, run


class _Converter(BindingRewriter):
    def __init__(self, min_size: int) -> None:
        super().__init__()
        self._min_size = min_size

    def visit_seq(self, seq: SeqExpr) -> SeqExpr:
        pieces: list[BindingBlock] = []
        for block in seq.blocks:
            for is_dataflow, bindings in _runs(block):
                if isinstance(block, DataflowBlock) or (is_dataflow and len(bindings) >= self._min_size):
                    pieces.append(DataflowBlock(bindings, block.span))
                elif pieces and type(pieces[-1]) is BindingBlock:
                    pieces[-1] = BindingBlock((*pieces[-1].bindings, *bindings))
                else:
                    pieces.append(BindingBlock(bindings))
        merged: list[BindingBlock] = []
        for piece in pieces:
            if isinstance(piece, DataflowBlock) and merged and isinstance(merged[-1], DataflowBlock):
                merged[-1] = DataflowBlock((*merged[-1].bindings, *piece.bindings))
            else:
                merged.append(piece)
        blocks = _with_dataflow_vars(merged, seq)
        if len(blocks) == len(seq.blocks) and all(
            type(a) is type(b)
            and len(a.bindings) == len(b.bindings)
            and all(x is y for x, y in zip(a.bindings, b.bindings, strict=True))
            for a, b in zip(blocks, seq.blocks, strict=True)
        ):
            return super().visit_seq(seq)
        marked = SeqExpr(blocks, seq.body, seq.struct_info_, seq.span)
        return super().visit_seq(_renamed(marked))


def _with_dataflow_vars(blocks: list[BindingBlock], seq: SeqExpr) -> list[BindingBlock]:
    """Variables that only their own dataflow block uses become dataflow variables at their definition."""
    result: list[BindingBlock] = []
    used_later = set(used_vars(seq.body))
    for block in reversed(blocks):
        if isinstance(block, DataflowBlock):
            bindings = []
            for binding in block.bindings:
                if type(binding.var) is Var and binding.var not in used_later:
                    binding = binding.replace(
                        var=DataflowVar(binding.var.vid, binding.var.struct_info_, binding.var.span)
                    )
                bindings.append(binding)
            result.append(DataflowBlock(bindings, block.span))
        else:
            result.append(block)
        for binding in block.bindings:
            used_later.update(used_vars(binding.value))  # type: ignore[attr-defined]
    result.reverse()
    return result


class _Rebind(BindingRewriter):
    """Uses follow definitions that changed the kind of their variable (which keeps its identity)."""

    def __init__(self, table: dict[Any, Var]) -> None:
        super().__init__()
        self._table = table

    def visit_binding(self, binding: Binding) -> None:
        self.emit_binding(binding)


def _renamed(seq: SeqExpr) -> SeqExpr:
    defined: dict[Any, Var] = {
        binding.var.vid: binding.var
        for block in seq.blocks
        for binding in block.bindings
        if isinstance(binding.var, DataflowVar)
    }
    rebind = _Rebind(defined)
    for block in seq.blocks:
        for binding in block.bindings:
            for var in used_vars(binding.value):  # type: ignore[attr-defined]
                new = defined.get(var.vid)
                if new is not None and new is not var:
                    rebind.replaced[var] = new
    return rebind.visit_seq(seq)


@dataclass(frozen=True)
class ConvertToDataflow(FunctionPass):
    """Collect consecutive pure bindings without control flow into dataflow blocks; neighbouring dataflow blocks merge.

    Before::

        lv = R.add(x, x)
        gv = R.exp(lv)
        R.print(format="done")

    After::

        with R.dataflow():
            lv = R.add(x, x)
            gv = R.exp(lv)
            R.output(gv)
        R.print(format="done")

    Args:
        min_size: how many bindings a new block has at least.
    """

    min_size: int = 2

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function with dataflow blocks."""
        return _Converter(self.min_size).rewrite(func)


__all__ = ["ConvertToDataflow"]
