"""A package's door opens to what is put into its folder: a name that it does not list is looked for in the file of that name.

The imports in an ``__init__.py`` are what editors and type checkers see. A file added beside the others is there without one.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .error import did_you_mean
from .kinds import modules_of


def by_file_name(package: str) -> Callable[[str], Any]:
    """What a package takes as its ``__getattr__``.

    ``UnrollLoop`` is looked for in ``unroll_loop.py``; where the words of an acronym begin and end is left open.

    Args:
        package: the package's ``__name__``.
    """

    def find(name: str) -> Any:
        if not name.startswith("_"):
            for module in modules_of(package):
                if is_file_of(name, module):
                    found = vars(import_module(f"{package}.{module}"))
                    if name in found:
                        return found[name]
        # private names are asked for by Python itself, on the way to something else
        listed = () if name.startswith("_") else vars(import_module(package))
        near = did_you_mean(name, [item for item in listed if not item.startswith("_")])
        raise AttributeError(f"module {package!r} has no attribute {name!r}{near}")

    return find


def take_lists(package: str) -> None:
    """Give a package, and the packages in it, what their files list in ``__all__``, whether or not the door names the file."""
    door = import_module(package)
    for item in pkgutil.iter_modules(door.__path__):
        module = import_module(f"{package}.{item.name}")
        if item.ispkg:
            take_lists(module.__name__)
            continue
        for name in getattr(module, "__all__", ()):
            setattr(door, name, getattr(module, name))


def is_file_of(name: str, module: str) -> bool:
    """Whether a module's name is a class's in snake case, wherever its words are parted."""
    return module == module.lower() and module.replace("_", "") == name.lower().replace("_", "")
