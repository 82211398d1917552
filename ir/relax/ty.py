"""Static types: struct info without shapes and values, what was known before symbolic shapes were."""

from __future__ import annotations

from ..node import field
from ..type import FuncType, PrimType, TupleType, Type


class ObjectType(Type, type_key="relax.ObjectType"):
    """Any value."""


class ShapeType(Type, type_key="relax.ShapeType"):
    """A shape of ``ndim`` dimensions (-1 when unknown)."""

    ndim: int = field(default=-1)


class DynTensorType(Type, type_key="relax.DynTensorType"):
    """A tensor of ``ndim`` dimensions (-1 when unknown) and a dtype ("" when unknown)."""

    ndim: int = field(default=-1)
    dtype: str = field(default="float32")


class PackedFuncType(Type, type_key="relax.PackedFuncType"):
    """An opaque function."""


__all__ = [
    "DynTensorType",
    "FuncType",
    "ObjectType",
    "PackedFuncType",
    "PrimType",
    "ShapeType",
    "TupleType",
    "Type",
]
