"""Mutated ONNX files: random valid models of a few nodes, whose fields are changed anywhere, imported and turned into tasks."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

from experiments.fuzz.onnx_models import random_model
from tuner.model import load_model
from tuner.task import extract_tasks

from .children import Attempt
from .mutation import mutated_bytes

_MODELS = 400
"""How many models the mutations begin with."""
_SIZES = (0, 1, -1, 2, 3, 7, 2**15, 20_000, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -1.0, 1e30, float("inf"), float("nan"), 0.5, -0.0)


def mutated_model(rng: random.Random, message: Any) -> Any:
    """A message of protobuf with a few of its fields changed, wherever they are: numbers, names, counts of elements."""
    found = copy.deepcopy(message)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        holder, field = rng.choice(_places(found))
        _change(rng, found, holder, field)
    return found


def _places(message: Any) -> list[tuple[Any, Any]]:
    """All fields that are set, with the messages that hold them."""
    found, waiting = [], [message]
    while waiting:
        holder = waiting.pop()
        for field, value in holder.ListFields():
            found.append((holder, field))
            if field.message_type is not None:
                waiting += list(value) if field.is_repeated else [value]
    return found


def _change(rng: random.Random, root: Any, holder: Any, field: Any) -> None:
    value = getattr(holder, field.name)
    if field.is_repeated:
        _change_elements(rng, root, field, value)
    elif field.message_type is not None:
        holder.ClearField(field.name)
    else:
        setattr(holder, field.name, _other(rng, root, field, value))


def _change_elements(rng: random.Random, root: Any, field: Any, values: Any) -> None:
    kind, at = rng.randrange(5), rng.randrange(len(values))
    if kind == 0:
        del values[at]
    elif kind == 1 and len(values) > 1:
        del values[rng.randrange(len(values)) :]
    elif field.message_type is not None:
        if kind == 2:
            values.add().CopyFrom(rng.choice(values))
        elif len(values) > 1:
            kept = list(values)
            rng.shuffle(kept)
            copies = [copy.deepcopy(item) for item in kept]
            del values[:]
            values.extend(copies)
    elif kind == 2:
        values.append(rng.choice(values))
    else:
        values[at] = _other(rng, root, field, values[at])


def _other(rng: random.Random, root: Any, field: Any, value: Any) -> Any:
    """Another value of the field's type: for a name one that is used elsewhere, so that graphs are wired in other ways."""
    if isinstance(value, bytes):
        return mutated_bytes(rng, value)
    if isinstance(value, str):
        names = [text for node in root.graph.node for text in (*node.input, *node.output, node.op_type)]
        return rng.choice((*names, "", "x" * 300, "\x1b[2J[red]", value + value))
    if isinstance(value, float):
        return rng.choice(_FLOATS)
    if isinstance(value, bool):
        return not value
    chosen = rng.choice((*_SIZES, value + 1, value - 1, -value, 2 * value))
    if field.enum_type is not None:
        return rng.choice(field.enum_type.values).number
    if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32):
        return abs(chosen) % 2**20 if rng.random() < 0.1 else abs(chosen) % 40
    return max(-(2**63), min(chosen, 2**63 - 1))


def try_onnx(rng: random.Random, folder: Path) -> None:
    """A changed file: imported, and its kernels listed."""
    model = random_model(rng.randrange(_MODELS)).model
    if rng.random() < 0.1:
        data = mutated_bytes(rng, model.SerializeToString())
    else:
        data = mutated_model(rng, model).SerializeToString()
    path = folder / "model.onnx"
    path.write_bytes(data)
    loaded = load_model(path, None, [])
    extract_tasks(loaded.mod, "llvm -num-cores=2", loaded.params)


def _warm_up(folder: Path) -> None:
    """Import and list something with most operators."""
    for seed in range(20):
        path = folder / "model.onnx"
        path.write_bytes(random_model(seed).model.SerializeToString())
        loaded = load_model(path, None, [])
        extract_tasks(loaded.mod, "llvm -num-cores=2", loaded.params)


ATTEMPTS = {"onnx": Attempt(try_onnx, _warm_up)}
