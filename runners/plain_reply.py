"""Answers of confined workers as plain data: whoever has taken such a worker over can make its answer wrong, and nothing else.

A pickle runs what it says while it is read. An answer in JSON names one of a few kinds of values, whose fields are checked against the
types of the class.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import socket
import types
from collections.abc import Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from typing import Any, Union, get_args, get_origin, get_type_hints

from .candidate import BuildReport, PackedBuild, RunReport
from .error import WorkerError
from .result import ResultKind
from .worker import HEADER, PHASE, RAISED, RETURNED, receive_bytes

_CLASSES = {item.__name__: item for item in (BuildReport, PackedBuild, RunReport)}
_MOST_TEXT = 20_000
"""Characters of a message that are passed on."""
_MOST_DEPTH = 8


class ReplyError(WorkerError):
    """An answer is none that a worker gives."""


def encoded(message: Sequence[Any]) -> bytes:
    """The answer of a worker as bytes.

    Raises:
        TypeError: there is a value in it that is not plain.
    """
    return json.dumps([_plain(item) for item in message], separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {"map": [[str(key), _plain(item)] for key, item in value.items()]}
    if type(value).__name__ in _CLASSES and type(value) is _CLASSES[type(value).__name__]:
        fields = {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
        return {type(value).__name__: fields}
    raise TypeError(f"a {type(value).__name__} is no plain data")


def receive(connection: socket.socket, most_bytes: int) -> tuple[Any, ...]:
    """Wait for an answer.

    Raises:
        EOFError: the worker is gone.
        ReplyError: what came is no answer.
    """
    (size,) = HEADER.unpack(receive_bytes(connection, HEADER.size))
    if size > most_bytes:
        raise ReplyError(f"a worker answers {size} bytes, more than {most_bytes}")
    return decoded(receive_bytes(connection, size))


def decoded(data: bytes) -> tuple[Any, ...]:
    """What :func:`encoded` was given, lists for tuples.

    Raises:
        ReplyError: it was given something else.
    """
    try:
        message = json.loads(data)
        kind, *values = message
        if kind == PHASE:
            name, limit, notice = values
            return (
                PHASE,
                _text(name),
                None if limit is None else _seconds(limit),
                None if notice is None else _text(notice),
            )
        if kind == RETURNED:
            (value,) = values
            return RETURNED, _value(value, _MOST_DEPTH)
        if kind == RAISED:
            error, text, trace = values
            return RAISED, _text(error), _text(text), _text(trace)
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as error:
        raise ReplyError(f"a worker's answer cannot be read: {str(error)[:200]}") from error
    raise ReplyError("a worker's answer is of no known kind")


def _text(value: Any) -> str:
    """A text for people: what could steer a terminal is not passed on."""
    if not isinstance(value, str):
        raise TypeError(f"a text is needed, not a {type(value).__name__}")
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in value[:_MOST_TEXT])


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e9:
        raise ValueError("a limit is a number of seconds")
    return float(value)


def _value(value: Any, depth: int) -> Any:
    if not depth:
        raise ValueError("an answer is nested too deeply")
    if isinstance(value, list):
        return [_value(item, depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag == "bytes":
        return base64.b64decode(content, validate=True)
    if tag == "map":
        return {str(key): _value(item, depth - 1) for key, item in content}
    cls = _CLASSES[tag]
    if not isinstance(content, dict):
        raise TypeError("the fields of a value have names")
    types_of_fields = _fields(cls)
    given = {name: _fitting(_value(item, depth - 1), types_of_fields[name]) for name, item in content.items()}
    return cls(**given)


@cache
def _fields(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _fitting(value: Any, wanted: Any) -> Any:
    """A value of a type as annotations write it.

    Raises:
        TypeError: it is of another one.
    """
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, types.UnionType):
        for choice in inner:
            try:
                return _fitting(value, choice)
            except (TypeError, ValueError):
                continue
    elif origin is tuple and isinstance(value, list):
        return tuple(_fitting(item, inner[0]) for item in value)
    elif origin is dict and isinstance(value, dict):
        return {key: _fitting(item, inner[1]) for key, item in value.items()}
    elif wanted is ResultKind:
        return ResultKind(value)
    elif wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif wanted is type(None) and value is None:
        return None
    elif wanted is str and isinstance(value, str):
        return _text(value)
    elif isinstance(wanted, type) and type(value) is wanted:
        return value
    raise TypeError(f"a {type(value).__name__} is no {getattr(wanted, '__name__', wanted)}")
