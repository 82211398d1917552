"""Names that the documents place in ``ir`` although what they stand for lives in a package above it.

``ir`` imports nothing of ours. Where a documented name needs the runners, the tuner or the database, it is found through this
table when it is first used; nothing else in ``ir`` reaches upwards.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .error import IRError

EXTERNAL = {
    "Executable": "runners.executable",
    "Library": "runners.executable",
    "device": "runners.device",
    "VirtualMachine": "runners.virtual_machine",
    "MetaScheduleApplyDatabase": "database.meta_schedule_apply_database",
    "MetaScheduleTuneIRMod": "tuner.passes.meta_schedule_tune_ir_mod",
    "MetaScheduleTuneTIR": "tuner.passes.meta_schedule_tune_tir",
    "FewShotTuning": "tuner.passes.few_shot_tuning",
}
"""The module that defines each name."""


def external(name: str) -> Any:
    """What ``name`` stands for.

    Raises:
        IRError: the package that defines it is not installed.
    """
    module = EXTERNAL[name]
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise  # the package is there; what it needs is missing, and the error says what
        raise IRError(f"{name} needs the package {module.split('.')[0]!r}, which is not installed") from error
