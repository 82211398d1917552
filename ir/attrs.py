"""Attributes of functions, modules, and operator calls: an immutable mapping from names to plain values or nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .node import Node, field


def _freeze(value: Any) -> Any:
    """Lists become tuples, so that attributes cannot be changed behind a node's back; bool constants become plain bools."""
    if isinstance(value, list | tuple):
        return tuple(_freeze(item) for item in value)
    if isinstance(value, DictAttrs):
        return dict(value.dict)
    if isinstance(value, Node) and value._type_key == "tir.IntImm" and value.dtype == "bool":  # type: ignore[attr-defined]
        return bool(value)
    if isinstance(value, Mapping):
        return {key: _freeze(item) for key, item in value.items()}
    return value


def _freeze_mapping(value: Mapping[str, Any] | None) -> dict[str, Any]:
    return _freeze(value) if value is not None else {}


class Attrs(Node):
    """Base of attribute nodes."""


class DictAttrs(Attrs, type_key="ir.DictAttrs"):
    """A mapping of attributes, read as ``attrs["name"]``, ``attrs.name`` or ``attrs.get("name", default)``.

    >>> attrs = DictAttrs({"strides": [1, 1]})
    >>> attrs.strides, attrs.get("padding", 0)
    ((1, 1), 0)
    """

    dict: dict[str, Any] = field(convert=_freeze_mapping, kind="leaf", default=None)

    def __getitem__(self, name: str) -> Any:
        return self.dict[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.dict[name]
        except KeyError:
            raise AttributeError(f"no attribute {name!r}; there are {sorted(self.dict)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.dict

    def __iter__(self) -> Iterator[str]:
        return iter(self.dict)

    def __len__(self) -> int:
        return len(self.dict)

    def __bool__(self) -> bool:
        return bool(self.dict)

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute, or ``default``."""
        return self.dict.get(name, default)

    def keys(self) -> Any:
        """Names."""
        return self.dict.keys()

    def values(self) -> Any:
        """Values."""
        return self.dict.values()

    def items(self) -> Any:
        """(name, value) pairs."""
        return self.dict.items()

    def get_int(self, name: str) -> int:
        """The attribute as an integer (an IntImm's value is taken)."""
        value = self.dict[name]
        return int(getattr(value, "value", value))


def as_attrs(value: Any) -> DictAttrs:
    """Converter of ``attrs`` fields: None, a mapping, or attributes."""
    if isinstance(value, DictAttrs):
        return value
    return DictAttrs(value)
