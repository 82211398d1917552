"""The namespace ``I`` of scripts: ``from ir.script import ir as I``."""

from __future__ import annotations

import sys
from typing import Any

from ..error import IRValueError
from ..expr import GlobalVar as _GlobalVar
from ..global_info import DummyGlobalInfo, VDevice
from ..json_format import load_json
from ..module import IRModule
from ..op import Op as _Op
from ..tir.expr import Range
from .ir_builder.tir_functions import plain as _plain
from .parser.module_statements import module_of as _module_of
from .parser.module_statements import parse_class as _parse_class
from .parser.relax_entry import script_only as _script_only


def ir_module(mod: Any = None, check_well_formed: bool = True) -> Any:
    """Read a class of functions as an IRModule.

    Args:
        mod: the class, when used as ``@I.ir_module`` without arguments.
        check_well_formed: verify the module after reading it.
    """
    frame = sys._getframe(1)
    if mod is not None:
        if not isinstance(mod, type):
            raise IRValueError(f"I.ir_module decorates a class, got {type(mod).__name__}")
        return _parse_class(mod, frame, check_well_formed)
    return lambda cls: _parse_class(cls, frame, check_well_formed)


@_script_only("I.module_attrs", quiet=True)
def module_attrs(parser: Any, attrs: Any) -> None:
    """Set attributes of the module."""
    module = _module_of(parser)
    module.update(IRModule(attrs=_plain(dict(attrs))))


@_script_only("I.module_global_infos", quiet=True)
def module_global_infos(parser: Any, infos: Any) -> None:
    """Set the global infos of the module: lists by name, such as ``{"vdevice": [I.vdevice("llvm")]}``."""
    module = _module_of(parser)
    for key, value in infos.items():
        module.update_global_info(key, value)


def vdevice(target: Any = None, vdevice_id: int = 0, memory_scope: str = "global") -> VDevice:
    """A virtual device."""
    return VDevice(target, vdevice_id, memory_scope)


def dummy_global_info() -> DummyGlobalInfo:
    """A global info without content."""
    return DummyGlobalInfo()


def GlobalVar(name: str) -> _GlobalVar:
    """A reference to a function by name."""
    return _GlobalVar(name)


def Op(name: str) -> _Op:
    """An operator by name."""
    return _Op.get(name)


__all__ = [
    "GlobalVar",
    "Op",
    "Range",
    "dummy_global_info",
    "ir_module",
    "load_json",
    "module_attrs",
    "module_global_infos",
    "vdevice",
]
