"""IRModule: the unit of compilation, a set of Relax functions and TIR PrimFuncs by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .attrs import DictAttrs, as_attrs
from .error import IRTypeError, IRValueError
from .expr import GlobalVar, RelaxExpr
from .external import external
from .function import BaseFunc
from .node import Node, field


class IRModule(Node, type_key="IRModule"):
    """Functions by :class:`GlobalVar`, with attributes and global infos (virtual devices, meshes).

    ``mod["main"]`` reads a function, ``mod["main"] = func`` sets one, ``in`` and iteration work on the names. A module is
    the one mutable container of the IR; passes copy it before they change anything.
    """

    functions: dict[GlobalVar, BaseFunc] = field(default=None, kind="map")
    attrs: DictAttrs = field(default=None, convert=as_attrs)
    global_infos: dict[str, Any] = field(default=None, kind="leaf", convert=lambda infos: dict(infos or {}))

    def __init__(
        self,
        functions: Mapping[Any, BaseFunc] | None = None,
        attrs: Any = None,
        global_infos: Mapping[str, Any] | None = None,
    ) -> None:
        table: dict[GlobalVar, BaseFunc] = {}
        for key, func in (functions or {}).items():
            var = GlobalVar(key, _struct_info_of(func)) if isinstance(key, str) else key
            if not isinstance(var, GlobalVar):
                raise IRTypeError(
                    f"functions of a module are keyed by str or GlobalVar, got {type(key).__name__}"
                )
            table[var] = func
        _set_functions(self, table)
        _set_attrs(self, as_attrs(attrs))
        _set_global_infos(self, dict(global_infos or {}))

    @staticmethod
    def from_expr(expr: Any, functions: Mapping[GlobalVar, BaseFunc] | None = None) -> IRModule:
        """A module of one function or expression, named by its ``global_symbol`` or "main"."""
        if not isinstance(expr, BaseFunc):
            expr = external("function_of")(expr)
        name = expr.attrs.get("global_symbol", "main")
        return IRModule({**(functions or {}), GlobalVar(str(name), _struct_info_of(expr)): expr})

    def _key(self, name: Any) -> GlobalVar:
        if isinstance(name, str):
            return self.get_global_var(name)
        if name in self.functions:
            return name
        return self.get_global_var(name.name_hint)

    def __getitem__(self, name: str | GlobalVar) -> BaseFunc:
        return self.functions[self._key(name)]

    def __setitem__(self, name: str | GlobalVar, func: BaseFunc) -> None:
        self.update_func(name, func)

    def __delitem__(self, name: str | GlobalVar) -> None:
        del self.functions[self._key(name)]

    def __contains__(self, name: object) -> bool:
        if isinstance(name, GlobalVar):
            return name in self.functions or self.contains(name.name_hint)
        return isinstance(name, str) and self.contains(name)

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def contains(self, name: str) -> bool:
        """Whether there is a function of that name."""
        return any(var.name_hint == name for var in self.functions)

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """(GlobalVar, function) pairs sorted by name."""
        return sorted(self.functions.items(), key=lambda pair: pair[0].name_hint)

    def get_global_var(self, name: str) -> GlobalVar:
        """The reference to the function called ``name``; raises IRValueError listing what there is."""
        for var in self.functions:
            if var.name_hint == name:
                return var
        names = ", ".join(sorted(var.name_hint for var in self.functions))
        raise IRValueError(f"the module has no function {name!r}; it has: {names or 'none'}")

    def get_global_vars(self) -> list[GlobalVar]:
        """All references, sorted by name."""
        return sorted(self.functions, key=lambda var: var.name_hint)

    def update_func(self, var: str | GlobalVar, func: BaseFunc) -> None:
        """Set a function; a name that exists keeps its GlobalVar."""
        if isinstance(var, str):
            var = self.get_global_var(var) if self.contains(var) else GlobalVar(var, _struct_info_of(func))
        self.functions[var] = func

    def update(self, other: IRModule | Mapping[Any, BaseFunc]) -> None:
        """Take over all functions (and attributes) of another module, replacing those of the same name."""
        items = other.functions.items() if isinstance(other, IRModule) else other.items()
        for var, func in list(items):
            name = var if isinstance(var, str) else var.name_hint
            self.update_func(name if self.contains(name) else var, func)
        if isinstance(other, IRModule):
            _set_attrs(self, DictAttrs({**self.attrs.dict, **other.attrs.dict}))
            self.global_infos.update(other.global_infos)

    def update_global_info(self, name: str, global_info: Any) -> None:
        """Set a list of global infos (such as virtual devices) under ``name``."""
        self.global_infos[name] = tuple(global_info)

    def clone(self) -> IRModule:
        """A copy with its own table of functions (functions themselves are immutable and shared)."""
        return IRModule(self.functions, self.attrs, self.global_infos)

    def replace(self, **changes: Any) -> IRModule:
        """A copy with ``functions``, ``attrs`` or ``global_infos`` changed."""
        return IRModule(
            changes.get("functions", self.functions),
            changes.get("attrs", self.attrs),
            changes.get("global_infos", self.global_infos),
        )

    def get_attr(self, attr_key: str) -> Any:
        """A module attribute, or None."""
        return self.attrs.get(attr_key)

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        """A copy with an attribute set."""
        return self.replace(attrs=DictAttrs({**self.attrs.dict, attr_key: attr_value}))

    def with_attrs(self, attr_map: Mapping[str, Any]) -> IRModule:
        """A copy with several attributes set."""
        return self.replace(attrs=DictAttrs({**self.attrs.dict, **dict(attr_map)}))

    def without_attr(self, attr_key: str) -> IRModule:
        """A copy without an attribute."""
        return self.replace(attrs=DictAttrs({k: v for k, v in self.attrs.items() if k != attr_key}))

    def _structural_equal(
        self, other: IRModule, check: Callable[[Any, Any, str], None], fail: Callable[[], None]
    ) -> None:
        """Functions are matched by name; references pair up before the bodies are compared."""
        if {v.name_hint for v in self.functions} != {v.name_hint for v in other.functions}:
            fail()
        for var in self.get_global_vars():
            check(self[var], other[var.name_hint], f"functions[{var.name_hint!r}]")
        check(self.attrs, other.attrs, "attrs")
        check(self.global_infos, other.global_infos, "global_infos")

    def _structural_hash(self, add: Callable[[Any], None]) -> None:
        for var in self.get_global_vars():
            add(var.name_hint)
            add(self.functions[var])
        add(self.attrs)
        add(self.global_infos)


def fresh_name(stem: str, taken: set[str], first: str = "") -> str:
    """A name for one more function, taken from now on: ``f``, ``f1``, ``f2``, ...; with ``first="0"``: ``f0``, ``f1``, ...

    Args:
        stem: what it begins with.
        taken: the names that there are.
        first: what stands behind the stem in the first choice.
    """
    name, number = stem + first, 0
    while name in taken:
        number += 1
        name = f"{stem}{number}"
    taken.add(name)
    return name


_set_functions = IRModule.functions.__set__  # type: ignore[attr-defined]
_set_attrs = IRModule.attrs.__set__  # type: ignore[attr-defined]
_set_global_infos = IRModule.global_infos.__set__  # type: ignore[attr-defined]


def _struct_info_of(func: Any) -> Any:
    return func.struct_info_ if isinstance(func, RelaxExpr) else None
