"""Entry points of the printer: a program with header and metadata, or the bare text of any node."""

from __future__ import annotations

from typing import Any

from ...attrs import DictAttrs
from ...function import BaseFunc
from ...json_format import save_json
from ...module import IRModule
from .config import PrinterConfig, make_config
from .core import EXPRESSIONS, STATEMENTS, Printer, _inherited
from .marks import MarkingPrinter, at_path, resolved

_HEADERS = (("ir", "ir_prefix"), ("tir", "tir_prefix"), ("relax", "relax_prefix"))


def script(node: Any, **options: Any) -> str:
    """The text form of a module, function, statement or expression.

    Args:
        node: what to print.
        options: see :class:`ir.script.printer.config.PrinterConfig`, for example ``show_meta=True``.

    Returns:
        Text that :func:`ir.script.from_source` reads back as a structurally equal program.
    """
    config = make_config(options)
    printer, body = _print(node, config)
    lines = []
    for dialect, prefix in _HEADERS:
        if dialect in printer.used:
            lines.append(f"# from ir.script import {dialect} as {getattr(config, prefix)}")
    if not isinstance(node, IRModule | BaseFunc):
        lines = []
    if printer.metadata:
        if config.show_meta:
            lines += ["", f"metadata = ir.load_json({_json_literal(save_json(printer.metadata))})"]
        else:
            body += "\n\n# Metadata omitted. Use show_meta=True in script() method to show it."
    text = "\n".join([*lines, "", body]) if lines else body
    if isinstance(printer, MarkingPrinter):
        text = resolved(text, printer.notes, config.num_context_lines)
    if config.print_line_numbers:
        width = len(str(text.count("\n") + 1))
        text = "\n".join(
            f"{number:>{width}} {line}".rstrip() for number, line in enumerate(text.split("\n"), 1)
        )
    return text


def _json_literal(text: str) -> str:
    return "r'''" + text.replace("'", "\\u0027") + "'''"


def _print(node: Any, config: PrinterConfig) -> tuple[Printer, str]:
    printer = _printer(node, config)
    with printer.frame(indent=0) as frame:
        if node.__class__ in STATEMENTS:
            STATEMENTS[node.__class__](printer, node, False)
        else:
            text = printer.text(node)
            if not config.verbose_expr:
                frame.lines.clear()
            printer.emit(text)
    return printer, printer.render(frame)


def _printer(node: Any, config: PrinterConfig) -> Printer:
    underlined = [
        *(config.obj_to_underline or ()),
        *[at_path(node, p) for p in config.path_to_underline or ()],
    ]
    noted = {
        **(config.obj_to_annotate or {}),
        **{at_path(node, path): text for path, text in (config.path_to_annotate or {}).items()},
    }
    return MarkingPrinter(config, underlined, noted) if underlined or noted else Printer(config)


def repr_node(node: Any) -> str:
    """The node as script without header; nodes without a text form are shown by class and fields."""
    if isinstance(node, DictAttrs):
        return repr(node.dict)
    cls: Any = node.__class__
    if cls in STATEMENTS or _inherited(EXPRESSIONS, cls, None) is not None or cls in EXPRESSIONS:
        return _print(node, PrinterConfig())[1]
    return fields_text(node)


def fields_text(node: Any) -> str:
    """``Class(field=value, ...)``."""
    shown = [
        f"{item.name}={getattr(node, item.name)!r}"
        for item in node._fields
        if item.name not in ("span", "struct_info_")
    ]
    return f"{type(node).__name__}({', '.join(shown)})"
