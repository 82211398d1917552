"""How modules are written: a class with the functions sorted, PrimFuncs first."""

from __future__ import annotations

from ...module import IRModule
from ...relax.function import ExternFunc
from ...tir.function import PrimFunc
from .core import STATEMENTS, Printer, statement
from .tir_func import prim_func


def _priority(name: str, func: object) -> int:
    """PrimFuncs first, then external functions, then Relax functions, and "main" last."""
    if name == "main":
        return 3
    return 0 if isinstance(func, PrimFunc) else 1 if isinstance(func, ExternFunc) else 2


@statement(IRModule)
def module(printer: Printer, mod: IRModule, last: bool = True) -> None:
    """Emit a module as a class."""
    name = printer.config.name or "Module"
    config = printer.config
    saved = printer.module, printer.module_texts, printer.module_name
    printer.module, printer.module_name = mod, name
    alias = config.module_alias or name
    printer.module_texts = {var.name_hint: f"{alias}.{var.name_hint}" for var in mod.functions}
    with printer.frame() as frame:
        frame.header += [f"@{printer.ir('ir_module')}", f"class {name}:"]
        if mod.attrs:
            printer.emit(f"{printer.ir('module_attrs')}({printer.value(mod.attrs.dict)})")
        if mod.global_infos:
            infos = {key: list(value) for key, value in mod.global_infos.items()}
            printer.emit(f"{printer.ir('module_global_infos')}({printer.value(infos)})")
        functions = sorted(
            mod.functions.items(), key=lambda pair: (_priority(pair[0].name_hint, pair[1]), pair[0].name_hint)
        )
        for position, (var, func) in enumerate(functions):
            if position and not isinstance(functions[position - 1][1], ExternFunc):
                printer.emit("")
            if isinstance(func, PrimFunc):
                prim_func(printer, func, name=var.name_hint)
            elif func.__class__ in STATEMENTS:
                STATEMENTS[func.__class__](printer, func, True, name=var.name_hint)  # type: ignore[call-arg]
            else:
                printer.emit(f"{var.name_hint} = {printer.text(func)}")
        if not functions and not frame.lines:
            printer.emit("pass")
    printer.module, printer.module_texts, printer.module_name = saved
