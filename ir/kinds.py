"""Implementations of an interface by name: ``Database.create("sql")`` asks a registry that the implementations fill.

A base class owns the registry and imports none of its subclasses; each implementation registers itself where it is defined. A
name that nobody registered yet makes the registry import the modules of the base's folder, so that a file put there is found
without being listed anywhere, and one that needs a heavy library is loaded when it is first asked for. An implementation of
several files has a folder there, and is in its file that is called after the interface: the runner ``cuda`` in ``cuda/runner.py``.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Generic, TypeVar

from .error import did_you_mean

T = TypeVar("T")
Registered = TypeVar("Registered")


class Kinds(Generic[T]):
    """A registry of classes or functions by name.

    Args:
        what: a kind of what, for messages.
        error: what is raised for a name that nobody registered.
        folder: the package whose modules hold the implementations.

    >>> SHAPES: Kinds[type] = Kinds("shape", ValueError)
    >>> @SHAPES.register("circle")
    ... class Circle: ...
    >>> SHAPES["circle"] is Circle
    True
    """

    def __init__(self, what: str, error: type[Exception], folder: str | None = None) -> None:
        self._what, self._error, self._folder = what, error, folder
        self._found: dict[str, T] = {}

    def register(self, *names: str) -> Callable[[Registered], Registered]:
        """A decorator that enters what it decorates under ``names``.

        Raises:
            error: another implementation has one of the names.
        """

        def enter(item: Registered) -> Registered:
            for name in names:
                if name in self._found:
                    raise self._error(
                        f"{self._what} {name!r} is registered already, as {self._found[name]!r}"
                    )
                self._found[name] = item  # type: ignore[assignment]
            return item

        return enter

    def __getitem__(self, name: str) -> T:
        if not isinstance(name, str):
            shown = f"the class {name.__name__}" if isinstance(name, type) else repr(name)
            raise self._error(
                f"a {self._what} is given by its name or as an instance, got {shown}; the names are {', '.join(self.names())}"
            )
        if name not in self:
            raise self._error(
                f"unknown {self._what} {name!r}; there are {', '.join(self.names())}{did_you_mean(name, self.names())}"
            )
        return self._found[name]

    def __contains__(self, name: str) -> bool:
        if name not in self._found:
            self._import(name.replace("-", "_"))
        if name not in self._found:
            self._import_all()
        return name in self._found

    def names(self) -> list[str]:
        """The names that ``create`` takes, sorted."""
        self._import_all()
        return sorted(self._found)

    def _import(self, name: str) -> None:
        module = self._files().get(name)
        if module is not None:
            import_module(module)

    def _import_all(self) -> None:
        for module in self._files().values():
            try:
                import_module(module)
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] in sys.modules:
                    raise  # the package is there: the file imports a module that it does not have
                continue  # what it needs is not installed: its kinds are not there

    def _files(self) -> dict[str, str]:
        """The modules that may hold implementations, by the names that these are likely to have."""
        if self._folder is None:
            return {}
        found = {name: f"{self._folder}.{name}" for name in modules_of(self._folder)}
        own = self._what.replace(" ", "_")
        for item in pkgutil.iter_modules(import_module(self._folder).__path__):
            folder = f"{self._folder}.{item.name}"
            if item.ispkg and own in modules_of(folder):
                found[item.name] = f"{folder}.{own}"
        return found


def modules_of(folder: str) -> list[str]:
    """The modules in a package, its subpackages left out."""
    path = import_module(folder).__path__
    return sorted(item.name for item in pkgutil.iter_modules(path) if not item.ispkg)
