"""Types of TIR variables and functions: primitive values, pointers with a storage scope, tuples and functions."""

from __future__ import annotations

from . import dtype as dt
from .node import Node, field
from .structural import structural_equal, structural_hash


class Type(Node):
    """Base of the types; they compare by structure."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Type) and structural_equal(self, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return structural_hash(self)


class PrimType(Type, type_key="PrimType"):
    """A scalar or vector value; ``dtype`` is a dtype string."""

    dtype: str = field(convert=dt.checked)


class PointerType(Type, type_key="PointerType"):
    """A pointer to ``element_type`` in memory of ``storage_scope`` ("" stands for "global")."""

    element_type: Type
    storage_scope: str = field(default="global", convert=lambda scope: scope or "global")


class TupleType(Type, type_key="TupleType"):
    """A tuple of types; the empty tuple is TIR's void."""

    fields: tuple[Type, ...]


class FuncType(Type, type_key="FuncType"):
    """A function from argument types to a result type."""

    arg_types: tuple[Type, ...]
    ret_type: Type
    type_params: tuple[Type, ...] = field(default=())
