"""How declarations of buffers are written: ``T.match_buffer(a, (n, 128), "float16", strides=...)`` and its relatives."""

from __future__ import annotations

from typing import Any

from ...node import post_order_visit
from ...tir import expr as E
from ...tir.buffer import Buffer
from ...tir.stmt_functor import variables_in
from ...type import PointerType, PrimType
from .core import ATOM, Frame, Printer, Text, expression, quote
from .tir_expr import var_definition


def is_simple(buffer: Buffer) -> bool:
    """Whether ``T.Buffer(shape, dtype)`` as a parameter's annotation says all there is."""
    return (
        not buffer.strides
        and buffer.elem_offset is None
        and buffer.data_alignment == 64
        and buffer.offset_factor == 1
        and not buffer.buffer_type
        and not buffer.axis_separators
        and buffer.scope() == "global"
        and has_default_pointer(buffer)
        and all(isinstance(extent, E.IntImm) for extent in buffer.shape)
    )


def has_default_pointer(buffer: Buffer) -> bool:
    """Whether the data pointer has the type that a declaration gives it."""
    return _is_default_pointer(buffer.data, buffer)


def _is_default_pointer(data: E.Var, buffer: Buffer) -> bool:
    found = data.type_annotation
    element = "int8" if buffer.dtype == "bool" else buffer.dtype
    return (
        isinstance(found, PointerType)
        and isinstance(found.element_type, PrimType)
        and found.element_type.dtype == element
        and data.dtype == "handle"
    )


def buffer_annotation(printer: Printer, buffer: Buffer) -> str:
    """``T.Buffer((128, 128), "float32")``: a parameter's annotation."""
    return f"{printer.tir('Buffer')}({printer.items(buffer.shape)}, {quote(buffer.dtype)})"


def declare_free(printer: Printer, buffer: Buffer) -> str:
    """Declare a buffer that no statement declares, where everything that it depends on is known; returns its name."""
    frame = printer.frame_of(variables_in(buffer))
    name = printer.define(buffer, buffer.name, frame)
    rhs = buffer_call(printer, buffer, "Buffer", frame=frame)
    printer.emit(f"{name} = {rhs}", frame)
    return name


@expression(Buffer)
def _buffer(printer: Printer, buffer: Buffer) -> Text:
    return printer.text_of(buffer) or declare_free(printer, buffer), ATOM


def buffer_call(
    printer: Printer,
    buffer: Buffer,
    function: str,
    first: tuple[str, ...] = (),
    frame: Frame | None = None,
    new_data: bool | None = None,
) -> str:
    """The call that declares a buffer, whose name must be defined; its new variables become defined here.

    Args:
        function: of the namespace T, as ``match_buffer``.
        first: arguments before the shape.
        frame: where definitions go that need lines of their own; the innermost by default.
        new_data: whether the declaration makes the data pointer; by default if nothing has defined it.
    """
    target = printer.frames[-1] if frame is None else frame
    name = printer.text_of(buffer) or buffer.name
    args = list(first)
    _define_variables(printer, buffer.shape, target)
    args.append(printer.items(buffer.shape))
    if buffer.dtype != printer.config.buffer_dtype:
        args.append(quote(buffer.dtype))
    if new_data is None:
        new_data = printer.text_of(buffer.data) is None
    if new_data and has_default_pointer(buffer):
        printer.define_as(buffer.data, f"{name}.data", target)
    else:
        if printer.text_of(buffer.data) is None:
            pointer = printer.define(buffer.data, buffer.data.name, target)
            printer.emit(f"{pointer} = {var_definition(printer, buffer.data)}", target)
        args.append(f"data={printer.text(buffer.data)}")
    if buffer.strides:
        args.append(f"strides={_strides(printer, buffer, name, target)}")
    factor = buffer.offset_factor != 1
    offset = buffer.elem_offset
    if offset is not None:
        if _is_new(printer, offset) and offset.dtype == _offset_dtype(buffer):
            printer.define_as(offset, f"{name}.elem_offset", target)
            factor = True
        else:
            _define_variables(printer, (offset,), target)
            args.append(f"elem_offset={printer.text(offset)}")
    scope = buffer.scope()
    if scope != "global":
        args.append(f"scope={quote(scope)}")
    if buffer.data_alignment != 64:
        args.append(f"align={buffer.data_alignment}")
    if factor:
        args.append(f"offset_factor={buffer.offset_factor}")
    if buffer.buffer_type:
        args.append(f"buffer_type={quote(buffer.buffer_type)}")
    if buffer.axis_separators:
        args.append(f"axis_separators=[{printer.texts(buffer.axis_separators)}]")
    return f"{printer.tir(function)}({', '.join(args)})"


def _offset_dtype(buffer: Buffer) -> str:
    return buffer.shape[0].dtype if buffer.shape else "int32"


def _is_new(printer: Printer, value: Any) -> bool:
    return isinstance(value, E.Var) and printer.text_of(value) is None


def _define_variables(printer: Printer, values: Any, frame: Frame) -> None:
    """Give lines of their own to the variables in shapes that are met here first."""
    for value in values:
        if isinstance(value, E.IntImm):
            continue
        found: list[Any] = []
        post_order_visit(value, lambda node: found.append(node) if _is_new(printer, node) else None)  # noqa: B023
        for var in found:
            name = printer.define(var, var.name, frame)
            printer.emit(f"{name} = {var_definition(printer, var)}", frame)


def _strides(printer: Printer, buffer: Buffer, name: str, frame: Frame) -> str:
    found = []
    for position, stride in enumerate(buffer.strides):
        if _is_new(printer, stride) and stride.dtype == "int32" and type(stride) is E.Var:
            printer.define_as(stride, f"{name}.strides[{position}]", frame)
            found.append(quote(stride.name))
        else:
            _define_variables(printer, (stride,), frame)
            found.append(printer.text(stride))
    return f"({found[0]},)" if len(found) == 1 else f"({', '.join(found)})"
