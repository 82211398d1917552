"""VMBuiltinLower: the older name of LowerRuntimeBuiltin."""

from __future__ import annotations

from dataclasses import dataclass

from .lower_runtime_builtin import LowerRuntimeBuiltin


@dataclass(frozen=True)
class VMBuiltinLower(LowerRuntimeBuiltin):
    """The older name of :class:`LowerRuntimeBuiltin`."""
