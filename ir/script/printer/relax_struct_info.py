"""How struct infos are written, with the symbolic dimensions and devices that stand in them.

Symbolic variables that a signature defines are quoted in it (``R.Tensor(("n", 128))``), since Python evaluates annotations
before the body, and get a line ``n = T.int64()`` at the top of the body.
"""

from __future__ import annotations

from typing import Any

from ...global_info import DummyGlobalInfo, VDevice
from ...node import Node, post_order_visit
from ...relax import expr as X
from ...relax import struct_info as SI
from ...tir import expr as E
from .core import ATOM, Printer, Text, expression, quote

# ---- symbolic dimensions -----------------------------------------------------------------------------------------

_PLAIN = (E.Add, E.Sub, E.Mul, E.FloorDiv, E.FloorMod)


def _is_plain(expr: Any) -> bool:
    """Arithmetic in which an int64 literal next to a variable may be written without its dtype."""
    if isinstance(expr, E.Var):
        return True
    if not isinstance(expr, _PLAIN):
        return False
    left, right = isinstance(expr.a, E.IntImm), isinstance(expr.b, E.IntImm)
    return not (left and right) and (left or _is_plain(expr.a)) and (right or _is_plain(expr.b))


def dim_text(printer: Printer, dim: E.PrimExpr) -> str:
    """An extent: a plain number for int64, quoted when the signature being printed defines a variable in it."""
    if isinstance(dim, E.IntImm) and dim.dtype == "int64":
        return str(dim.value)
    old, printer.int_dtype = (
        printer.int_dtype,
        "int64" if _is_plain(dim) and dim.dtype == "int64" else "int32",
    )
    text = printer.text(dim)
    printer.int_dtype = old
    if printer.signature_vars:
        found: list[bool] = []
        post_order_visit(dim, lambda node: found.append(id(node) in printer.signature_vars))
        if any(found):
            return quote(text)
    return text


def dims_text(printer: Printer, values: Any) -> list[str]:
    return [dim_text(printer, item) for item in values]


def _tuple_text(items: list[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


# ---- struct infos ------------------------------------------------------------------------------------------------


@expression(SI.ObjectStructInfo)
def _object_info(printer: Printer, info: SI.ObjectStructInfo) -> Text:
    return printer.relax("Object"), ATOM


@expression(SI.PrimStructInfo)
def _prim_info(printer: Printer, info: SI.PrimStructInfo) -> Text:
    if info.value is None:
        return f"{printer.relax('Prim')}({quote(info.dtype)})", ATOM
    return f"{printer.relax('Prim')}(value={typed_dim_text(printer, info.value)})", ATOM


def typed_dim_text(printer: Printer, value: E.PrimExpr) -> str:
    return (
        printer.value(value)
        if isinstance(value, E.IntImm) and value.dtype != "int64"
        else dim_text(printer, value)
    )


@expression(SI.ShapeStructInfo)
def _shape_info(printer: Printer, info: SI.ShapeStructInfo) -> Text:
    name = printer.relax("Shape")
    if info.values is not None:
        return f"{name}([{', '.join(dims_text(printer, info.values))}])", ATOM
    return f"{name}(ndim={info.ndim})", ATOM


@expression(SI.TensorStructInfo)
def _tensor_info(printer: Printer, info: SI.TensorStructInfo) -> Text:
    args = []
    if isinstance(info.shape, X.ShapeExpr):
        args.append(_tuple_text(dims_text(printer, info.shape.values)))
    elif info.shape is not None:
        args.append(printer.text(info.shape))
    if info.dtype:
        args.append(f"dtype={quote(info.dtype)}")
    if info.shape is None and info.ndim != -1:
        args.append(f"ndim={info.ndim}")
    if info.vdevice is not None:
        args.append(f"vdevice={vdevice_reference(printer, info.vdevice)}")
    name = printer.relax("Tensor")
    return (f"{name}({', '.join(args)})" if args else name), ATOM


@expression(SI.TupleStructInfo)
def _tuple_info(printer: Printer, info: SI.TupleStructInfo) -> Text:
    name = printer.relax("Tuple")
    return (f"{name}({printer.texts(info.fields)})" if info.fields else name), ATOM


@expression(SI.FuncStructInfo)
def _func_info(printer: Printer, info: SI.FuncStructInfo) -> Text:
    name = printer.relax("Callable")
    if info.params is None:
        args = []
        if info.derive_func is not None:
            derive = info.derive_func
            args.append(
                f"derive_func={printer.value(derive) if isinstance(derive, str) else printer.meta('derive_func', derive)}"
            )
        elif not isinstance(info.ret, SI.ObjectStructInfo):
            args.append(f"ret={printer.text(info.ret)}")
        if info.purity:
            args.append("purity=True")
        return (f"{name}({', '.join(args)})" if args else name), ATOM
    if not printer.in_function:
        return f"{name}({printer.items(info.params)}, {printer.text(info.ret)}, {info.purity})", ATOM
    with printer.frame():  # symbolic variables of its parameters are its own
        new = signature_variables(printer, list(info.params))
        for var in new:
            printer.define(var, var.name or "v")
        saved, printer.signature_vars = (
            printer.signature_vars,
            printer.signature_vars | {id(var) for var in new},
        )
        params = printer.items(info.params)
        ret = printer.text(info.ret)
        printer.signature_vars = saved
    return f"{name}({params}, {ret}, {info.purity})", ATOM


def signature_variables(printer: Printer, infos: list[Any]) -> list[E.Var]:
    """The symbolic variables that struct infos mention and nothing has defined yet, in order."""
    found: list[E.Var] = []

    def collect(node: Any) -> None:
        if (
            isinstance(node, E.Var)
            and printer.text_of(node) is None
            and not any(node is item for item in found)
        ):
            found.append(node)

    def walk(node: Any) -> None:
        if isinstance(node, SI.FuncStructInfo):
            return  # its variables are its own
        if isinstance(node, E.PrimExpr):
            post_order_visit(node, collect)
        elif isinstance(node, Node):
            node._visit_children(walk)  # type: ignore[attr-defined]

    for info in infos:
        if info is not None:
            walk(info)
    return found


# ---- devices -----------------------------------------------------------------------------------------------------


def vdevice_reference(printer: Printer, device: VDevice) -> str:
    """A device of the module as ``"llvm:0:global"``, another one in full."""
    infos = printer.module.global_infos.get("vdevice", ()) if printer.module is not None else ()
    number = 0
    for item in infos:
        if not isinstance(item, VDevice) or item.target_kind != device.target_kind:
            continue
        if item == device:
            return quote(f"{device.target_kind}:{number}:{device.memory_scope}")
        number += 1
    return printer.text(device)


@expression(VDevice)
def _vdevice(printer: Printer, device: VDevice) -> Text:
    target = "None" if device.target is None else _target(printer, device.target)
    return f"{printer.ir('vdevice')}({target}, {device.vdevice_id}, {quote(device.memory_scope)})", ATOM


def _target(printer: Printer, target: Any) -> str:
    export = getattr(target, "export", None)
    if export is not None:
        return printer.value(export())
    return printer.value(str(target))


@expression(DummyGlobalInfo)
def _dummy(printer: Printer, info: DummyGlobalInfo) -> Text:
    return f"{printer.ir('dummy_global_info')}()", ATOM
