"""How targets are described: strings of options, JSON, dicts and tags, and what their values may be."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from ..error import did_you_mean
from .cuda_device import cuda_attributes
from .error import TargetError
from .gpu_facts import architecture_number
from .host import host_info
from .kind import CUDA_KINDS, TargetKind, get_kind, list_kinds, unknown_kind
from .tag import find_tag, list_tags


def config_of(target: Any) -> dict[str, Any]:
    """The dict that a description stands for: a string of options, JSON text, a tag, or a dict.

    Raises:
        TargetError: it cannot be read, or names a kind, a tag or an option that is not there.
    """
    if isinstance(target, Mapping):
        return _config_of_mapping(target)
    if not isinstance(target, str):
        raise TargetError(f"a target is a string, a dict or a Target, got {type(target).__name__}")
    text = target.strip()
    if text.startswith("{"):
        try:
            return _config_of_mapping(json.loads(text))
        except ValueError as error:
            raise TargetError(f"the target's JSON cannot be read: {error}") from error
    tagged = find_tag(text)
    if tagged is not None:
        return {**tagged, "tag": text}
    return _config_of_text(text)


def _config_of_mapping(config: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(config)
    tag = found.get("tag")
    if "kind" not in found:
        tagged = find_tag(str(tag)) if tag else None
        if tagged is None:
            raise TargetError(
                f'a target given as a dict needs the key "kind" (such as "llvm"), got {sorted(found)}'
            )
        found = {**tagged, **found}
    if found["kind"] == "cpu":
        found = {**_host_config(), **{key: value for key, value in found.items() if key != "kind"}}
    return found


def _host_config() -> dict[str, Any]:
    host = host_info()
    return {"kind": "llvm", "mcpu": host.cpu, "num-cores": host.cores}


def _config_of_text(text: str) -> dict[str, Any]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"the target {text!r} cannot be read: {error}") from error
    if not words:
        raise TargetError("the target is an empty string; expected for example 'cpu' or 'llvm -mcpu=znver4'")
    if "/" in words[0]:
        raise _no_tag(words[0])
    config = _config_of_mapping({"kind": words[0]})
    if config["kind"] not in list_kinds():
        raise _no_kind(words[0])
    kind = get_kind(config["kind"])
    position = 1
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-"):
            raise TargetError(
                f"cannot read {word!r} in target {text!r}; options start with - as in -mcpu=znver4"
            )
        name, given, value = word.lstrip("-").partition("=")
        spec = kind.option(name)
        if not given:
            following = words[position] if position < len(words) else None
            takes_next = following is not None and (
                not following.startswith("-") or (spec.type in (int, float) and following[1:2].isdigit())
            )
            if spec.type is bool and not (takes_next and following in ("0", "1", "true", "false")):
                value = "1"
            elif takes_next:
                value = str(following)
                position += 1
            else:
                raise TargetError(f"option -{name} of target {text!r} needs a value")
        config[name] = value
    return config


def _no_tag(name: str) -> TargetError:
    """What is wrong with a name that only a tag could have, or with options behind it."""
    if find_tag(name) is not None:
        return TargetError(
            f"the target tag {name!r} stands alone; with other options write a dict, such as"
            f" Target({{'tag': {name!r}, 'max_threads_per_block': 512}})"
        )
    return TargetError(
        f"unknown target tag {name!r}{did_you_mean(name, list_tags())}; ir.target.list_tags() has all of them"
    )


def _no_kind(name: str) -> TargetError:
    """What is wrong with a word that is no kind: a card without its maker, or a device."""
    word, colon, number = name.lower().partition(":")
    if colon and word in ("cpu", *list_kinds()):
        which = (
            f"; one of several is told by -from_device={number}"
            if word == "cuda" and number.isdigit()
            else ""
        )
        return TargetError(
            f"a target is what code is made for, and {name!r} is a device; write {word!r}{which}"
        )
    tags = [tag for tag in list_tags() if tag.rpartition("/")[2] == word]
    if tags:
        return TargetError(f"{name!r} is no target; did you mean {' or '.join(map(repr, tags))}?")
    return unknown_kind(name)


def checked(config: dict[str, Any]) -> tuple[TargetKind, str, tuple[str, ...], dict[str, Any]]:
    """Kind, tag, keys and options of a configuration, with what the device tells where it says nothing.

    Raises:
        TargetError: an option is not the kind's, or its value is not acceptable.
    """
    values = dict(config)
    kind = get_kind(str(values.pop("kind")))
    tag = str(values.pop("tag", "") or "")
    keys = values.pop("keys", None)
    given = None if keys is None else _value_of(kind, "keys", keys)
    attrs = {name: _value_of(kind, name, value) for name, value in values.items() if value is not None}
    if kind.name == "cuda" and "arch" not in attrs:
        attrs = {**(cuda_attributes(int(attrs.get("from_device", 0))) or {"arch": "sm_80"}), **attrs}
    if kind.name in CUDA_KINDS and "arch" in attrs:
        architecture_number(attrs["arch"])
    attrs.pop("from_device", None)
    ordered: list[str] = []
    if given is None and "device" in attrs:
        ordered.append(attrs["device"])
    for key in [*(given or ()), *(kind.default_keys if given is None else ())]:
        if key not in ordered:
            ordered.append(key)
    return kind, tag, tuple(ordered), {name: attrs[name] for name in sorted(attrs)}


def _value_of(kind: TargetKind, name: str, value: Any) -> Any:
    spec = kind.option(name)
    if spec.type is object:
        return value
    try:
        if spec.type is bool:
            if isinstance(value, str):
                return {"1": True, "true": True, "0": False, "false": False}[value.lower()]
            return bool(value)
        if spec.type is list:
            items = value.split(",") if isinstance(value, str) else list(value)
            return tuple(str(item).strip() for item in items if str(item).strip())
        if spec.type is str and not isinstance(value, str):
            raise TypeError
        if spec.type is int and isinstance(value, float | bool):
            raise TypeError
        found = spec.type(getattr(value, "value", value))
    except (KeyError, TypeError, ValueError):
        raise TargetError(
            f"option -{name} of target kind {kind.name!r} takes {spec.type.__name__}, got {value!r}"
        ) from None
    if spec.type is int and found < spec.minimum:
        raise TargetError(
            f"option -{name} of target kind {kind.name!r} must be at least {spec.minimum}, got {found};"
            " leave it out for what the device has"
        )
    if spec.maximum is not None and found > spec.maximum:
        raise TargetError(
            f"option -{name} of target kind {kind.name!r} must be at most {spec.maximum}, got {found}"
        )
    return found


def option_text(value: Any) -> str:
    """The value of an option as a string of options has it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return shlex.quote(",".join(value))
    return shlex.quote(str(value))
