"""The values that methods compute with: tensors, parameters and opaque objects.

A :class:`Tensor` wraps a Relax expression that has been emitted into the current block builder, so its shape and dtype
are known at once. Its operators and methods are functions of :mod:`ir.relax.frontend.nn.op`, which registers them here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.conversion import as_array
from ir.relax.expr import DataflowVar, Expr, ShapeExpr, TupleGetItem, Var, const
from ir.relax.expr import Tuple as RxTuple
from ir.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from ir.tir.expr import IntImm, PrimExpr
from ir.tir.expr import Var as TirVar

from .error import NNTypeError, NNValueError
from .refused_operators import RefusedTensorOperators
from .tracing import current_builder

_default_dtype = "float32"


def get_default_dtype() -> str:
    """The dtype that parameters get when none is given; float32 unless changed."""
    return _default_dtype


def set_default_dtype(dtype: str) -> None:
    """Set the dtype that parameters get when none is given."""
    global _default_dtype
    dt.parse(dtype)
    _default_dtype = dtype


_FUNCTIONS: dict[str, Callable[..., Tensor]] = {}


def register_tensor_functions(**functions: Callable[..., Tensor]) -> None:
    """Say what the operators and methods of tensors do; ``op`` calls this when it is imported."""
    _FUNCTIONS.update(functions)


class Tensor(RefusedTensorOperators):
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
    def placeholder(shape: Sequence[int | str | PrimExpr], dtype: str, name: str = "tensor") -> Tensor:
        """A tensor without a value, to say which shape and dtype an external function returns.

        A string in ``shape`` makes a symbolic extent of that name (an int64 ``tir.Var``); the same name in one shape is
        the same variable.
        """
        symbols: dict[str, TirVar] = {}
        extents: list[PrimExpr] = []
        for extent in shape:
            if isinstance(extent, bool) or not isinstance(extent, int | str | PrimExpr | np.integer):
                raise NNTypeError(
                    f"tensor {name!r}: an extent is an int, a name or a tir.PrimExpr, got {extent!r} in shape {list(shape)}"
                )
            if isinstance(extent, int | np.integer):
                if extent < 0:
                    raise NNValueError(
                        f"tensor {name!r}: extents are not negative, got {extent} in shape {list(shape)}"
                    )
                extents.append(IntImm("int64", int(extent)))
            elif isinstance(extent, str):
                extents.append(symbols.setdefault(extent, TirVar(extent, "int64")))
            else:
                extents.append(extent)
        return Tensor(_expr=Var(name, TensorStructInfo(ShapeExpr(extents), dtype)))

    @property
    def shape(self) -> list[int | PrimExpr]:
        """The extents: Python integers where they are constant, TIR expressions where they are symbolic."""
        values = self._expr.struct_info.shape_values
        return [int(extent.value) if isinstance(extent, IntImm) else extent for extent in values]

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

    # ---- operators; a number has the dtype of the tensor beside it, which must hold it

    def _binary(self, name: str, other: Any, swapped: bool = False) -> Tensor:
        return _FUNCTIONS[name](other, self) if swapped else _FUNCTIONS[name](self, other)

    def __neg__(self) -> Tensor:
        return _FUNCTIONS["negative"](self)

    def __add__(self, other: Any) -> Tensor:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Tensor:
        return self._binary("add", other)

    def __sub__(self, other: Any) -> Tensor:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._binary("subtract", other, swapped=True)

    def __mul__(self, other: Any) -> Tensor:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._binary("multiply", other)

    def __truediv__(self, other: Any) -> Tensor:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._binary("divide", other, swapped=True)

    def __lt__(self, other: Any) -> Tensor:
        return self._binary("less", other)

    def __le__(self, other: Any) -> Tensor:
        return self._binary("less_equal", other)

    def __gt__(self, other: Any) -> Tensor:
        return self._binary("greater", other)

    def __ge__(self, other: Any) -> Tensor:
        return self._binary("greater_equal", other)

    def astype(self, dtype: str) -> Tensor:
        """The tensor converted to a dtype."""
        return _FUNCTIONS["astype"](self, dtype)

    def maximum(self, other: Any) -> Tensor:
        """Element-wise maximum with a tensor or number."""
        return self._binary("maximum", other)

    def minimum(self, other: Any) -> Tensor:
        """Element-wise minimum with a tensor or number."""
        return self._binary("minimum", other)

    def reshape(self, *shape: int | str | PrimExpr | Sequence[int | PrimExpr]) -> Tensor:
        """The tensor in another shape, given as one sequence or as several arguments."""
        return _FUNCTIONS["reshape"](self, _sequence(shape))

    def repeat(self, repeats: int, axis: int | None = None) -> Tensor:
        """Every element repeated along an axis."""
        return _FUNCTIONS["repeat"](self, repeats, axis)

    def permute_dims(self, *axes: int | Sequence[int]) -> Tensor:
        """The dimensions in another order; reversed without arguments."""
        return _FUNCTIONS["permute_dims"](self, _sequence(axes) or None)

    def permute(self, *axes: int | Sequence[int]) -> Tensor:
        """As :meth:`permute_dims`."""
        return _FUNCTIONS["permute"](self, _sequence(axes) or None)

    def triu(self, diagonal: int = 0) -> Tensor:
        """The upper triangle, the rest zero."""
        return _FUNCTIONS["triu"](self, diagonal)

    def broadcast_to(self, *shape: int | PrimExpr | Sequence[int | PrimExpr]) -> Tensor:
        """The tensor broadcast to a shape."""
        return _FUNCTIONS["broadcast_to"](self, _sequence(shape))


def operand(value: Any) -> Any:
    """What an operator of Relax takes for a tensor or a number; it is the operator that gives a number its dtype.

    Raises:
        NNTypeError: it is neither.
    """
    if isinstance(value, Tensor):
        return value._expr
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return value
    instead = "; write Tensor.from_const(array)" if isinstance(value, np.ndarray) else ""
    raise NNTypeError(
        f"cannot combine a tensor with a {type(value).__name__}; expected a Tensor, an int or a float{instead}"
    )


def _sequence(values: Sequence[Any]) -> list[Any]:
    """The values given as ``f(1, 2)`` or as ``f([1, 2])``."""
    if len(values) == 1 and isinstance(values[0], list | tuple):
        return list(values[0])
    return list(values)


class Parameter(Tensor):
    """A weight: a tensor that may be bound to concrete values through :attr:`data`."""

    _data: np.ndarray | None
    attrs: OrderedDict[str, Any]

    def __init__(self, shape: Sequence[int | str | PrimExpr], dtype: str | None = None) -> None:
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
        array = as_array(data)
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


def unwrap_nested(value: Any) -> Expr:
    """The expression of a tensor, an object, or a tuple of them: what a method returns."""
    if isinstance(value, Tensor | Object):
        return value._expr
    if isinstance(value, tuple | list):
        return RxTuple([unwrap_nested(item) for item in value])
    if isinstance(value, Expr):
        return value
    raise NNTypeError(f"a method returns tensors, objects or tuples of them, got {type(value).__name__}")
