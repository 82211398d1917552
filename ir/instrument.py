"""Instruments: observers of passes, put into a :class:`~ir.transform.PassContext`.

They time passes, print or save modules, veto passes, and check after each pass that the module is well-formed.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from .error import IRError
from .external import external
from .module import IRModule
from .transform import PassError, PassInfo


class PassInstrument:
    """Base of instruments; every hook does nothing unless overridden.

    The order around one pass: ``should_run`` of all instruments, ``run_before_pass`` of all, the pass,
    ``run_after_pass`` of all. ``enter_pass_ctx`` and ``exit_pass_ctx`` frame the context.
    """

    def enter_pass_ctx(self) -> None:
        """The context is entered."""

    def exit_pass_ctx(self) -> None:
        """The context is left, even by an exception."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """False skips the pass, unless the context requires it."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """The pass is about to run on ``mod``."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """The pass has made ``mod``."""


def pass_instrument(pi_cls: type | None = None) -> Any:
    """Make an instrument class of any class that defines some of the hooks of :class:`PassInstrument`."""

    def decorate(cls: type) -> type:
        if issubclass(cls, PassInstrument):
            return cls
        return type(
            cls.__name__, (cls, PassInstrument), {"__doc__": cls.__doc__, "__module__": cls.__module__}
        )

    return decorate if pi_cls is None else decorate(pi_cls)


@dataclass
class _Timing:
    name: str
    seconds: float = 0.0
    children: list[_Timing] = field(default_factory=list)


class PassTimingInstrument(PassInstrument):
    """Measures the wall time of each pass, nested as the passes nest; :meth:`render` shows it."""

    _latest: PassTimingInstrument | None = None

    def __init__(self) -> None:
        self._roots: list[_Timing] = []
        self._open: list[tuple[_Timing, float]] = []
        PassTimingInstrument._latest = self

    def enter_pass_ctx(self) -> None:
        """Start with an empty profile."""
        self._roots, self._open = [], []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Start the clock of the pass."""
        timing = _Timing(info.name)
        (self._open[-1][0].children if self._open else self._roots).append(timing)
        self._open.append((timing, time.perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Stop the clock. Passes inside that raised are dropped from the stack."""
        now = time.perf_counter()
        while self._open:
            timing, start = self._open.pop()
            timing.seconds = now - start
            if timing.name == info.name:
                break

    def profile(self) -> list[tuple[str, int, float]]:
        """(pass name, nesting depth, seconds) in order of execution."""
        rows: list[tuple[str, int, float]] = []

        def add(timing: _Timing, depth: int) -> None:
            rows.append((timing.name, depth, timing.seconds))
            for child in timing.children:
                add(child, depth + 1)

        for root in self._roots:
            add(root, 0)
        return rows

    def render(self: PassTimingInstrument | None = None) -> str:  # type: ignore[misc]
        """The profile as indented text; called on the class it shows the instrument made last."""
        instrument = self if self is not None else PassTimingInstrument._latest
        if instrument is None:
            return ""
        rows = instrument.profile()
        total = sum(seconds for _, depth, seconds in rows if depth == 0) or 1.0
        return "".join(
            f"{'  ' * depth}{name}: {seconds * 1e6:.0f}us ({100 * seconds / total:.2f}%)\n"
            for name, depth, seconds in rows
        )


@dataclass
class PassPrintingInstrument(PassInstrument):
    """Prints the module before and after passes of the given names (None: no pass; ``"*"`` stands for all)."""

    print_before_pass_names: list[str] | None = None
    print_after_pass_names: list[str] | None = None
    file: TextIO | None = None

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print if wanted."""
        self._print("Before", self.print_before_pass_names, mod, info)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Print if wanted."""
        self._print("After", self.print_after_pass_names, mod, info)

    def _print(self, when: str, names: list[str] | None, mod: IRModule, info: PassInfo) -> None:
        if names and (info.name in names or "*" in names):
            out = self.file or sys.stdout
            print(f"# {when} running pass {info.name}\n{mod.script()}", file=out)


class PrintBeforeAll(PassPrintingInstrument):
    """Prints the module before every pass."""

    def __init__(self, file: TextIO | None = None) -> None:
        super().__init__(["*"], None, file)


class PrintAfterAll(PassPrintingInstrument):
    """Prints the module after every pass."""

    def __init__(self, file: TextIO | None = None) -> None:
        super().__init__(None, ["*"], file)


class DumpIR(PassInstrument):
    """Writes the module after every pass into a folder, as ``000_PassName.py``; ``refresh`` empties it first."""

    def __init__(self, dump_dir: str | Path, refresh: bool = False) -> None:
        self.dump_dir = Path(dump_dir)
        self._refresh = refresh
        self._counter = 0

    def enter_pass_ctx(self) -> None:
        """Make the folder."""
        self.dump_dir.mkdir(parents=True, exist_ok=True)
        if self._refresh:
            for old in self.dump_dir.glob("[0-9][0-9][0-9]_*.py"):
                old.unlink()

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Write one file."""
        name = re.sub(r"[^\w.]+", "_", info.name)
        (self.dump_dir / f"{self._counter:03d}_{name}.py").write_text(mod.script() + "\n")
        self._counter += 1


@dataclass
class WellFormedInstrument(PassInstrument):
    """Verifies the module after every pass and blames the pass: the "valid in, valid out" contract as a check.

    PrimFuncs go through :func:`ir.tir.analysis.assert_well_formed`, Relax functions through
    :func:`ir.relax.analysis.check_well_formed`. Most passes leave most functions alone: within a context, a kernel is
    verified once, and graph functions again when one of them, or a name, has changed.
    """

    check_input: bool = False
    """Verify before passes as well, so that a bad input is not blamed on the first pass."""
    checks: tuple[Callable[[IRModule], None], ...] = ()
    """More checks; each raises IRError on what it refuses."""
    _verified: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Kernels and groups of graph functions that are well-formed, by identity, which holds while they are kept here."""

    def enter_pass_ctx(self) -> None:
        """Nothing is known yet."""
        self._verified.clear()

    def exit_pass_ctx(self) -> None:
        """Let go of what was seen."""
        self._verified.clear()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Verify the input if asked to."""
        if self.check_input:
            self._verify(mod, f"the module given to pass {info.name}")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Verify the result."""
        self._verify(mod, f"the module made by pass {info.name}")

    def _verify(self, mod: IRModule, what: str) -> None:
        kernel = external("PrimFunc")
        try:
            graph = []
            for func in mod.functions.values():
                if not isinstance(func, kernel):
                    graph.append(func)
                elif id(func) not in self._verified:
                    external("assert_well_formed")(func)
                    self._verified[id(func)] = func
            if graph:
                # what is asked of kernels here is that they exist, under their names
                key = tuple(
                    (var.name_hint, func.attrs.get("global_symbol") if isinstance(func, kernel) else id(func))
                    for var, func in mod.functions.items()
                )
                if key not in self._verified:
                    external("check_well_formed")(mod)
                    self._verified[key] = graph
            for check in self.checks:
                check(mod)
        except IRError as error:
            raise PassError(f"{what} is not well-formed: {error}") from error


__all__ = [
    "DumpIR",
    "PassInstrument",
    "PassPrintingInstrument",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "WellFormedInstrument",
    "pass_instrument",
]
