"""Struct infos in scripts: ``R.Tensor(("n", 4), "float32")`` and its relatives, with symbolic extents given as strings.

A call without strings gives the struct info itself. With strings it gives a :class:`Deferred`, which the parser resolves
against the symbolic variables of the function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ...error import IRTypeError
from ...expr import RelaxExpr
from ...global_info import VDevice
from ...relax import struct_info as SI
from ...tir.expr import PrimExpr, Var
from .. import tir as T

Lookup = Callable[[str], Any]
"""From the name of a symbolic variable to the variable."""


class Deferred:
    """A struct info that waits for its symbolic variables."""

    def __init__(self, build: Callable[[Lookup], SI.StructInfo]) -> None:
        self._build = build

    def resolve(self, lookup: Lookup) -> SI.StructInfo:
        """The struct info."""
        return self._build(lookup)

    def as_struct_info(self, variables: Mapping[str, Any] | None = None) -> SI.StructInfo:
        """The struct info, with given variables; others are made new."""
        made: dict[str, Any] = dict(variables or {})
        return self.resolve(lambda name: made.setdefault(name, Var(name, "int64")))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Any, tuple[str, ...]]:
    tree = ast.parse(text.strip(), mode="eval")
    names = tuple(dict.fromkeys(item.id for item in ast.walk(tree) if isinstance(item, ast.Name)))
    return compile(tree, "<shape>", "eval"), names


def evaluate_text(text: str, lookup: Lookup) -> Any:
    """The value of a shape expression such as ``"n * 2"``."""
    try:
        code, names = _parsed(text)
    except SyntaxError as error:
        raise IRTypeError(f"the symbolic extent {text!r} is no expression: {error.msg}") from None
    values = {name: T if name == "T" else lookup(name) for name in names}
    return eval(code, {"__builtins__": {}}, values)


def resolved(value: Any, lookup: Lookup) -> Any:
    """A struct info or extent with everything deferred in it made definite."""
    if isinstance(value, Deferred):
        return value.resolve(lookup)
    if isinstance(value, str):
        return evaluate_text(value, lookup)
    if isinstance(value, StructInfoFactory):
        return value()
    return value


def _is_deferred(value: Any) -> bool:
    return isinstance(value, str | Deferred)


class StructInfoFactory:
    """A kind of struct info in the namespace R: callable, and usable without a call as annotation."""

    def __init__(self, name: str, make: Callable[..., Any]) -> None:
        self.__name__ = name
        self._make = make
        self.__doc__ = make.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._make(*args, **kwargs)

    def __getitem__(self, keys: Any) -> Any:
        return self(*keys) if isinstance(keys, tuple) else self(keys)

    def __repr__(self) -> str:
        return f"R.{self.__name__}"


def as_struct_info(value: Any) -> Any:
    """A struct info (or deferred one) from what scripts write in its place."""
    if isinstance(value, StructInfoFactory):
        return value()
    if isinstance(value, SI.StructInfo | Deferred):
        return value
    if value is None or (isinstance(value, tuple) and not value):
        return SI.TupleStructInfo(())
    if isinstance(value, tuple | list):
        return _tuple(*value)
    raise IRTypeError(f'expected a struct info such as R.Tensor((2, 3), "float32"), got {value!r}')


def _dtype(dtype: Any) -> Any:
    return getattr(dtype, "dtype", dtype) if dtype is not None and not isinstance(dtype, str) else dtype


def _tensor(shape: Any = None, dtype: Any = None, vdevice: Any = None, ndim: int = -1) -> Any:
    """A tensor: its shape (extents or a shape value), dtype, virtual device, or only its number of dimensions."""
    if isinstance(shape, str) and dtype is None:
        dtype, shape = shape, None
    dtype = _dtype(dtype)
    if shape is not None and not isinstance(shape, tuple | list | RelaxExpr):
        raise IRTypeError(f"R.Tensor: the shape must be a tuple or list of extents, got {shape!r}")
    vdevice = resolve_vdevice(vdevice)
    if isinstance(shape, tuple | list) and any(_is_deferred(item) for item in shape):
        items = tuple(shape)
        return Deferred(
            lambda lookup: SI.TensorStructInfo(
                [resolved(item, lookup) for item in items], dtype, vdevice, ndim
            )
        )
    return SI.TensorStructInfo(shape, dtype, vdevice, ndim)


VDEVICE_LOOKUP: list[Callable[[str], Any]] = []
"""How ``"llvm:0"`` is resolved while a module is read, innermost last."""


def resolve_vdevice(device: Any) -> Any:
    """A virtual device from its reference in the module, ``"kind:index:scope"``."""
    if not isinstance(device, str):
        return device
    if VDEVICE_LOOKUP:
        return VDEVICE_LOOKUP[-1](device)
    kind, _, rest = device.partition(":")
    index, _, scope = rest.partition(":")
    return VDevice(kind, int(index or 0), scope or "global")


def _shape(values: Any = None, ndim: int = -1) -> Any:
    """A shape value."""
    if values is not None and any(_is_deferred(item) for item in values):
        items = tuple(values)
        return Deferred(lambda lookup: SI.ShapeStructInfo([resolved(item, lookup) for item in items]))
    return SI.ShapeStructInfo(values, ndim)


def _prim(dtype: Any = None, value: Any = None) -> Any:
    """A scalar, perhaps with a known value."""
    if isinstance(value, str):
        return Deferred(lambda lookup: SI.PrimStructInfo(_dtype(dtype), resolved(value, lookup)))
    if isinstance(dtype, PrimExpr):
        dtype, value = None, dtype
    return SI.PrimStructInfo(_dtype(dtype), value)


def _object() -> Any:
    """Any value."""
    return SI.ObjectStructInfo()


def _tuple(*fields: Any) -> Any:
    """A tuple of values."""
    if len(fields) == 1 and isinstance(fields[0], list | tuple):
        fields = tuple(fields[0])
    items = [as_struct_info(item) for item in fields]
    if any(isinstance(item, Deferred) for item in items):
        return Deferred(lambda lookup: SI.TupleStructInfo([resolved(item, lookup) for item in items]))
    return SI.TupleStructInfo(items)


def _callable(
    params: Any = None, ret: Any = None, purity: bool | None = None, derive_func: Any = None
) -> Any:
    """A function: parameters and result, or an opaque one when no parameters are given."""
    if params is None:
        result = None if ret is None else as_struct_info(ret)
        pure = bool(purity)

        def opaque(lookup: Lookup) -> SI.StructInfo:
            found = None if result is None else resolved(result, lookup)
            return SI.FuncStructInfo.opaque_func(ret=found, derive_func=derive_func, purity=pure)

        return Deferred(opaque) if isinstance(result, Deferred) else opaque(lambda name: name)
    items = [as_struct_info(item) for item in (params if isinstance(params, list | tuple) else [params])]
    result = SI.ObjectStructInfo() if ret is None else as_struct_info(ret)
    pure = True if purity is None else bool(purity)
    if any(isinstance(item, Deferred) for item in (*items, result)):

        def build(lookup: Lookup) -> SI.StructInfo:
            # Symbolic variables of a function type are its own.
            own: dict[str, Any] = {}

            def inner(name: str) -> Any:
                return own.setdefault(name, Var(name, "int64"))

            return SI.FuncStructInfo([resolved(item, inner) for item in items], resolved(result, inner), pure)

        return Deferred(build)
    return SI.FuncStructInfo(items, result, pure)


Tensor = StructInfoFactory("Tensor", _tensor)
Shape = StructInfoFactory("Shape", _shape)
Prim = StructInfoFactory("Prim", _prim)
Object = StructInfoFactory("Object", _object)
Tuple = StructInfoFactory("Tuple", _tuple)
Callable_ = StructInfoFactory("Callable", _callable)
