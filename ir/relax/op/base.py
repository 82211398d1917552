"""Operators of the language itself: calls of TIR functions and external functions, closures, shapes, devices, printing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...error import IRTypeError, IRValueError
from ...expr import GlobalVar, RelaxExpr
from ...global_info import VDevice
from ...op import register_op_attr
from ...registry import get_global_func, register_func
from ...tir.expr import Var as TirVar
from ..devices import device_number
from ..expr import (
    Call,
    DataflowVar,
    Expr,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    convert_to_expr,
)
from ..function import ExternFunc
from ..struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..struct_info_lattice import derive_call_ret_struct_info
from .declaration import call, operator
from .folding import fold_kernel, fold_shape_of, fold_shape_to_tensor, fold_tensor_to_shape
from .inference import as_int, check_arity, fail, same_as, shape_arg, tensor_args, wrong_kind
from .lowering import builtin_with_function, packed
from .memory_effect import (
    EFFECT,
    FRESH,
    OPAQUE,
    UNKNOWN,
    MemoryEffect,
    ReadFromCall,
    View,
    declare_external,
    external_memory,
    view_of,
)


def _out_struct_info(out_sinfo: Any) -> StructInfo:
    """One struct info of the outputs; lists become tuples."""
    if isinstance(out_sinfo, list | tuple):
        return TupleStructInfo([_out_struct_info(item) for item in out_sinfo])
    if not isinstance(out_sinfo, StructInfo):
        raise IRTypeError(f"out_sinfo must be a StructInfo or a list of them, got {type(out_sinfo).__name__}")
    return out_sinfo


def _as_args(args: Any) -> Expr:
    """Arguments as a tuple expression."""
    if isinstance(args, Tuple):
        return args
    if isinstance(args, RelaxExpr):
        info = args.struct_info_
        return args if isinstance(info, TupleStructInfo) else Tuple([args])
    return Tuple(args)


def _infer_sinfo_arg(node: Call, builder: Any) -> StructInfo:
    if len(node.sinfo_args) != 1:
        raise fail(node, f"expected the output's struct info as one sinfo_args, got {len(node.sinfo_args)}")
    return node.sinfo_args[0]


def _infer_call_tir(node: Call, builder: Any) -> StructInfo:
    if not node.args or not isinstance(node.args[0], GlobalVar):
        raise wrong_kind(node, "the first argument must be the GlobalVar of a PrimFunc")
    if len(node.args) < 2 or not isinstance(node.args[1].struct_info, TupleStructInfo):
        raise wrong_kind(node, "the second argument must be a tuple of arguments")
    return _infer_sinfo_arg(node, builder)


def _call_tir_args(gvar: Any, args: Any, tir_vars: Any) -> list[Any]:
    found = [gvar, _as_args(args)]
    if tir_vars is not None:
        found.append(tir_vars if isinstance(tir_vars, RelaxExpr) else ShapeExpr(tir_vars))
    return found


def _fields_in_place(builder: Any, node: Call) -> Call:
    """The arguments of a kernel are written as a tuple, so that passes see them: not as a variable that holds one."""
    args = node.args[1]
    info = args.struct_info_
    if isinstance(args, Tuple) or not isinstance(info, TupleStructInfo) or not builder.in_block:
        return node
    bound = builder.lookup_binding(args) if isinstance(args, Var) else None
    if not isinstance(bound, Tuple) or not (isinstance(args, DataflowVar) or _visible_everywhere(bound)):
        bound = Tuple([builder.emit(TupleGetItem(args, index)) for index in range(len(info.fields))])
    return Call(node.op, (node.args[0], bound, *node.args[2:]), node.attrs, node.sinfo_args, node.span)


def _visible_everywhere(fields: Tuple) -> bool:
    return not any(isinstance(field, DataflowVar) for field in fields.fields)


CALLS_KERNEL: dict[str, Any] = {"normalize": _fields_in_place, "callee": 0, "is_lowered": True}
"""What operators share whose first arguments are a function and the tuple of what it is called with."""


@operator("relax.call_tir", infer=_infer_call_tir, fold=fold_kernel, **CALLS_KERNEL)
def call_tir(gvar: GlobalVar, args: Any, out_sinfo: Any, tir_vars: Any = None) -> Call:
    """Call a PrimFunc in destination-passing style: the outputs are allocated and passed behind the arguments.

    Args:
        gvar: the PrimFunc.
        args: the tensors to pass: an expression or a list of them.
        out_sinfo: the struct info of the output, or a list for several outputs.
        tir_vars: integers to pass behind the tensors, the symbolic variables that no tensor's shape tells.
    """
    return call(
        "relax.call_tir", *_call_tir_args(gvar, args, tir_vars), sinfo_args=[_out_struct_info(out_sinfo)]
    )


def _without_gradient(node: Call) -> Call:
    """The same call of the kernel, when nobody differentiates it any more."""
    return call("relax.call_tir", *node.args, sinfo_args=node.sinfo_args)


def _te_gradient(var: Var, node: Call, grad: Expr, builder: Any) -> list[Any]:
    """By the te function that the call names, which is called with the call as call_tir."""
    name = str(node.attrs["te_grad_name"])
    function = get_global_func(name, allow_missing=True)
    if function is None:
        raise IRValueError(f"Gradient: no te gradient {name!r} is registered")
    options = dict(node.attrs.get("te_grad_kwargs") or {})
    made = function(var, _without_gradient(node), grad, builder, **options)
    parts = list(made) if isinstance(made, list | tuple) else [made]
    return [None, Tuple(parts), *[None] * (len(node.args) - 2)]


@operator(
    "relax.call_tir_with_grad",
    infer=_infer_call_tir,
    legalize=lambda builder, node: _without_gradient(node),
    gradient=_te_gradient,
    **CALLS_KERNEL,
)
def call_tir_with_grad(
    gvar: GlobalVar,
    args: Any,
    out_sinfo: Any,
    te_grad_name: str,
    te_grad_kwargs: Mapping[str, Any] | None = None,
    tir_vars: Any = None,
) -> Call:
    """As :func:`call_tir`, with the name of the registered te gradient function and its keyword arguments."""
    return call(
        "relax.call_tir_with_grad",
        *_call_tir_args(gvar, args, tir_vars),
        attrs={"te_grad_name": te_grad_name, "te_grad_kwargs": dict(te_grad_kwargs or {})},
        sinfo_args=[_out_struct_info(out_sinfo)],
    )


def _infer_call_tir_inplace(node: Call, builder: Any) -> StructInfo:
    info = _infer_call_tir(node, builder)
    outputs = info.fields if isinstance(info, TupleStructInfo) else (info,)
    indices = node.attrs["inplace_indices"]
    arguments = node.args[1].struct_info.fields
    if len(indices) != len(outputs):
        raise fail(node, f"{len(indices)} inplace_indices for {len(outputs)} outputs")
    if all(index == -1 for index in indices):
        raise fail(node, "at least one output must be in place; use call_tir otherwise")
    used = [index for index in indices if index != -1]
    if len(set(used)) != len(used):
        raise fail(node, f"inplace_indices {tuple(indices)} name an argument twice")
    for index in used:
        if not 0 <= index < len(arguments):
            raise fail(node, f"in-place index {index} is out of range for {len(arguments)} arguments")
    return info


def _inplace_views(indices: Any) -> MemoryEffect:
    """Result ``i`` is the argument ``indices[i]``, overwritten; -1 stands for a new value."""
    numbers = [int(getattr(index, "value", index)) for index in indices]
    at: list[tuple[int, ...]] = [()] if len(numbers) == 1 else [(field,) for field in range(len(numbers))]
    taken = [(View((number,), place), (number,)) for place, number in zip(at, numbers) if number >= 0]
    return MemoryEffect(tuple([view for view, _ in taken]), tuple([written for _, written in taken]))


@operator(
    "relax.call_tir_inplace",
    infer=_infer_call_tir_inplace,
    memory=ReadFromCall(lambda node: _inplace_views(node.attrs["inplace_indices"]).among((1,))),
    **CALLS_KERNEL,
)
def call_tir_inplace(
    gvar: GlobalVar, args: Any, inplace_indices: Any, out_sinfo: Any, tir_vars: Any = None
) -> Call:
    """As :func:`call_tir`, where output ``i`` overwrites the argument ``inplace_indices[i]`` (-1: a new tensor).

    The overwritten arguments must not be used afterwards; the operator counts as pure under that condition.
    """
    indices = [inplace_indices] if isinstance(inplace_indices, int) else list(inplace_indices)
    return call(
        "relax.call_tir_inplace",
        *_call_tir_args(gvar, args, tir_vars),
        attrs={"inplace_indices": indices},
        sinfo_args=[_out_struct_info(out_sinfo)],
    )


@operator("relax.call_dps_packed", infer=_infer_sinfo_arg, **CALLS_KERNEL)
def call_dps_packed(func: str | Expr, args: Any, out_sinfo: Any) -> Call:
    """Call an external function in destination-passing style, by name or as an expression."""
    callee = ExternFunc(func) if isinstance(func, str) else func
    return call("relax.call_dps_packed", callee, _as_args(args), sinfo_args=[_out_struct_info(out_sinfo)])


def _infer_packed_result(node: Call, builder: Any) -> StructInfo:
    if not node.args:
        raise fail(node, "expected the function to call as first argument")
    if len(node.sinfo_args) == 1:
        return node.sinfo_args[0]
    info = node.args[0].struct_info_
    if isinstance(info, FuncStructInfo):
        return derive_call_ret_struct_info(info, Call(node.args[0], node.args[1:]), builder)
    return ObjectStructInfo()


def _memory_of_callee(node: Call, prefix: tuple[int, ...] = (), first: int = 0) -> MemoryEffect:
    """What the external function that is the first argument does to the arguments behind it."""
    callee = node.args[0]
    known = external_memory(callee.global_symbol) if isinstance(callee, ExternFunc) else OPAQUE
    return known.among(prefix, first)


@operator(
    "relax.call_pure_packed",
    infer=_infer_packed_result,
    memory=ReadFromCall(lambda node: _memory_of_callee(node, first=1)),
    callee=0,
    is_lowered=True,
)
def call_pure_packed(func: str | ExternFunc | GlobalVar, *args: Any, sinfo_args: Any = None) -> Call:
    """Call an external function that is promised to have no visible effect."""
    callee = ExternFunc(func) if isinstance(func, str) else func
    if sinfo_args is not None:
        sinfo_args = [sinfo_args] if isinstance(sinfo_args, StructInfo) else list(sinfo_args)
    return call("relax.call_pure_packed", callee, *args, sinfo_args=sinfo_args)


@operator(
    "relax.call_inplace_packed",
    infer=_infer_packed_result,
    memory=ReadFromCall(lambda node: _inplace_views(node.attrs["inplace_indices"]).among((), 1)),
    callee=0,
    is_lowered=True,
)
def call_inplace_packed(
    func: str | ExternFunc | GlobalVar, *args: Any, inplace_indices: Any, sinfo_args: Any
) -> Call:
    """Call an external function that overwrites some arguments (-1: a new value) and has no other visible effect."""
    callee = ExternFunc(func) if isinstance(func, str) else func
    indices = [inplace_indices] if isinstance(inplace_indices, int) else list(inplace_indices)
    sinfo_args = [sinfo_args] if isinstance(sinfo_args, StructInfo) else list(sinfo_args)
    return call(
        "relax.call_inplace_packed", callee, *args, attrs={"inplace_indices": indices}, sinfo_args=sinfo_args
    )


def call_builtin_with_ctx(func: str | Expr, args: Any, *, sinfo_args: Any = None) -> Call:
    """Call a builtin function with the virtual machine's context as first argument."""
    callee = ExternFunc(func) if isinstance(func, str) else func
    if sinfo_args is not None and not isinstance(sinfo_args, list | tuple):
        sinfo_args = [sinfo_args]
    return _build_call_builtin_with_ctx(callee, _as_args(args), sinfo_args)


def _infer_builtin(node: Call, builder: Any) -> StructInfo:
    if not node.sinfo_args:
        return ObjectStructInfo()
    return node.sinfo_args[0] if len(node.sinfo_args) == 1 else TupleStructInfo(node.sinfo_args)


@operator(
    "relax.call_builtin_with_ctx",
    infer=_infer_builtin,
    memory=ReadFromCall(lambda node: _memory_of_callee(node, (1,)), pure=False),
    callee=0,
    is_lowered=True,
)
def _build_call_builtin_with_ctx(callee: Expr, args: Expr, sinfo_args: Any) -> Call:
    return call("relax.call_builtin_with_ctx", callee, args, sinfo_args=sinfo_args)


@operator(
    "relax.make_closure",
    infer=lambda node, builder: ObjectStructInfo(),
    memory=view_of(1),
    lowering=builtin_with_function("vm.builtin.make_closure"),
)
def make_closure(func: Expr, args: Any) -> Call:
    """A closure of a function and the values that it captures."""
    return call("relax.make_closure", func, _as_args(args))


@operator(
    "relax.invoke_closure",
    infer=_infer_builtin,
    memory=OPAQUE,
    lowering=builtin_with_function("vm.builtin.invoke_closure"),
)
def invoke_closure(closure: Expr, args: Any, sinfo_args: Any) -> Call:
    """Call a closure; ``sinfo_args`` is the struct info of the result."""
    infos = [sinfo_args] if isinstance(sinfo_args, StructInfo) else list(sinfo_args)
    return call("relax.invoke_closure", closure, _as_args(args), sinfo_args=infos)


@operator("relax.invoke_pure_closure", infer=_infer_builtin, memory=UNKNOWN)
def invoke_pure_closure(closure: Expr, args: Any, sinfo_args: Any) -> Call:
    """Call a closure that is promised to have no visible effect."""
    infos = [sinfo_args] if isinstance(sinfo_args, StructInfo) else list(sinfo_args)
    return call("relax.invoke_pure_closure", closure, _as_args(args), sinfo_args=infos)


@operator(
    "relax.null_value",
    infer=lambda node, builder: ObjectStructInfo(),
    lowering=packed("vm.builtin.null_value"),
)
def null_value() -> Call:
    """A value that stands for nothing."""
    return call("relax.null_value")


@operator(
    "relax.print",
    infer=lambda node, builder: TupleStructInfo(()),
    memory=EFFECT,
    call_packed="relax.run.print",
)
def print(*values: Any, format: str | Expr = "") -> Call:
    """Print values when the program runs; ``format`` is a Python format string, by default the values in a row."""
    template = StringImm(format) if isinstance(format, str) else format
    return call("relax.print", template, *values)


def _infer_assert(node: Call, builder: Any) -> StructInfo:
    if not node.args:
        raise fail(node, "expected a condition")
    info = node.args[0].struct_info
    if isinstance(info, TensorStructInfo):
        if info.dtype not in ("", "bool") or info.ndim not in (-1, 0):
            raise wrong_kind(node, f"the condition must be a scalar bool tensor, got {info}")
    elif isinstance(info, PrimStructInfo):
        if info.dtype != "bool":
            raise wrong_kind(node, f"the condition must be a bool, got {info.dtype}")
    else:
        raise wrong_kind(node, f"the condition must be a bool, got {info}")
    if len(node.args) > 1 and not isinstance(node.args[1], StringImm):
        raise wrong_kind(node, "the format must be a string")
    return TupleStructInfo(())


@operator("relax.assert_op", infer=_infer_assert, memory=EFFECT, call_packed="relax.run.assert_op")
def assert_op(condition: Any, format_args: Any = None, format: str | Expr = "") -> Call:
    """Stop the program with a message unless the condition holds.

    Args:
        condition: a scalar bool tensor or value.
        format_args: values for the message: an expression or a list.
        format: a Python format string.
    """
    values = (
        []
        if format_args is None
        else [format_args]
        if isinstance(format_args, RelaxExpr)
        else list(format_args)
    )
    template = StringImm(format) if isinstance(format, str) else format
    return call("relax.assert_op", convert_to_expr(condition), template, *values)


def _infer_shape_of(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    if info.shape_values is not None:
        return ShapeStructInfo(info.shape_values)
    return ShapeStructInfo(ndim=info.ndim)


@operator(
    "relax.shape_of",
    infer=_infer_shape_of,
    fold=fold_shape_of,
    lowering=packed("vm.builtin.shape_of"),
)
def shape_of(expr: Expr) -> Call:
    """The shape of a tensor, as a shape value."""
    return call("relax.shape_of", expr)


def _infer_shape_to_tensor(node: Call, builder: Any) -> StructInfo:
    check_arity(node, 1)
    info = shape_arg(node, 0)
    if info.ndim == -1:
        return TensorStructInfo(None, "int64", ndim=1)
    return TensorStructInfo([info.ndim], "int64")


def _legalize_shape_to_tensor(bb: Any, node: Call) -> Expr:
    return call_pure_packed(
        "relax.run.shape_to_tensor", node.args[0], sinfo_args=_infer_shape_to_tensor(node, bb)
    )


@operator(
    "relax.shape_to_tensor",
    infer=_infer_shape_to_tensor,
    fold=fold_shape_to_tensor,
    legalize=_legalize_shape_to_tensor,
    lowering=packed("relax.run.shape_to_tensor"),
)
def shape_to_tensor(expr: Expr) -> Call:
    """A shape as a 1-dimensional int64 tensor."""
    return call("relax.shape_to_tensor", expr)


def _infer_tensor_to_shape(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    if info.ndim not in (-1, 1):
        raise fail(node, f"expected a 1-dimensional tensor, got {info.ndim} dimensions")
    if info.dtype not in ("", "int64"):
        raise wrong_kind(node, f"expected an int64 tensor, got {info.dtype}")
    size = as_int(info.shape_values[0]) if info.shape_values is not None else None
    return ShapeStructInfo(ndim=-1 if size is None else size)


def _legalize_tensor_to_shape(bb: Any, node: Call) -> Expr:
    info = _infer_tensor_to_shape(node, bb)
    assert isinstance(info, ShapeStructInfo)
    shape = bb.emit(call_pure_packed("vm.builtin.tensor_to_shape", node.args[0], sinfo_args=info))
    if info.ndim == -1:
        return shape
    # The extents become known by name from here on.
    values = [TirVar(f"x_{index}", "int64") for index in range(info.ndim)]
    bb.match_cast(shape, ShapeStructInfo(values))
    return ShapeExpr(values)


@operator(
    "relax.tensor_to_shape",
    infer=_infer_tensor_to_shape,
    fold=fold_tensor_to_shape,
    legalize=_legalize_tensor_to_shape,
    lowering=packed("vm.builtin.tensor_to_shape"),
)
def tensor_to_shape(expr: Expr) -> Call:
    """A 1-dimensional int64 tensor as a shape."""
    return call("relax.tensor_to_shape", expr)


def _infer_to_vdevice(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    return TensorStructInfo(info.shape, info.dtype, node.attrs["dst_vdevice"], info.ndim)


def _lower_to_vdevice(node: Call) -> Call:
    info: Any = node.struct_info
    args = (node.args[0], PrimValue(device_number(info.vdevice)))
    return Call(ExternFunc("vm.builtin.to_device"), args, None, [info], node.span, info)


# A tensor that is on the device already is not copied.
@operator(
    "relax.to_vdevice",
    infer=_infer_to_vdevice,
    reference=lambda x, dst_vdevice: x,
    memory=view_of(0),
    lowering=_lower_to_vdevice,
)
def to_vdevice(data: Expr, dst_vdevice: VDevice | str) -> Call:
    """Copy a tensor to a virtual device."""
    if isinstance(dst_vdevice, str):
        dst_vdevice = VDevice(dst_vdevice)
    return call("relax.to_vdevice", data, attrs={"dst_vdevice": dst_vdevice})


def _infer_hint_on_device(node: Call, builder: Any) -> StructInfo:
    (info,) = tensor_args(node, 1)
    return same_as(info)


@operator(
    "relax.hint_on_device",
    infer=_infer_hint_on_device,
    reference=lambda x, **attrs: x,
    memory=view_of(0),
    lowering=packed("vm.builtin.to_device"),
)
def hint_on_device(data: Expr, dst_vdevice: Any, memory_scope: str = "global") -> Call:
    """Say that a tensor should live on a device; ``RealizeVDevice`` acts on it."""
    if isinstance(dst_vdevice, VDevice):
        attrs = {
            "device_type": dst_vdevice.target_kind,
            "index": dst_vdevice.vdevice_id,
            "vdevice": dst_vdevice,
        }
    else:
        attrs = {
            "device_type": getattr(dst_vdevice, "device_type", str(dst_vdevice)),
            "index": getattr(dst_vdevice, "device_id", 0),
        }
    return call("relax.hint_on_device", data, attrs={**attrs, "memory_scope": memory_scope})


def render_object(val: Any) -> str:
    """The text of a run-time value, as ``print`` shows it."""
    if hasattr(val, "numpy"):
        return str(val.numpy())
    if isinstance(val, list | tuple):
        items = ", ".join(render_object(item) for item in val)
        return f"({items},)" if len(val) == 1 else f"({items})"
    return str(val)


declare_external("relax.run.shape_to_tensor", FRESH)
declare_external("relax.run.print", EFFECT)
declare_external("relax.run.assert_op", EFFECT)


@register_func("relax.run.shape_to_tensor", override=True)
def relax_shape_to_tensor(shape: Any) -> Any:
    """A run-time shape as an int64 array."""
    import numpy as np

    return np.asarray([int(dim) for dim in shape], dtype="int64")


@register_func("relax.run.print", override=True)
def relax_print(format_str: str, *format_args: Any) -> None:
    """What ``relax.print`` does when the program runs."""
    values = [render_object(arg) for arg in format_args]
    text = format_str.format(*values) if format_str else " ".join(values)
    import builtins

    builtins.print(text)


@register_func("relax.run.assert_op", override=True)
def relax_assert_op(condition: Any, format_str: str, *format_args: Any) -> None:
    """What ``relax.assert_op`` does when the program runs."""
    value = condition.numpy() if hasattr(condition, "numpy") else condition
    if hasattr(value, "shape") and value.shape != ():
        raise IRValueError(f"the condition of assert_op must be a scalar, got shape {value.shape}")
    if not bool(value):
        values = [render_object(arg) for arg in format_args]
        if format_str:
            message = format_str.format(*values)
            raise AssertionError(f"Assertion Failed: {message}")
        raise AssertionError("Assertion Failed" + (": " + ", ".join(values) if values else ""))


def register_gradient(op_name: str, fgradient: Callable[..., Sequence[Expr]] | None = None) -> Any:
    """Register the gradient of an operator, in place of the one that it has.

    It is a function ``(orig_var, orig_call, output_grad, builder) -> gradients of the arguments``.
    """
    return register_op_attr(op_name, "FPrimalGradient", fgradient)


__all__ = [
    "assert_op",
    "call_builtin_with_ctx",
    "call_dps_packed",
    "call_inplace_packed",
    "call_pure_packed",
    "call_tir",
    "call_tir_inplace",
    "call_tir_with_grad",
    "hint_on_device",
    "invoke_closure",
    "invoke_pure_closure",
    "make_closure",
    "null_value",
    "print",
    "register_gradient",
    "shape_of",
    "shape_to_tensor",
    "tensor_to_shape",
    "to_vdevice",
]
