"""Programs as JSON: a list of nodes in which shared nodes stay shared, versioned, with arrays as base64.

Numbers that JSON does not have (infinities, NaN) are tagged text, so that strict readers take the result.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np

from . import dtype as dt
from .error import IRError, IRValueError
from .external import declare
from .node import TYPE_KEYS, Node
from .op import Op
from .span import SourceName, Span

FORMAT_VERSION = 1


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self._index: dict[int, int] = {}
        self._keep: list[Any] = []

    def encode(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"f": repr(float(value))}
        if isinstance(value, Node):
            return {"$": self._node(value)}
        if isinstance(value, tuple):
            return {"t": [self.encode(item) for item in value]}
        if isinstance(value, list):
            return [self.encode(item) for item in value]
        if isinstance(value, dict):
            return {"d": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if isinstance(value, np.ndarray):
            data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
            return {"nd": [dt.from_numpy(value.dtype), list(value.shape), data]}
        if isinstance(value, np.generic):
            return self.encode(value.item())
        if isinstance(value, bytes):
            return {"b": base64.b64encode(value).decode()}
        if isinstance(value, Span):
            return {
                "span": [value.source_name.name, value.line, value.end_line, value.column, value.end_column]
            }
        raise IRValueError(f"cannot save a {type(value).__name__} as JSON: {value!r}")

    def _node(self, node: Any) -> int:
        found = self._index.get(id(node))
        if found is not None:
            return found
        self._keep.append(node)
        fields = {}
        for item in node._fields:
            if item.derived is not None:
                continue
            value = getattr(node, item.name)
            if value is not None or item.default is not None:  # what is left out becomes the default
                fields[item.name] = self.encode(value)
        index = len(self.nodes)
        self.nodes.append([node._type_key, fields])
        self._index[id(node)] = index
        return index


def save_json(node: Any) -> str:
    """The program (a node, or tuples, lists and dicts of nodes) as JSON text."""
    writer = _Writer()
    root = writer.encode(node)
    return json.dumps(
        {"loopsmith_ir": FORMAT_VERSION, "root": root, "nodes": writer.nodes},
        separators=(",", ":"),
        allow_nan=False,
    )


class _Reader:
    def __init__(self, nodes: list[Any]) -> None:
        self._made: list[Any] = []
        for type_key, fields in nodes:
            self._made.append(
                self._make(type_key, {name: self.decode(value) for name, value in fields.items()})
            )

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((tag, content),) = value.items()
        if tag == "$":
            return self._made[content]
        if tag == "t":
            return tuple(self.decode(item) for item in content)
        if tag == "d":
            return {self.decode(key): self.decode(item) for key, item in content}
        if tag == "nd":
            dtype, shape, data = content
            return np.frombuffer(base64.b64decode(data), dtype=dt.to_numpy(dtype)).reshape(shape).copy()
        if tag == "f":
            return float(content)
        if tag == "b":
            return base64.b64decode(content)
        if tag == "span":
            return Span(SourceName(content[0]), *content[1:])
        raise IRValueError(f"unknown JSON tag {tag!r}; the text was written by a newer version")

    def _make(self, type_key: str, values: dict[str, Any]) -> Any:
        if type_key == "Op":
            return Op.get(values["name"])
        if type_key not in TYPE_KEYS:
            declare(type_key)
        cls = TYPE_KEYS.get(type_key)
        if cls is None:
            raise IRValueError(f"unknown node {type_key!r}; the text was written by a newer version")
        if hasattr(cls, "_from_json"):
            return cls._from_json(values)  # type: ignore[attr-defined]
        return cls(**values)


_MOST_TEXT = 500
"""Characters of what is said about a text that is no program."""


def load_json(text: str) -> Any:
    """The program that :func:`save_json` wrote; raises an IRError, mostly IRValueError, when the text is not one, however it was broken."""
    try:
        document = json.loads(text)
        version, root, nodes = document["loopsmith_ir"], document["root"], document["nodes"]
        is_newer = version > FORMAT_VERSION
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IRValueError(f"not a saved loopsmith program: {_short(error)}") from error
    if is_newer:
        raise IRValueError(
            f"the program has format {version}, this version reads up to {FORMAT_VERSION}; upgrade loopsmith"
        )
    try:
        return _Reader(nodes).decode(root)
    except IRError:
        raise
    except (
        Exception
    ) as error:  # constructors trust their arguments, and what a broken text makes them do is anything
        raise IRValueError(
            f"not a saved loopsmith program: {type(error).__name__}: {_short(error)}"
        ) from error


def _short(error: Exception) -> str:
    return str(error)[:_MOST_TEXT]
