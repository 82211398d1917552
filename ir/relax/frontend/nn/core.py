"""The objects that an nn program is made of: tensors, parameters, effects, and the modules that hold them.

A :class:`Tensor` wraps a Relax expression that has been emitted into the current block builder, so its shape and dtype
are known at once. Modules form a tree by plain attribute assignment; :meth:`Module.export_tvm` traces their methods.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ir import dtype as dt
from ir import tir
from ir.error import IRError, IRTypeError, IRValueError
from ir.module import IRModule
from ir.relax.block_builder import BlockBuilder
from ir.relax.expr import DataflowVar, Expr, ShapeExpr, TupleGetItem, Var, const
from ir.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo

from ._tensor_op import _TensorOp
from .subroutine import SubroutineMixin

if TYPE_CHECKING:
    from . import spec as _spec
    from .extern import ExternModule

_default_dtype = "float32"


class NNError(IRError):
    """An nn program is used in a way that it cannot work; the message names the object and the fix."""


class NNTypeError(NNError, IRTypeError):
    """An nn function or module got a value of the wrong kind or dtype."""


class NNValueError(NNError, IRValueError):
    """An nn function or module got a value that it cannot accept."""


def current_builder() -> BlockBuilder:
    """The block builder that a method is being traced into; raises NNError outside of an export."""
    builder = BlockBuilder.current()
    if builder is None:
        raise NNError(
            "functions on tensors work while a module is exported: call them from a method given to export_tvm"
        )
    return builder


def get_default_dtype() -> str:
    """The dtype that parameters get when none is given; float32 unless changed."""
    return _default_dtype


def set_default_dtype(dtype: str) -> None:
    """Set the dtype that parameters get when none is given."""
    global _default_dtype
    dt.parse(dtype)
    _default_dtype = dtype


class Tensor(_TensorOp):
    """A Relax expression whose struct info is a tensor of known dtype and number of dimensions.

    Tensors are always symbolic; inference runs when an operator is applied, so ``shape`` and ``dtype`` are known at
    every point of a program. They are made by the functions of :mod:`ir.relax.frontend.nn.op` and by the static
    methods here, not by the constructor.
    """

    _expr: Expr

    def __init__(self, *, _expr: Expr) -> None:
        info = _expr.struct_info_
        if not isinstance(info, TensorStructInfo):
            raise NNTypeError(f"nn.Tensor wraps a tensor expression, got struct info {info}")
        if info.shape_values is None or not info.dtype:
            raise NNTypeError(f"nn.Tensor needs a tensor of known shape and dtype, got {info}")
        self._expr = _expr

    @staticmethod
    def from_const(data: Any) -> Tensor:
        """A constant tensor with the contents of a numpy array (or anything that numpy converts), dtype included."""
        array = data.numpy() if hasattr(data, "numpy") else data
        return Tensor(
            _expr=const(array, dt.from_numpy(array.dtype) if isinstance(array, np.ndarray) else None)
        )

    @staticmethod
    def from_scalar(data: int | float, dtype: str) -> Tensor:
        """A constant tensor of shape ``()``."""
        return Tensor(_expr=const(data, dtype=dtype))

    @staticmethod
    def from_struct_info(struct_info: TensorStructInfo, name: str = "tensor") -> Tensor:
        """A placeholder of the given struct info."""
        return Tensor(_expr=Var(name, struct_info))

    @staticmethod
    def placeholder(shape: Sequence[int | str | tir.PrimExpr], dtype: str, name: str = "tensor") -> Tensor:
        """A tensor without a value, to say which shape and dtype an external function returns.

        A string in ``shape`` makes a symbolic extent of that name (an int64 ``tir.Var``); the same name in one shape is
        the same variable.
        """
        symbols: dict[str, tir.Var] = {}
        extents: list[tir.PrimExpr] = []
        for extent in shape:
            if isinstance(extent, bool) or not isinstance(extent, int | str | tir.PrimExpr | np.integer):
                raise NNTypeError(
                    f"tensor {name!r}: an extent is an int, a name or a tir.PrimExpr, got {extent!r} in shape {list(shape)}"
                )
            if isinstance(extent, int | np.integer):
                if extent < 0:
                    raise NNValueError(
                        f"tensor {name!r}: extents are not negative, got {extent} in shape {list(shape)}"
                    )
                extents.append(tir.IntImm("int64", int(extent)))
            elif isinstance(extent, str):
                extents.append(symbols.setdefault(extent, tir.Var(extent, "int64")))
            else:
                extents.append(extent)
        return Tensor(_expr=Var(name, TensorStructInfo(ShapeExpr(extents), dtype)))

    @property
    def shape(self) -> list[int | tir.PrimExpr]:
        """The extents: Python integers where they are constant, TIR expressions where they are symbolic."""
        values = self._expr.struct_info.shape_values
        return [int(extent.value) if isinstance(extent, tir.IntImm) else extent for extent in values]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self._expr.struct_info.ndim)

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return str(self._expr.struct_info.dtype)

    def __repr__(self) -> str:
        return f'Tensor({self.shape}, "{self.dtype}")'


class Parameter(Tensor):
    """A weight: a tensor that may be bound to concrete values through :attr:`data`."""

    _data: np.ndarray | None
    attrs: OrderedDict[str, Any]

    def __init__(self, shape: Sequence[int | str | tir.PrimExpr], dtype: str | None = None) -> None:
        """An unbound parameter; ``dtype`` defaults to :func:`get_default_dtype`."""
        super().__init__(_expr=Tensor.placeholder(shape, dtype or get_default_dtype(), name="param")._expr)
        self._data = None
        self.attrs = OrderedDict()

    @property
    def data(self) -> np.ndarray | None:
        """The values that the parameter is bound to, or None."""
        return self._data

    @data.setter
    def data(self, data: Any) -> None:
        """Bind to an array (numpy, NDArray, torch, anything numpy converts) of the same shape and dtype, or unbind by None."""
        if data is None:
            self._data = None
            return
        if hasattr(data, "detach"):  # a torch tensor, perhaps one that requires gradients
            data = data.detach().cpu()
        array = np.asarray(data.numpy() if hasattr(data, "numpy") else data)
        if [*array.shape] != self.shape:
            raise NNValueError(f"Shape mismatch: expected {tuple(self.shape)}, but got {tuple(array.shape)}")
        found = dt.from_numpy(array.dtype)
        if found != self.dtype:
            raise NNValueError(
                f"Dtype mismatch: expected {self.dtype}, but got {found}; convert the array first"
            )
        self._data = array

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype; raises NNValueError when the parameter is bound to values."""
        if dtype is None:
            return
        if self._data is not None:
            raise NNValueError(
                "Changing the dtype of a Parameter that is bound to values is not supported. "
                "Set its data to None first, then change the dtype, then bind converted values."
            )
        self._expr = Tensor.placeholder(self.shape, dtype=dtype, name="param")._expr


class Object:
    """A Relax expression that is not a tensor (its struct info is ``ObjectStructInfo``), such as a KV cache."""

    _expr: Expr

    def __init__(self, *, _expr: Expr, _name: str) -> None:
        if not isinstance(_expr, Var):
            _expr = current_builder().emit(_expr, _name)
        if not isinstance(_expr.struct_info, ObjectStructInfo):
            raise NNTypeError(
                f"nn.Object {_name!r} wraps a value of ObjectStructInfo, got {_expr.struct_info}"
            )
        self._expr = _expr


class Effect:
    """State outside the dataflow of tensors: printing, caches. Methods thread it through as extra inputs and outputs."""

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        """Emit the initial state; called for the function ``_initialize_effect``."""
        raise NNError(f"{type(self).__name__} does not define emit_init")

    def create(self, name_hint: str) -> list[Var]:
        """New variables that stand for the state as inputs of a function."""
        raise NNError(f"{type(self).__name__} does not define create")

    def set_state(self, state_vars: list[Var]) -> None:
        """Use these variables as the current state."""
        raise NNError(f"{type(self).__name__} does not define set_state")

    def finalize(self) -> list[Var]:
        """The variables of the last state, which the function returns; the effect forgets them."""
        raise NNError(f"{type(self).__name__} does not define finalize")

    def to(self, dtype: str | None = None) -> None:
        """Convert the state to a dtype; most effects have none."""


class Module(SubroutineMixin):
    """Base of neural network components: subclass it, assign parameters and other modules to attributes, define ``forward``."""

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """The parameters below this module as (dotted name, parameter); ``prefix`` is put before every name."""
        yield from _attribute_finder(self, prefix, condition_yield=lambda item: isinstance(item, Parameter))

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
        self, spec: _spec.ModuleSpecType, debug: bool = False, allow_extern: bool = False
    ) -> (
        tuple[IRModule, list[tuple[str, Parameter]]]
        | tuple[IRModule, list[tuple[str, Parameter]], list[ExternModule]]
    ):
        """Trace methods into a Relax module.

        Args:
            spec: for each method to export, a mapping from its inputs' names to their specifications.
            debug: support printing and debug functions: methods get an input and an output for their effect.
            allow_extern: return external modules too; without it their use is an error.

        Returns:
            The traced module; a function's inputs are the method's, then effects, then parameters.
            The parameters with their names, in the order of the functions' inputs.
            With ``allow_extern``: the external modules that the program added.
        """
        from .exporter import Exporter
        from .spec import ModuleSpec

        mod, params, ext_mods = Exporter(debug=debug).build(ModuleSpec.from_raw(spec, self))
        if allow_extern:
            return mod, params, ext_mods
        if ext_mods:
            raise NNValueError(
                "the program adds external modules; export it with allow_extern=True and link them"
            )
        return mod, params

    def jit(
        self,
        spec: _spec.ModuleSpec,
        device: Any = "cpu",
        pipeline: Any = "default_build",
        out_format: str = "torch",
        debug: bool = False,
    ) -> Any:
        """Compile the module and make its methods callable; parameters must be bound.

        ``out_format`` is ``"torch"`` (methods take and return torch tensors) or ``"tvm"``, for which the triple
        ``(spec, vm, params)`` is returned.
        """
        from .jit import jit_module

        return jit_module(self, spec, device, pipeline, out_format, debug)


class NNKeyError(NNError, KeyError):
    """A state_dict and a module do not have the same keys."""

    def __str__(self) -> str:
        return str(self.args[0])


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


def wrap_nested(expr: Expr, name: str) -> Any:
    """Emit an expression into the current block builder and wrap it: a Tensor, or a tuple of them for a tuple.

    Args:
        expr: the expression; one that is a dataflow variable already is not emitted again.
        name: name hint; the fields of a tuple get ``name.0``, ``name.1``, ...
    """
    if not isinstance(expr, DataflowVar):
        expr = current_builder().emit(expr, name)
    info = expr.struct_info_
    if isinstance(info, TensorStructInfo):
        return Tensor(_expr=expr)
    if isinstance(info, TupleStructInfo):
        return tuple([wrap_nested(TupleGetItem(expr, i), f"{name}.{i}") for i in range(len(info.fields))])
    raise NNTypeError(f"{name}: expected a tensor or a tuple of tensors, got {info}")


_Found = TypeVar("_Found")


def _attribute_finder(
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
            yield from _attribute_finder(item, f"{prefix}{name}.", condition_yield)
