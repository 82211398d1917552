"""DataflowBlockPass: passes that look at one dataflow block at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...module import IRModule
from ...transform import Pass, PassContext, PassError, pass_decorator
from ..expr import BindingBlock, DataflowBlock
from ..expr_functor import ExprMutator
from ..function import Function
from .function_pass import rewrite_functions


class DataflowBlockPass(Pass):
    """A pass over every dataflow block: subclasses define ``transform_dataflowblock(self, block, mod, ctx)``.

    A block pass may not change what leaves the block: its output variables (those that are no DataflowVar) stay bound.
    """

    def transform_dataflowblock(self, block: DataflowBlock, mod: IRModule, ctx: PassContext) -> DataflowBlock:
        """The new block."""
        raise PassError(f"{type(self).__name__} must define transform_dataflowblock(self, block, mod, ctx)")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply ``transform_dataflowblock`` to every dataflow block."""

        def rewrite(block: DataflowBlock) -> DataflowBlock:
            new = self.transform_dataflowblock(block, mod, ctx)
            if not isinstance(new, DataflowBlock):
                raise PassError(
                    f"pass {self.info.name} must return a DataflowBlock, got {type(new).__name__}"
                )
            return new

        return rewrite_functions(mod, lambda var, func: rewrite_dataflow_blocks(func, rewrite))


class _BlockRewriter(ExprMutator):
    def __init__(self, rewrite: Callable[[DataflowBlock], DataflowBlock]) -> None:
        super().__init__()
        self._rewrite = rewrite

    def visit_bindings(self, block: BindingBlock) -> None:
        super().visit_bindings(self._rewrite(block) if isinstance(block, DataflowBlock) else block)


def rewrite_dataflow_blocks(func: Function, rewrite: Callable[[DataflowBlock], DataflowBlock]) -> Function:
    """The function with ``rewrite`` applied to its dataflow blocks, those in branches and local functions included."""
    return _BlockRewriter(rewrite).visit_expr(func)  # type: ignore[no-any-return]


def dataflowblock_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a :class:`DataflowBlockPass` of a function ``(block, mod, ctx) -> block`` or of a class with its method.

    Args: as those of :func:`function_pass`.
    """
    return pass_decorator(
        DataflowBlockPass, "transform_dataflowblock", pass_func, opt_level, name, required, traceable
    )
