"""What the reference evaluator computes with: dense arrays, closures, and the traces of memory that is gone.

Tensors are C-contiguous numpy arrays, shapes are tuples of int, tuples are lists, numbers are numpy scalars. Memory that nobody
wrote holds a recognizable pattern, and a value whose memory was overwritten in place or released cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import dtype as dt
from ...error import IRError
from ..function import Function
from ..op.memory_effect import Path


class EvaluationError(IRError):
    """The evaluated program did something wrong: read memory that is gone, changed a value, broke a declaration."""


class ExtentError(EvaluationError):
    """An extent that the program computes has no value: it divides by 0."""


class OperatorError(EvaluationError):
    """An operator has no value for what it is given; the error learns on its way out which binding that is."""

    place: str | None = None

    def at(self, place: str) -> OperatorError:
        """It happened in a binding, or in a function called there whose binding is known already."""
        self.place = self.place or place
        return self

    def __str__(self) -> str:
        return super().__str__() + (f"\n  in the {self.place}" if self.place else "")


class _OutOfRange(OperatorError, IndexError):
    """What numpy raises as IndexError, which operators declare as undefined."""


class _WrongKind(OperatorError, TypeError):
    """What numpy raises as TypeError."""


class _WrongValue(OperatorError, ValueError):
    """What numpy raises as ValueError: extents that do not agree, a search where there is nothing."""


class _Failed(OperatorError, AssertionError):
    """An assertion of the program."""


_OPERATOR_ERRORS: dict[type[Exception], type[OperatorError]] = {
    IndexError: _OutOfRange,
    TypeError: _WrongKind,
    ValueError: _WrongValue,
    AssertionError: _Failed,
}


@contextmanager
def computing(operator: str) -> Iterator[None]:
    """Around the computation of an operator: what Python or numpy raise becomes an OperatorError that names it."""
    try:
        yield
    except IRError:
        raise
    except tuple(_OPERATOR_ERRORS) as error:
        kind = next(made for found, made in _OPERATOR_ERRORS.items() if isinstance(error, found))
        raise kind(f"{operator}: {error}") from error


@dataclass(eq=False)
class Gone:
    """Stands for a value whose memory was overwritten or released, or that was not computed; reading it is an error of the program."""

    reason: str
    error: type[EvaluationError] = EvaluationError


@dataclass(eq=False)
class Closure:
    """A function value: what it computes, the frame that it was made in, and the arguments that it holds already."""

    function: Function
    frame: Any
    captured: Sequence[Any] = ()


@dataclass(eq=False)
class Storage:
    """Bytes that tensors are placed in."""

    memory: np.ndarray


class PackedArgument(np.ndarray):
    """An array as registered functions get it: what they write is seen by the program, ``numpy()`` copies."""

    def numpy(self) -> np.ndarray:
        """A copy of the elements."""
        return np.array(self)


def fresh(shape: Sequence[int], dtype: str) -> np.ndarray:
    """An array that nobody wrote: NaN, or numbers that no test expects."""
    numpy_dtype = dt.to_numpy(dtype)
    if dt.is_float(dtype):
        return np.full(tuple(shape), float("nan"), numpy_dtype)
    return np.full(tuple(shape), True if dt.is_bool(dtype) else 0x55, numpy_dtype)


def dense(value: Any) -> Any:
    """A result of numpy as a tensor: in row-major order, so that a transposed view becomes an array of its own."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value, order="C")
    if isinstance(value, list | tuple) and any(isinstance(item, np.ndarray | np.generic) for item in value):
        return [dense(item) for item in value]
    return value


def apart(value: Any, taken: Sequence[np.ndarray], views: Sequence[Path]) -> Any:
    """A result of numpy in memory of its own, but for the parts that are declared as views.

    numpy hands on an operand, or a part of it, where there is nothing to do: ``transpose`` of one axis, ``broadcast_to`` of the same shape.
    A result that may only be read (``broadcast_to`` to no elements shares no byte, and is one) becomes an array like any other.

    Args:
        value: an array, or a list of results.
        taken: the arrays that others hold.
        views: which parts may be memory of those, by fields; ``()`` is all of it.
    """
    if isinstance(value, list):
        inside = [[path[1:] for path in views if not path or path[0] == place] for place in range(len(value))]
        held, found = list(taken), []
        for item, paths in zip(value, inside, strict=True):
            found.append(apart(item, held, paths))
            held += arrays(found[-1])
        return found
    if not isinstance(value, np.ndarray) or () in views:
        return value
    is_own = value.flags.writeable and not any(np.may_share_memory(value, other) for other in taken)
    return value if is_own else value.copy()


def arrays(value: Any) -> list[np.ndarray]:
    """The arrays of a value, also those inside of tuples."""
    if isinstance(value, list):
        return [array for item in value for array in arrays(item)]
    return [value] if isinstance(value, np.ndarray) else []


def replaced(value: Any, change: Callable[[np.ndarray], Any]) -> Any:
    """The value with ``change`` applied to its arrays, also to those inside of tuples and closures."""
    if isinstance(value, np.ndarray):
        return change(value)
    if isinstance(value, list):
        items = [replaced(item, change) for item in value]
        return value if all(new is old for new, old in zip(items, value)) else items
    if isinstance(value, Closure):
        captured = [replaced(item, change) for item in value.captured]
        return (
            value
            if all(new is old for new, old in zip(captured, value.captured))
            else Closure(value.function, value.frame, captured)
        )
    return value


def readable(value: Any) -> Any:
    """The value itself; raises EvaluationError if it, or a part of it, is gone."""
    if isinstance(value, Gone):
        raise value.error(value.reason)
    if isinstance(value, list):
        for item in value:
            readable(item)
    return value


def received(value: Any) -> Any:
    """What a caller or a function outside of the program hands over, as a value of the evaluator."""
    if isinstance(value, np.ndarray):
        return np.asarray(value, order="C")
    if isinstance(value, list):
        return [received(item) for item in value]
    if isinstance(value, tuple):
        numbers = all(isinstance(item, int | np.integer) for item in value)
        return tuple(int(item) for item in value) if numbers and value else [received(item) for item in value]
    if hasattr(value, "numpy"):
        return np.asarray(value, order="C")
    return value


def returned(value: Any) -> Any:
    """A value as callers get it: tuples for lists."""
    return tuple(returned(item) for item in value) if isinstance(value, list) else value
