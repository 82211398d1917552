"""The options of the printer: prefixes, indentation, default dtypes, and what is spelled out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ...error import IRTypeError


@dataclass(frozen=True, slots=True)
class PrinterConfig:
    """Options of :func:`ir.script.printer.script`; the names are those of the field's script printers."""

    name: str | None = None
    """The function's or module's name; by default its global symbol, "main", or "Module"."""
    show_meta: bool = False
    """Print the data of large constants at the top, so that the text can be parsed again."""
    ir_prefix: str = "I"
    tir_prefix: str = "T"
    relax_prefix: str = "R"
    module_alias: str = "cls"
    """How functions of a module refer to each other."""
    buffer_dtype: str = "float32"
    """The dtype that buffer declarations leave out."""
    int_dtype: str = "int32"
    """Integer constants of this dtype print as plain numbers in TIR."""
    float_dtype: str = "void"
    """Float constants of this dtype print as plain numbers in TIR."""
    verbose_expr: bool = False
    """Also print the definitions of an expression's free variables."""
    indent_spaces: int = 4
    print_line_numbers: bool = False
    num_context_lines: int = -1
    """How many lines around an underlined one to print; negative for the whole program."""
    syntax_sugar: bool = True
    """Use ``T.grid``, ``range``, ``T.axis.remap``, and leave an implicit root block out."""
    show_all_struct_info: bool = True
    """Annotate every Relax variable, even where its struct info follows from the value."""
    path_to_underline: Sequence[Any] | None = None
    """Paths from the printed node (as structural comparison gives them) to nodes that are underlined."""
    path_to_annotate: Mapping[Any, str] | None = None
    """Comments for the nodes at paths."""
    obj_to_underline: Sequence[Any] | None = None
    """Nodes that are underlined."""
    obj_to_annotate: Mapping[Any, str] | None = None
    """Comments for nodes."""


_KNOWN = {item.name for item in fields(PrinterConfig)}


def make_config(options: dict[str, Any]) -> PrinterConfig:
    """The configuration for keyword options; raises IRTypeError for an unknown one."""
    unknown = options.keys() - _KNOWN
    if unknown:
        raise IRTypeError(
            f"script: unknown option {sorted(unknown)[0]!r}; the options are {', '.join(sorted(_KNOWN))}"
        )
    return PrinterConfig(**options)
