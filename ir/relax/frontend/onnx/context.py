"""What a converter sees of a node: its inputs as Relax expressions or compile-time arrays, its attributes, and a builder.

Shape arithmetic is done while importing: a value that is known then is a :class:`Known`, a numpy array of numbers, or of
integers and TIR expressions where extents are symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ir import dtype as dt
from ir.relax import op as _op
from ir.relax.block_builder import BlockBuilder
from ir.relax.expr import Expr, ShapeExpr, Var, const
from ir.relax.struct_info import TensorStructInfo
from ir.tir.expr import IntImm, PrimExpr
from ir.tir.operators import convert

from .error import ConversionError, DynamicShapeError

Dim = int | PrimExpr


class Known:
    """An array whose contents are known while importing.

    ``array`` holds numbers, or, with dtype ``object``, integers and int64 TIR expressions (or conditions on such). ``as_expr``
    makes it a Relax expression once: a constant, or an input of the function for a weight that stays one.
    """

    __slots__ = ("_expr", "_make", "array", "dtype", "is_param")

    def __init__(
        self,
        array: np.ndarray,
        make: Callable[[np.ndarray], Expr] | None = None,
        dtype: str = "int64",
    ) -> None:
        self.array = _settled(array, dtype)
        self.dtype = dtype if self.array.dtype == object else self.array.dtype.name
        """What the model takes the elements for."""
        self.is_param = make is not None
        self._make = make
        self._expr: Expr | None = None

    @property
    def is_symbolic(self) -> bool:
        """Whether an element is a TIR expression."""
        return self.array.dtype == object

    def as_expr(self, builder: BlockBuilder) -> Expr:
        """The array as a Relax expression."""
        if self._expr is None:
            if self._make is not None:
                self._expr = self._make(self.array)
            elif not self.is_symbolic:
                self._expr = const(self.array, computed_dtype(self.array.dtype, "a constant"))
            else:
                self._expr = _shape_tensor(self.array, self.dtype, builder)
        return self._expr


def _settled(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array of objects that turned out to be plain numbers as one of these."""
    if array.dtype != object:
        return array
    plain = [int(item.value) if isinstance(item, IntImm) else item for item in array.reshape(-1)]
    if all(isinstance(item, int | np.integer | np.bool_) for item in plain):
        return np.array(plain, dtype=dtype).reshape(array.shape)
    out = np.empty(len(plain), dtype=object)
    out[:] = plain
    return out.reshape(array.shape)


def _shape_tensor(array: np.ndarray, dtype: str, builder: BlockBuilder) -> Expr:
    """Symbolic integers or conditions as a tensor that is computed when the program runs."""
    values = [convert(item).astype("int64") for item in array.reshape(-1)]
    tensor = builder.emit(_op.shape_to_tensor(ShapeExpr(values)))
    if dtype != "int64":
        tensor = builder.emit(_op.astype(tensor, dtype))
    return tensor if array.ndim == 1 else builder.emit(_op.reshape(tensor, list(array.shape)))


Value = Expr | Known


def computed_dtype(dtype: Any, what: str) -> str:
    """The name of a numpy dtype in which native code computes; raises ConversionError for strings and floats of 8 bits or less."""
    name = np.dtype(dtype).name
    if np.dtype(dtype).kind in "OSU":
        name = "strings"
    if name not in dt.SCALARS:
        raise ConversionError(f"{what} is of {name}; only tensors of numbers are supported")
    if dt.is_float(name) and dt.bits(name) <= 8:
        raise ConversionError(f"{what} is of {name}; floats of 16 bits and more are supported")
    return name


def slice_places(start: int, end: int, step: int, extent: int) -> range:
    """The places that ONNX's Slice takes of an axis: negative bounds count from the end, and are then brought into it.

    Unlike Python's, a descending slice that starts before the first element starts at that.
    """
    start, end = (bound + extent if bound < 0 else bound for bound in (start, end))
    if not extent:
        return range(0)
    if step > 0:
        return range(min(max(start, 0), extent), min(max(end, 0), extent), min(step, extent))
    return range(min(max(start, 0), extent - 1), min(max(end, -1), extent - 1), max(step, -extent))


class NodeContext:
    """One node and what its converter may ask for."""

    def __init__(
        self,
        op_type: str,
        name: str,
        inputs: Sequence[Value | None],
        attributes: dict[str, Any],
        n_outputs: int,
        opset: int,
        builder: BlockBuilder,
    ) -> None:
        self.op_type = op_type
        self.name = name
        self.inputs = list(inputs)
        self.attributes = attributes
        self.n_outputs = n_outputs
        self.opset = opset
        self.builder = builder

    # -------------------------------------------------------------------------------------------------- attributes
    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default."""
        return self.attributes.get(name, default)

    def error(self, message: str) -> ConversionError:
        """An error that names the node."""
        return ConversionError(f"ONNX {self.op_type} (node {self.name!r}): {message}")

    # ------------------------------------------------------------------------------------------------------ inputs
    def has(self, index: int) -> bool:
        """Whether the optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def expr(self, index: int) -> Expr:
        """A required input as an expression."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise self.error(f"input number {index} is missing")
        return value.as_expr(self.builder) if isinstance(value, Known) else value

    def optional(self, index: int) -> Expr | None:
        """An optional input as an expression."""
        return self.expr(index) if self.has(index) else None

    def exprs(self) -> list[Expr]:
        """All inputs as expressions."""
        return [self.expr(index) for index in range(len(self.inputs))]

    def known(self, index: int) -> np.ndarray | None:
        """An input's contents when they are known while importing (possibly symbolic); None when missing or not known."""
        value = self.inputs[index] if index < len(self.inputs) else None
        return value.array if isinstance(value, Known) else None

    def constant(self, index: int, what: str) -> np.ndarray | None:
        """The contents of an optional input that must be known numbers; None when it is not given."""
        if not self.has(index):
            return None
        array = self.known(index)
        if array is None or array.dtype == object:
            raise self.error(
                f"{what} (input number {index}) must be a constant; simplify the model so that it is one"
            )
        return array

    def dims(self, index: int, what: str) -> list[Dim] | None:
        """The contents of an optional input of integers, symbolic ones allowed; None when it is not given."""
        if not self.has(index):
            return None
        array = self.known(index)
        if array is None:
            value = self.inputs[index]
            raise DynamicShapeError(
                f"ONNX {self.op_type} (node {self.name!r}): {what} is computed from the data of "
                f"{value.name_hint if isinstance(value, Var) else 'another tensor'!r}, so the result's shape is not "
                "known before the program runs; give fixed input shapes through shape_dict (--shape), or change the model"
            )
        return [int(item) if isinstance(item, int | np.integer) else item for item in array.reshape(-1)]

    def ints(self, index: int, what: str) -> list[int] | None:
        """The contents of an optional input of known integers; None when it is not given."""
        array = self.constant(index, what)
        return None if array is None else [int(item) for item in array.reshape(-1)]

    def ints_of(self, index: int, name: str) -> list[int] | None:
        """Integers that older opsets give as the attribute ``name`` and newer ones as an input; None when neither is there."""
        if self.has(index):
            return self.ints(index, name)
        value = self.attr(name)
        if value is None:
            return None
        return [int(item) for item in value] if isinstance(value, list | tuple) else [int(value)]

    # -------------------------------------------------------------------------------------------------- expressions
    def emit(self, expr: Expr) -> Var:
        """Bind an intermediate result, so that its struct info is known."""
        return expr if isinstance(expr, Var) else self.builder.emit(expr)

    def info(self, expr: Expr) -> TensorStructInfo:
        """The struct info of a tensor."""
        info = expr.struct_info_
        if not isinstance(info, TensorStructInfo):
            raise self.error(f"expected a tensor, got a value of {info}")
        return info

    def shape(self, expr: Expr) -> list[Dim]:
        """The extents of a tensor."""
        values = self.info(expr).shape_values
        if values is None:
            raise DynamicShapeError(
                f"ONNX {self.op_type} (node {self.name!r}): the shape of an input depends on data, which this operator does "
                "not support; give fixed input shapes through shape_dict (--shape), or change the model"
            )
        return [int(dim.value) if isinstance(dim, IntImm) else dim for dim in values]

    def static_shape(self, expr: Expr, axes: Sequence[int] | None = None) -> list[int]:
        """The extents, all of which (or those of ``axes``) must be numbers."""
        shape = self.shape(expr)
        chosen = shape if axes is None else [shape[axis] for axis in axes]
        if not all(isinstance(dim, int) for dim in chosen):
            raise DynamicShapeError(
                f"ONNX {self.op_type} (node {self.name!r}): the shape {tuple(map(str, shape))} has symbolic extents, which this "
                "operator does not support; give fixed input shapes through shape_dict={'input name': [...]} (--shape on the command line)"
            )
        return [int(dim) for dim in chosen if isinstance(dim, int)]

    def rank(self, expr: Expr) -> int:
        """The number of dimensions."""
        rank = self.info(expr).ndim
        if rank < 0:
            raise DynamicShapeError(
                f"ONNX {self.op_type} (node {self.name!r}): an input has no known number of dimensions"
            )
        return int(rank)

    def dtype(self, expr: Expr) -> str:
        """The dtype of a tensor."""
        return str(self.info(expr).dtype)

    def scalar(self, value: float | int, like: Expr) -> Expr:
        """A scalar constant of another tensor's dtype."""
        return const(value, self.dtype(like))

    def axis(self, axis: int, rank: int) -> int:
        """A non-negative axis; an error when it is out of range."""
        if not -rank <= axis < rank:
            raise self.error(f"axis {axis} is out of range for {rank} dimensions")
        return axis % rank


def computed_widely(
    integers: bool = False,
) -> Callable[[Callable[[NodeContext], Any]], Callable[[NodeContext], Any]]:
    """Of the converter of a formula with several steps, such as a norm: float16 and bfloat16 are computed in float32 and rounded once.

    Steps that round between would overflow where the result does not. With ``integers``, integers are computed in float64,
    for formulas that need floats; the result is cut off to the integer.
    """

    def decorate(convert: Callable[[NodeContext], Any]) -> Callable[[NodeContext], Any]:
        def converted(ctx: NodeContext) -> Any:
            dtype = ctx.dtype(ctx.expr(0))
            if dtype in ("float16", "bfloat16"):
                wide = "float32"
            elif integers and not dt.is_float(dtype):
                wide = "float64"
            else:
                return convert(ctx)
            for index, value in enumerate(ctx.inputs):
                alike = dt.is_float(dtype) and value is not None and ctx.dtype(ctx.expr(index)) == dtype
                if index == 0 or alike:
                    ctx.inputs[index] = ctx.emit(_op.astype(ctx.expr(index), wide))
            result = convert(ctx)
            results = result if isinstance(result, list) else [result]
            narrow = [item if item is None else _op.astype(item, dtype) for item in results]
            return narrow if isinstance(result, list) else narrow[0]

        return converted

    return decorate
