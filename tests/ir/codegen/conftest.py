"""Tests compute little: here parallel loops run in parallel however short they are."""

from __future__ import annotations

import pytest

from ir.codegen.llvm import statement


@pytest.fixture(autouse=True)
def _short_loops_run_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement, "_LEAST_PARALLEL_OPERATIONS", 0)
