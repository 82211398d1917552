"""Structural equality and hashing of programs: equal up to the names of the variables that they define.

Both walk the declared fields of nodes. A variable met where it is defined is paired with its counterpart; a free
variable equals only itself, unless ``map_free_vars`` asks to pair those too; a free buffer equals those that say the same of the
same memory. Hashes are stable across processes.

A variable is one variable wherever it stands, and pairs with one other: two loops over one variable equal two loops over one
variable, not two loops over two (``ConvertSSA`` makes the first the second). Which objects a program shares makes no difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import dtype as dt
from .error import IRValueError
from .node import Node

_PLANS: dict[type, tuple[tuple[str, bool], ...]] = {}
_HOOKED: set[type] = set()
"""Classes that compare and hash themselves, by ``_structural_equal`` and ``_structural_hash``."""


def _plan(cls: Any) -> tuple[tuple[str, bool], ...]:
    """(name, whether it defines variables) of the compared fields, in the order of ``_compare_order`` where a class has one.

    Made once per class: walks ask for every node.
    """
    found = _PLANS.get(cls)
    if found is None:
        fields = {item.name: item for item in cls._fields if item.compare and item.derived is None}
        order = getattr(cls, "_compare_order", tuple(fields))
        found = _PLANS[cls] = tuple((name, fields[name].defines) for name in order)
        if hasattr(cls, "_structural_hash"):
            _HOOKED.add(cls)
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
        self._renamed = False
        """Whether a variable has been paired with another than itself."""
        self._skipped: list[Any] = []
        """What is one object on both sides and was not looked into; its variables are paired with themselves."""
        # Pairs that were found equal stay so, because pairs of variables are only ever added: shared parts are compared once.
        self._equal: dict[tuple[int, int, bool], tuple[Any, Any]] = {}

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
                if a is not b and not a.compared_by_content:
                    raise _Mismatch(path, a, b)
                if a is b:
                    # Recorded, so that no other variable pairs with this one.
                    self._pairs[id(a)], self._back[id(b)] = b, a
                    return
            if a is not b and not self._renamed:
                self._renamed = True
                self._pair_skipped()
                if id(a) in self._pairs or id(b) in self._back:
                    raise _Mismatch(path, a, b)
            self._pairs[id(a)], self._back[id(b)] = b, a
        elif a is b and not self._renamed:
            self._skipped.append(a)
            return
        found = (id(a), id(b), defining)
        if found in self._equal:
            return
        cls = a.__class__
        plan = _PLANS.get(cls) or _plan(cls)
        if cls in _HOOKED:
            a._structural_equal(
                b,
                lambda x, y, name: self.check(x, y, (path, "." + name), defining),
                lambda: _fail(path, a, b),
            )
            return
        # What a buffer holds is defined where the buffer is, and mentioned where it is mentioned.
        defines_fields = defining or self._map_free or not a.is_variable
        for name, defines in plan:
            x, y = getattr(a, name), getattr(b, name)
            kind = x.__class__
            if kind is str or kind is int:
                # By far the most values: dtypes, lanes, constants.
                if x == y and y.__class__ is kind:
                    continue
            elif x is y and x is None:
                continue
            self.check(x, y, (path, name), defining or (defines and defines_fields))
        self._equal[found] = (a, b)  # kept, so that no other node takes their identities

    def _pair_skipped(self) -> None:
        """Pair the variables of what was skipped with themselves."""
        seen: set[int] = set()

        def look(value: Any) -> None:
            if isinstance(value, tuple | list):
                for item in value:
                    look(item)
            elif isinstance(value, dict):
                for key, item in value.items():
                    look(key)
                    look(item)
            elif isinstance(value, Node) and id(value) not in seen:
                seen.add(id(value))
                if value.is_variable:
                    self._pairs[id(value)] = self._back[id(value)] = value
                plan = _plan(type(value))
                if type(value) in _HOOKED:
                    value._structural_hash(look)  # type: ignore[attr-defined]
                else:
                    for name, _ in plan:
                        look(getattr(value, name))

        look(self._skipped)


class StructuralMatcher(_Equality):
    """Matches patterns with programs: equality in which some of the pattern's variables stand for any value.

    What one call of :meth:`match` has learnt (which variables and buffers correspond) holds for the next ones.

    Args:
        symbols: the variables of the pattern that stand for any value.
    """

    def __init__(self, symbols: Iterable[Node]) -> None:
        super().__init__(map_free_vars=True)
        self._renamed = True  # so that nothing is skipped: a symbol in it would have no counterpart
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


def array_key(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    """What arrays with equal contents have in common, hashable: the dtype's own name, for numpy's codes tell no narrow ones apart."""
    return (dt.from_numpy(array.dtype), array.shape, array.tobytes())


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
    """Numbers the distinct values of a program: equal values get one number, whether they are one object or many.

    A value is keyed by its class and the numbers of its parts, so that each object is looked at once and the size of what is
    hashed in the end is that of the program as a graph.
    """

    def __init__(self) -> None:
        self.keys: dict[tuple[Any, ...], int] = {}
        self._numbers: dict[int, int] = {}
        self._keep: list[Any] = []
        self._variables = 0

    def part(self, value: Any) -> Any:
        """What stands for a value in the key of the one that holds it: a number, or a plain value's tagged text."""
        cls = value.__class__
        if cls is str:
            return "s" + value
        if cls is int:
            return f"i{value}"
        if cls in _PLANS or isinstance(value, Node):
            found = self._numbers.get(id(value))
            return self._node(value) if found is None else found
        if value is None:
            return "n"
        if isinstance(value, tuple | list):
            return self._number(("(", *[self.part(item) for item in value]))
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, np.ndarray):
            digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).hexdigest()
            return f"a{value.dtype}{value.shape}{digest}"
        return f"{cls.__name__}:{value!r}"

    def _number(self, key: tuple[Any, ...]) -> int:
        return self.keys.setdefault(key, len(self.keys))

    def _dict(self, value: dict[Any, Any]) -> int:
        parts: list[Any] = ["{"]
        if any(isinstance(key, Node) for key in value):
            # Maps over variables are in the order in which the variables were mentioned: that of the parameters.
            known, last = self._numbers, len(self.keys)
            for key in sorted(value, key=lambda key: known.get(id(key), last)):
                parts += [self.part(key), self.part(value[key])]
        else:
            for key in sorted(value, key=str):
                parts += [str(key), self.part(value[key])]
        return self._number(tuple(parts))

    def _node(self, node: Any) -> int:
        cls = node.__class__
        plan = _PLANS.get(cls)
        if plan is None:
            plan = _plan(cls)
        key: list[Any] = [cls._type_key]
        add = key.append
        if cls.is_variable:  # told from others of the same fields by its place in the order of first mentions
            add(f"%{self._variables}")
            self._variables += 1
        if cls in _HOOKED:
            node._structural_hash(lambda value: add(self.part(value)))
        else:
            numbers = self._numbers
            for name, _ in plan:
                value = getattr(node, name)
                kind = value.__class__
                if kind is str:  # the most frequent ones without a call
                    add("s" + value)
                elif kind is int:
                    add(f"i{value}")
                elif kind in _PLANS:
                    number = numbers.get(id(value))
                    add(self._node(value) if number is None else number)
                else:
                    add(self.part(value))
        keys = self.keys
        found = self._numbers[id(node)] = keys.setdefault(tuple(key), len(keys))
        self._keep.append(node)
        return found


def structural_hash(node: Any) -> int:
    """A 64-bit hash, the same in every process, that is equal for structurally equal programs.

    Free variables count by where they occur, so that it suits both ways of comparing them: programs that are equal when free
    variables are paired have one hash too.
    """
    hasher = _Hasher()
    root = hasher.part(node)
    digest = hashlib.blake2b(repr((root, *hasher.keys)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
