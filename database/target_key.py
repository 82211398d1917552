"""When two targets count as the same for a record: all of their fields, the tag that merely names them excepted."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any

from ir.target import Target

_NAMES_ONLY = ("tag", "host")
"""Fields that do not change what runs: a tag is a name; code of the host side is not what was measured."""


TargetLike = Target | str | dict[str, Any]
"""A target, its text, or its fields."""


def as_target(target: TargetLike) -> Target:
    """A Target from what describes one."""
    return target if isinstance(target, Target) else Target(target)


def target_fields(target: TargetLike) -> dict[str, Any]:
    """The fields of a target that a record must agree on, as plain JSON values in sorted order."""
    exported = target if isinstance(target, dict) else as_target(target).export()
    plain = json.loads(json.dumps(exported, default=str))
    return {
        name: plain[name]
        for name in sorted(plain)
        if name not in _NAMES_ONLY and plain[name] not in (None, [], "")
    }


def target_key(target: TargetLike) -> str:
    """A short stable key: equal for targets whose records may stand in for each other."""
    return _digest(json.dumps(target_fields(target), sort_keys=True))


@lru_cache(maxsize=1024)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def target_differences(wanted: TargetLike, found: TargetLike) -> list[tuple[str, Any, Any]]:
    """The fields in which two targets differ, as (field, value wanted, value found); None stands for "not set"."""
    a, b = target_fields(wanted), target_fields(found)
    return [
        (name, a.get(name), b.get(name)) for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)
    ]
