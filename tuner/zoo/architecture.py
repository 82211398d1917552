"""What an architecture of the zoo is, and how its file enters it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ir.error import IRValueError
from ir.kinds import Kinds
from ir.relax.frontend import nn

_Module = TypeVar("_Module", bound=type[nn.Module])


class ZooError(IRValueError):
    """No architecture of that name, or a configuration that it does not have."""


@dataclass(frozen=True)
class Architecture:
    """How to make one model: its configurations, its module, its inputs."""

    full: Any
    small: Any
    module: Callable[[Any], nn.Module]
    inputs: Callable[[Any], dict[str, nn.spec.Tensor]]


ARCHITECTURES: Kinds[Architecture] = Kinds("architecture of the zoo", ZooError, __package__)
"""The architectures by name; a file put beside this one is found."""


def architecture(
    name: str, *, full: Any, small: Any, inputs: Callable[[Any], dict[str, nn.spec.Tensor]]
) -> Callable[[_Module], _Module]:
    """A decorator that enters a module, made from a configuration, into the zoo.

    Args:
        name: what ``--zoo`` and :func:`tuner.zoo.load` call it.
        full: the published configuration, a frozen dataclass. One whose inputs are integers says which, by
            ``integers(name, shape, rng)``.
        small: one of a few layers and channels, for tests.
        inputs: the specs of ``main``'s inputs for a configuration.

    Raises:
        ZooError: another architecture has the name.
    """

    def enter(module: _Module) -> _Module:
        ARCHITECTURES.register(name)(Architecture(full, small, module, inputs))
        return module

    return enter
