"""LowerRuntimeBuiltin: general operators become those of the virtual machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...error import IRValueError
from ...module import IRModule
from ...op import Op
from ...transform import PassContext
from ..expr import Call, DataTypeImm, PrimValue, Tuple, known_shape
from ..expr_functor import ExprMutator
from ..function import ExternFunc, Function
from .function_pass import FunctionPass


def _storage(call: Call) -> Call:
    size, device, scope, _ = call.args
    args = (size, device, DataTypeImm("uint8"), scope)  # the size is in bytes
    return Call(Op.get("relax.vm.alloc_storage"), args, None, None, call.span)


def _tensor(call: Call) -> Call:
    return Call(Op.get("relax.vm.alloc_tensor"), call.args[:4], None, None, call.span, call.struct_info_)


def _kill(call: Call) -> Call:
    return Call(Op.get("relax.vm.kill_object"), call.args, None, None, call.span)


def _packed(name: str) -> Callable[[Call], Call]:
    """A call of the function ``name`` with the arguments of the operator."""

    def lower(call: Call) -> Call:
        return Call(ExternFunc(name), call.args, None, [call.struct_info], call.span, call.struct_info_)

    return lower


def _reshape(call: Call) -> Call:
    """Another shape of the same elements, given as second argument or by the operator's inference."""
    info: Any = call.struct_info
    shape = call.args[1] if call.op.name == "relax.reshape" else known_shape(info)  # type: ignore[attr-defined]
    if shape is None:
        raise IRValueError(f"LowerRuntimeBuiltin: the view {call} needs a known shape, it is {info}")
    return Call(ExternFunc("vm.builtin.reshape"), (call.args[0], shape), None, [info], call.span, info)


def _view(call: Call) -> Call:
    """A view that is more than another shape is made by the runtime, which gets what was left out as well."""
    data, _, _, offset = call.args
    info: Any = call.struct_info
    begin: Any = offset.value if isinstance(offset, PrimValue) else 0
    if info.dtype == data.struct_info.dtype and getattr(begin, "value", begin) == 0:
        return _reshape(call)
    shape = known_shape(info)
    if shape is None:
        raise IRValueError(f"LowerRuntimeBuiltin: the view {call} needs a known shape, it is {info}")
    args = (data, shape, DataTypeImm(info.dtype), PrimValue(begin))
    return Call(ExternFunc("runtime.TVMArrayCreateView"), args, None, [info], call.span, info)


def _closure(name: str) -> Callable[[Call], Call]:
    """A builtin gets the function (or closure) and the values behind it."""

    def lower(call: Call) -> Call:
        function, values = call.args
        fields = values.fields if isinstance(values, Tuple) else (values,)
        args = (ExternFunc(name), Tuple([function, *fields]))
        return Call(
            Op.get("relax.call_builtin_with_ctx"),
            args,
            None,
            [call.struct_info],
            call.span,
            call.struct_info_,
        )

    return lower


LOWERINGS: dict[str, Callable[[Call], Call]] = {
    "relax.memory.alloc_storage": _storage,
    "relax.memory.alloc_tensor": _tensor,
    "relax.memory.kill_storage": _kill,
    "relax.memory.kill_tensor": _kill,
    "relax.memory.view": _view,
    "relax.memory.ensure_zero_offset": _packed("vm.builtin.to_device"),
    "relax.reshape": _reshape,
    "relax.flatten": _reshape,
    "relax.expand_dims": _reshape,
    "relax.squeeze": _reshape,
    "relax.shape_of": _packed("vm.builtin.shape_of"),
    "relax.tensor_to_shape": _packed("vm.builtin.tensor_to_shape"),
    "relax.shape_to_tensor": _packed("relax.run.shape_to_tensor"),
    "relax.null_value": _packed("vm.builtin.null_value"),
    "relax.to_vdevice": _packed("vm.builtin.to_device"),
    "relax.hint_on_device": _packed("vm.builtin.to_device"),
    "relax.builtin.stop_lift_params": _packed("vm.builtin.to_device"),
    "relax.make_closure": _closure("vm.builtin.make_closure"),
    "relax.invoke_closure": _closure("vm.builtin.invoke_closure"),
}
"""What becomes of each operator; those that declare a packed function become calls of it."""


class _Lowerer(ExprMutator):
    def visit_call_(self, expr: Any) -> Any:
        call: Any = self.builder_.normalize(super().visit_call_(expr))
        if not isinstance(call.op, Op):
            return call
        lower = LOWERINGS.get(call.op.name)
        packed = call.op.get_attr("FCallPacked")
        if lower is None and packed is not None:
            lower = _packed(str(packed))
        return call if lower is None else lower(call)


@dataclass(frozen=True)
class LowerRuntimeBuiltin(FunctionPass):
    """Replace allocation, reshaping and shape operators by the virtual machine's own.

    Before: ``x = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))``

    After: ``x = R.vm.alloc_tensor(storage, R.prim_value(0), R.shape([8]), R.dtype("float32"))``

    Raises:
        IRValueError: the shape of a view is not known.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The lowered function."""
        new: Function = _Lowerer(mod).visit_expr(func)
        return new
