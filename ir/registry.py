"""Named functions that programs call: ``call_packed``, ``call_dps_packed`` and frontends find Python functions by name here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .error import IRValueError

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register_func(
    func_name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Register a Python function under a name; usable as a decorator, with or without the name.

    Raises:
        IRValueError: the name is taken and ``override`` is False.
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if func_name in _FUNCTIONS and not override:
            raise IRValueError(
                f"a function {func_name!r} is registered already; pass override=True to replace it"
            )
        _FUNCTIONS[func_name] = function
        return function

    return register if f is None else register(f)


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """The function registered under ``name``; None when missing and allowed, else IRValueError."""
    found = _FUNCTIONS.get(name)
    if found is None and not allow_missing:
        raise IRValueError(f"no function {name!r} is registered; register it with ir.register_func")
    return found


def remove_global_func(name: str) -> None:
    """Forget a registered function."""
    _FUNCTIONS.pop(name, None)


@contextmanager
def registered(functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Functions that programs find under their names in the block; what was there before is there again behind it."""
    before = {name: _FUNCTIONS.get(name) for name in functions}
    _FUNCTIONS.update(functions)
    try:
        yield
    finally:
        for name, function in before.items():
            if function is None:
                remove_global_func(name)
            else:
                _FUNCTIONS[name] = function


def list_global_func_names() -> list[str]:
    """The registered names, sorted."""
    return sorted(_FUNCTIONS)
