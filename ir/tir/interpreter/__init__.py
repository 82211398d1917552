"""A slow, simple interpreter of TIR over numpy arrays: ``docs/semantics.md`` in code, and the oracle that all else is tested against.

It runs programs in every form, with blocks or lowered, one element at a time, and refuses what the page leaves undefined: accesses out
of bounds, index arithmetic that overflows, reads of what nobody wrote, parallel iterations and threads of kernels that disturb each
other. It takes no opinion from code generation or simplification: what it computes with is Python's integers, numpy's floats, and the
``meaning`` of intrinsics.

A function is translated once into Python closures (as in Feeley and Lapalme, "Using closures for code generation", Computer Languages
1987), of statements by :mod:`.statements`, of expressions by :mod:`.expressions`, which then run over a dictionary of variables.
"""

from .error import InterpreterError, UndefinedError
from .machine import Interpreter, run

__all__ = ["Interpreter", "InterpreterError", "UndefinedError", "run"]
