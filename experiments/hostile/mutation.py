"""Changes of bytes, of JSON, of messages of protobuf and of built kernels: each is decided by a generator of random numbers alone."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ir.codegen.container import pack, unpack

_EDGES = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0xFFFFFFFF,
    0x7FFFFFFFFFFFFFFF,
    0xFFFFFFFFFFFFFFFF,
)
_NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    1,
    2**31,
    -(2**63),
    2**63,
    10**40,
    1e308,
    -0.0,
    float("inf"),
    float("nan"),
    0.5,
)
_TEXTS = (
    "", "a" * 5000, "../../etc/passwd", "\x00", "\u202e\x1b[2J", "%s%n{}", "0" * 64, "int32x1000000", "float1000000", "handle",
    "llvm -mcpu=none", "llvm -mtriple=x", "[" * 3000, '{"kind":"llvm"}', "\ud7ff\uffff", "cpu", "cuda",
)  # fmt: skip


def mutated_bytes(rng: random.Random, data: bytes, others: list[bytes] | None = None) -> bytes:
    """Bytes with a few changes."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at, length = rng.randint(0, len(found)), rng.choice((1, 1, 2, 4, 8, 64))
        kind = rng.randrange(7)
        if kind == 0 and found:
            found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del found[at : at + length]
        elif kind == 2:
            found[at:at] = rng.randbytes(length)
        elif kind == 3:
            edge = rng.choice(_EDGES).to_bytes(8, rng.choice(("little", "big")))
            found[at : at + length] = edge[: min(length, 8)]
        elif kind == 4:
            found[at:at] = found[at : at + 8 * length]
        elif kind == 5:
            del found[at:]
        elif others:
            other = rng.choice(others)
            begin = rng.randint(0, len(other))
            found[at : at + length] = other[begin : begin + 8 * length]
    return bytes(found)


def mutated_json(rng: random.Random, document: Any) -> Any:
    """A document of JSON with a few of its parts replaced, removed, doubled or exchanged."""
    found = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = _places(found)
        if not places:
            return _any_json(rng, [])
        holder, key = rng.choice(places)
        values = [owner[name] for owner, name in places]
        kind = rng.randrange(6)
        if kind == 0:
            holder[key] = _any_json(rng, values)
        elif kind == 1:
            del holder[key]
        elif kind == 2:
            holder[key] = copy.deepcopy(rng.choice(values))
        elif kind == 3 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = rng.choice(
                (holder[key] + 1, -holder[key], holder[key] * 2**40, rng.choice(_NUMBERS))
            )
        elif kind == 4 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(rng.choice(values)))
        else:
            holder[key] = rng.choice((None, True, [], {}, "", [holder[key]], {"t": [holder[key]]}))
    return found


def _places(document: Any) -> list[tuple[Any, Any]]:
    """All that can be replaced, as who holds it and where."""
    found: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        holder = waiting.pop()
        items = list(holder.items()) if isinstance(holder, dict) else list(enumerate(holder))
        for key, value in items:
            found.append((holder, key))
            if isinstance(value, dict | list):
                waiting.append(value)
    return found


def _any_json(rng: random.Random, values: list[Any]) -> Any:
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice(_NUMBERS)
    if kind == 1:
        return rng.choice(_TEXTS)
    if kind == 2:
        deep: Any = 0
        for _ in range(rng.choice((3, 200, 900))):
            deep = [deep] if rng.random() < 0.5 else {"t": [deep]}
        return deep
    if kind == 3:
        return {"nd": [rng.choice(("float32", "int8", "bool", "x")), [rng.choice(_NUMBERS[:7]), -1], "AAAA"]}
    return copy.deepcopy(rng.choice(values)) if values else None


def mutated_program(rng: random.Random, text: bytes) -> bytes:
    """The JSON of a program, changed as text or as a document."""
    if rng.random() < 0.3:
        return mutated_bytes(rng, text)
    return json.dumps(mutated_json(rng, json.loads(text))).encode()


def mutated_kernel(rng: random.Random, data: bytes) -> bytes:
    """A built kernel, changed as bytes, or in its parts with sizes and checksum that are right."""
    if rng.random() < 0.2:
        return mutated_bytes(rng, data)
    described, sections = unpack(data)
    place = rng.randrange(3)
    if place == 0:
        described = mutated_json(rng, described)
    elif place == 1:
        sections = [mutated_program(rng, sections[0]), *sections[1:]]
    else:
        inner, parts = unpack(sections[1])
        if rng.random() < 0.5:
            inner = mutated_json(rng, inner)
        else:
            parts = [mutated_bytes(rng, part) if rng.random() < 0.7 else part for part in parts]
        sections = [sections[0], _packed(inner, parts)]
    return _packed(described, sections)


def _packed(described: Any, sections: list[bytes]) -> bytes:
    try:
        return pack(described, sections)
    except ValueError:  # infinities, which JSON does not have
        return pack({}, sections)


def mutated_message(rng: random.Random, message: Message) -> bytes:
    """A message with a few of its fields changed, as bytes; sometimes these, too."""
    found = copy.deepcopy(message)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        _change_field(rng, found, 0)
    data: bytes = found.SerializeToString()
    return mutated_bytes(rng, data) if rng.random() < 0.4 else data


def _change_field(rng: random.Random, message: Message, depth: int) -> None:
    fields = list(message.DESCRIPTOR.fields)
    if not fields:
        return
    chosen = rng.choice(fields)
    try:
        _set_field(rng, message, chosen, depth)
    except (ValueError, TypeError, AttributeError, OverflowError):  # a value that the field cannot have
        message.ClearField(chosen.name)


def _set_field(rng: random.Random, message: Message, chosen: FieldDescriptor, depth: int) -> None:
    is_repeated = (
        isinstance(getattr(message, chosen.name), object)
        and hasattr(getattr(message, chosen.name), "__len__")
        and not isinstance(getattr(message, chosen.name), str | bytes)
    )
    if chosen.message_type is not None:
        if chosen.message_type.GetOptions().map_entry:
            message.ClearField(chosen.name)
        elif is_repeated:
            added = getattr(message, chosen.name).add()
            if depth < 3:
                _change_field(rng, added, depth + 1)
        else:
            _change_field(rng, getattr(message, chosen.name), depth + 1)
        return
    value = _value_of(rng, chosen)
    if is_repeated:
        getattr(message, chosen.name).extend([value] * rng.choice((1, 3, 500)))
    else:
        setattr(message, chosen.name, value)


def _value_of(rng: random.Random, chosen: FieldDescriptor) -> Any:
    if chosen.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        text = rng.choice(_TEXTS)
        return text.encode() if chosen.type == FieldDescriptor.TYPE_BYTES else text
    if chosen.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return float(rng.choice(_NUMBERS))
    if chosen.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    return rng.choice((0, 1, 2, 7, 2**31 - 1, 2**32 - 1, 2**63 - 1, -1, -(2**31)))
