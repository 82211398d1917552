"""The table of converters: for every operator the opsets from which each of its converters holds.

A converter is a function of a :class:`~ir.relax.frontend.onnx.context.NodeContext` that returns the node's outputs as Relax
expressions. ``@converter("Softmax", since=13)`` registers one; of those registered for an operator the latest that is not
newer than the model's opset is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .context import NodeContext

Converter = Callable[["NodeContext"], Any]

_CONVERTERS: dict[tuple[str, str], list[tuple[int, Converter]]] = {}


def normalize_domain(domain: str) -> str:
    """The default domain has two spellings; both become ``""``."""
    return "" if domain == "ai.onnx" else domain


def converter(*op_types: str, since: int = 1, domain: str = "") -> Callable[[Converter], Converter]:
    """Register a function as the converter of one or more operators, from an opset version on."""

    def register(function: Converter) -> Converter:
        for op_type in op_types:
            versions = _CONVERTERS.setdefault((domain, op_type), [])
            versions.append((since, function))
            versions.sort(key=lambda entry: entry[0])
        return function

    return register


def find_converter(op_type: str, domain: str, opset: int) -> Converter | None:
    """The converter for an operator at an opset; None when there is none."""
    versions = _CONVERTERS.get((normalize_domain(domain), op_type), ())
    found: Converter | None = None
    for since, function in versions:
        if since <= opset:
            found = function
    return found


def supported_operators() -> dict[str, list[str]]:
    """The operators that have converters, by domain, sorted."""
    table: dict[str, list[str]] = {}
    for domain, op_type in sorted(_CONVERTERS):
        table.setdefault(domain, []).append(op_type)
    return table
