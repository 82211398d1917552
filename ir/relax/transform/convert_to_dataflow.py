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
from ..expr_functor import ExprMutator
from ..function import Function
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


class _Converter(ExprMutator):
    def __init__(self, min_size: int) -> None:
        super().__init__()
        self._min_size = min_size

    def visit_seq_expr_(self, seq: Any) -> Any:
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
            return super().visit_seq_expr_(seq)
        for block in blocks:
            for binding in block.bindings:
                if isinstance(binding.var, DataflowVar):
                    self.set_var_remap(binding.var.vid, binding.var)  # uses follow the kind of the definition
        return super().visit_seq_expr_(SeqExpr(blocks, seq.body, seq.struct_info_, seq.span))


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
        return _Converter(self.min_size).visit_expr(func)


__all__ = ["ConvertToDataflow"]
