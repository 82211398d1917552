"""Compile a module and call its methods at once: what :meth:`Module.jit` does."""

from __future__ import annotations

from typing import Any

import numpy as np

from ir import relax
from ir.external import external

from .error import NNTypeError, NNValueError
from .module import Module, register_module_function
from .spec import Int, MethodSpec, ModuleSpec
from .spec import Tuple as TupleSpec
from .tensor import Parameter


def jit_module(module: Module, spec: Any, device: Any, pipeline: Any, out_format: str, debug: bool) -> Any:
    """Export, build and load a module; see :meth:`Module.jit`."""
    if out_format not in ("torch", "tvm"):
        raise NNValueError(f"jit: out_format is 'torch' or 'tvm', got {out_format!r}")
    spec = ModuleSpec.from_raw(spec, module)
    mod, params, *rest = module.export_tvm(spec, debug=debug, allow_extern=True)
    for library in rest[0] if rest else ():
        library.load().register()
    where = external("device")(device)
    # By way of the package, which loads code generation when it is first asked for.
    executable = relax.build(mod, **({} if pipeline == "default_build" else {"relax_pipeline": pipeline}))
    vm = external("VirtualMachine")(executable, where)
    arrays = [_bound(name, param) for name, param in params]
    if out_format == "tvm":
        return spec, vm, arrays
    return TorchModule(spec, vm, arrays, "_initialize_effect" in mod)


def _bound(name: str, param: Parameter) -> np.ndarray:
    if param.data is None:
        raise NNValueError(f"jit: parameter {name!r} is not bound to values; set its data first")
    return param.data


class TorchModule:
    """A compiled module whose methods take and return torch tensors; effects are kept between calls."""

    def __init__(self, spec: ModuleSpec, vm: Any, params: list[np.ndarray], has_effects: bool) -> None:
        self.spec = spec
        self.vm = vm
        self.params = params
        self._methods = dict(zip(spec.method_names, spec.method_specs))
        self.effects = list(vm["_initialize_effect"]()) if has_effects else []

    def __getitem__(self, method_name: str) -> Any:
        """The method called ``method_name``."""
        if method_name not in self._methods:
            raise NNValueError(f"no method {method_name!r} was compiled; there are {sorted(self._methods)}")
        method = self._methods[method_name]

        def call(*args: Any) -> Any:
            if len(args) != len(method.arg_specs):
                raise NNTypeError(
                    f"{method_name} takes {len(method.arg_specs)} arguments ({', '.join(method.arg_names)}), got {len(args)}"
                )
            inputs = [
                _to_runtime(name, spec, arg)
                for name, spec, arg in zip(method.arg_names, method.arg_specs, args)
            ]
            result = self.vm[method_name](*inputs, *self._effect_inputs(method), *self._param_inputs(method))
            if self.effects and method.effect_mode != "none":
                result, self.effects = result[0], list(result[1])
            return _to_torch(result)

        return call

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._methods:
            raise AttributeError(name)
        return self[name]

    def _effect_inputs(self, method: MethodSpec) -> list[Any]:
        if method.effect_mode == "none" or not self.effects:
            return []
        return [tuple(self.effects)] if method.effect_mode == "packed" else self.effects

    def _param_inputs(self, method: MethodSpec) -> list[Any]:
        if method.param_mode == "none":
            return []
        return [tuple(self.params)] if method.param_mode == "packed" else list(self.params)


def _to_runtime(name: str, spec: Any, arg: Any) -> Any:
    if isinstance(spec, Int):
        return (int(arg),)
    if isinstance(spec, TupleSpec):
        return tuple(
            _to_runtime(f"{name}_{i}", item, value) for i, (item, value) in enumerate(zip(spec.elements, arg))
        )
    return arg.detach().cpu().numpy() if hasattr(arg, "detach") else np.asarray(arg)


def _to_torch(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_to_torch(item) for item in value)
    import torch

    return torch.from_dlpack(value)


register_module_function(jit=jit_module)
