"""What a kernel's arguments look like: dtype and shape, without the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ir import IRModule
from ir.tir import IntImm, PrimFunc

from .error import DatabaseError
from .workload import entry_function


class ArgInfo(ABC):
    """One argument of a kernel, as it is kept with a tuning record."""

    @abstractmethod
    def as_json(self) -> Any:
        """A JSON value from which :meth:`from_json` makes an equal object."""

    @staticmethod
    def from_json(json_obj: Any) -> ArgInfo:
        """The argument that ``as_json`` described.

        Raises:
            DatabaseError: the kind of argument is unknown.
        """
        if isinstance(json_obj, (list, tuple)) and len(json_obj) == 3 and json_obj[0] == "TENSOR":
            return TensorInfo(json_obj[1], json_obj[2])
        raise DatabaseError(f"cannot read argument info {json_obj!r}; expected ['TENSOR', dtype, shape]")

    @staticmethod
    def from_prim_func(func: PrimFunc) -> list[ArgInfo]:
        """The tensor arguments of a PrimFunc, in parameter order.

        Raises:
            DatabaseError: a parameter is a scalar, or a shape is symbolic.
        """
        infos: list[ArgInfo] = []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            shape = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)] if buffer else []
            if buffer is None or len(shape) != len(buffer.shape):
                raise DatabaseError(
                    f"parameter {param.name!r} cannot be described; only tensors of static shape can"
                )
            infos.append(TensorInfo(buffer.dtype, shape))
        return infos

    @staticmethod
    def from_entry_func(mod: IRModule) -> list[ArgInfo]:
        """The tensor arguments of a module's only function, or of its ``main``."""
        return ArgInfo.from_prim_func(entry_function(mod)[1])


@dataclass(frozen=True, slots=True)
class TensorInfo(ArgInfo):
    """A tensor argument.

    >>> TensorInfo("float32", [2, 3]).as_json()
    ['TENSOR', 'float32', [2, 3]]
    """

    dtype: str
    shape: Sequence[int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(extent) for extent in self.shape))

    def as_json(self) -> Any:
        return ["TENSOR", self.dtype, list(self.shape)]
