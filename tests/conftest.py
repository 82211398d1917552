"""What all tests share: reproducible property tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run: a failure in CI can be repeated, and a slow machine is not a failure.
settings.register_profile(
    "loopsmith",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=50,
)
settings.load_profile("loopsmith")


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A short-lived folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
