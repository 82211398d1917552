"""Passes: functions from module to module with a name, run under a :class:`PassContext`.

A pass is written as a frozen dataclass whose fields are its options, deriving from :class:`ModulePass` (or from the
per-function classes of ``ir.tir.transform`` and ``ir.relax.transform``), or by decorating a function or class with
:func:`module_pass`. Valid module in, valid module out; the input is never changed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

from .error import IRError, IRTypeError
from .module import IRModule
from .pass_context import ConfigOption, PassContext, PassError, PassInfo, register_config_option
from .structural import structural_hash

_P = TypeVar("_P", bound="Pass")


class Pass:
    """A function from IRModule to IRModule. Subclasses implement :meth:`run`; callers call the pass.

    ``pass_name`` (default: the class's name), ``opt_level``, ``required`` and ``traceable`` are class attributes, so
    that the fields of a pass are its options alone.
    """

    pass_name: ClassVar[str | None] = None
    opt_level: ClassVar[int] = 0
    required: ClassVar[tuple[str, ...]] = ()
    traceable: ClassVar[bool] = False

    @property
    def info(self) -> PassInfo:
        """Name, level and requirements."""
        cls = type(self)
        return _info(cls.opt_level, cls.pass_name or cls.__name__, cls.required, cls.traceable)

    def configured(self, ctx: PassContext) -> Self:
        """The pass with those fields that the context sets by the option of the pass's name, such as ``tir.UnrollLoop``.

        The option takes a dictionary, and is registered in the pass's file: ``register_config_option("tir.X", dict, "...")``.

        Raises:
            PassError: the option is not registered, the pass has no such field, or the value is of another kind than the field.
        """
        name = self.info.name
        chosen = ctx.get(name)
        if not chosen:
            return self
        values = {key: getattr(value, "value", value) for key, value in chosen.items()}
        known = {entry.name: getattr(self, entry.name) for entry in fields(self)}  # type: ignore[arg-type]  # passes with options are dataclasses
        for key, value in values.items():
            if key not in known:
                raise PassError(f"config option {name!r} has no entry {key!r}; there are {', '.join(known)}")
            kind = type(known[key])
            numbers = kind in (bool, float, type(None))  # None stands for no limit
            if not isinstance(value, int | float if numbers else kind):
                wanted = "a number" if numbers else kind.__name__
                raise PassError(
                    f"config option {name!r}: {key} takes {wanted}, got {value!r} ({type(value).__name__})"
                )
        return replace(self, **values)  # type: ignore[type-var]

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The transformation; ``mod`` must not be changed."""
        raise PassError(f"{type(self).__name__} must define run(self, mod, ctx)")

    def __call__(self, mod: IRModule, ctx: PassContext | None = None) -> IRModule:
        """Run the pass on a module under the current context (whatever its level) and return the new module."""
        info = self.info
        if not isinstance(mod, IRModule):
            raise IRTypeError(
                f"pass {info.name} takes an IRModule, got {type(mod).__name__}; wrap a function with IRModule.from_expr"
            )
        context = PassContext.current() if ctx is None else ctx
        watched = bool(context.instruments)
        if watched and not context.instrument_before_pass(mod, info):
            return mod
        guard = context.config.get("testing.immutable_module", False)
        if guard:
            before = structural_hash(mod)
        try:
            result = self.run(mod, context)
        except IRError as error:
            _note(error, info.name)
            raise
        if not isinstance(result, IRModule):
            raise IRTypeError(f"pass {info.name} must return an IRModule, got {type(result).__name__}")
        if guard and structural_hash(mod) != before:
            raise PassError(f"pass {info.name} changed its input module; passes must work on a copy")
        if watched:
            context.instrument_after_pass(result, info)
        return result


_info = lru_cache(maxsize=1024)(PassInfo)


def _note(error: IRError, name: str) -> None:
    note = f"while running pass {name}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


class ModulePass(Pass):
    """A pass over the whole module: subclasses define ``transform_module(self, mod, ctx)``."""

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The new module."""
        raise PassError(f"{type(self).__name__} must define transform_module(self, mod, ctx)")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Hand the module to ``transform_module``."""
        return self.transform_module(mod, ctx)


@dataclass(frozen=True, init=False)
class Sequential(Pass):
    """Passes in order. Each runs only if the context enables it (:meth:`PassContext.pass_enabled`).

    Args:
        passes: the passes.
        opt_level, name, required, traceable: the :class:`PassInfo` of the sequence as a pass.
    """

    passes: tuple[Pass, ...]
    _info: PassInfo

    def __init__(
        self,
        passes: Sequence[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        items = tuple(passes or ())
        for item in items:
            if not isinstance(item, Pass):
                raise IRTypeError(
                    f"Sequential {name} takes passes, got {type(item).__name__}; was a pass not called?"
                )
        object.__setattr__(self, "passes", items)
        object.__setattr__(self, "_info", PassInfo(opt_level, name, tuple(required or ()), traceable))

    @property
    def info(self) -> PassInfo:
        """Name and level of the sequence."""
        return self._info

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Run the enabled passes one after the other, each behind the passes that it requires."""
        for item in self.passes:
            info = item.info
            if not ctx.pass_enabled(info):
                continue
            for name in info.required:
                mod = get_pass(name)(mod, ctx)
            mod = item(mod, ctx)
        return mod


_PASSES: dict[str, Callable[[], Pass]] = {}


def register_pass(name: str, factory: Callable[[], Pass]) -> None:
    """Make a pass known by name, for ``required`` lists."""
    _PASSES[name] = factory


def get_pass(name: str) -> Pass:
    """The pass registered under ``name``; raises PassError listing what there is."""
    if name not in _PASSES:
        raise PassError(
            f"no pass is registered as {name!r}; registered are: {', '.join(sorted(_PASSES)) or 'none'}"
        )
    return _PASSES[name]()


# ---- decorators -------------------------------------------------------------------------------------------------


def make_pass(
    base: type[_P],
    method: str,
    target: Any,
    opt_level: int,
    name: str | None,
    required: Sequence[str] | None,
    traceable: bool,
) -> Any:
    """What the pass decorators share: a function becomes a ``base`` instance, a class becomes a ``base`` subclass.

    Args:
        base: ModulePass or a class that calls ``method`` for each part of the module.
        method: the name of the method that the function implements or the class defines.
        target: the decorated function or class.
    """
    label = str(name or getattr(target, "__name__", type(target).__name__))
    info = PassInfo(opt_level, label, tuple(required or ()), traceable)
    if inspect.isclass(target):
        return _pass_class(base, method, target, info)
    if not callable(target):
        raise IRTypeError(
            f"a pass is made of a function or a class with {method}, got {type(target).__name__}"
        )

    members = {
        "__doc__": target.__doc__,
        "info": property(lambda self: info),
        "__module__": target.__module__,
    }
    members[method] = lambda self, *args: target(*args)
    return type(label, (base,), members)()


def _pass_class(base: type[Pass], method: str, inner: type, info: PassInfo) -> type[Pass]:
    if not hasattr(inner, method):
        raise PassError(f"pass class {inner.__name__} must define {method}(self, ...)")

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "_inner", inner(*args, **kwargs))

    def attribute(self: Any, key: str) -> Any:
        if key == "_inner":
            raise AttributeError(key)
        return getattr(self._inner, key)

    members = {
        "__init__": construct,
        "__getattr__": attribute,
        "__doc__": inner.__doc__,
        "__module__": inner.__module__,
        "__qualname__": inner.__qualname__,
        "info": property(lambda self: info),
        method: lambda self, *args: getattr(self._inner, method)(*args),
    }
    return type(inner.__name__, (base,), members)


def pass_decorator(
    base: type[Pass],
    method: str,
    pass_func: Any,
    opt_level: int | None,
    name: str | None,
    required: Sequence[str] | None,
    traceable: bool | None,
) -> Any:
    """The decorated pass, or the decorator where ``pass_func`` is None."""
    if opt_level is None and pass_func is not None and not callable(pass_func):
        raise PassError("the pass decorator takes opt_level by keyword: @module_pass(opt_level=1)")

    def decorate(target: Any) -> Any:
        return make_pass(base, method, target, opt_level or 0, name, required, bool(traceable))

    return decorate if pass_func is None else decorate(pass_func)


def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool | None = False,
) -> Any:
    """Make a :class:`ModulePass` of a function ``(mod, ctx) -> mod`` or of a class that defines ``transform_module``.

    >>> @module_pass(opt_level=2)
    ... def identity(mod, ctx):
    ...     return mod
    >>> identity.info.opt_level
    2

    Args:
        pass_func: the function or class; None returns a decorator.
        opt_level: see :class:`PassInfo`.
        name: defaults to the function's or class's name.
        required: names of passes that must run before it.
        traceable: recorded in the info.
    """
    return pass_decorator(ModulePass, "transform_module", pass_func, opt_level, name, required, traceable)


# ---- stock passes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PrintIR(ModulePass):
    """Print the module and hand it on; ``header`` is printed before it."""

    header: str = ""
    show_meta_data: bool = False

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The same module."""
        if self.header:
            print(self.header)
        print(mod.script(show_meta=True) if self.show_meta_data else mod.script())
        return mod


@dataclass(frozen=True)
class ApplyPassToFunction(ModulePass):
    """Run a pass on the functions whose name matches a regular expression; the others stay as they are.

    The pass sees a module of the matching functions alone. What it removes, changes or adds there is taken over.

    Args:
        transform: the pass.
        func_name_regex: matched against the beginning of names, as :func:`re.match` does.
        error_if_no_function_matches_regex: raise PassError, instead of doing nothing, when no name matches.
    """

    transform: Pass
    func_name_regex: str
    error_if_no_function_matches_regex: bool = False

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with the matching functions transformed."""
        chosen = {
            var: func for var, func in mod.functions.items() if re.match(self.func_name_regex, var.name_hint)
        }
        if not chosen:
            if self.error_if_no_function_matches_regex:
                names = ", ".join(var.name_hint for var in mod.get_global_vars())
                raise PassError(
                    f"no function matches {self.func_name_regex!r}; the module has: {names or 'none'}"
                )
            return mod
        internal = {var for var, func in chosen.items() if "global_symbol" not in func.attrs}
        # A pass may drop private functions that nothing calls; within the part they count as entries.
        part = IRModule(
            {v: f.with_attr("global_symbol", v.name_hint) if v in internal else f for v, f in chosen.items()},
            mod.attrs,
            mod.global_infos,
        )
        changed = self.transform(part, ctx)
        private = {var.name_hint for var in internal}
        functions = {var: func for var, func in mod.functions.items() if var not in chosen}
        for var, func in changed.functions.items():
            functions[var] = func.without_attr("global_symbol") if var.name_hint in private else func
        if len({var.name_hint for var in functions}) != len(functions):
            raise PassError(
                f"pass {self.transform.info.name} added a function whose name the module has already"
            )
        return mod.replace(functions=functions)


__all__ = [
    "ApplyPassToFunction",
    "ConfigOption",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassError",
    "PassInfo",
    "PrintIR",
    "Sequential",
    "get_pass",
    "make_pass",
    "module_pass",
    "pass_decorator",
    "register_config_option",
    "register_pass",
]
