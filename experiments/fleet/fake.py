"""Devices that take a given time for each candidate and measure nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from runners.local import LocalRunner
from runners.runner import RunnerInput, RunnerResult


def fake_runner(secs: float) -> Callable[..., LocalRunner]:
    """Makes runners whose measurements take some seconds, without a processor's work."""

    class Fake(LocalRunner):
        def submit(self, item: RunnerInput, *, again: bool = False) -> Future[RunnerResult]:
            future: Future[RunnerResult] = Future()
            result = RunnerResult((secs,), None, verified=True, confirmed=True)
            if secs:
                timer = threading.Timer(secs, future.set_result, (result,))
                timer.daemon = True
                timer.start()
            else:
                future.set_result(result)
            return future

    def make(*args: Any, **options: Any) -> LocalRunner:
        return Fake(*args, **options)

    return make
