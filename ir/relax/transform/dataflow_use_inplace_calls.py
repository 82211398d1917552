"""DataflowUseInplaceCalls: elementwise operators overwrite an operand that nobody needs any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...tir.function import PrimFunc
from ...tir.stmt_functor import substitute
from ...transform import ModulePass, PassContext
from ..analysis.binding import used_vars
from ..analysis.memory import MemoryAnalysis
from ..expr import BindingBlock, Call, DataflowBlock, DataflowVar, Tuple, Var, is_call_to
from ..expr_functor import ExprMutator
from ..struct_info import TensorStructInfo
from .dead_code_elimination import called_names


class _Inplace(ExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._memory = MemoryAnalysis(mod)
        self._aliases: Any = None
        self._last: dict[Var, int] = {}
        self._own: set[Var] = set()
        self._position = 0

    def visit_function_(self, func: Any) -> Any:
        outer, self._aliases = self._aliases, self._memory.aliases(func)
        try:
            return super().visit_function_(func)
        finally:
            self._aliases = outer

    def visit_bindings(self, block: BindingBlock) -> None:
        outer = self._last, self._own, self._position
        self._last, self._own = {}, set()
        if isinstance(block, DataflowBlock):
            for number, binding in enumerate(block.bindings):
                self._last.update(dict.fromkeys(used_vars(binding.value), number))
                if isinstance(binding.var, DataflowVar):
                    self._own.add(binding.var)
        for number, binding in enumerate(block.bindings):
            self._position = number
            self.visit_binding(binding)
        self._last, self._own, self._position = outer

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        target = self._operand_to_overwrite(call)
        if target is None:
            return call
        legal = self.builder_.normalize(call.op.get_attr("FLegalize")(self.builder_, call))
        made = self._inplace(legal, call.args[target])
        return call if made is None else made

    def _operand_to_overwrite(self, call: Call) -> int | None:
        for (number,) in sorted(self._memory.effect_of(call).reuses, reverse=True):
            arg = call.args[number]
            if not isinstance(arg, Var) or not self._is_free(arg) or self._has_other_name(arg, call):
                continue
            a, b = arg.struct_info_, call.struct_info_
            if isinstance(a, TensorStructInfo) and a == b and a.shape_values is not None:
                return number
        return None

    def _is_free(self, arg: Var) -> bool:
        """Whether nobody looks at a variable's memory behind the current binding.

        What a local function captures is memory of the function around it.
        """
        aliases = self._aliases
        return (
            not aliases.belongs_to_caller(arg)
            and not any(map(aliases.is_seen_outside, aliases.roots(arg)))
            and all(
                var in self._own and self._last.get(var, -1) <= self._position for var in aliases.sharing(arg)
            )
        )

    def _has_other_name(self, arg: Var, call: Call) -> bool:
        """Whether another argument may be of the same memory: which of its elements lie where is unknown."""
        return any(other is not arg and self._aliases.may_alias(other, arg) for other in call.args)

    def _inplace(self, legal: Any, operand: Any) -> Call | None:
        """``call_tir`` of a kernel as ``call_tir_inplace`` of one that writes into its operand."""
        if (
            not is_call_to(legal, "relax.call_tir")
            or not isinstance(legal.args[1], Tuple)
            or not any(field is operand for field in legal.args[1].fields)
        ):
            return None
        fields = legal.args[1].fields
        position = max(number for number, field in enumerate(fields) if field is operand)
        source = legal.args[0]
        assert isinstance(source, GlobalVar)
        kernel = self.builder_.get_context_ir_module()[source]
        assert isinstance(kernel, PrimFunc)
        inplace_kernel = _writing_into(kernel, position, len(fields))
        if sum(field is operand for field in fields) > 1:  # what is written is an argument once more
            inplace_kernel = inplace_kernel.with_attr("tir.noalias", False)
        new = self.builder_.add_func(inplace_kernel, f"{source.name_hint}_inplace")
        attrs = {"inplace_indices": (position,)}
        args = (new, *legal.args[1:])
        inplace = Op.get("relax.call_tir_inplace")
        return legal.replace(op=inplace, args=args, attrs=attrs, struct_info_=legal.struct_info)  # type: ignore[no-any-return]


def _writing_into(kernel: PrimFunc, position: int, n_inputs: int) -> PrimFunc:
    """The kernel without its output parameter, which the operand's buffer replaces."""
    output = kernel.params[n_inputs]
    target = kernel.buffer_map[kernel.params[position]]
    body = substitute(kernel.body, {kernel.buffer_map[output]: target})
    buffers = {param: buffer for param, buffer in kernel.buffer_map.items() if param is not output}
    params = [param for param in kernel.params if param is not output]
    return PrimFunc(params, body, kernel.ret_type, buffers, kernel.attrs)


@dataclass(frozen=True)
class DataflowUseInplaceCalls(ModulePass):
    """Let operators that declare it (``reuses`` of their memory facet) write into an operand that is not used afterwards.

    Before::

        with R.dataflow():
            lv = R.add(x, y)
            gv = R.nn.relu(lv)
            R.output(gv)

    After::

        with R.dataflow():
            lv = R.add(x, y)
            gv = R.call_tir_inplace(cls.relu_inplace, (lv,), inplace_indices=[0], out_sinfo=R.Tensor((8,), "float32"))
            R.output(gv)

    Only variables of the same dataflow block are overwritten, whose memory nobody looks at afterwards; parameters never.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with calls in place."""
        result = _Inplace(mod).rewrite_module(mod, lambda var, func: "Primitive" not in func.attrs)
        if result is mod:
            return mod
        # The kernels that were legalized only to be rewritten are not called.
        used = called_names(result)
        known = {var.name_hint for var in mod.functions}
        kept = {
            var: f for var, f in result.functions.items() if var.name_hint in known or var.name_hint in used
        }
        return result.replace(functions=kept)


__all__ = ["DataflowUseInplaceCalls"]
