"""DataflowUseInplaceCalls: elementwise operators overwrite an operand that nobody needs any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...module import IRModule
from ...op import Op
from ...tir import PrimFunc
from ...tir.functor import substitute
from ...transform import ModulePass, PassContext
from ..block_builder import BlockBuilder
from ..expr import BindingBlock, Call, DataflowBlock, DataflowVar, Tuple, TupleGetItem, Var
from ..function import Function
from ..op.declaration import OpPatternKind
from ..struct_info import TensorStructInfo
from .binding_rewriter import BindingRewriter, is_call_to


def _is_elementwise(call: Call) -> bool:
    """Operators that read each element of the operand once, where they write the result's."""
    if not isinstance(call.op, Op) or call.op.get_attr("FLegalize") is None:
        return False
    return call.op.get_attr("TOpPattern") in (OpPatternKind.kElemWise, OpPatternKind.kBroadcast)


def _aliased(block: BindingBlock) -> set[Var]:
    """Variables whose memory may be seen under another name."""
    found: set[Var] = set()
    for binding in block.bindings:
        value: Any = binding.value  # type: ignore[attr-defined]
        if isinstance(value, Var | Tuple | TupleGetItem) or is_call_to(
            value, "relax.reshape", "relax.memory.view"
        ):
            found.add(binding.var)
            value._visit_children(lambda node: found.add(node) if isinstance(node, Var) else None)
            if isinstance(value, Var):
                found.add(value)
    return found


class _Inplace(BindingRewriter):
    def __init__(self, builder: BlockBuilder) -> None:
        super().__init__()
        self._builder = builder
        self._last: dict[Var, int] = {}
        self._own: set[Var] = set()
        self._position = 0

    def visit_block(self, block: BindingBlock) -> None:
        if not isinstance(block, DataflowBlock):
            super().visit_block(block)
            return
        aliased = _aliased(block)
        self._last = {}
        self._own = set()
        for number, binding in enumerate(block.bindings):

            def note(node: Any, number: int = number) -> None:
                if isinstance(node, Var):
                    self._last[node] = number
                else:
                    node._visit_children(note)

            note(binding.value)  # type: ignore[attr-defined]
            if isinstance(binding.var, DataflowVar) and binding.var not in aliased:
                self._own.add(binding.var)
        for number, binding in enumerate(block.bindings):
            self._position = number
            self._visit_nested(binding)

    def visit_call(self, var: Var, call: Call) -> None:
        target = self._operand_to_overwrite(var, call) if _is_elementwise(call) else None
        if target is None:
            self.bind(var, call)
            return
        if call.struct_info_ is None:
            call = Call(call.op, call.args, call.attrs, call.sinfo_args, call.span, var.struct_info_)
        legal = self._builder.normalize(call.op.get_attr("FLegalize")(self._builder, call))  # type: ignore[attr-defined]
        made = self._inplace(legal, call.args[target])
        self.bind(var, call if made is None else made)

    def _operand_to_overwrite(self, var: Var, call: Call) -> int | None:
        for number, arg in enumerate(call.args):
            if not isinstance(arg, Var) or arg not in self._own or self._last.get(arg) != self._position:
                continue
            if sum(other is arg for other in call.args) != 1:
                continue
            a, b = arg.struct_info_, var.struct_info_
            if isinstance(a, TensorStructInfo) and a == b and a.shape_values is not None:
                return number
        return None

    def _inplace(self, legal: Any, operand: Any) -> Call | None:
        """``call_tir`` of a kernel as ``call_tir_inplace`` of one that writes into its operand."""
        if (
            not is_call_to(legal, "relax.call_tir")
            or len(legal.args) != 2
            or not isinstance(legal.args[1], Tuple)
        ):
            return None
        fields = legal.args[1].fields
        if not any(field is operand for field in fields):
            return None
        position = next(number for number, field in enumerate(fields) if field is operand)
        kernel = self._builder.get()[legal.args[0]]
        assert isinstance(kernel, PrimFunc)
        new = self._builder.add_func(_writing_into(kernel, position), f"{legal.args[0].name_hint}_inplace")
        attrs = {"inplace_indices": (position,)}
        args = (new, legal.args[1])
        return Call(
            Op.get("relax.call_tir_inplace"), args, attrs, legal.sinfo_args, legal.span, legal.struct_info_
        )


def _writing_into(kernel: PrimFunc, position: int) -> PrimFunc:
    """The kernel without its output parameter, which the operand's buffer replaces."""
    output = kernel.params[-1]
    target = kernel.buffer_map[kernel.params[position]]
    body = substitute(kernel.body, {kernel.buffer_map[output]: target})
    buffers = {param: buffer for param, buffer in kernel.buffer_map.items() if param is not output}
    return PrimFunc(kernel.params[:-1], body, kernel.ret_type, buffers, kernel.attrs)


@dataclass(frozen=True)
class DataflowUseInplaceCalls(ModulePass):
    """Let elementwise operators write into an operand that is not used afterwards.

    Before::

        with R.dataflow():
            lv = R.add(x, y)
            gv = R.negative(lv)
            R.output(gv)

    After::

        with R.dataflow():
            lv = R.add(x, y)
            gv = R.call_tir_inplace(cls.tir_negative_inplace, (lv,), inplace_indices=[0], out_sinfo=R.Tensor((8,), "float32"))
            R.output(gv)

    Only variables of the same dataflow block without aliases are overwritten; parameters never.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with calls in place."""
        builder = BlockBuilder(mod)
        changed = False
        for var, func in mod.functions.items():
            if isinstance(func, Function) and "Primitive" not in func.attrs:
                new = _Inplace(builder).rewrite(func)
                if new is not func:
                    changed = True
                    builder.get().functions[var] = new
        if not changed:
            return mod
        # The kernels that were legalized only to be rewritten are not called.
        from .dead_code_elimination import called_names

        result = builder.get()
        used = called_names(result)
        known = {var.name_hint for var in mod.functions}
        kept = {
            var: f for var, f in result.functions.items() if var.name_hint in known or var.name_hint in used
        }
        return result.replace(functions=kept)


__all__ = ["DataflowUseInplaceCalls"]
