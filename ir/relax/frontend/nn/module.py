"""The modules that a model is made of: a tree by plain attribute assignment, with parameters as leaves.

Exporting and compiling stand above: ``exporter`` and ``jit`` register what :meth:`Module.export_tvm` and :meth:`Module.jit` do.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from ir.module import IRModule

from .error import NNError, NNKeyError, NNValueError
from .extern import ExternModule
from .subroutine import SubroutineMixin
from .tensor import Parameter

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register_module_function(**functions: Callable[..., Any]) -> None:
    """Say what :meth:`Module.export_tvm` and :meth:`Module.jit` do; ``exporter`` and ``jit`` call this when they are imported."""
    _FUNCTIONS.update(functions)


class Module(SubroutineMixin):
    """Base of neural network components: subclass it, assign parameters and other modules to attributes, define ``forward``."""

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """The parameters below this module as (dotted name, parameter); ``prefix`` is put before every name."""
        yield from find_attributes(self, prefix, condition_yield=lambda item: isinstance(item, Parameter))

    def parameters(self) -> Iterator[Parameter]:
        """The parameters below this module."""
        for _, param in self.named_parameters():
            yield param

    def state_dict(
        self, *, prefix: str = "", destination: dict[str, Parameter] | None = None
    ) -> dict[str, Parameter]:
        """The parameters by name, the objects themselves; added to ``destination`` when it is given."""
        found: dict[str, Parameter] = OrderedDict() if destination is None else destination
        for name, param in self.named_parameters(prefix):
            found[name] = param
        return found

    def load_state_dict(
        self, state_dict: dict[str, Parameter], strict: bool = True
    ) -> tuple[list[str], list[str]]:
        """Bind the parameters to the data of those of the same name.

        Returns:
            Names that only this module, or only ``state_dict``, has.

        Raises:
            NNError: a key has no counterpart and ``strict`` is set, or a parameter of ``state_dict`` has no data.
        """
        own = self.state_dict()
        missing = [key for key in own if key not in state_dict]
        unexpected = [key for key in state_dict if key not in own]
        if strict and (missing or unexpected):
            raise NNKeyError(
                f"Missing keys: {missing}, Unexpected keys: {unexpected}; pass strict=False to ignore them"
            )
        for key, source in state_dict.items():
            if key not in own:
                continue
            data = source.data if isinstance(source, Parameter) else source
            if data is None:
                raise NNValueError(f"parameter {key!r} of the state_dict is not bound to any data")
            own[key].data = data
        return missing, unexpected

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``forward``."""
        forward = getattr(self, "forward", None)
        if forward is None:
            raise NNError(f"{type(self).__name__} does not define forward; define it or call another method")
        return forward(*args, **kwargs)

    def to(self, dtype: str | None = None) -> None:
        """Convert the parameters and effects below this module to a dtype."""
        for item in list(self.__dict__.values()):
            if hasattr(item, "to") and callable(item.to):
                item.to(dtype=dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype

    def export_tvm(
        self, spec: Any, debug: bool = False, allow_extern: bool = False
    ) -> (
        tuple[IRModule, list[tuple[str, Parameter]]]
        | tuple[IRModule, list[tuple[str, Parameter]], list[ExternModule]]
    ):
        """Trace methods into a Relax module.

        Args:
            spec: a ``spec.ModuleSpec``, or for each method to export a mapping from its inputs' names to their specifications.
            debug: support printing and debug functions: methods get an input and an output for their effect.
            allow_extern: return external modules too; without it their use is an error.

        Returns:
            The traced module; a function's inputs are the method's, then effects, then parameters.
            The parameters with their names, in the order of the functions' inputs.
            With ``allow_extern``: the external modules that the program added.
        """
        return _FUNCTIONS["export_tvm"](self, spec, debug, allow_extern)

    def jit(
        self,
        spec: Any,
        device: Any = "cpu",
        pipeline: Any = "default_build",
        out_format: str = "torch",
        debug: bool = False,
    ) -> Any:
        """Compile the module and make its methods callable; parameters must be bound.

        ``out_format`` is ``"torch"`` (methods take and return torch tensors) or ``"tvm"``, for which the triple
        ``(spec, vm, params)`` is returned.
        """
        return _FUNCTIONS["jit"](self, spec, device, pipeline, out_format, debug)


class ModuleDict(Module):
    """Holds submodules by name."""

    def __init__(self, modules: dict[str, Module] | None = None) -> None:
        self.modules: OrderedDict[str, Module] = OrderedDict(modules or {})

    def __getitem__(self, key: str) -> Module:
        return self.modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.modules[key] = module

    def __iter__(self) -> Iterator[str]:
        return iter(self.modules)

    def __len__(self) -> int:
        return len(self.modules)

    def keys(self) -> Any:
        """Names."""
        return self.modules.keys()

    def values(self) -> Any:
        """Modules."""
        return self.modules.values()

    def items(self) -> Any:
        """(name, module) pairs."""
        return self.modules.items()

    def get(self, key: str, default: Module | None = None) -> Module | None:
        """The module called ``key``, or ``default``."""
        return self.modules.get(key, default)

    def update(self, modules: dict[str, Module]) -> None:
        """Take over modules from a mapping."""
        self.modules.update(modules)

    def clear(self) -> None:
        """Remove all modules."""
        self.modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return a module."""
        return self.modules.pop(key)

    def to(self, dtype: str | None = None) -> None:
        """Convert all submodules to a dtype."""
        for module in self.modules.values():
            module.to(dtype=dtype)


class ModuleList(Module):
    """Holds submodules in a list; called, it applies them one after the other."""

    def __init__(self, modules: list[Module]) -> None:
        self.modules = list(modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    def __getitem__(self, index: int) -> Module:
        return self.modules[index]

    def __setitem__(self, index: int, module: Module) -> None:
        self.modules[index] = module

    def __len__(self) -> int:
        return len(self.modules)

    def append(self, module: Module) -> None:
        """Add a module to the end."""
        self.modules.append(module)

    def to(self, dtype: str | None = None) -> None:
        """Convert all submodules to a dtype."""
        for module in self.modules:
            module.to(dtype=dtype)

    def forward(self, x: Any) -> Any:
        """The modules applied in order."""
        for module in self.modules:
            x = module(x)
        return x


def find_attributes(
    root: Any, prefix: str, condition_yield: Callable[[Any], bool]
) -> Iterator[tuple[str, Any]]:
    """The objects below a module that satisfy the condition, with dotted names, in order of assignment."""
    children: list[tuple[str, Any]]
    if isinstance(root, ModuleList):
        children = [(str(i), item) for i, item in enumerate(root.modules)]
    elif isinstance(root, ModuleDict):
        children = list(root.modules.items())
    else:
        children = list(root.__dict__.items())
    for name, item in children:
        if condition_yield(item):
            yield prefix + name, item
        elif isinstance(item, Module):
            yield from find_attributes(item, f"{prefix}{name}.", condition_yield)
