"""Tensors of tensor expressions and the operations that produce them: placeholders, computes, and external TIR.

A :class:`Tensor` is one output of an :class:`Operation`; indexing a tensor inside a compute gives a
:class:`~ir.tir.expr.ProducerLoad`, arithmetic on whole tensors goes to the broadcasting operators of :mod:`ir.topi`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import dtype as dt
from ..error import IRTypeError, IRValueError
from ..external import external
from ..node import post_order_visit
from ..tir.expr import IterVar, PrimExpr, ProducerLoad, Reduce
from ..tir.operators import convert
from ..tir.written_condition import check_identity_is_meant

if TYPE_CHECKING:
    from ..tir.buffer import Buffer
    from ..tir.stmt import Stmt


class _TensorArithmetic:
    """Python operators on whole tensors, forwarded to topi, which broadcasts."""

    __slots__ = ()

    def __add__(self, other: Any) -> Tensor:
        return _broadcast("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _broadcast("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _broadcast("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _broadcast("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _broadcast("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _broadcast("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _broadcast("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _broadcast("divide", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _broadcast("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _broadcast("floor_divide", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _broadcast("mod", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _broadcast("mod", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _broadcast("power", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _broadcast("power", other, self)

    def __neg__(self) -> Tensor:
        return _broadcast("multiply", self, -1)

    def __lshift__(self, other: Any) -> Tensor:
        return _broadcast("left_shift", self, other)

    def __rshift__(self, other: Any) -> Tensor:
        return _broadcast("right_shift", self, other)

    def __and__(self, other: Any) -> Tensor:
        return _broadcast("bitwise_and", self, other)

    def __or__(self, other: Any) -> Tensor:
        return _broadcast("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Tensor:
        return _broadcast("bitwise_xor", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return _broadcast("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _broadcast("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _broadcast("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _broadcast("greater_equal", self, other)


def _broadcast(name: str, lhs: Any, rhs: Any) -> Any:
    return external("broadcast_binary")(name, lhs, rhs)


class Tensor(_TensorArithmetic):
    """A tensor: output ``value_index`` of operation ``op``, with its shape (expressions) and dtype.

    ``A[i, j]`` and ``A(i, j)`` load an element in a compute; fewer indices with ``[]`` give a :class:`TensorSlice`.
    Tensors are compared by identity; ``op.output(i)`` always returns the same object.
    """

    __slots__ = ("__weakref__", "dtype", "op", "shape", "value_index")

    def __init__(self, shape: Sequence[Any], dtype: str, op: Operation, value_index: int = 0) -> None:
        self.shape = tuple(convert(extent) for extent in shape)
        self.dtype = dt.checked(dtype)
        self.op = op
        self.value_index = value_index

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """The operation's name; outputs of an operation with several are ``name_v0``, ``name_v1`` ..."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}_v{self.value_index}"

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The spatial axes of the compute that produces it."""
        return getattr(self.op, "axis", ())

    def __call__(self, *indices: Any) -> PrimExpr:
        """The element at ``indices``.

        Raises:
            IRValueError: their number is not ``ndim``.
            IRTypeError: one is no integer.
        """
        if len(indices) != len(self.shape):
            raise IRValueError(
                f"tensor {self.name} has {len(self.shape)} dimensions, got {len(indices)} indices"
            )
        load = ProducerLoad(self, indices)
        for place, index in enumerate(load.indices):
            if dt.code(index.dtype) not in ("int", "uint"):
                raise IRTypeError(
                    f"index {place} of tensor {self.name} is {index}, of dtype {index.dtype}; an index is an integer:"
                    ' cast it, as in x.astype("int32")'
                )
        return load

    __iter__ = None  # not by indices from 0 upwards, which would never end

    def __getitem__(self, indices: Any) -> Any:
        items = indices if isinstance(indices, tuple | list) else (indices,)
        if len(items) < len(self.shape):
            return TensorSlice(self, tuple(items))
        return self(*items)

    def asobject(self) -> PrimExpr:
        """The value of a rank-0 tensor, so that it can stand in expressions; raises IRTypeError for others."""
        if self.shape:
            raise IRTypeError(
                f"tensor {self.name} of {self.ndim} dimensions is used as a number; index it, or use a topi operator"
            )
        return ProducerLoad(self, ())

    def __len__(self) -> int:
        raise IRTypeError(
            f"tensor {self.name} has no length; its extents are {self.name}.shape, as in {self.name}.shape[0]"
        )

    def __bool__(self) -> bool:
        return True

    def same_as(self, other: object) -> bool:
        """Identity."""
        return self is other

    def __eq__(self, other: object) -> bool:
        if self is not other:
            check_identity_is_meant(self, other)
        return self is other

    def __hash__(self) -> int:
        return id(self) >> 4

    def __repr__(self) -> str:
        extents = ", ".join(
            str(getattr(extent, "value", getattr(extent, "name", extent))) for extent in self.shape
        )
        return f"Tensor(shape=[{extents}], op.name={self.op.name}, dtype={self.dtype})"


class TensorSlice:
    """A tensor with its first indices given; more indexing completes it to an element."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    @property
    def dtype(self) -> str:
        """Data type of the elements."""
        return self.tensor.dtype

    __iter__ = None  # as of Tensor

    def __getitem__(self, indices: Any) -> Any:
        more = tuple(indices) if isinstance(indices, tuple | list) else (indices,)
        return self.tensor[self.indices + more]

    def asobject(self) -> PrimExpr:
        """The element, when all indices are given."""
        return self.tensor(*self.indices)


class Operation:
    """What produces tensors; ``name`` becomes the block's name, ``attrs`` its annotations."""

    __slots__ = ("__weakref__", "_outputs", "attrs", "name", "tag")

    def __init__(self, name: str, tag: str, attrs: Mapping[str, Any] | None) -> None:
        self.name = name
        self.tag = tag
        self.attrs: dict[str, Any] = dict(attrs or {})
        self._outputs: tuple[Tensor, ...] = ()

    @property
    def num_outputs(self) -> int:
        """How many tensors it produces."""
        return len(self._outputs)

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors that it reads, each once, in order of first use."""
        return []

    def output(self, index: int) -> Tensor:
        """The tensor ``index``; the same object each time."""
        return self._outputs[index]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class PlaceholderOp(Operation):
    """A tensor from outside."""

    __slots__ = ()

    def __init__(self, name: str, shape: Sequence[Any], dtype: str) -> None:
        super().__init__(name, "", None)
        self._outputs = (Tensor(shape, dtype, self),)

    @property
    def shape(self) -> tuple[PrimExpr, ...]:
        """Shape of the tensor."""
        return self._outputs[0].shape

    @property
    def dtype(self) -> str:
        """Data type of the tensor."""
        return self._outputs[0].dtype


def loaded_tensors(expressions: Sequence[PrimExpr]) -> list[Tensor]:
    """The tensors that expressions load from, each once, in order of first use."""
    found: dict[Tensor, None] = {}

    def collect(node: Any) -> None:
        if isinstance(node, ProducerLoad):
            found.setdefault(node.producer)

    for expression in expressions:
        post_order_visit(expression, collect)
    return list(found)


class ComputeOp(Operation):
    """Elements given by expressions over ``axis`` (and ``reduce_axis``, when they are reductions), one per output."""

    __slots__ = ("axis", "body", "reduce_axis")

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, Any] | None,
        axis: Sequence[IterVar],
        body: Sequence[Any],
        shape: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.axis = tuple(axis)
        self.body: tuple[PrimExpr, ...] = tuple(convert(item) for item in body)
        self.reduce_axis: tuple[IterVar, ...] = ()
        if not self.body:
            raise IRValueError(f"compute {name} returned no expression")
        if isinstance(self.body[0], Reduce):
            self.reduce_axis = self.body[0].axis
        for item in self.body:
            self._check_reductions(item)
        extents = [item.dom.extent for item in self.axis] if shape is None else shape
        self._outputs = tuple(
            Tensor(extents, item.dtype, self, index) for index, item in enumerate(self.body)
        )

    def _check_reductions(self, body: PrimExpr) -> None:
        nested: list[Reduce] = []
        for part in (*body.source, body.condition, *body.init) if isinstance(body, Reduce) else (body,):
            post_order_visit(part, lambda node: nested.append(node) if isinstance(node, Reduce) else None)
        if nested:
            raise IRValueError(
                f"compute {self.name} has a reduction inside an expression; reductions are only allowed as the"
                " whole value of a compute: compute the reduction first, then use its tensor in a second compute"
            )
        if isinstance(body, Reduce) != bool(isinstance(self.body[0], Reduce)):
            raise IRValueError(f"compute {self.name} mixes reductions with plain values; use two computes")

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors that the expressions load."""
        return loaded_tensors(self.body)


class ExternOp(Operation):
    """Outputs filled by a TIR statement, over buffers that stand for the inputs and outputs."""

    __slots__ = ("body", "input_placeholders", "inputs", "output_placeholders")

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, Any] | None,
        inputs: Sequence[Tensor],
        input_placeholders: Sequence[Buffer],
        output_placeholders: Sequence[Buffer],
        body: Stmt,
    ) -> None:
        super().__init__(name, tag, attrs)
        self.inputs = tuple(inputs)
        self.input_placeholders = tuple(input_placeholders)
        self.output_placeholders = tuple(output_placeholders)
        self.body = body
        self._outputs = tuple(
            Tensor(buffer.shape, buffer.dtype, self, index)
            for index, buffer in enumerate(self.output_placeholders)
        )

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors that the statement reads."""
        return list(dict.fromkeys(self.inputs))
