"""Steps of rules that a primitive refuses: whoever wrote the rule learns which, and where; once for each rule of a task."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

from ..error import ScheduleError
from ..rule.base import ScheduleRule

_LOG = logging.getLogger("schedules.rule")
_PACKAGE = Path(__file__).resolve().parents[1]


class Refusals:
    """Those of one task.

    A refusal is how rules of this project find out that they do not apply: only those of the user's are worth a warning.
    """

    def __init__(self) -> None:
        self._told: set[int] = set()

    def tell(self, rule: ScheduleRule, block: str, refusal: ScheduleError) -> None:
        """A step of a rule on a block was refused, and the block stays as it was."""
        is_news = rule.is_users and id(rule) not in self._told
        self._told.add(id(rule))
        _LOG.log(
            logging.WARNING if is_news else logging.DEBUG,
            "rule %s does not apply to block %s, which stays as it was: %s (refused at %s)",
            rule.name,
            block,
            str(refusal).partition("\n")[0],
            _place_of(refusal),
        )


def _place_of(refusal: ScheduleError) -> str:
    """The line that asked a schedule for the step."""
    frames = traceback.extract_tb(refusal.__traceback__)
    outside = [frame for frame in frames if _PACKAGE not in Path(frame.filename).resolve().parents]
    frame = (outside or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"
