"""The virtual machine's own functions, on raw values: arrays, tuples (shapes too), numbers.

Those that check arguments take a text as last argument that says what is checked, as VMShapeLower writes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .arguments import number_as
from .foreign import ARRAYS
from .ndarray import numpy_dtype
from .program import ArgumentError, ExecutableError

_CONTEXT = re.compile(
    r"ErrorContext\((?:fn=(?P<fn>\w*), loc=(?:param\[\d+\], param=(?P<param>.*?)|return), |match_cast, var=(?P<var>\S*), )?"
    r"(?:annotation|struct_info)=(?P<info>.*)\) $",
    re.DOTALL,
)


def _what(context: str) -> str:
    """The subject of an error's sentence."""
    found = _CONTEXT.match(context)
    if found is None:
        return context or "a value"
    if found["fn"] is None:
        place = "" if found["var"] is None else f"match_cast of {found['var']}: "
        return f"{place}a value of {found['info']}"
    subject = "the result" if found["param"] is None else f"argument {found['param']}"
    return f"{found['fn']}: {subject}"


def _tensor_checker(ndim: int, dtype: str, context: str = "") -> Callable[[Any], tuple[()]]:
    named = "" if dtype in ("", "void") else dtype
    kind = numpy_dtype(named) if named else None

    def fail(got: str) -> ArgumentError:
        extents = f" of {ndim} dimensions" if ndim >= 0 else ""
        return ArgumentError(
            f"{_what(context)} must be a {named}{' ' if named else ''}tensor{extents}, got {got}"
        )

    def check(value: Any) -> tuple[()]:
        if not isinstance(value, ARRAYS):
            raise fail(type(value).__name__)
        if kind is not None and value.dtype != kind:
            order = "" if value.dtype.isnative else f" of the other byte order ({value.dtype.str})"
            raise fail(f"one of {value.dtype.name}{order}; convert it with .astype({named!r})")
        if ndim not in (-1, value.ndim):
            raise fail(f"one of shape {list(value.shape)}")
        return ()

    return check


def _check_shape_info(value: Any, ndim: int, context: str = "") -> tuple[()]:
    wanted = "a shape" + (f" of {ndim} extents" if ndim >= 0 else "")
    if not isinstance(value, tuple) or not all(isinstance(item, int | np.integer) for item in value):
        raise ArgumentError(f"{_what(context)} must be {wanted}, got {type(value).__name__}")
    if ndim not in (-1, len(value)):
        raise ArgumentError(f"{_what(context)} must be {wanted}, got one of {len(value)} extents")
    return ()


def _check_tuple_info(value: Any, size: int, context: str = "") -> tuple[()]:
    if not isinstance(value, tuple) or len(value) != size:
        raise ArgumentError(f"{_what(context)} must be a tuple of {size} values, got {type(value).__name__}")
    return ()


def _check_prim_value_info(value: Any, dtype: str, context: str = "") -> tuple[()]:
    number_as(value, dtype, _what(context))
    return ()


def _check_func_info(value: Any, context: str = "") -> tuple[()]:
    if not callable(value) and not callable(getattr(value, "run", None)):
        raise ArgumentError(f"{_what(context)} must be a function, got {type(value).__name__}")
    return ()


# What match_shape does with an extent: compare it with a number, store it in the table, nothing, compare with the table.
_EQUALS_NUMBER, _STORE, _, _EQUALS_STORED = range(4)


def _shape_matcher(size: int, *codes_and_context: Any) -> Callable[[Any, Any], tuple[()]]:
    *codes, context = codes_and_context
    steps = [
        (axis, code, number)
        for axis, (code, number) in enumerate(zip(codes[::2], codes[1::2], strict=True))
        if code in (_EQUALS_NUMBER, _STORE, _EQUALS_STORED)
    ]

    def match(value: Any, heap: Any) -> tuple[()]:
        extents = value.shape if isinstance(value, ARRAYS) else value
        if len(extents) != size:
            raise ArgumentError(f"{_what(context)} must have {size} extents, got {list(extents)}")
        for axis, code, number in steps:
            extent = extents[axis]
            if code == _STORE:
                heap[number] = extent
                continue
            wanted = number if code == _EQUALS_NUMBER else heap.item(number)
            if extent != wanted:
                raise ArgumentError(
                    f"{_what(context)} must have extent {wanted} on axis {axis}, got {list(extents)}"
                )
        return ()

    return match


def _prim_value_matcher(code: int, number: int, context: str = "") -> Callable[[Any, Any], tuple[()]]:
    match = _shape_matcher(1, code, number, context)
    return lambda value, heap: match((int(number_as(value, "int64", _what(context))),), heap)


def _shape_maker(size: int, *codes: int) -> Callable[[Any], tuple[int, ...]]:
    pairs = list(zip(codes[::2], codes[1::2], strict=True))
    return lambda heap: tuple([heap.item(number) if loaded else number for loaded, number in pairs])


def _prim_value_maker(code: int, number: int) -> Callable[[Any], int]:
    make = _shape_maker(1, code, number)
    return lambda heap: make(heap)[0]


def _check_upper_bound(heap: Any, number: int, bound: int, context: str = "") -> tuple[()]:
    """Memory was planned for extents up to the bound."""
    if heap.item(number) > bound:
        raise ArgumentError(
            f"{context or 'an extent'} must be at most {bound} (tir_var_upper_bound), got {heap.item(number)}"
        )
    return ()


def _extent_checker(
    found_is_loaded: int, found: int, wanted_is_loaded: int, wanted: int, text: str = ""
) -> Callable[[Any], tuple[()]]:
    """Two numbers must be the same; the text says what they are."""

    def check(heap: Any) -> tuple[()]:
        a = heap.item(found) if found_is_loaded else found
        b = heap.item(wanted) if wanted_is_loaded else wanted
        if a != b:
            raise ArgumentError(text.format(a, b) if text else f"an extent must be {b}, got {a}")
        return ()

    return check


def _assert(condition: Any, message: Any = "", *values: Any) -> tuple[()]:
    if not bool(condition):
        text = str(message) or "assertion failed"
        raise ExecutableError(text.format(*values) if values else text)
    return ()


def _print(text: str, *values: Any) -> tuple[()]:
    shown = [value.tolist() if isinstance(value, ARRAYS) else value for value in values]
    print(text.format(*shown) if text else " ".join(map(str, shown)))
    return ()


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, ARRAYS) else value


BUILTINS: dict[str, Callable[..., Any]] = {
    "vm.builtin.shape_of": lambda value: value.shape,
    "vm.builtin.tensor_to_shape": lambda value: tuple(value.tolist()),
    "vm.builtin.reshape": lambda value, shape: value.reshape(shape),
    "vm.builtin.copy": _copy,
    "vm.builtin.null_value": lambda: None,
    "vm.builtin.alloc_shape_heap": lambda size: np.zeros(size, "int64"),
    "vm.builtin.check_shape_info": _check_shape_info,
    "vm.builtin.check_tuple_info": _check_tuple_info,
    "vm.builtin.check_prim_value_info": _check_prim_value_info,
    "vm.builtin.check_func_info": _check_func_info,
    "vm.builtin.check_upper_bound": _check_upper_bound,
    "relax.run.shape_to_tensor": lambda shape: np.asarray(shape, "int64"),
    "relax.run.print": _print,
    "relax.run.assert_op": _assert,
}
"""Functions by name."""

MADE_ON_PROCESSOR = frozenset(("relax.run.shape_to_tensor",))
"""Those that make tensors of numbers, which are copied to where the model runs. Others give what they got, or what only the processor uses.
"""

PREPARED: dict[str, tuple[int, Callable[..., Callable[..., Any]]]] = {
    "vm.builtin.check_tensor_info": (1, _tensor_checker),
    "vm.builtin.match_shape": (2, _shape_matcher),
    "vm.builtin.match_prim_value": (2, _prim_value_matcher),
    "vm.builtin.check_extent": (1, _extent_checker),
    "vm.builtin.make_shape": (1, _shape_maker),
    "vm.builtin.make_prim_value": (1, _prim_value_maker),
}
"""How many values these functions take, and what makes them of the literals behind, once for all calls."""
