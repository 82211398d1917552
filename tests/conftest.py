"""What all tests share: reproducible property tests, Ctrl-C that is heard, passes that make well-formed modules."""

from __future__ import annotations

import gc
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ir import IRModule
from ir.instrument import WellFormedInstrument
from ir.pass_context import PassContext
from ir.transform import Pass

# The same examples in every run: a failure in CI can be repeated, and a slow machine is not a failure.
settings.register_profile(
    "loopsmith",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=50,
)
settings.load_profile("loopsmith")

# A shell that starts the tests in the background has them, and whatever processes they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Under nohup they would ignore that the terminal is gone.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="module")
def garbage_is_sought_among_the_new() -> None:
    """What was loaded, collected and cached before a module stays: to look for garbage in gigabytes of it, again and again, takes long."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def passes_make_well_formed_modules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pass makes is well-formed, in every test and under every context, those that builds open included."""
    if request.node.get_closest_marker("ill_formed"):
        return
    call, instrument = Pass.__call__, WellFormedInstrument()

    def checked(self: Pass, mod: IRModule, ctx: PassContext | None = None) -> IRModule:
        result = call(self, mod, ctx)
        if result is not mod:
            instrument.run_after_pass(result, self.info)
        return result

    monkeypatch.setattr(Pass, "__call__", checked)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A short-lived folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
