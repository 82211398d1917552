"""A lock keeps others out, in other threads and processes, until its block ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from database.lock import file_lock


@pytest.mark.parametrize(("first", "second"), [(False, False), (True, False), (False, True), (True, True)])
def test_only_readers_share_a_lock(tmp_path: Path, first: bool, second: bool) -> None:
    path = tmp_path / "lock"

    def held() -> bool:
        with file_lock(path, shared=second):
            return True

    with ThreadPoolExecutor() as threads:
        with file_lock(path, shared=first):
            waiting = threads.submit(held)
            if first and second:
                assert waiting.result(timeout=30)
            else:
                with pytest.raises(TimeoutError):
                    waiting.result(timeout=0.3)
        assert waiting.result(timeout=30)
