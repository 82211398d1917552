"""Rewriting one dataflow block step by step: adding bindings, replacing variables, removing what is unused."""

from __future__ import annotations

from typing import Any

from ..error import IRValueError
from ..expr import RelaxExpr
from ..module import IRModule
from .analysis.binding import udchain, used_vars
from .analysis.remove_unused import remove_all_unused
from .block_builder import BlockBuilder
from .expr import Binding, DataflowBlock, DataflowVar, SeqExpr, Var, VarBinding
from .expr_substitution import ExprMutatorBase
from .function import Function


class _Rename(ExprMutatorBase):
    """Replaces the uses of one variable; definitions stay."""

    def __init__(self, old: Var, new: Var) -> None:
        self._old, self._new = old, new

    def visit_var_(self, var: Any) -> Any:
        return self._new if var.vid is self._old.vid else var

    def visit_var_def_(self, var: Any) -> Any:
        return var


class DataflowBlockRewrite:
    """Edits a dataflow block of a function; the results are read from ``mutated_dfb`` and ``mutated_root_fn``.

    Args:
        dfb: the block to edit.
        root_fn: the function that it is in.
    """

    def __init__(self, dfb: DataflowBlock, root_fn: Function) -> None:
        if not any(block is dfb for block in root_fn.body.blocks):
            raise IRValueError("DataflowBlockRewrite: the block is none of the function's")
        self._original_fn = self._fn = root_fn
        self._dfb = dfb
        self._builder = BlockBuilder()
        for block in root_fn.body.blocks:
            for binding in block.bindings:
                self._builder.get_unique_name(binding.var.name_hint)

    def _set_block(self, new: DataflowBlock) -> None:
        blocks = [new if block is self._dfb else block for block in self._fn.body.blocks]
        self._fn = self._with_body(SeqExpr(blocks, self._fn.body.body, self._fn.body.struct_info_))
        self._dfb = new

    def _with_body(self, body: SeqExpr) -> Function:
        fn = self._fn
        return Function(fn.params, body, fn.ret_struct_info, fn.is_pure, fn.attrs, fn.span)

    def replace_all_uses(self, old_var: Var, new_var: Var) -> None:
        """Let everything that uses ``old_var``, in the block and after it, use ``new_var``; moves bindings if it must."""
        rename = _Rename(old_var, new_var)
        position = next(i for i, block in enumerate(self._fn.body.blocks) if block is self._dfb)
        new_dfb = _in_order(rename.visit_binding_block(self._dfb))
        blocks = [
            new_dfb if i == position else rename.visit_binding_block(block)
            for i, block in enumerate(self._fn.body.blocks)
        ]
        body = rename.visit_expr(self._fn.body.body)
        self._fn = self._with_body(SeqExpr(blocks, body, self._fn.body.struct_info_))
        self._dfb = new_dfb

    def add_binding(self, binding: Binding) -> None:
        """Add a binding at the end of the block."""
        if any(binding.var.vid is item.var.vid for block in self._fn.body.blocks for item in block.bindings):
            raise IRValueError(
                f"variable {binding.var.name_hint} is bound already; bindings are added with new variables"
            )
        self._set_block(DataflowBlock((*self._dfb.bindings, binding)))

    def add(self, expr: RelaxExpr, name: str | None = None, is_dfvar: bool = False) -> None:
        """Bind an expression to a new variable at the end of the block.

        Args:
            expr: its arguments must be variables and constants.
            name: of the variable; default a new one.
            is_dfvar: whether the variable is visible in the block only.
        """
        with self._builder.testing_scope([]):
            value = self._builder.normalize(expr)
        name = self._builder.get_unique_name(name or ("lv" if is_dfvar else "gv"))
        self.add_binding(VarBinding((DataflowVar if is_dfvar else Var)(name, value.struct_info), value))

    def remove_unused(self, var: Var, allow_undef: bool = False) -> None:
        """Remove the binding of a variable that nobody uses.

        Raises:
            IRValueError: the variable is used, or (unless ``allow_undef``) the block does not bind it.
        """
        if not any(item.var.vid is var.vid for item in self._dfb.bindings):
            if allow_undef:
                return
            raise IRValueError(f"remove_unused: the block does not bind {var.name_hint}")
        users = [item for item in used_vars(self._fn.body) if item.vid is var.vid]
        if users:
            raise IRValueError(
                f"remove_unused: {var.name_hint} is still used by {udchain(self._dfb).get(var, [])}"
            )
        self._set_block(DataflowBlock([item for item in self._dfb.bindings if item.var.vid is not var.vid]))

    def remove_all_unused(self) -> None:
        """Remove all bindings of the block (and function) that nobody uses."""
        position = next(i for i, block in enumerate(self._fn.body.blocks) if block is self._dfb)
        following = self._fn.body.blocks[position + 1 :]
        new = remove_all_unused(self._fn)
        found = [block for block in new.body.blocks if isinstance(block, DataflowBlock)]
        self._fn = new
        kept = [item.var.vid for item in self._dfb.bindings]
        for block in found:
            if any(item.var.vid in kept for item in block.bindings):
                self._dfb = block
                return
        # nothing of the block is left: an empty one stands in its place
        self._dfb = DataflowBlock(())
        blocks = [*(b for b in new.body.blocks if not any(b is f for f in following)), self._dfb]
        blocks += [b for b in new.body.blocks if any(b is f for f in following)]
        self._fn = self._with_body(SeqExpr(blocks, new.body.body, new.body.struct_info_))

    def mutated_dfb(self) -> DataflowBlock:
        """The block as it is now."""
        return self._dfb

    def mutated_root_fn(self) -> Function:
        """The function as it is now, normalized."""
        return BlockBuilder().normalize(
            self._with_body(SeqExpr([b for b in self._fn.body.blocks if b.bindings], self._fn.body.body))
        )

    def mutate_irmodule(self, irmodule: IRModule) -> IRModule:
        """A copy of the module with the function replaced."""
        new = irmodule.clone()
        for var, func in irmodule.functions.items():
            if func is self._original_fn:
                new.functions[var] = self.mutated_root_fn()
                return new
        raise IRValueError("mutate_irmodule: the module does not hold the function that was rewritten")


def _in_order(block: DataflowBlock) -> DataflowBlock:
    """The bindings so that definitions come before uses, otherwise in their order."""
    pending = {binding.var.vid: binding for binding in block.bindings}
    done: list[Binding] = []

    def emit(binding: Binding) -> None:
        if pending.pop(binding.var.vid, None) is None:
            return
        for var in used_vars(binding.value):
            if var.vid in pending:
                emit(pending[var.vid])
        done.append(binding)

    for binding in block.bindings:
        emit(binding)
    return DataflowBlock(done, block.span)
