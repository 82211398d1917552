"""Tests compute little: here parallel loops run in parallel however short they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ir.transform import PassContext


@pytest.fixture(autouse=True)
def _short_loops_run_in_parallel() -> Iterator[None]:
    with PassContext(config={"tir.LowerParallel": {"least_operations": 0}}):
        yield
