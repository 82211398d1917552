"""LowerRuntimeBuiltin: general operators become those of the virtual machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from ..expr import Call, DataTypeImm, Tuple, Var
from ..function import ExternFunc, Function
from ..struct_info import ObjectStructInfo, TupleStructInfo
from .binding_rewriter import BindingRewriter
from .function_pass import FunctionPass


def _storage(call: Call) -> Call:
    size, device, scope, _ = call.args
    return Call(
        Op.get("relax.vm.alloc_storage"),
        (size, device, DataTypeImm("uint8"), scope),  # the size is in bytes
        None,
        None,
        call.span,
        ObjectStructInfo(),
    )


def _tensor(call: Call) -> Call:
    return Call(Op.get("relax.vm.alloc_tensor"), call.args[:4], None, None, call.span, call.struct_info_)


def _kill(call: Call) -> Call:
    return Call(Op.get("relax.vm.kill_object"), call.args, None, None, call.span, TupleStructInfo(()))


def _packed(name: str) -> Callable[[Call], Call]:
    def lower(call: Call) -> Call:
        return Call(ExternFunc(name), call.args, None, [call.struct_info], call.span, call.struct_info_)

    return lower


def _invoke(call: Call) -> Call:
    closure, args = call.args
    fields = args.fields if isinstance(args, Tuple) else (args,)
    return Call(
        ExternFunc("vm.builtin.invoke_closure"),
        (closure, *fields),
        None,
        [call.struct_info],
        call.span,
        call.struct_info_,
    )


LOWERINGS: dict[str, Callable[[Call], Call]] = {
    "relax.memory.alloc_storage": _storage,
    "relax.memory.alloc_tensor": _tensor,
    "relax.memory.kill_storage": _kill,
    "relax.memory.kill_tensor": _kill,
    "relax.reshape": _packed("vm.builtin.reshape"),
    "relax.shape_of": _packed("vm.builtin.shape_of"),
    "relax.tensor_to_shape": _packed("vm.builtin.tensor_to_shape"),
    "relax.null_value": _packed("vm.builtin.null_value"),
    "relax.to_vdevice": _packed("vm.builtin.to_device"),
}
"""What becomes of each operator."""


class _Lowerer(BindingRewriter):
    def visit_call(self, var: Var, call: Call) -> None:
        lower = LOWERINGS.get(getattr(call.op, "name", ""))
        if lower is not None and call.struct_info_ is None:
            call = Call(call.op, call.args, call.attrs, call.sinfo_args, call.span, var.struct_info_)
        self.bind(var, call if lower is None else lower(call))


@dataclass(frozen=True)
class LowerRuntimeBuiltin(FunctionPass):
    """Replace allocation, reshaping and shape operators by the virtual machine's own.

    Before: ``x = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))``

    After: ``x = R.vm.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))``
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The lowered function."""
        return _Lowerer(mod).rewrite(func)
