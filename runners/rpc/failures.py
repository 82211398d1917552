"""Exceptions of programs elsewhere as messages, and as the exceptions that they are there."""

from __future__ import annotations

import builtins
from importlib import import_module

from ..error import RunnerError
from .proto import remote_pb2 as pb

_MODULES = {
    "ir.codegen.container": ("ContainerError",),
    "ir.codegen.entry": ("KernelError", "KernelMemoryError"),
    "ir.codegen.error": ("CodegenError",),
    "ir.error": ("IRError", "IRTypeError", "IRValueError"),
    "runners.cuda.driver": ("CudaContextLost", "CudaError", "CudaOutOfMemory", "CudaUnavailable"),
    "runners.error": ("DeviceError", "RunnerError", "RunnerTypeError"),
    "runners.program": ("ArgumentError", "ExecutableError"),
}
MOST_MESSAGE_CHARACTERS = 20_000
_PLACES = {name: module for module, names in _MODULES.items() for name in names}
_OF_PYTHON = (
    "ArithmeticError AssertionError AttributeError IndexError KeyError LookupError MemoryError NotImplementedError OverflowError"
    " RecursionError RuntimeError TypeError ValueError ZeroDivisionError"
).split()


def failure(kind: str, message: str) -> pb.Answer:
    """The answer that something went wrong.

    Args:
        kind: the name of an exception.
        message: of it; very long ones are cut.
    """
    if len(message) > MOST_MESSAGE_CHARACTERS:
        message = f"{message[:MOST_MESSAGE_CHARACTERS]} ..."
    printable = message.encode("utf-8", "replace").decode()
    return pb.Answer(failure=pb.Failure(kind=kind, message=printable))


def failure_of(error: Exception) -> pb.Answer:
    """The answer that an exception was raised: of its kind, or the nearest that clients know."""
    names = [kind.__name__ for kind in type(error).__mro__]
    known = [name for name in names if name in _PLACES or name in _OF_PYTHON]
    return failure(known[0] if known else names[0], str(error))


def exception_of(failure: pb.Failure) -> Exception:
    """The exception that a failure was; one of a kind that is unknown here is a RunnerError that names it."""
    kind, message = failure.kind, failure.message
    if kind in _PLACES:
        made: Exception = getattr(import_module(_PLACES[kind]), kind)(message)
        return made
    if kind in _OF_PYTHON:
        found: Exception = getattr(builtins, kind)(message)
        return found
    return RunnerError(f"{kind}: {message}")
