"""How PrimFuncs are written: signature, declarations of buffers, the implicit root block."""

from __future__ import annotations

from typing import Any

from ...node import post_order_visit
from ...tir import expr as E
from ...tir import stmt as S
from ...tir.function import PrimFunc, TensorIntrin
from ...type import TupleType
from .core import Printer, Text, expression, quote, statement
from .tir_buffer import buffer_annotation, buffer_call, is_simple
from .tir_expr import type_text, var_annotation
from .tir_stmt import allocations


def implicit_root(body: Any) -> S.Block | None:
    """The root block that a reader of the text inserts by itself, None when it must be written."""
    if not isinstance(body, S.BlockRealize) or body.iter_values:
        return None
    if not (isinstance(body.predicate, E.IntImm) and body.predicate.value == 1):
        return None
    root = body.block
    if root.annotations or root.match_buffers or root.reads or root.writes or root.init is not None:
        return None
    inner = root.body
    if isinstance(inner, S.BlockRealize):
        return root if root.alloc_buffers or inner.block.iter_vars else None
    return root if root.alloc_buffers or contains_block(inner) else None


def contains_block(stmt: Any) -> bool:
    """Whether a statement contains a block, outside of expressions."""
    found = [stmt]
    while found:
        item = found.pop()
        if isinstance(item, S.BlockRealize):
            return True
        if isinstance(item, S.Stmt):
            item._visit_children(lambda child: found.append(child) if isinstance(child, S.Stmt) else None)  # type: ignore[attr-defined]
    return False


def function_name(printer: Printer, func: Any) -> str:
    """The name to print: the module's, the option's, or the function's own symbol."""
    symbol = func.attrs.get("global_symbol")
    return printer.config.name or (str(getattr(symbol, "value", symbol)) if symbol is not None else "main")


@statement(PrimFunc)
def prim_func(printer: Printer, func: PrimFunc, last: bool = True, name: str | None = None) -> None:
    """Emit a PrimFunc under ``name``."""
    dialect, printer.dialect = printer.dialect, "tir"
    alias, printer.alias_used = printer.alias_used, False
    symbol = func.attrs.get("global_symbol")
    name = name or function_name(printer, func)
    attrs = {key: value for key, value in func.attrs.items() if key != "global_symbol" or str(value) != name}
    _count_env_threads(printer, func)
    with printer.frame() as frame:
        params = _params(printer, func)
        ret = "" if _is_void(func.ret_type) else f" -> {type_text(printer, func.ret_type)}"
        frame.header.append(f"@{printer.tir('prim_func')}{'' if symbol is not None else '(private=True)'}")
        frame.header.append(f"def {_identifier(name)}({params}){ret}:")
        if attrs:
            printer.emit(f"{printer.tir('func_attr')}({printer.value(attrs)})")
        frames, printer.frames = (
            printer.frames,
            printer.frames[-1:],
        )  # free variables are declared inside the function
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is not None and printer.text_of(buffer) is None:
                found = printer.define(buffer, buffer.name)
                call = buffer_call(printer, buffer, "match_buffer", (printer.text(param),))
                printer.emit(f"{found} = {call}")
        position = len(frame.lines)
        root = implicit_root(func.body) if printer.config.syntax_sugar else None
        if root is None:
            printer.stmt(func.body, True)
        else:
            printer.emit(f"# with {printer.tir('block')}({quote('root')}):")
            allocations(printer, root)
            printer.stmt(root.body, True)
        if printer.alias_used:
            frame.lines.insert(
                position, (frame.depth, f"{printer.config.module_alias} = {printer.module_name}")
            )
        printer.frames = frames
    printer.alias_used = alias
    printer.dialect = dialect


def _identifier(name: str) -> str:
    return name if name.isidentifier() else "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def _is_void(ret_type: Any) -> bool:
    return ret_type is None or (isinstance(ret_type, TupleType) and not ret_type.fields)


def _count_env_threads(printer: Printer, func: PrimFunc) -> None:
    """How often each thread variable is launched: one launched twice is declared once in front."""
    counts: dict[int, int] = {}
    pending: list[Any] = [func.body]
    while pending:
        item = pending.pop()
        if isinstance(item, S.AttrStmt) and isinstance(item.node, E.IterVar):
            counts[id(item.node.var)] = counts.get(id(item.node.var), 0) + 1
        if isinstance(item, S.Stmt):
            item._visit_children(lambda child: pending.append(child) if isinstance(child, S.Stmt) else None)  # type: ignore[attr-defined]
    printer.env_threads = counts


def _params(printer: Printer, func: PrimFunc) -> str:
    uses: dict[int, int] = {}
    handles: set[int] = set()
    for buffer in func.buffer_map.values():
        uses[id(buffer.data)] = uses.get(id(buffer.data), 0) + 1
    if func.buffer_map:
        params = {id(param) for param in func.params}
        post_order_visit(func.body, lambda node: handles.add(id(node)) if id(node) in params else None)
    found = []
    for param in func.params:
        bound = func.buffer_map.get(param)
        plain = param.dtype == "handle" and param.type_annotation is None and id(param) not in handles
        if bound is not None and plain and uses[id(bound.data)] == 1 and is_simple(bound):
            name = printer.define(bound, bound.name)
            printer.define_as(bound.data, f"{name}.data")
            found.append(f"{name}: {buffer_annotation(printer, bound)}")
        else:
            name = printer.define(param, param.name)
            found.append(f"{name}: {var_annotation(printer, param)}")
    return ", ".join(found)


@expression(TensorIntrin)
def _tensor_intrin(printer: Printer, node: TensorIntrin) -> Text:
    return printer.meta(node._type_key, node), 0
