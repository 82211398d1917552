"""When two targets count as the same for a record: all of their fields, the tag that merely names them excepted.

A target that names no processor, or this one without a number of cores, stands for this machine: code is generated for what is found.
Records tell what that was, so that they are found by every spelling of it here, and on no machine with another processor.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any

from ir.target import Target
from ir.target.host import available_cores, host_info

from .fingerprint import hardware_fingerprint

_NAMES_ONLY = ("tag", "host")
"""Fields that do not change what runs: a tag is a name; code of the host side is not what was measured."""


TargetLike = Target | str | dict[str, Any]
"""A target, its text, or its fields."""


def as_target(target: TargetLike) -> Target:
    """A Target from what describes one."""
    if isinstance(target, dict):
        try:
            return _target_of_fields(json.dumps(target))
        except TypeError:  # fields that are no plain values, such as a host that is a Target
            return Target(target)
    return target if isinstance(target, Target) else Target(target)


@lru_cache(maxsize=1024)
def _target_of_fields(text: str) -> Target:
    """A stored target; a million records have a few of them."""
    return Target(json.loads(text))


def explicit_target(target: TargetLike, cores: int | None = None) -> Target:
    """A target with the processor and the number of cores that it leaves to this machine; others as they are.

    >>> explicit_target("llvm") == explicit_target("cpu") == Target("cpu")
    True
    >>> explicit_target("llvm -mcpu=x86-64-v2").attrs
    {'mcpu': 'x86-64-v2'}

    Args:
        target: what is named.
        cores: how many this machine had when the target was used; those that this process may use by default.
    """
    found = as_target(target)
    attrs = found.attrs
    if found.kind_name != "llvm" or attrs.get("mtriple") or (found.mcpu and attrs.get("num-cores")):
        return found
    host = host_info().cpu
    if found.mcpu not in ("", host):
        return found
    here = {"mcpu": host, "num-cores": cores or available_cores()}
    return found.replace(attrs={**here, **{name: value for name, value in attrs.items() if value}})


def recorded_target(target: TargetLike, fingerprint: dict[str, Any] | None) -> Target:
    """What a record that was measured for a target says of it: see :func:`explicit_target`.

    Args:
        target: what it was measured for.
        fingerprint: of the machine that measured it; None for this one. Another machine's target stays as it is: its processor is not
            known by the name that code is generated for.
    """
    here = hardware_fingerprint()
    if fingerprint is None or fingerprint == here:
        return explicit_target(target)
    if {**fingerprint, "cores": None} == {**here, "cores": None}:
        return explicit_target(target, fingerprint.get("cores"))
    return as_target(target)


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
    """A short stable key of what a target stands for here: equal for targets whose records may stand in for each other."""
    return recorded_key(explicit_target(target))


def recorded_key(target: TargetLike) -> str:
    """The key of the target that a record tells, which may be another machine's."""
    return _key_of_target(target) if isinstance(target, Target) else _key_of_fields(target)


@lru_cache(maxsize=1024)
def _key_of_target(target: Target) -> str:
    return _key_of_fields(target)


def _key_of_fields(target: TargetLike) -> str:
    return _digest(json.dumps(target_fields(target), sort_keys=True))


def spellings(target: TargetLike) -> list[str]:
    """The keys under which versions that kept targets as they were written may have records of this one, today's first."""
    explicit = explicit_target(target)
    is_host = explicit.kind_name == "llvm" and not explicit.attrs.get("mtriple")
    if not is_host or explicit.mcpu != host_info().cpu:
        return [recorded_key(explicit)]
    fields = target_fields(explicit)
    left_out: list[tuple[str, ...]] = [(), ("mcpu",), ("num-cores",), ("mcpu", "num-cores")]
    shorter = [{name: fields[name] for name in fields if name not in names} for names in left_out]
    return [recorded_key(item) for item in shorter]


@lru_cache(maxsize=1024)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def target_differences(wanted: TargetLike, found: TargetLike) -> list[tuple[str, Any, Any]]:
    """The fields in which two targets differ, as (field, value wanted, value found); None stands for "not set"."""
    a, b = target_fields(wanted), target_fields(found)
    return [
        (name, a.get(name), b.get(name)) for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)
    ]
