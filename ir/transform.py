"""Passes: functions from module to module with a name, run under a context that says which run and who watches.

A pass is written as a frozen dataclass whose fields are its options, deriving from :class:`ModulePass` (or from the
per-function classes of ``ir.tir.transform`` and ``ir.relax.transform``), or by decorating a function or class with
:func:`module_pass`. Valid module in, valid module out; the input is never changed.
"""

from __future__ import annotations

import difflib
import fnmatch
import inspect
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from .error import IRError, IRTypeError
from .module import IRModule

_P = TypeVar("_P", bound="Pass")


class PassError(IRError):
    """A pass, a pass context or an instrument was used wrongly, or an instrument found a defect."""


@dataclass(frozen=True)
class PassInfo:
    """What is known of a pass without running it."""

    opt_level: int
    """A :class:`Sequential` runs the pass when the context's level is at least this."""
    name: str
    required: tuple[str, ...] = ()
    """Names of passes (see :func:`register_pass`) that a :class:`Sequential` runs immediately before this one."""
    traceable: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "required", tuple(self.required or ()))


# ---- configuration options --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConfigOption:
    """A key that ``PassContext(config=...)`` accepts."""

    name: str
    type: type | tuple[type, ...]
    doc: str = ""


_OPTIONS: dict[str, ConfigOption] = {}


def register_config_option(name: str, type: type | tuple[type, ...], doc: str = "") -> ConfigOption:
    """Declare a configuration key with the type of its values; declaring it again with another type is an error."""
    option = ConfigOption(name, type, doc)
    known = _OPTIONS.setdefault(name, option)
    if known.type != type:
        raise PassError(f"config option {name!r} is registered with type {known.type}, cannot become {type}")
    return known


# The options of the stock passes are declared here, so that a context can be made before those passes are imported.
for _name, _type in (
    ("testing.immutable_module", bool),
    ("tir.UnrollLoop", dict),
    ("tir.LoopPartition", dict),
    ("tir.HoistExpression", dict),
    ("tir.HoistIfThenElse", dict),
    ("tir.Simplify", dict),
    ("tir.RemoveNoOp", dict),
    ("tir.noalias", bool),
    ("tir.is_entry_func", bool),
    ("tir.add_lower_pass", (list, tuple)),
    ("tir.debug_keep_trivial_loop", bool),
    ("tir.disable_assert", bool),
    ("tir.disable_cse_tir", bool),
    ("tir.disable_storage_rewrite", bool),
    ("tir.disable_vectorize", bool),
    ("tir.enable_debug", bool),
    ("tir.enable_equiv_terms_in_cse_tir", bool),
    ("tir.instrument_bound_checkers", bool),
    ("tir.instrument_lwp", bool),
    ("tir.merge_static_smem", bool),
    ("tir.use_async_copy", bool),
    ("tir.vtcm_capacity", int),
    ("tir.detect_global_barrier", bool),
    ("relax.FuseOps.max_depth", int),
    ("relax.fallback_device_type", int),
    ("relax.frontend.fill_span", bool),
    ("relax.backend.use_cuda_graph", bool),
    ("relax.transform.apply_legalize_ops", bool),
    ("relax.lift_transform_params.consume_params", bool),
    ("relay.FuseOps.max_depth", int),
    ("relay.FuseOps.link_params", bool),
    ("relay.backend.use_auto_scheduler", bool),
    ("relay.backend.use_meta_schedule", bool),
    ("relay.backend.use_meta_schedule_dispatch", int),
    ("relay.fallback_device_type", int),
    ("relay.ToMixedPrecision.keep_orig_output_dtype", bool),
):
    register_config_option(_name, _type)


def _checked_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for name, value in (config or {}).items():
        option = _OPTIONS.get(name)
        if option is None:
            near = difflib.get_close_matches(name, _OPTIONS, n=3)
            hint = (
                f"; did you mean {', '.join(near)}?" if near else f"; there are {', '.join(sorted(_OPTIONS))}"
            )
            raise PassError(f"PassContext has no config option {name!r}{hint}")
        kinds = option.type if isinstance(option.type, tuple) else (option.type,)
        if bool in kinds and isinstance(value, int):
            value = bool(value)
        elif not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            if hasattr(value, "value") and isinstance(value.value, kinds):  # an IntImm stands for its value
                value = value.value
            else:
                wanted = " or ".join(kind.__name__ for kind in kinds)
                raise PassError(
                    f"config option {name!r} takes {wanted}, got {value!r} ({type(value).__name__})"
                )
        checked[name] = value
    return checked


# ---- the context ------------------------------------------------------------------------------------------------


class _Stack(threading.local):
    def __init__(self) -> None:
        self.contexts: list[PassContext] = []
        self.default: PassContext | None = None


_STACK = _Stack()


@dataclass
class PassContext:
    """Which passes run, with which options, watched by which instruments; ``with PassContext(...):`` puts it in force.

    Args:
        opt_level: a :class:`Sequential` runs passes up to this level.
        required_pass: names of passes that run whatever their level; wildcards as in ``"tir.*"``.
        disabled_pass: names of passes that a :class:`Sequential` leaves out; wildcards likewise.
        instruments: observers, see :class:`ir.instrument.PassInstrument`.
        config: options by name; :meth:`list_configs` shows them. An unknown name or a wrong type raises PassError.
    """

    opt_level: int = 2
    required_pass: Sequence[str] = ()
    disabled_pass: Sequence[str] = ()
    instruments: Sequence[Any] = ()
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("required_pass", "disabled_pass", "instruments"):
            value = getattr(self, name)
            value = () if value is None else value
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise PassError(f"PassContext: {name} is a list, got {value!r}")
            setattr(self, name, list(value))
        self.config = _checked_config(self.config)

    @staticmethod
    def current() -> PassContext:
        """The innermost context in force in this thread, or the default one."""
        if _STACK.contexts:
            return _STACK.contexts[-1]
        if _STACK.default is None:
            _STACK.default = PassContext()
        return _STACK.default

    @staticmethod
    def list_configs() -> dict[str, dict[str, str]]:
        """Every config option with the type of its values."""
        return {
            name: {"type": _type_name(option.type), "doc": option.doc}
            for name, option in sorted(_OPTIONS.items())
        }

    @staticmethod
    def register_config_option(name: str, type: type | tuple[type, ...], doc: str = "") -> ConfigOption:
        """See :func:`register_config_option`."""
        return register_config_option(name, type, doc)

    def __enter__(self) -> PassContext:
        self._enter_instruments()
        _STACK.contexts.append(self)
        return self

    def __exit__(self, *exc: Any) -> None:
        if not _STACK.contexts or _STACK.contexts[-1] is not self:
            raise PassError("PassContext is left out of order; contexts nest")
        _STACK.contexts.pop()
        self._exit_instruments(self.instruments)

    def _enter_instruments(self) -> None:
        entered: list[Any] = []
        for instrument in self.instruments:
            try:
                _hook(instrument, "enter_pass_ctx")
            except BaseException:
                # Those that have entered are told to leave; the context watches nothing from now on.
                self._exit_instruments(entered)
                self.instruments = []
                raise
            entered.append(instrument)

    def _exit_instruments(self, instruments: Sequence[Any]) -> None:
        first_error: BaseException | None = None
        for instrument in instruments:
            try:
                _hook(instrument, "exit_pass_ctx")
            except (
                BaseException
            ) as error:  # the others must still be told; the first error is raised behind them
                first_error = first_error or error
        if first_error is not None:
            self.instruments = []
            raise first_error

    def override_instruments(self, instruments: Sequence[Any] | None) -> None:
        """Replace the instruments: the old ones leave the context, the new ones enter it."""
        self._exit_instruments(self.instruments)
        self.instruments = list(instruments or ())
        self._enter_instruments()

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a :class:`Sequential` runs the pass: not disabled, and required or within the level."""
        if _matches(info.name, self.disabled_pass):
            return False
        return _matches(info.name, self.required_pass) or self.opt_level >= info.opt_level

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a config option, or ``default`` where it is not set."""
        if name not in _OPTIONS:
            raise PassError(
                f"config option {name!r} is not registered; register it with register_config_option"
            )
        return self.config.get(name, default)

    def instrument_before_pass(self, mod: IRModule, info: PassInfo) -> bool:
        """Ask the instruments whether the pass shall run (a required pass always does), and tell them that it starts."""
        if not _matches(info.name, self.required_pass):
            verdicts = [_hook(item, "should_run", mod, info) for item in self.instruments]
            if any(verdict is False for verdict in verdicts):
                return False
        for instrument in self.instruments:
            _hook(instrument, "run_before_pass", mod, info)
        return True

    def instrument_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Tell the instruments that the pass has made ``mod``."""
        for instrument in self.instruments:
            _hook(instrument, "run_after_pass", mod, info)


def _type_name(kinds: type | tuple[type, ...]) -> str:
    return " | ".join(kind.__name__ for kind in kinds) if isinstance(kinds, tuple) else kinds.__name__


def _hook(instrument: Any, name: str, *args: Any) -> Any:
    method = getattr(instrument, name, None)
    return None if method is None else method(*args)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name == pattern or fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


# ---- passes -----------------------------------------------------------------------------------------------------


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
        return PassInfo(cls.opt_level, cls.pass_name or cls.__name__, cls.required, cls.traceable)

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
            from .structural import structural_hash

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
