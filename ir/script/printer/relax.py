"""How Relax is written: expressions, calls, bindings, functions; :mod:`.relax_struct_info` writes what stands in annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...error import IRError
from ...expr import GlobalVar
from ...global_info import VDevice
from ...op import Op
from ...relax import expr as X
from ...relax import struct_info as SI
from ...relax.function import ExternFunc, Function
from ...relax.op.declaration import OPERATORS
from ...structural import structural_equal
from ...tir import expr as E
from .core import ATOM, Printer, Text, expression, quote, statement
from .relax_struct_info import dims_text, signature_variables, typed_dim_text, vdevice_reference
from .tir_expr import var_definition

# ---- leaves ------------------------------------------------------------------------------------------------------


@expression(X.Var, X.DataflowVar)
def _var(printer: Printer, var: X.Var) -> Text:
    text = printer.text_of(var)
    if text is None:
        text = printer.define(var, var.name_hint or "v", printer.frames[0])
        info = printer.relax("Object") if var.struct_info_ is None else printer.text(var.struct_info_)
        printer.emit(f"{text}: {info}", printer.frames[0])
    return text, ATOM


@expression(X.Id)
def _id(printer: Printer, node: X.Id) -> Text:
    return f"Id({quote(node.name_hint)})", ATOM


_SCALARS = frozenset("int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bool".split())


@expression(X.Constant)
def _constant(printer: Printer, node: X.Constant) -> Text:
    data = node.data
    info = node.struct_info_
    plain = isinstance(info, SI.TensorStructInfo) and info.vdevice is None
    if data.ndim == 0 and data.dtype.name in _SCALARS and plain:
        item = data.item()
        text = printer.value(float(item) if data.dtype.kind == "f" else item)
        return f"{printer.relax('const')}({text}, {quote(data.dtype.name)})", ATOM
    return printer.meta("relax.expr.Constant", node), ATOM


@expression(X.ShapeExpr)
def _shape(printer: Printer, node: X.ShapeExpr) -> Text:
    return f"{printer.relax('shape')}([{', '.join(dims_text(printer, node.values))}])", ATOM


@expression(X.PrimValue)
def _prim_value(printer: Printer, node: X.PrimValue) -> Text:
    return f"{printer.relax('prim_value')}({_prim_text(printer, node.value)})", ATOM


def _prim_text(printer: Printer, value: E.PrimExpr) -> str:
    if isinstance(value, E.IntImm) and value.dtype == "bool":
        return str(bool(value.value))
    if isinstance(value, E.FloatImm) and value.dtype == "float64":
        return printer.value(value.value)
    return typed_dim_text(printer, value)


@expression(X.StringImm)
def _string(printer: Printer, node: X.StringImm) -> Text:
    return f"{printer.relax('str')}({quote(node.value)})", ATOM


@expression(X.DataTypeImm)
def _dtype(printer: Printer, node: X.DataTypeImm) -> Text:
    return f"{printer.relax('dtype')}({quote(node.value)})", ATOM


@expression(ExternFunc)
def _extern(printer: Printer, node: ExternFunc) -> Text:
    args = quote(node.global_symbol)
    info = node.struct_info_
    if info is not None and info != SI.FuncStructInfo.opaque_func():
        args += f", {printer.text(info)}"
    return f"{printer.relax('ExternFunc')}({args})", ATOM


@expression(GlobalVar)
def _global_var(printer: Printer, var: GlobalVar) -> Text:
    text = printer.module_texts.get(var.name_hint)
    if text is not None:
        printer.alias_used = True
        return text, ATOM
    return var.name_hint, ATOM


@expression(X.Tuple)
def _tuple(printer: Printer, node: X.Tuple) -> Text:
    return (printer.items(node.fields) if node.fields else f"{printer.relax('tuple')}()"), ATOM


@expression(X.TupleGetItem)
def _get_item(printer: Printer, node: X.TupleGetItem) -> Text:
    return f"{printer.text(node.tuple_value, ATOM)}[{node.index}]", ATOM


# ---- calls -------------------------------------------------------------------------------------------------------


def _infos(printer: Printer, infos: Any) -> str:
    return printer.items(infos)


def _callee(printer: Printer, node: Any) -> str:
    return quote(node.global_symbol) if isinstance(node, ExternFunc) else printer.text(node)


def _call_tir(printer: Printer, call: Any) -> str | None:
    if len(call.sinfo_args) != 1 or not 2 <= len(call.args) <= 3:
        return None
    args = [printer.text(call.args[0]), printer.text(call.args[1]), f"out_sinfo={_outputs(printer, call)}"]
    if len(call.args) == 3:
        args.append(f"tir_vars={printer.text(call.args[2])}")
    args += [f"{key}={printer.value(value)}" for key, value in call.attrs.items()]
    return f"{printer.relax(call.op.name[6:])}({', '.join(args)})"


def _outputs(printer: Printer, call: X.Call) -> str:
    (info,) = call.sinfo_args
    if isinstance(info, SI.TupleStructInfo) and info.fields:
        return f"[{printer.texts(info.fields)}]"
    return printer.text(info)


def _call_dps(printer: Printer, call: X.Call) -> str | None:
    if len(call.sinfo_args) != 1 or len(call.args) != 2 or call.attrs:
        return None
    args = (
        f"{_callee(printer, call.args[0])}, {printer.text(call.args[1])}, out_sinfo={_outputs(printer, call)}"
    )
    return f"{printer.relax('call_dps_packed')}({args})"


def _with_sinfo_args(printer: Printer, call: Any) -> str | None:
    args = [_callee(printer, call.args[0]), *[printer.text(item) for item in call.args[1:]]]
    args += [f"{key}={printer.value(value)}" for key, value in call.attrs.items()]
    if call.sinfo_args:
        args.append(f"sinfo_args={_infos(printer, call.sinfo_args)}")
    return f"{printer.relax(call.op.name[6:])}({', '.join(args)})"


def _print_call(printer: Printer, call: X.Call) -> str | None:
    template = call.args[0] if call.args else None
    if not isinstance(template, X.StringImm):
        return None
    args = [printer.text(item) for item in call.args[1:]]
    return f"{printer.relax('print')}({', '.join([*args, f'format={printer.text(template)}'])})"


def _assert_call(printer: Printer, call: X.Call) -> str | None:
    if len(call.args) < 2 or not isinstance(call.args[1], X.StringImm):
        return None
    args = [printer.text(call.args[0])]
    if len(call.args) > 2:
        args.append(f"format_args=[{printer.texts(call.args[2:])}]")
    return f"{printer.relax('assert_op')}({', '.join([*args, f'format={printer.text(call.args[1])}'])})"


def _keywords(printer: Printer, call: X.Call) -> str | None:
    """Arguments and attributes as they are."""
    args = [printer.text(item) for item in call.args]
    args += [f"{key}={_attr_text(printer, key, value)}" for key, value in call.attrs.items()]
    return f"{printer.relax(call.op.name[6:])}({', '.join(args)})"  # type: ignore[attr-defined]


_SPECIAL: dict[str, Callable[[Printer, Any], str | None]] = {
    "relax.hint_on_device": _keywords,
    "relax.call_tir": _call_tir,
    "relax.call_tir_with_grad": _call_tir,
    "relax.call_tir_inplace": _call_tir,
    "relax.call_dps_packed": _call_dps,
    "relax.call_pure_packed": _with_sinfo_args,
    "relax.call_inplace_packed": _with_sinfo_args,
    "relax.call_builtin_with_ctx": _with_sinfo_args,
    "relax.invoke_closure": _with_sinfo_args,
    "relax.invoke_pure_closure": _with_sinfo_args,
    "relax.print": _print_call,
    "relax.assert_op": _assert_call,
}


@expression(X.Call)
def _call(printer: Printer, call: X.Call) -> Text:
    op = call.op
    if isinstance(op, Op):
        special = _SPECIAL.get(op.name)
        found = special(printer, call) if special is not None else None
        if found is None and special is None and _reads_back(call):
            args = [printer.text(item) for item in call.args]
            args += [f"{key}={_attr_text(printer, key, value)}" for key, value in call.attrs.items()]
            found = f"{printer.relax(op.name[6:])}({', '.join(args)})"
        return found or _general(printer, call), ATOM
    if isinstance(op, ExternFunc):
        args = [quote(op.global_symbol), *[printer.text(item) for item in call.args]]
        args += [f"{key}={printer.value(value)}" for key, value in call.attrs.items()]
        if call.sinfo_args:
            args.append(f"sinfo_args={_infos(printer, call.sinfo_args)}")
        return f"{printer.relax('call_packed')}({', '.join(args)})", ATOM
    if call.attrs or call.sinfo_args:
        return _general(printer, call), ATOM
    return f"{printer.text(op, ATOM)}({printer.texts(call.args)})", ATOM


def _attr_text(printer: Printer, key: str, value: Any) -> str:
    if value == "" and key in ("dtype", "out_dtype"):
        return quote("void")
    return vdevice_reference(printer, value) if isinstance(value, VDevice) else printer.value(value)


def _general(printer: Printer, call: X.Call) -> str:
    """A call that no function of the namespace makes: its parts, one by one."""
    op = quote(call.op.name) if isinstance(call.op, Op) else printer.text(call.op)
    args = [op, printer.items(call.args) if call.args else "()"]
    if call.attrs:
        args.append(f"attrs={printer.value(call.attrs)}")
    if call.sinfo_args:
        args.append(f"sinfo_args={_infos(printer, call.sinfo_args)}")
    return f"{printer.relax('Call')}({', '.join(args)})"


def _as_argument(node: Any) -> Any:
    """What the parser hands to an operator's function for this argument."""
    return (
        tuple([_as_argument(item) for item in node.fields])
        if isinstance(node, X.Tuple) and node.fields
        else node
    )


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, X.Tuple) and isinstance(b, X.Tuple):
        return len(a.fields) == len(b.fields) and all(
            _same(x, y) for x, y in zip(a.fields, b.fields, strict=True)
        )
    return structural_equal(a, b)


def _reads_back(call: Any) -> bool:
    """Whether the operator's function, given these arguments, makes this call."""
    declaration = OPERATORS.get(call.op.name)
    if declaration is None or declaration.build is None or call.sinfo_args:
        return False
    try:
        found = declaration.build(*[_as_argument(item) for item in call.args], **call.attrs.dict)
    except (IRError, TypeError, ValueError, AttributeError, IndexError):
        return False  # made with other arguments than the function documents
    return (
        isinstance(found, X.Call)
        and found.op is call.op
        and len(found.args) == len(call.args)
        and not found.sinfo_args
        and all(_same(a, b) for a, b in zip(found.args, call.args, strict=True))
        and structural_equal(found.attrs, call.attrs)
        and list(found.attrs) == list(call.attrs)
    ) or (
        isinstance(found, X.Call)
        and found.op is call.op
        and structural_equal(found.attrs, call.attrs)
        and len(found.args) == len(call.args)
        and all(_same(a, b) for a, b in zip(found.args, call.args, strict=True))
    )


# ---- bindings ----------------------------------------------------------------------------------------------------


def _annotation(printer: Printer, var: X.Var, value: Any) -> str:
    """``: R.Tensor(...)`` behind a variable, "" where the value says the same."""
    info = var.struct_info_
    if info is None:
        return ""
    hide = not printer.config.show_all_struct_info
    inferred: Any = getattr(value, "struct_info_", None)
    if (
        isinstance(value, X.Call)
        and isinstance(value.op, Op)
        and value.op.name in ("relax.call_tir", "relax.call_dps_packed")
    ):
        hide = True
        inferred = value.sinfo_args[0] if value.sinfo_args else None
    if hide and inferred is not None and (inferred is info or structural_equal(inferred, info)):
        return ""
    return f": {printer.text(info)}"


@statement(X.VarBinding)
def _var_binding(printer: Printer, binding: X.VarBinding, last: bool) -> None:
    var, value = binding.var, binding.value
    if isinstance(value, X.If):
        _if(printer, value, var)
    elif isinstance(value, Function):
        name = printer.define(var, var.name_hint)
        relax_function(printer, value, name=name, local=True)
        printer.emit("")
    else:
        text = printer.text(value)
        annotation = _annotation(printer, var, value)
        printer.emit(f"{printer.define(var, var.name_hint)}{annotation} = {text}")


@statement(X.MatchCast)
def _match_cast(printer: Printer, binding: X.MatchCast, last: bool) -> None:
    value = printer.text(binding.value)
    info = printer.text(binding.struct_info)
    var = binding.var
    annotation = "" if var.struct_info_ is None else f": {printer.text(var.struct_info_)}"
    if not printer.config.show_all_struct_info and structural_equal(var.struct_info_, binding.struct_info):
        annotation = ""
    printer.emit(
        f"{printer.define(var, var.name_hint)}{annotation} = {printer.relax('match_cast')}({value}, {info})"
    )


def _if(printer: Printer, value: X.If, var: X.Var) -> None:
    with printer.frame(indent=0) as group:  # keeps both branches together
        condition = printer.text(value.cond)
        name = printer.unique(var.name_hint, printer.frames[-2])
        annotation = "" if var.struct_info_ is None else f": {printer.text(var.struct_info_)}"
        for header, branch in ((f"if {condition}:", value.true_branch), ("else:", value.false_branch)):
            with printer.frame(header):
                _blocks(printer, branch)
                printer.emit(f"{name}{annotation} = {printer.text(branch.body)}")
        del group
    printer.define_as(var, name)


def _blocks(printer: Printer, seq: X.SeqExpr) -> None:
    for block in seq.blocks:
        printer.stmt(block)


@statement(X.BindingBlock)
def _binding_block(printer: Printer, block: X.BindingBlock, last: bool) -> None:
    for binding in block.bindings:
        printer.stmt(binding)


@statement(X.DataflowBlock)
def _dataflow_block(printer: Printer, block: X.DataflowBlock, last: bool) -> None:
    outputs: list[tuple[X.Var, str]] = []
    with printer.frame(f"with {printer.relax('dataflow')}():"):
        for binding in block.bindings:
            printer.stmt(binding)
            if not isinstance(binding.var, X.DataflowVar):
                outputs.append((binding.var, printer.text(binding.var)))
        printer.emit(f"{printer.relax('output')}({', '.join([name for _, name in outputs])})")
        inner = printer.frames[-1]
        for var, name in outputs:  # visible behind the block: hand them to the frame around it
            inner.names.remove(name)
            inner.nodes.remove(id(var))
    for var, name in outputs:
        printer.frames[-1].names.append(name)
        printer.define_as(var, name)


@statement(X.SeqExpr)
def _seq(printer: Printer, seq: X.SeqExpr, last: bool) -> None:
    _blocks(printer, seq)
    printer.emit(printer.text(seq.body))


@expression(X.If)
def _if_expr(printer: Printer, node: X.If) -> Text:
    return printer.meta("relax.expr.If", node), ATOM


# ---- functions ---------------------------------------------------------------------------------------------------


@statement(Function)
def relax_function(
    printer: Printer, func: Function, last: bool = True, name: str | None = None, local: bool = False
) -> None:
    """Emit a Relax function under ``name``; ``local`` functions are bound inside others."""
    dialect, printer.dialect = printer.dialect, "relax"
    symbol = func.attrs.get("global_symbol")
    name = name or printer.config.name or (str(symbol) if symbol is not None else "main")
    attrs = {
        key: value
        for key, value in func.attrs.items()
        if local or key != "global_symbol" or str(value) != name
    }
    alias, printer.alias_used = printer.alias_used, False
    outermost, printer.in_function = printer.in_function, True
    with printer.frame() as frame:
        frames = printer.frames
        if not local:
            printer.frames = frames[-1:]
        new = signature_variables(
            printer, [*[param.struct_info_ for param in func.params], func.ret_struct_info]
        )
        for var in new:
            text = printer.define(var, var.name or "v")
            printer.emit(f"{text} = {var_definition(printer, var)}")
        saved, printer.signature_vars = printer.signature_vars, {id(var) for var in new}
        params = []
        for param in func.params:
            annotation = "" if param.struct_info_ is None else f": {printer.text(param.struct_info_)}"
            params.append(f"{printer.define(param, param.name_hint)}{annotation}")
        ret = "" if func.ret_struct_info is None else f" -> {printer.text(func.ret_struct_info)}"
        printer.signature_vars = saved
        options = []
        if symbol is None and not local:
            options.append("private=True")
        if not func.is_pure:
            options.append("pure=False")
        frame.header.append(
            f"@{printer.relax('function')}{'(' + ', '.join(options) + ')' if options else ''}"
        )
        frame.header.append(f"def {name}({', '.join(params)}){ret}:")
        if attrs:
            printer.emit(f"{printer.relax('func_attr')}({printer.value(attrs)})")
        position = len(frame.lines)
        _blocks(printer, func.body)
        result = printer.text(func.body.body)
        printer.emit(f"return {result}")
        if printer.alias_used and not local:
            frame.lines.insert(
                position, (frame.depth, f"{printer.config.module_alias} = {printer.module_name}")
            )
        printer.frames = frames
    printer.in_function = outermost
    printer.alias_used = alias or (local and printer.alias_used)
    printer.dialect = dialect
