"""Structural equality and hashing of programs: equal up to the names of the variables that they define.

Both walk the declared fields of nodes. A variable met where it is defined is paired with its counterpart; a free
variable equals only itself, unless ``map_free_vars`` asks to pair those too. Hashes are stable across processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from .error import IRValueError
from .node import Node

_PLANS: dict[type, tuple[tuple[str, bool], ...]] = {}


def _plan(cls: Any) -> tuple[tuple[str, bool], ...]:
    """(name, whether it defines variables) of the compared fields, in the order of ``_compare_order`` where a class has one.

    Made once per class: walks ask for every node.
    """
    found = _PLANS.get(cls)
    if found is None:
        fields = {item.name: item for item in cls._fields if item.compare and item.derived is None}
        order = getattr(cls, "_compare_order", tuple(fields))
        found = _PLANS[cls] = tuple((name, fields[name].defines) for name in order)
    return found


class _Mismatch(Exception):
    """Carries the path from the root to the first difference: nested (parent, step) pairs, rendered on demand."""

    def __init__(self, path: Any, lhs: Any, rhs: Any) -> None:
        super().__init__("structural mismatch")
        self.path, self.lhs, self.rhs = path, lhs, rhs


def _render_path(path: Any) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(
            f"[{step}]" if isinstance(step, int) else step if step.startswith((".", "<")) else f".{step}"
        )
    return "".join(reversed(steps))


class _Equality:
    def __init__(self, map_free_vars: bool) -> None:
        self._pairs: dict[int, Any] = {}
        self._back: dict[int, Any] = {}
        self._map_free = map_free_vars

    def check(self, a: Any, b: Any, path: Any, defining: bool = False) -> None:
        if isinstance(a, Node):
            if not isinstance(b, Node) or type(a) is not type(b):
                raise _Mismatch(path, a, b)
            self._check_node(a, b, path, defining)
        elif isinstance(a, tuple | list):
            if not isinstance(b, tuple | list) or len(a) != len(b):
                raise _Mismatch(path, a, b)
            for index, (x, y) in enumerate(zip(a, b, strict=True)):
                self.check(x, y, (path, index), defining)
        elif isinstance(a, dict):
            self._check_dict(a, b, path, defining)
        elif isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)) or not _equal_arrays(a, b):
                raise _Mismatch(path, a, b)
        elif a is not b and not _equal_values(a, b):
            raise _Mismatch(path, a, b)

    def _check_dict(self, a: dict[Any, Any], b: Any, path: Any, defining: bool) -> None:
        if not isinstance(b, dict) or len(a) != len(b):
            raise _Mismatch(path, a, b)
        for key, value in a.items():
            other = self._pairs.get(id(key), key) if isinstance(key, Node) else key
            if other not in b:
                raise _Mismatch((path, str(getattr(key, "name", key))), value, None)
            self.check(value, b[other], (path, str(getattr(key, "name", key))), defining)

    def _check_node(self, a: Any, b: Any, path: Any, defining: bool) -> None:
        if a.is_variable:
            if id(a) in self._pairs or id(b) in self._back:
                if self._pairs.get(id(a)) is not b:
                    raise _Mismatch(path, a, b)
                return
            if not (defining or self._map_free):
                if not a.compared_by_content:
                    if a is b:
                        return
                    raise _Mismatch(path, a, b)
                if a is b:
                    # Recorded, so that no other buffer pairs with this one.
                    self._pairs[id(a)], self._back[id(b)] = b, a
                    return
            self._pairs[id(a)], self._back[id(b)] = b, a
        elif a is b and not self._pairs:
            return
        cls = a.__class__
        if hasattr(cls, "_structural_equal"):
            a._structural_equal(
                b,
                lambda x, y, name: self.check(x, y, (path, "." + name), defining),
                lambda: _fail(path, a, b),
            )
            return
        for name, defines in _plan(cls):
            x, y = getattr(a, name), getattr(b, name)
            kind = x.__class__
            if kind is str or kind is int:
                # By far the most values: dtypes, lanes, constants.
                if x == y and y.__class__ is kind:
                    continue
            elif x is y and x is None:
                continue
            self.check(x, y, (path, name), defining or defines)


class StructuralMatcher(_Equality):
    """Matches patterns with programs: equality in which some of the pattern's variables stand for any value.

    What one call of :meth:`match` has learnt (which variables and buffers correspond) holds for the next ones.

    Args:
        symbols: the variables of the pattern that stand for any value.
    """

    def __init__(self, symbols: Iterable[Node]) -> None:
        super().__init__(map_free_vars=True)
        self._symbols = {id(symbol) for symbol in symbols}
        self._values: dict[int, Any] = {}

    def match(self, pattern: Any, value: Any) -> bool:
        """Whether a value is what the pattern says."""
        try:
            self.check(pattern, value, (None, "<root>"))
        except _Mismatch:
            return False
        return True

    def counterpart(self, node: Node) -> Any:
        """What a symbol, variable or buffer of the pattern was matched with; None if nothing."""
        return self._values.get(id(node), self._pairs.get(id(node)))

    def check(self, a: Any, b: Any, path: Any, defining: bool = False) -> None:
        """As for equality; a symbol takes what it meets first and equals that from then on."""
        if id(a) not in self._symbols:
            super().check(a, b, path, defining)
        elif id(a) not in self._values:
            self._values[id(a)] = b
        elif not structural_equal(self._values[id(a)], b):
            raise _Mismatch(path, a, b)


def _fail(path: Any, a: Any, b: Any) -> None:
    raise _Mismatch(path, a, b)


def _equal_values(a: Any, b: Any) -> bool:
    """Plain values as hashing sees them: 1, 1.0 and True differ, 0.0 and -0.0 differ, NaN equals NaN."""
    if isinstance(a, float) and type(a) is type(b):
        return repr(a) == repr(b)
    return type(a) is type(b) and bool(a == b)


def _equal_arrays(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two nodes (or plain values) are equal up to the names of variables that they define.

    Args:
        lhs, rhs: nodes, or tuples, lists, dicts and plain values of them.
        map_free_vars: pair variables that neither side defines, instead of asking that they are the same object.
    """
    try:
        _Equality(map_free_vars).check(lhs, rhs, None)
    except _Mismatch:
        return False
    return True


def get_first_structural_mismatch(
    lhs: Any, rhs: Any, map_free_vars: bool = False
) -> tuple[str, Any, Any] | None:
    """The path to the first difference with both values there, or None when the programs are equal."""
    try:
        _Equality(map_free_vars).check(lhs, rhs, (None, "<root>"))
    except _Mismatch as mismatch:
        return (_render_path(mismatch.path), mismatch.lhs, mismatch.rhs)
    return None


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise IRValueError with the path to the first difference and both programs unless they are equal."""
    mismatch = get_first_structural_mismatch(lhs, rhs, map_free_vars)
    if mismatch is not None:
        path, a, b = mismatch
        raise IRValueError(
            f"structural mismatch at {path}:\n  lhs: {a!r}\n  rhs: {b!r}\nin lhs:\n{lhs!r}\nand rhs:\n{rhs!r}"
        )


class _Hasher:
    def __init__(self, map_free_vars: bool) -> None:
        self.tokens: list[str] = []
        self._numbers: dict[int, int] = {}
        self._keep: list[Any] = []

    def add(self, value: Any) -> None:
        cls = value.__class__
        if cls is str or cls is int or value is None:
            self.tokens.append(f"{cls.__name__}:{value!r}")
        elif isinstance(value, Node):
            self._add_node(value)
        elif isinstance(value, tuple | list):
            self.tokens.append(f"({len(value)}")
            for item in value:
                self.add(item)
        elif isinstance(value, dict):
            self._add_dict(value)
        elif isinstance(value, np.ndarray):
            digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).hexdigest()
            self.tokens.append(f"{value.dtype}{value.shape}{digest}")
        else:
            self.tokens.append(f"{cls.__name__}:{value!r}")

    def _add_dict(self, value: dict[Any, Any]) -> None:
        self.tokens.append(f"{{{len(value)}")
        if any(isinstance(key, Node) for key in value):
            for key, item in value.items():  # maps over variables keep the order of the parameters
                self.add(key)
                self.add(item)
        else:
            for key in sorted(value, key=str):
                self.tokens.append(str(key))
                self.add(value[key])

    def _add_node(self, node: Any) -> None:
        cls = node.__class__
        tokens = self.tokens
        if cls.is_variable:
            number = self._numbers.get(id(node))
            if number is not None:
                tokens.append(f"%{number}")
                return
            self._numbers[id(node)] = len(self._numbers)
            self._keep.append(node)
        tokens.append(cls._type_key)
        if hasattr(cls, "_structural_hash"):
            node._structural_hash(self.add)
            return
        for name, _ in _plan(cls):
            value = getattr(node, name)
            kind = value.__class__
            if kind is str or kind is int:
                tokens.append(f"{kind.__name__}:{value!r}")
            elif kind in _PLANS:
                self._add_node(value)
            else:
                self.add(value)


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A 64-bit hash, the same in every process, that is equal for structurally equal programs."""
    hasher = _Hasher(map_free_vars)
    hasher.add(node)
    digest = hashlib.blake2b("\0".join(hasher.tokens).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
