"""Worker processes that the runner tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runners import WorkerPool


@pytest.fixture(scope="session")
def pool() -> Iterator[WorkerPool]:
    """Two workers with one gibibyte each."""
    with WorkerPool(2, preload=("tests.runners.builds",), memory_limit=1 << 30) as made:
        yield made
