"""Comparing a call with what it calls: number, types and shapes of arguments, and what comes back.

What only a run can tell, such as whether an unknown extent is the declared one, is no problem here: the callee checks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...error import IRError
from ...tir.analysis.written_params import stored_params
from ...tir.function import PrimFunc
from ..bind import bound_struct_info
from ..expr import Call, ShapeExpr, Tuple, is_call_to
from ..struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..struct_info_lattice import (
    contradicts,
    derive_call_ret_struct_info,
    match_param,
)
from .kernel_operands import kernel_operands


def function_call_problems(call: Call, callee: FuncStructInfo, name: str) -> Iterator[str]:
    """What contradicts the signature of a function in a call of it."""
    if callee.params is None:
        return
    args = [arg.struct_info_ for arg in call.args]
    if len(args) != len(callee.params):
        yield f"{name} takes {len(callee.params)} arguments, the call gives {len(args)}"
        return
    symbols: dict[Any, Any] = {}
    for param, arg in zip(callee.params, args, strict=True):
        if arg is not None:
            match_param(param, arg, symbols)
    sound = True
    for number, (param, arg) in enumerate(zip(callee.params, args, strict=True)):
        wanted = bound_struct_info(param, symbols)
        if contradicts(wanted, arg):
            sound = False
            yield f"argument {number} of the call of {name} is {arg}, it takes {wanted}"
    if not sound or any(arg is None for arg in args):
        return
    try:
        result = derive_call_ret_struct_info(callee, call)
    except IRError as error:
        yield f"the call of {name}: {error}"
        return
    if contradicts(result, call.struct_info_):
        yield f"the call of {name} has struct info {call.struct_info_}, {name} returns {result}"


def kernel_call_problems(call: Call, kernel: PrimFunc, name: str) -> Iterator[str]:
    """What contradicts the parameters of a kernel in a call of it: a ``call_tir`` and its like, or a direct call."""
    if is_call_to(call, "relax.call_tir", "relax.call_tir_with_grad", "relax.call_tir_inplace"):
        yield from _in_destination_style(call, kernel, name)
    elif call.op.struct_info_ is None or not isinstance(call.op.struct_info_, FuncStructInfo):
        return
    elif len(call.args) != len(kernel.params):
        yield f"{name} takes {len(kernel.params)} arguments, its outputs among them, the call gives {len(call.args)}"
    else:
        tensors = [arg.struct_info_ for arg in call.args if isinstance(arg.struct_info_, TensorStructInfo)]
        handles = [param for param in kernel.params if param in kernel.buffer_map]
        if len(handles) == len(kernel.params) and len(tensors) == len(call.args):
            yield from _buffers(tensors, handles, kernel, name)


def _in_destination_style(call: Call, kernel: PrimFunc, name: str) -> Iterator[str]:
    given = call.args[1].struct_info_
    if not isinstance(given, TupleStructInfo) or len(call.sinfo_args) != 1:
        return  # inference says so
    out = call.sinfo_args[0]
    outputs = list(out.fields) if isinstance(out, TupleStructInfo) else [out]
    inputs = list(given.fields)
    overwritten: list[int] = []
    if is_call_to(call, "relax.call_tir_inplace"):
        indices = [int(getattr(index, "value", index)) for index in call.attrs["inplace_indices"]]
        for number, (index, output) in enumerate(zip(indices, outputs, strict=False)):
            if 0 <= index < len(inputs) and contradicts(output, inputs[index]):
                yield f"output {number} of the call of {name} is {output} in place of {inputs[index]}"
        outputs = [output for output, index in zip(outputs, indices, strict=False) if index < 0]
        overwritten = [index for index in indices if index >= 0]
    scalars = call.args[2] if len(call.args) > 2 else None
    n_scalars = _number_of_scalars(scalars)
    if n_scalars is None:
        return
    tensors = [*inputs, *outputs]
    if len(tensors) + n_scalars != len(kernel.params):
        yield (
            f"{name} takes {len(kernel.params)} parameters, the call gives {len(inputs)} arguments, {len(outputs)} outputs"
            + (f" and {n_scalars} scalars" if n_scalars else "")
        )
        return
    for number in stored_params(kernel):
        if number < len(inputs) and number not in overwritten:
            param = kernel.params[number]
            written = kernel.buffer_map[param].name if param in kernel.buffer_map else param.name
            yield f"{name} writes {written}, argument {number} of the call; use call_tir_inplace, which says so"
    numbers = scalars.values if isinstance(scalars, ShapeExpr) else None
    yield from _buffers(tensors, kernel.params[: len(tensors)], kernel, name, numbers)


def _number_of_scalars(scalars: Any) -> int | None:
    if scalars is None:
        return 0
    if isinstance(scalars, ShapeExpr | Tuple):
        return len(scalars.values if isinstance(scalars, ShapeExpr) else scalars.fields)
    info = scalars.struct_info_
    return info.ndim if isinstance(info, ShapeStructInfo) and info.ndim >= 0 else None


def _buffers(
    infos: Sequence[StructInfo],
    params: Sequence[Any],
    kernel: PrimFunc,
    name: str,
    scalars: Sequence[Any] | None = None,
) -> Iterator[str]:
    def where(number: int) -> str:
        return f"operand {number} of the call of {name} ({params[number].name}) is {infos[number]}"

    for number, (info, param) in enumerate(zip(infos, params, strict=True)):
        buffer = kernel.buffer_map.get(param)
        if buffer is None:
            if isinstance(info, TensorStructInfo) and param.dtype != "handle":
                yield f"{where(number)}, the kernel takes a number of {param.dtype}"
        elif isinstance(info, PrimStructInfo | ShapeStructInfo | TupleStructInfo):
            yield f"{where(number)}, the kernel takes a buffer"
        elif not isinstance(info, TensorStructInfo):
            continue
        elif info.dtype and info.dtype != buffer.dtype:
            yield f"{where(number)}, the kernel takes a buffer of {buffer.dtype}"
        elif info.ndim >= 0 and info.ndim != len(buffer.shape):
            yield f"{where(number)}, the kernel takes a buffer of {len(buffer.shape)} dimensions"
    shapes = [info.shape_values if isinstance(info, TensorStructInfo) else None for info in infos]
    for place in kernel_operands(kernel, shapes, scalars).places:
        if place.difference:
            yield f"{where(place.operand)}, the kernel takes {place}"
