"""Functions: the base class that Relax functions and TIR PrimFuncs share, and calling conventions."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from .attrs import DictAttrs, as_attrs
from .expr import RelaxExpr
from .node import field


class CallingConv(IntEnum):
    """How a function is called: ``calling_conv`` in its attributes."""

    DEFAULT = 0
    C_PACKED_FUNC = 1
    DEVICE_KERNEL_LAUNCH = 2


class BaseFunc(RelaxExpr):
    """A function with attributes; ``with_attr`` returns a changed copy."""

    attrs: DictAttrs = field(default=None, convert=as_attrs)

    @property
    def __name__(self) -> str:
        """The function's global symbol, "main" for a private one."""
        return str(self.attrs.get("global_symbol", "main"))

    def with_attr(self, attr_key_or_dict: str | dict[str, Any], attr_value: Any = None) -> Any:
        """A copy with an attribute (or a dict of attributes) set."""
        new = attr_key_or_dict if isinstance(attr_key_or_dict, dict) else {attr_key_or_dict: attr_value}
        return self.replace(attrs=DictAttrs({**self.attrs.dict, **new}))

    def with_attrs(self, attr_map: DictAttrs | dict[str, Any]) -> Any:
        """A copy with exactly these attributes."""
        return self.replace(attrs=as_attrs(attr_map))

    def without_attr(self, attr_key: str) -> Any:
        """A copy without an attribute."""
        if attr_key not in self.attrs:
            return self
        return self.replace(attrs=DictAttrs({k: v for k, v in self.attrs.items() if k != attr_key}))
