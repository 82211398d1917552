"""The functions of the virtual machine that lowered programs call by name, as the evaluator knows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtype as dt
from .evaluate import FUNCTIONS, FUNCTIONS_WITH_CONTEXT, Evaluator
from .language import new_storage, tensor_in
from .values import Closure, EvaluationError, dense


def _named(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            FUNCTIONS[f"vm.builtin.{name}"] = function
        return function

    return register


# what match_shape does with an extent (0: equals a number, 1: goes to the heap, 2: nothing, 3: equals what the heap holds)
_EQUALS_NUMBER, _STORE, _NOTHING, _EQUALS_HEAP = range(4)


@_named("alloc_shape_heap")
def _alloc_shape_heap(size: Any) -> np.ndarray:
    return np.full(int(size), -1, "int64")


@_named("match_shape")
def _match_shape(value: Any, heap: Any, count: Any, *codes: Any) -> Any:
    extents = value.shape if isinstance(value, np.ndarray) else value
    *pairs, context = codes
    if len(extents) != int(count):
        raise EvaluationError(f"{context}expected {int(count)} extents, got {tuple(extents)}")
    for extent, code, operand in zip(extents, pairs[::2], pairs[1::2], strict=True):
        _match(int(extent), heap, int(code), int(operand), context)
    return []


@_named("match_prim_value")
def _match_prim_value(value: Any, heap: Any, code: Any, operand: Any, context: str) -> Any:
    _match(int(value), heap, int(code), int(operand), context)
    return []


def _match(extent: int, heap: Any, code: int, operand: int, context: str) -> None:
    if code == _STORE:
        heap[operand] = extent
    elif code in (_EQUALS_NUMBER, _EQUALS_HEAP):
        expected = operand if code == _EQUALS_NUMBER else int(heap[operand])
        if extent != expected:
            raise EvaluationError(f"{context}expected the extent {expected}, got {extent}")


@_named("make_shape")
def _make_shape(heap: Any, count: Any, *codes: Any) -> tuple[int, ...]:
    pairs = list(zip(codes[::2], codes[1::2], strict=True))
    if len(pairs) != int(count):
        raise EvaluationError(f"make_shape of {int(count)} extents got {len(pairs)}")
    return tuple(int(heap[int(operand)]) if int(code) else int(operand) for code, operand in pairs)


@_named("make_prim_value")
def _make_prim_value(heap: Any, code: Any, operand: Any) -> Any:
    return np.int64(heap[int(operand)] if int(code) else operand)


@_named("check_tensor_info")
def _check_tensor(value: Any, ndim: Any, dtype: str, context: str) -> Any:
    fits = isinstance(value, np.ndarray) and int(ndim) in (-1, value.ndim)
    if not fits or (dtype not in ("", "void") and value.dtype != dt.to_numpy(dtype)):
        raise EvaluationError(
            f"{context}expected a tensor of {dtype} with {int(ndim)} dimensions, got {value!r}"
        )
    return []


@_named("check_shape_info")
def _check_shape(value: Any, ndim: Any, context: str) -> Any:
    if not isinstance(value, tuple) or int(ndim) not in (-1, len(value)):
        raise EvaluationError(f"{context}expected a shape of {int(ndim)} extents, got {value!r}")
    return []


@_named("check_prim_value_info")
def _check_prim_value(value: Any, dtype: str, context: str) -> Any:
    if isinstance(value, np.ndarray | list | tuple | str):
        raise EvaluationError(f"{context}expected a number of {dtype}, got {value!r}")
    return []


@_named("check_tuple_info")
def _check_tuple(value: Any, size: Any, context: str) -> Any:
    if not isinstance(value, list) or len(value) != int(size):
        raise EvaluationError(f"{context}expected a tuple of {int(size)} values, got {value!r}")
    return []


@_named("check_func_info")
def _check_func(value: Any, context: str) -> Any:
    if not isinstance(value, Closure) and not callable(value):
        raise EvaluationError(f"{context}expected a function, got {value!r}")
    return []


@_named("check_upper_bound")
def _check_upper_bound(heap: Any, place: Any, bound: Any, context: str) -> Any:
    if int(heap[int(place)]) > int(bound):
        raise EvaluationError(f"{context} is {int(heap[int(place)])}, its upper bound is {int(bound)}")
    return []


@_named("check_extent")
def _check_extent(heap: Any, found_code: Any, found: Any, wanted_code: Any, wanted: Any, text: str) -> Any:
    a, b = _make_shape(heap, 2, found_code, found, wanted_code, wanted)
    if a != b:
        raise EvaluationError(text.format(a, b))
    return []


@_named("shape_of")
def _shape_of(value: np.ndarray) -> tuple[int, ...]:
    return value.shape


@_named("tensor_to_shape")
def _tensor_to_shape(value: np.ndarray) -> tuple[int, ...]:
    return tuple(int(extent) for extent in value)


@_named("reshape")
def _reshape(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return value.reshape(shape)


@_named("copy")
def _copy(value: Any) -> Any:
    return dense(np.copy(value)) if isinstance(value, np.ndarray) else value


@_named("to_device")
def _to_device(value: Any, *device: Any) -> Any:
    return value


@_named("null_value")
def _null_value() -> None:
    return None


@_named("alloc_storage")
def _alloc_storage(size: Any, *what: Any) -> Any:
    return new_storage(size)


@_named("alloc_tensor")
def _alloc_tensor(storage: Any, offset: Any, shape: Any, dtype: str, *device: Any) -> np.ndarray:
    return tensor_in(storage, int(offset), shape, dtype)


def _cached_alloc(context: Evaluator, function: Any, index: Any) -> Any:
    return context.invoke(function, [])


def _run_or_capture(context: Evaluator, function: Any, args: Any, *index: Any) -> Any:
    return context.invoke(function, args)


FUNCTIONS_WITH_CONTEXT["vm.builtin.cuda_graph.get_cached_alloc"] = _cached_alloc
FUNCTIONS_WITH_CONTEXT["vm.builtin.cuda_graph.run_or_capture"] = _run_or_capture
