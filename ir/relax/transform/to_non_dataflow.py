"""ToNonDataflow: turn dataflow blocks into plain ones, which low-level code with effects needs."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...transform import PassContext
from ..expr import Binding, BindingBlock, DataflowVar, MatchCast, SeqExpr, Var, VarBinding
from ..function import Function
from .binding_rewriter import BindingRewriter, normalized
from .function_pass import FunctionPass


class _Flattener(BindingRewriter):
    def visit_binding(self, binding: Binding) -> None:
        var, old = binding.var, binding.value  # type: ignore[attr-defined]
        value = normalized(old)
        if isinstance(var, DataflowVar):
            self.replaced[var] = var = Var(var.vid, var.struct_info_, var.span)
        if var is not binding.var or value is not old:
            if isinstance(binding, MatchCast):
                binding = MatchCast(var, value, binding.struct_info, binding.span)
            else:
                binding = VarBinding(var, value, binding.span)
        self.emit_binding(binding)

    def _append(
        self, blocks: list[BindingBlock], old: BindingBlock | None, bindings: tuple[Binding, ...]
    ) -> None:
        if not bindings:
            return
        if blocks:
            blocks[-1] = BindingBlock((*blocks[-1].bindings, *bindings))
        else:
            blocks.append(BindingBlock(bindings))

    def visit_seq(self, seq: SeqExpr) -> SeqExpr:
        if (
            all(type(block) is BindingBlock for block in seq.blocks)
            and len(seq.blocks) <= 1
            and not _nested(seq)
        ):
            return super().visit_seq(seq) if self.replaced else seq
        return super().visit_seq(seq)


def _nested(seq: SeqExpr) -> bool:
    return any(
        type(binding.value).__name__ in ("If", "Function")  # type: ignore[attr-defined]
        for block in seq.blocks
        for binding in block.bindings
    )


def to_non_dataflow(func: Function) -> Function:
    """The function without dataflow blocks."""
    return _Flattener().rewrite(func)


@dataclass(frozen=True)
class ToNonDataflow(FunctionPass):
    """Replace dataflow blocks by plain blocks and dataflow variables by plain variables.

    Before::

        with R.dataflow():
            lv = R.add(x, x)
            gv = R.exp(lv)
            R.output(gv)

    After::

        lv = R.add(x, x)
        gv = R.exp(lv)
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function without dataflow blocks."""
        return to_non_dataflow(func)


__all__ = ["ToNonDataflow", "to_non_dataflow"]
