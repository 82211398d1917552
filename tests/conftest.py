"""What all tests share: reproducible property tests."""

from __future__ import annotations

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


ILL_FORMED = {
    "ComputePrimValue": "it calls a kernel in a function that claims to be pure; RemovePurityChecking goes before it",
    "VMShapeLower": "its checks of shapes are impure calls; RemovePurityChecking goes before it",
}
"""Passes that break the rule when they run alone, and why; every other pass is held to it."""


@pytest.fixture
def passes_make_well_formed_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pass makes is well-formed, under every context, nested ones included."""
    call = Pass.__call__

    def checked(self: Pass, mod: IRModule, ctx: PassContext | None = None) -> IRModule:
        result = call(self, mod, ctx)
        if result is not mod and self.info.name not in ILL_FORMED:
            WellFormedInstrument().run_after_pass(result, self.info)
        return result

    monkeypatch.setattr(Pass, "__call__", checked)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A short-lived folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
