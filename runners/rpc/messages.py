"""Our own types as messages and back; whoever reads a message of another machine gets errors of :class:`MessageError`, nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ir.time_interval import TimeInterval

from ..candidate import RunSettings
from ..error import RunnerError
from ..evaluator import EvaluatorConfig
from ..result import ResultKind
from ..runner import RunnerResult
from .proto import device_pb2 as pb

PROTOCOL = 1
"""Counts changes after which clients and servers do not understand each other."""
LONGEST_SECS = 86_400.0
"""That anything may take."""
TASK_SECONDS = 60.0
"""What a task of a session's process may take, but calls of functions."""
ARRAY_PART_BYTES = 256 << 10
"""Of an array's elements in a message: memory for larger ones comes from the system and goes back to it, each time, which took four times
as long."""
_MOST_CALLS = 10_000_000


class MessageError(RunnerError):
    """A message says nothing sensible."""


class OtherProtocol(RunnerError):
    """The two ends do not understand each other."""


@dataclass(frozen=True, slots=True)
class ArgumentInfo:
    """Dtype and shape of an argument."""

    dtype: str
    shape: tuple[int, ...]


def settings_message(settings: RunSettings) -> pb.Settings:
    """How candidates are measured, for a device elsewhere."""
    config = settings.config
    return pb.Settings(
        evaluator=pb.Evaluator(
            number=config.number,
            repeat=config.repeat,
            min_repeat_ms=config.min_repeat_ms,
            enable_cpu_cache_flush=config.enable_cpu_cache_flush,
            weight_distance=config.weight_distance or 0,
        ),
        timeout_sec=settings.timeout_sec,
        cut_ratio=settings.cut_ratio,
        cooldown_sec=settings.cooldown_sec,
        reference_timeout_sec=settings.reference_timeout_sec,
        measure_energy=settings.measure_energy,
    )


def settings_of(message: pb.Settings) -> RunSettings:
    """What :func:`settings_message` has made a message of.

    Raises:
        MessageError: a setting is out of range.
    """
    told = message.evaluator
    for name, count in (("number", told.number), ("repeat", told.repeat)):
        if not 1 <= count <= _MOST_CALLS:
            raise MessageError(f"{name} is between 1 and {_MOST_CALLS}, got {count}")
    config = EvaluatorConfig(
        told.number, told.repeat, told.min_repeat_ms, told.enable_cpu_cache_flush, told.weight_distance
    )
    return RunSettings(
        config,
        seconds(message.timeout_sec, "timeout_sec"),
        _ratio(message.cut_ratio),
        seconds(message.cooldown_sec, "cooldown_sec", least=0.0),
        seconds(message.reference_timeout_sec, "reference_timeout_sec"),
        message.measure_energy,
    )


def seconds(value: float, name: str, least: float = 1e-3) -> float:
    """A duration that makes sense.

    Raises:
        MessageError: it is none, below the least, or more than a day.
    """
    if not least <= value <= LONGEST_SECS:  # false for what is no number, too
        raise MessageError(f"{name} is between {least:g} and {LONGEST_SECS:g} seconds, got {value}")
    return value


def _ratio(value: float) -> float:
    if not value >= 1.0:
        raise MessageError(f"cut_ratio is at least 1, got {value}")
    return value


def best_of(message: pb.MeasureRequest) -> TimeInterval | None:
    """The best time known; None where there is none.

    Raises:
        MessageError: it is no time.
    """
    if not message.HasField("best_secs"):
        return None
    secs, noise = message.best_secs, message.best_noise
    if not (0 < secs < math.inf and 0 <= noise < math.inf):
        raise MessageError(f"the best time is a positive number with a noise, got {secs} and {noise}")
    return TimeInterval.around(secs, noise)


def arguments_message(infos: Sequence[Any]) -> list[pb.Argument]:
    """Dtypes and shapes of arguments, of objects that have these."""
    return [
        pb.Argument(dtype=str(item.dtype), shape=[int(extent) for extent in item.shape]) for item in infos
    ]


def arguments_of(message: pb.MeasureRequest) -> list[ArgumentInfo] | None:
    """What :func:`arguments_message` has told, None where nothing was."""
    if not message.has_args_info:
        return None
    return [ArgumentInfo(item.dtype, tuple(item.shape)) for item in message.args_info]


def result_message(result: RunnerResult) -> pb.MeasureReply:
    """What came of a measurement."""
    return pb.MeasureReply(
        kind=str(result.kind),
        error=result.error_msg or "",
        run_secs=[float(secs) for secs in result.run_secs or ()],
        cut=result.cut,
        verified=result.verified,
        baseline_secs=result.baseline_secs,
        check=result.check,
        check_secs=result.check_secs,
        confirmed=result.confirmed,
        metrics=result.metrics,
        can_confirm=result.confirm is not None,
    )


def kind_of(name: str) -> ResultKind:
    """What came of a candidate, by its name; raises MessageError for one that there is not."""
    try:
        return ResultKind(name)
    except ValueError as error:
        raise MessageError(f"a device gave a result of an unknown kind: {name!r}") from error


def result_of(message: pb.MeasureReply, confirm: Callable[[], RunnerResult] | None = None) -> RunnerResult:
    """What :func:`result_message` has told.

    Args:
        message: the reply of a device.
        confirm: has the rest of the check done, where the device says that it can.

    Raises:
        MessageError: it is no result.
    """
    kind = kind_of(message.kind)
    is_ok = kind is ResultKind.OK
    return RunnerResult(
        tuple(message.run_secs) if is_ok else None,
        None if is_ok else message.error or "the device gave no reason",
        kind,
        message.cut,
        message.verified,
        message.baseline_secs if message.HasField("baseline_secs") else None,
        message.check,
        message.check_secs,
        message.confirmed,
        dict(message.metrics),
        confirm if message.can_confirm else None,
    )
