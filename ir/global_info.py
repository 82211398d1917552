"""Global infos of a module: facts that are not functions, such as the virtual devices that tensors live on."""

from __future__ import annotations

from typing import Any

from .node import Node, field
from .structural import structural_equal, structural_hash
from .target.target import Target


class GlobalInfo(Node):
    """Base of the global infos; two are equal when they are structurally equal."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, GlobalInfo) and structural_equal(self, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return structural_hash(self)


class DummyGlobalInfo(GlobalInfo, type_key="DummyGlobalInfo"):
    """A global info that says nothing, for tests."""


def _as_target(target: Any) -> Any:
    if isinstance(target, str | dict):
        return Target(target)
    return target


class VDevice(GlobalInfo, type_key="VDevice"):
    """A virtual device: a target, the number of the device among those of its kind, and a memory scope.

    ``target`` may be a Target, or what Target's constructor takes (a tag such as ``"llvm"`` or a dict); None leaves it open.
    """

    target: Any = field(default=None, convert=_as_target)
    vdevice_id: int = field(default=0)
    memory_scope: str = field(default="global")

    @property
    def target_kind(self) -> str:
        """The kind of the target ("llvm", "cuda"), or "" when it is open."""
        kind = getattr(self.target, "kind", None)
        return "" if kind is None else str(getattr(kind, "name", kind))
