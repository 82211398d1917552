"""A pytest plugin that tells coverage which test runs, fixtures included, and writes down how long each takes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

_SECONDS: dict[str, float] = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """One context per test."""
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.switch_context(item.nodeid)
    begin = time.perf_counter()
    yield
    _SECONDS[item.nodeid] = time.perf_counter() - begin
    if measured is not None:
        measured.switch_context("")


def pytest_sessionfinish() -> None:
    """The durations, beside the coverage data."""
    Path(os.environ["MUTATION_SECONDS"]).write_text(json.dumps(_SECONDS))
