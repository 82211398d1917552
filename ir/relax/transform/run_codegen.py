"""RunCodegen: functions marked for an external backend are compiled by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...expr import GlobalVar
from ...module import IRModule
from ...op import Op
from ...registry import get_global_func
from ...transform import ModulePass, PassContext, PassError
from ..block_builder import BlockBuilder
from ..expr import Call, Expr, Tuple
from ..function import ExternFunc, Function
from ..function_signature import MapCall, replace_calls
from ..struct_info import TensorStructInfo, TupleStructInfo
from .dead_code_elimination import remove_unused_functions


def _external_call(symbol: str) -> MapCall:
    """What calls of a function become that a backend has compiled: it writes into its outputs where their shapes are known."""

    def make(builder: BlockBuilder, call: Call) -> Expr:
        info = call.struct_info
        infos = info.fields if isinstance(info, TupleStructInfo) else (info,)
        if all(isinstance(item, TensorStructInfo) and item.shape is not None for item in infos):
            args = (ExternFunc(symbol), Tuple(call.args))
            return Call(Op.get("relax.call_dps_packed"), args, None, [info], call.span, info)
        return Call(ExternFunc(symbol), call.args, None, [info], call.span, info)

    return make


@dataclass(frozen=True)
class RunCodegen(ModulePass):
    """Hand functions with the attribute ``Codegen`` to the registered function ``relax.ext.<backend>``.

    The backend's function takes ``(functions, options, constant_names)`` and returns modules, which are kept in the module's
    attribute ``external_mods``; calls become ``call_dps_packed`` of the functions' symbols.

    Before: ``y = cls.fused_conv2d_dnnl(x, w)`` where the function has ``Codegen: "dnnl"``

    After: ``y = R.call_dps_packed("fused_conv2d_dnnl", (x, w), out_sinfo=...)``

    Args:
        target_options: options by backend.
        entry_functions: functions to keep besides the public ones.
    """

    target_options: Mapping[str, Any] | None = None
    entry_functions: Sequence[str] | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module without functions for external backends."""
        by_backend: dict[str, list[tuple[GlobalVar, Function]]] = {}
        for var, func in mod.functions.items():
            if isinstance(func, Function) and "Codegen" in func.attrs:
                by_backend.setdefault(str(func.attrs["Codegen"]), []).append((var, func))
        if not by_backend:
            return mod
        external: list[Any] = list(mod.attrs.get("external_mods") or ())
        for backend, functions in by_backend.items():
            compile_functions = get_global_func(f"relax.ext.{backend}", allow_missing=True)
            if compile_functions is None:
                raise PassError(
                    f"RunCodegen: no backend {backend!r}; register it with ir.register_func('relax.ext.{backend}')"
                )
            options = dict((self.target_options or {}).get(backend) or {})
            external += list(compile_functions([func for _, func in functions], options, {}) or ())
        symbols = {
            var.name_hint: str(func.attrs.get("global_symbol", var.name_hint))
            for functions in by_backend.values()
            for var, func in functions
        }
        rest = mod.replace(
            functions={var: func for var, func in mod.functions.items() if var.name_hint not in symbols}
        )
        rest = replace_calls(rest, {name: _external_call(symbol) for name, symbol in symbols.items()})
        rest = remove_unused_functions(rest, tuple(self.entry_functions or ()))
        return rest.with_attr("external_mods", tuple(external)) if external else rest
