"""Rewriting of a module tree: quantization and the like subclass :class:`Mutator` and replace layers or parameters."""

from __future__ import annotations

from typing import Any

from .effects import Effect
from .module import Module, ModuleDict, ModuleList
from .tensor import Parameter


class Mutator:
    """Visits a tree of modules and puts in place what the ``visit_*`` methods return.

    Override them for modules, lists, parameters or effects; call ``super()`` to descend. ``visit`` decides which applies.
    """

    def visit_module(self, name: str, node: Module) -> Any:
        """Visit the attributes of a module; returns what replaces it.

        Args:
            name: its name in its parent's attributes.
            node: the module.
        """
        for key, value in list(node.__dict__.items()):
            if isinstance(value, Module | Parameter | Effect):
                new = self.visit(_join(name, key), value)
                if new is not value:
                    setattr(node, key, new)
        return node

    def visit_modulelist(self, name: str, node: ModuleList) -> Any:
        """Visit the entries of a list, named by their index; returns what replaces the list."""
        for i, module in enumerate(node.modules):
            node.modules[i] = self.visit(_join(name, str(i)), module)
        return node

    def visit_moduledict(self, name: str, node: ModuleDict) -> Any:
        """Visit the entries of a dict, named by their key; returns what replaces the dict."""
        for key, module in list(node.modules.items()):
            node.modules[key] = self.visit(_join(name, key), module)
        return node

    def visit_param(self, name: str, node: Parameter) -> Any:
        """What replaces a parameter."""
        return node

    def visit_effect(self, name: str, node: Effect) -> Any:
        """What replaces an effect."""
        return node

    def visit(self, name: str, node: Any) -> Any:
        """Dispatch on the kind of node.

        Args:
            name: the dotted name of the node below the root.
            node: the node.

        Returns:
            What replaces it.
        """
        if isinstance(node, ModuleList):
            return self.visit_modulelist(name, node)
        if isinstance(node, ModuleDict):
            return self.visit_moduledict(name, node)
        if isinstance(node, Module):
            return self.visit_module(name, node)
        if isinstance(node, Effect):
            return self.visit_effect(name, node)
        if isinstance(node, Parameter):
            return self.visit_param(name, node)
        return node


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
