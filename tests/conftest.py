"""What all tests share: reproducible property tests, and locks and caches of their own."""

from __future__ import annotations

import os
import tempfile
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


@pytest.fixture(scope="session", autouse=True)
def _own_reference_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Reference outputs are computed anew in each test session, not taken from a user's earlier runs."""
    os.environ.setdefault("LOOPSMITH_REFERENCE_FOLDER", str(tmp_path_factory.mktemp("references")))


@pytest.fixture
def scratch() -> Path:
    """A short-lived folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
