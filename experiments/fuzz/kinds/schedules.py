"""Random schedules of small kernels."""

from __future__ import annotations

import argparse

from ..kind import KINDS, Kind, add_targets, targets_of
from ..schedules import judge_schedule, scheduled_kernel
from ..verdict import Verdict


@KINDS.register("schedules")
class Schedules(Kind):
    """random schedules of small kernels: a primitive is refused or leaves the meaning as it was"""

    def add_options(self, command: argparse.ArgumentParser) -> None:
        add_targets(command)

    def show(self, seed: int, options: argparse.Namespace) -> str:
        found = scheduled_kernel(seed)
        return f"{found.kernel.script()}\n# scheduled:\n{found.scheduled.script()}"

    def judge(self, seed: int, options: argparse.Namespace) -> Verdict:
        return judge_schedule(seed, targets_of(seed, options))
