"""The context under which passes run: which of them run, with which options, watched by which instruments."""

from __future__ import annotations

import difflib
import fnmatch
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .error import IRError
from .external import declare_option
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


# The options of the stock passes are declared here, so that a context can be made before those passes are imported. A pass may
# register the option of its name in its own file as well: a context that is given it looks there.
for _name, _type, _doc in (
    ("testing.immutable_module", bool, "a pass that changes its input module is an error"),
    ("tir.UnrollLoop", dict, "fields of the pass UnrollLoop by name"),
    ("tir.LoopPartition", dict, "fields of the pass LoopPartition by name"),
    ("tir.PartitionChoices", dict, "fields of the pass PartitionChoices by name"),
    ("tir.LowerParallel", dict, "fields of the pass LowerParallel by name"),
    ("tir.PlanWorkspace", dict, "fields of the pass PlanWorkspace by name"),
    ("tir.Simplify", dict, "what the pass Simplify does beyond its usual work"),
    ("tir.noalias", bool, "False: buffers that are arguments of a kernel may overlap"),
    ("tir.add_lower_pass", (list, tuple), "(phase, pass) pairs that lowering runs besides its own passes"),
    ("tir.disable_assert", bool, "lowering leaves assertions out"),
    ("tir.disable_cse_tir", bool, "CommonSubexprElimTIR leaves indices as they are"),
    ("tir.disable_storage_rewrite", bool, "allocations do not share memory"),
    ("tir.disable_vectorize", bool, "vectorized loops become serial ones"),
    ("tir.merge_static_smem", bool, "MergeSharedMemoryAllocations takes shared memory of constant size, too"),
    ("tir.ptx_ldg32", bool, "InjectPTXLDG32 does its work"),
    ("tir.vtcm_capacity", int, "bytes of tightly coupled memory that a candidate may use"),
    ("relax.FuseOps.max_depth", int, "operators in a fused group at most"),
    ("relax.backend.use_cuda_graph", bool, "RewriteCUDAGraph does its work"),
    ("relax.transform.apply_legalize_ops", bool, "False: LegalizeOps leaves operators as they are"),
):
    register_config_option(_name, _type, _doc)

_NO_RELAY = "there is no Relay yet"
_NO_OPTIONS = "the pass has no options"
_REFUSED: dict[str, str] = {
    "tir.HoistExpression": "there is no such pass; HoistIfThenElse moves conditions",
    "tir.HoistIfThenElse": _NO_OPTIONS,
    "tir.RemoveNoOp": _NO_OPTIONS,
    "tir.is_entry_func": "it is an attribute of functions, which the pass AnnotateEntryFunc sets",
    "tir.debug_keep_trivial_loop": "loops of one iteration always disappear",
    "tir.enable_equiv_terms_in_cse_tir": "CommonSubexprElimTIR always takes sums as equal whatever the order of terms",
    "tir.enable_debug": "generated code has no debug information",
    "tir.instrument_bound_checkers": "generated code does not check bounds; analysis.OOBChecker proves them before",
    "tir.instrument_lwp": "generated code has no profiling hooks; time kernels with VirtualMachine.time_evaluator",
    "tir.use_async_copy": "copies are asynchronous where schedules ask for it and the architecture has them",
    "tir.detect_global_barrier": "blocks of one launch have no barrier; what they hand over is for another kernel",
    "relax.fallback_device_type": "a module without virtual devices is built for the target",
    "relax.lift_transform_params.consume_params": "lifted functions keep the weights that they are given",
    "relax.frontend.fill_span": "importers do not record where nodes come from",
    "relay.FuseOps.max_depth": _NO_RELAY,
    "relay.FuseOps.link_params": _NO_RELAY,
    "relay.backend.use_auto_scheduler": _NO_RELAY,
    "relay.backend.use_meta_schedule": _NO_RELAY,
    "relay.backend.use_meta_schedule_dispatch": _NO_RELAY,
    "relay.fallback_device_type": _NO_RELAY,
    "relay.ToMixedPrecision.keep_orig_output_dtype": _NO_RELAY,
}
"""Options of other compilers that nothing here would follow, and why. False may be asked for: it is how things are."""


def _checked_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    if config is not None and not isinstance(config, Mapping):
        raise PassError(f"PassContext: config is a dict of options by name, got {config!r}")
    checked: dict[str, Any] = {}
    for name, value in (config or {}).items():
        if name not in _OPTIONS and name not in _REFUSED:
            declare_option(name)
        option = _OPTIONS.get(name)
        if name in _REFUSED and option is None:
            if value is False:
                continue
            raise PassError(f"PassContext: config option {name!r} cannot be followed: {_REFUSED[name]}")
        if option is None:
            near = difflib.get_close_matches(name, _OPTIONS, n=3)
            hint = (
                f"; did you mean {', '.join(near)}?" if near else f"; there are {', '.join(sorted(_OPTIONS))}"
            )
            raise PassError(f"PassContext has no config option {name!r}{hint}")
        kinds = option.type if isinstance(option.type, tuple) else (option.type,)
        if bool in kinds and isinstance(value, int) and value in (0, 1):
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
        config: options by name; :meth:`list_configs` shows them. An unknown name, a wrong type, and an
            option that nothing would follow raise PassError.
    """

    opt_level: int = 2
    required_pass: Sequence[str] = ()
    disabled_pass: Sequence[str] = ()
    instruments: Sequence[Any] = ()
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.opt_level, int):
            raise PassError(f"PassContext: opt_level is a number such as 2, got {self.opt_level!r}")
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
        """Every config option with the type of its values; of options that files of passes register, those that were imported."""
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
    return bool(patterns) and any(
        name == pattern or fnmatch.fnmatchcase(name, pattern) for pattern in patterns
    )


def code_settings(context: PassContext) -> str | None:
    """What of a context decides which code a program gets, as a part of keys; None when passes given as objects take part."""
    if "tir.add_lower_pass" in context.config:
        return None
    passes = (context.opt_level, context.required_pass, context.disabled_pass)
    return repr((passes, sorted(context.config.items())))
