"""What the inputs of an exported module look like: one specification per argument, method and module.

A module's specification is usually written as plain dicts, ``{"forward": {"x": spec.Tensor([1, "n"], "float32")}}``;
:meth:`ModuleSpec.from_raw` turns it into these classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ir import dtype as dt
from ir.tir.expr import PrimExpr

from .error import NNTypeError, NNValueError
from .module import Module as _Module
from .tensor import Object as _Object

ArgSpecType = Any
"""``int``, :class:`Int`, :class:`Tensor`, :class:`Object`, :class:`Tuple`, or a list or tuple of those."""
MethodSpecType = Any
"""A :class:`MethodSpec`, or a mapping from an argument's name to its :data:`ArgSpecType`; the key ``$`` holds options."""
ModuleSpecType = Any
"""A :class:`ModuleSpec`, or a mapping from a method's name to its :data:`MethodSpecType`."""


class Int:
    """An integer argument: in the exported function a shape of one symbolic extent."""

    def __repr__(self) -> str:
        return "int"


class Tensor:
    """A tensor argument; names in ``shape`` are symbolic extents, shared by all arguments of the method."""

    def __init__(self, shape: Sequence[int | str | PrimExpr], dtype: str) -> None:
        self.shape = list(shape)
        self.dtype = dt.checked(dtype)

    def __repr__(self) -> str:
        return f"Tensor([{', '.join(map(str, self.shape))}], '{self.dtype}')"


class Object:
    """An argument that is no tensor; the method gets it as an instance of ``object_type``, a class derived from nn.Object."""

    def __init__(self, object_type: type = _Object) -> None:
        self.object_type = object_type

    def __repr__(self) -> str:
        return f"object({self.object_type.__name__})"


class Tuple:
    """An argument that is a tuple or list of others."""

    def __init__(self, name: str, elements: list[Any] | tuple[Any, ...]) -> None:
        self.name = name
        self.elements = elements

    def __repr__(self) -> str:
        return f"Tuple({self.name}, {self.elements!r})"


class MethodSpec:
    """The specification of one method.

    ``param_mode`` says how parameters enter the function: ``"plain"`` one by one, ``"packed"`` as one tuple, ``"none"`` not
    at all. ``effect_mode`` says the same of effects.
    """

    def __init__(
        self,
        method: Callable[..., Any],
        arg_names: list[str],
        arg_specs: list[Any],
        param_mode: str = "plain",
        effect_mode: str = "plain",
    ) -> None:
        for option, mode in (("param_mode", param_mode), ("effect_mode", effect_mode)):
            if mode not in ("plain", "packed", "none"):
                raise NNValueError(f"{option} is 'plain', 'packed' or 'none', got {mode!r}")
        self.method = method
        self.arg_names = arg_names
        self.arg_specs = arg_specs
        self.param_mode = param_mode
        self.effect_mode = effect_mode

    def __repr__(self) -> str:
        name = getattr(self.method, "__name__", "method")
        args = ", ".join(f"{name}: {spec!r}" for name, spec in zip(self.arg_names, self.arg_specs))
        return f"{name}({args}), param_mode={self.param_mode}, effect_mode={self.effect_mode}"

    @staticmethod
    def from_raw(spec: MethodSpecType, method: Callable[..., Any]) -> MethodSpec:
        """The specification of ``method`` from a mapping; arguments with a default value may be left out.

        Raises:
            NNValueError: an argument has no specification, or a specification no argument.
        """
        if isinstance(spec, MethodSpec):
            return spec
        options = dict(spec.get("$", {}))
        parameters = inspect.signature(method).parameters
        name = getattr(method, "__name__", "method")
        unknown = [key for key in spec if key != "$" and key not in parameters]
        missing = [
            key
            for key, parameter in parameters.items()
            if key not in spec
            and parameter.default is inspect.Parameter.empty
            and parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        ]
        if unknown or missing:
            raise NNValueError(
                f"the specification of method {name!r} lacks {missing} and has {unknown}, which the method does not take"
            )
        arg_names = [key for key in parameters if key in spec]
        arg_specs = [_convert_arg_spec(spec[key], key) for key in arg_names]
        return MethodSpec(
            method,
            arg_names,
            arg_specs,
            param_mode=options.get("param_mode", "plain"),
            effect_mode=options.get("effect_mode", "plain"),
        )

    @staticmethod
    def from_torch(args: Sequence[Any], method: Callable[..., Any]) -> MethodSpec:
        """The specification that example arguments imply: torch tensors (or arrays) and integers."""
        names = list(inspect.signature(method).parameters)
        if len(names) < len(args):
            raise NNValueError(f"{len(args)} arguments for a method that takes {names}")
        specs: list[Any] = []
        for name, arg in zip(names, args):
            if isinstance(arg, int):
                specs.append(Int())
            elif hasattr(arg, "shape") and hasattr(arg, "dtype"):
                specs.append(
                    Tensor([int(extent) for extent in arg.shape], str(arg.dtype).removeprefix("torch."))
                )
            else:
                raise NNTypeError(f"argument {name!r}: expected a tensor or an int, got {type(arg).__name__}")
        return MethodSpec(method, names[: len(args)], specs)


def _convert_arg_spec(arg_spec: Any, arg_name: str) -> Any:
    if arg_spec is Int or arg_spec is int or arg_spec == "int":
        return Int()
    if isinstance(arg_spec, Int | Tensor | Object):
        return arg_spec
    if arg_spec is Object or arg_spec is object:
        return Object()
    if isinstance(arg_spec, type) and issubclass(arg_spec, _Object):
        return Object(arg_spec)
    if isinstance(arg_spec, list | tuple | Tuple):
        elements = arg_spec.elements if isinstance(arg_spec, Tuple) else arg_spec
        name = arg_spec.name if isinstance(arg_spec, Tuple) else arg_name
        converted = [_convert_arg_spec(item, f"{name}_tmp{i}") for i, item in enumerate(elements)]
        return Tuple(name, tuple(converted) if isinstance(elements, tuple) else converted)
    raise NNTypeError(
        f"argument {arg_name!r}: expected int (the type), spec.Tensor, spec.Object, spec.Tuple or a list of those, got {arg_spec!r};"
        ' a tensor of a shape is spec.Tensor([2, 5], "float32")'
    )


class ModuleSpec:
    """The specification of a module: its methods and theirs."""

    def __init__(self, module: _Module, method_names: list[str], method_specs: list[MethodSpec]) -> None:
        self.module = module
        self.method_names = method_names
        self.method_specs = method_specs

    @staticmethod
    def from_raw(spec: ModuleSpecType, module: _Module) -> ModuleSpec:
        """The specification of ``module`` from a mapping of method names; raises NNValueError for a method it lacks."""
        if isinstance(spec, ModuleSpec):
            return spec
        if not isinstance(spec, Mapping) or not spec:
            raise NNTypeError(f"a module's specification maps method names to specifications, got {spec!r}")
        names = list(spec)
        specs: list[MethodSpec] = []
        for name in names:
            method = getattr(module, name, None)
            if not callable(method):
                raise NNValueError(f"{type(module).__name__} has no method {name!r} to export")
            specs.append(MethodSpec.from_raw(spec[name], method))
        return ModuleSpec(module, names, specs)

    def __repr__(self) -> str:
        lines = [f"{name}: {spec!r}" for name, spec in zip(self.method_names, self.method_specs)]
        return "\n".join([f"module {type(self.module).__name__}", *lines])
