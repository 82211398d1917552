"""The context under which passes run: which of them run, with which options, watched by which instruments."""

from __future__ import annotations

import difflib
import fnmatch
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .error import IRError
from .module import IRModule


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
            # Whatever one raises, the others must still be told; the first error is raised behind them.
            except BaseException as error:
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
