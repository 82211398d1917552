"""Operators: one registered object per name, with attributes that passes look up (``FLegalize``, effects, ...)."""

from __future__ import annotations

from typing import Any, ClassVar

from .error import IRValueError
from .expr import RelaxExpr
from .external import declare


class Op(RelaxExpr, type_key="Op"):
    """An operator by name; obtain it with :meth:`Op.get`, so that there is one object per name.

    >>> Op.get("tir.exp") is Op.get("tir.exp")
    True
    """

    name: str

    registry: ClassVar[dict[str, Op]] = {}
    _attributes: ClassVar[dict[str, dict[str, Any]]] = {}

    @staticmethod
    def get(op_name: str) -> Op:
        """The operator called ``op_name``; raises IRValueError when nothing registered it."""
        try:
            return Op.registry[op_name]
        except KeyError:
            pass
        declare(op_name)
        if op_name in Op.registry:
            return Op.registry[op_name]
        raise IRValueError(f"operator {op_name!r} is not registered; register it with ir.register_op")

    @staticmethod
    def list_op_names() -> list[str]:
        """All registered names, sorted."""
        return sorted(Op.registry)

    def get_attr(self, attr_name: str) -> Any:
        """The attribute's value, or None."""
        return Op._attributes.get(attr_name, {}).get(self.name)

    def has_attr(self, attr_name: str) -> bool:
        """Whether the attribute was set."""
        return self.name in Op._attributes.get(attr_name, {})

    def set_attr(self, attr_name: str, value: Any) -> None:
        """Set (or replace) an attribute; attributes belong to the registry, not to the node."""
        Op._attributes.setdefault(attr_name, {})[self.name] = value

    def reset_attr(self, attr_name: str) -> None:
        """Remove an attribute."""
        Op._attributes.get(attr_name, {}).pop(self.name, None)

    def __reduce__(self) -> Any:
        return (Op.get, (self.name,))


def as_op(op: Any) -> Any:
    """An operator from its name; anything else stays (callees may be functions too)."""
    return Op.get(op) if isinstance(op, str) else op


def register_op(op_name: str) -> Op:
    """The operator called ``op_name``, registered now if it was not."""
    found = Op.registry.get(op_name)
    if found is None:
        found = Op.registry[op_name] = Op(op_name)
    return found


def register_op_attr(op_name: str, attr_key: str, value: Any = None) -> Any:
    """Set an operator's attribute; without ``value`` a decorator that registers the function it is given."""

    def register(item: Any) -> Any:
        register_op(op_name).set_attr(attr_key, item)
        return item

    return register if value is None else register(value)
