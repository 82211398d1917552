"""AllocateKernelScratch: memory that the kernels of one function hand over on a device is planned with all other memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...codegen.cuda.lowered import host_of, lowered_for_device
from ...codegen.cuda.queue import SCRATCH, scratch_bytes
from ...codegen.error import CodegenError
from ...codegen.llvm.signature import symbols_of
from ...expr import GlobalVar
from ...function import BaseFunc
from ...module import IRModule
from ...op import Op
from ...target.target import Target
from ...tir.buffer import decl_buffer
from ...tir.expr import PrimExpr, Var
from ...tir.function import PrimFunc
from ...tir.operators import const
from ...tir.stmt_functor import substitute, variables_in
from ...transform import ModulePass, PassContext
from ..analysis.binding import all_global_vars
from ..analysis.kernel_operands import kernel_operands
from ..expr import Call, DataTypeImm, PrimValue, ShapeExpr, StringImm, Tuple, is_call_to
from ..expr_functor import ExprMutator
from ..function import Function
from ..struct_info import TensorStructInfo


def _with_scratch(func: PrimFunc, host: PrimFunc) -> tuple[PrimFunc, PrimExpr] | None:
    """The function with scratch memory behind its buffers, and the bytes of it; None where it needs none."""
    sizes = scratch_bytes(host)
    if not sizes:
        return None
    total: PrimExpr = const(0, "int64")
    for size in sizes:
        total = total + size
    # lowering may have come from another process: variables are the same by their places
    before = [*host.params, *symbols_of(host)]
    after = [*func.params, *symbols_of(func)]
    total = substitute(total, dict(zip(before, after, strict=True)))
    unknown = [var for var in variables_in(total) if var not in after]
    if unknown:
        raise CodegenError(
            f"the kernels of {func.attrs.get('global_symbol', 'a function')} hand over memory whose size depends on {unknown[0].name},"
            " which changes while it runs; give the buffer its largest size"
        )
    number = sum(param in func.buffer_map for param in func.params)
    param, buffer = Var("scratch", "handle"), decl_buffer((total,), "uint8", "scratch")
    params = [*func.params[:number], param, *func.params[number:]]
    made = func.replace(params=tuple(params), buffer_map={**func.buffer_map, param: buffer})
    return made.with_attr(SCRATCH, number), total


class _Caller(ExprMutator):
    """Gives calls of some kernels scratch memory."""

    def __init__(self, mod: IRModule, scratch: dict[GlobalVar, tuple[PrimFunc, PrimExpr]]) -> None:
        super().__init__(mod)
        self._scratch = scratch

    def looks_at(self, callee: Any) -> bool:
        return callee in self._scratch or (isinstance(callee, Op) and callee.name == "relax.vm.call_tir_dyn")

    def visit_call_(self, expr: Any) -> Any:
        call = super().visit_call_(expr)
        if is_call_to(call, "relax.vm.call_tir_dyn"):
            callee, given = call.args
            assert isinstance(given, Tuple)
            if callee not in self._scratch:
                return call
            *operands, scalars = given.fields
            told: Any = scalars.struct_info_
            operands = self._operands(callee, operands, told.values or ())
            return call.replace(args=(callee, Tuple([*operands, scalars])))
        if isinstance(call, Call) and call.op in self._scratch:
            return call.replace(args=tuple(self._operands(call.op, list(call.args), ())))
        return call

    def _operands(self, callee: Any, operands: list[Any], scalars: Any) -> list[Any]:
        func, total = self._scratch[callee]
        count = int(func.attrs[SCRATCH])
        infos = [operand.struct_info_ for operand in operands[:count]]
        shapes = [info.shape_values if isinstance(info, TensorStructInfo) else None for info in infos]
        kernel: Any = self.builder_.get()[callee]
        known = kernel_operands(kernel, shapes, scalars)
        values = {var: value.astype(var.dtype) for var, value in known.symbols.items()}
        shape = ShapeExpr([substitute(total, values)])
        args = (shape, DataTypeImm("uint8"), PrimValue(0), StringImm("global"))
        info = TensorStructInfo(shape, "uint8")
        place = self.builder_.emit(
            Call(Op.get("relax.builtin.alloc_tensor"), args, None, None, None, info), "scratch"
        )
        return [*operands[:count], place, *operands[count:]]


@dataclass(frozen=True)
class AllocateKernelScratch(ModulePass):
    """Functions whose kernels hand over memory take it as an argument, and their callers allocate it.

    A device's function may consist of several kernels; what one of them leaves for the next is allocated around them. It would be allocated
    at each call; as a tensor of the caller it shares the memory that is planned for the whole function. Runs behind CallTIRRewrite.

    Before (``softmax`` has a kernel that leaves 512 bytes for a second one)::

        alloc = R.builtin.alloc_tensor(R.shape([8, 16]), R.dtype("float32"), R.prim_value(0))
        _ = cls.softmax(x, alloc)

    After::

        alloc = R.builtin.alloc_tensor(R.shape([8, 16]), R.dtype("float32"), R.prim_value(0))
        scratch = R.builtin.alloc_tensor(R.shape([512]), R.dtype("uint8"), R.prim_value(0))
        _ = cls.softmax(x, alloc, scratch)

    Args:
        target: of kind ``cuda``; None is the one in force.

    Raises:
        CodegenError: the size of such memory is not known before a call.
    """

    target: Target | None = field(default=None)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module whose device functions allocate nothing."""
        target = self.target or Target.current(allow_none=False)
        assert target is not None
        called = {
            var
            for func in mod.functions.values()
            if isinstance(func, Function)
            for var in all_global_vars(func.body)
        }
        kernels = [
            (var, func)
            for var, func in mod.functions.items()
            if var in called
            and isinstance(func, PrimFunc)
            and SCRATCH not in func.attrs
            and not func.attrs.get("tir.is_host_func")
        ]
        lowered = lowered_for_device([(var.name_hint, func) for var, func in kernels], target)
        scratch = {}
        for (var, func), (_, module) in zip(kernels, lowered, strict=True):
            made = _with_scratch(func, host_of(module))
            if made is not None:
                scratch[var] = made
        if not scratch:
            return mod
        functions: dict[GlobalVar, BaseFunc] = {}
        for var, other in mod.functions.items():
            functions[var] = _Caller(mod, scratch).visit_expr(other) if isinstance(other, Function) else other
        functions.update({var: func for var, (func, _) in scratch.items()})
        return mod.replace(functions=functions)


__all__ = ["AllocateKernelScratch"]
