"""AttachAttrLayoutFreeBuffers: tell kernels which of their operands are weights, whose layout they may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...tir.function import PrimFunc
from ...tir.kernel_attributes import LAYOUT_FREE_BUFFERS
from ...transform import ModulePass, PassContext
from ..expr import Call, Constant, Tuple, Var, is_call_to
from ..function import Function


def _free_operands(call: Call, weights: set[Var], bound: dict[Var, Any]) -> set[int]:
    """Positions of the operands that are constants or model weights."""
    arguments = call.args[1].fields if isinstance(call.args[1], Tuple) else (call.args[1],)
    found = set()
    for position, argument in enumerate(arguments):
        value = bound.get(argument, argument) if isinstance(argument, Var) else argument
        if isinstance(value, Constant) or (isinstance(value, Var) and value in weights):
            found.add(position)
    return found


@dataclass(frozen=True)
class AttachAttrLayoutFreeBuffers(ModulePass):
    """Attach ``layout_free_buffers`` to the PrimFuncs that Relax functions call.

    Weights are constants and, in functions with the attribute ``num_input``, the parameters behind the inputs. A kernel that is
    called from several places is free only in operands that are weights in all of them. Apply CanonicalizeBindings before.

    Before::

        y = R.call_tir(cls.matmul, (x, metadata["relax.expr.Constant"][0]), out_sinfo=R.Tensor((16, 16), "float32"))

    After, ``matmul`` has::

        T.func_attr({"layout_free_buffers": [1]})
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with annotated kernels."""
        free: dict[str, set[int]] = {}
        for func in mod.functions.values():
            if isinstance(func, Function):
                self._visit(func, free)
        functions = dict(mod.functions)
        for var, func in mod.functions.items():
            positions = free.get(var.name_hint)
            if positions and isinstance(func, PrimFunc):
                functions[var] = func.with_attr(LAYOUT_FREE_BUFFERS, sorted(positions))
        return mod.replace(functions=functions)

    def _visit(self, func: Function, free: dict[str, set[int]]) -> None:
        count = func.attrs.get("num_input")
        weights = set(func.params[int(getattr(count, "value", count)) :]) if count is not None else set()
        bound: dict[Var, Any] = {}

        def visit(node: Any) -> None:
            for block in getattr(node, "blocks", ()):
                for binding in block.bindings:
                    value: Any = getattr(binding, "value", None)
                    if isinstance(value, Constant | Var):
                        bound[binding.var] = bound.get(value, value) if isinstance(value, Var) else value
                    if is_call_to(value, "relax.call_tir") and isinstance(value.args[0], GlobalVar):
                        name = value.args[0].name_hint
                        positions = _free_operands(value, weights, bound)
                        free[name] = free[name] & positions if name in free else positions
                    for branch in ("true_branch", "false_branch", "body"):
                        if hasattr(value, branch):
                            visit(getattr(value, branch))
            if hasattr(node, "body"):
                visit(node.body)

        visit(func)
