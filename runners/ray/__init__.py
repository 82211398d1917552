"""Building and measuring on a Ray cluster: devices are resources of its nodes, and builds are tasks on its processors.

Everybody who may use a Ray cluster may run anything on it: this is for machines and users that trust each other. Devices elsewhere that do
not are :mod:`runners.rpc`'s.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..error import RunnerError

if TYPE_CHECKING:
    from .builder import RayBuilder
    from .cluster import connect
    from .runner import RayRunner

_LAZY = {"RayBuilder": "builder", "RayRunner": "runner", "connect": "cluster"}

__all__ = ["RayBuilder", "RayRunner", "connect"]


def __getattr__(name: str) -> Any:
    """Load the module of a name when it is first asked for; raises RunnerError where the extra is not installed."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "ray":
            raise
        raise RunnerError("a Ray cluster needs the package ray: pip install 'loopsmith[ray]'") from error


def __dir__() -> list[str]:
    """What is loaded later is there too, as for :func:`help` and for completion."""
    return sorted({*globals(), *__all__})
