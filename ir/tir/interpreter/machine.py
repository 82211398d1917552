"""Running functions: their bodies are translated once, and run over a dictionary of variables for each call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...expr import GlobalVar
from ...module import IRModule
from .. import expr as E
from ..analysis.call_fit import misfits
from ..function import PrimFunc
from ..kernel_launch import LAUNCH_PARAMS, is_kernel, kernel_launch
from ..thread_axis import LAUNCH_ORDER
from .arguments import bind
from .calls import Returned
from .error import InterpreterError, UndefinedError, refusal
from .expressions import Expressions
from .lanes import Closure
from .numbers import as_numpy, number
from .protocol import Thread
from .races import Watch
from .statements import Statements
from .threads import launch

MOST_NESTED_CALLS = 2000
"""How deep calls of functions nest."""


class Interpreter:
    """Runs the functions of a module; use :func:`run`.

    Args:
        module: what functions that are called by name come from.
    """

    def __init__(self, module: IRModule | None = None) -> None:
        self.module = module
        self.values: dict[E.Var, Any] = {}
        """Values of symbolic variables that no argument gives."""
        self.loops: list[Watch] = []
        """The parallel and vectorized loops and the launches that run, from the outermost to the innermost."""
        self.thread: Thread | None = None
        """The thread that runs; None outside of kernels."""
        self.depth = 0
        """How many calls of functions are nested."""
        self._asked: Mapping[str, int] | None = None
        """What the host gives the launch of the kernel that it calls."""
        self._bodies: dict[PrimFunc, Closure] = {}

    def call(self, func: PrimFunc, args: Sequence[Any]) -> Any:
        """Runs a function on arrays, addresses and numbers in parameter order; what it returns, as a numpy scalar.

        Raises:
            InterpreterError: where the program does what has no meaning.
        """
        with np.errstate(all="ignore"):
            value, dtype = self._returned(func, args)
        return None if value is None else as_numpy(value, dtype)

    def call_by_name(self, name: GlobalVar, args: Sequence[Any]) -> Any:
        """Runs a function of the module that the program calls; what it returns as the interpreter holds values."""
        if self.module is None:
            raise InterpreterError(
                f"a call of {name.name_hint} needs the module; run the module instead of the function"
            )
        callee = self.module[name]
        if not isinstance(callee, PrimFunc):
            raise InterpreterError(f"{name.name_hint} is called, which is no PrimFunc")
        if self.depth >= MOST_NESTED_CALLS:
            raise _too_deep(name, self.depth)
        self.depth += 1
        try:
            return self._returned(callee, args)[0]
        except InterpreterError as error:
            error.in_function(name.name_hint)
            raise
        except RecursionError:  # functions of deep statements
            raise _too_deep(name, self.depth) from None
        finally:
            self.depth -= 1

    def launch_by_name(self, symbol: str, args: Sequence[Any]) -> bool:
        """Launches a kernel of the module, as :class:`ir.tir.transform.LowerDeviceKernelLaunch` has the host do it.

        Args:
            symbol: the name of a function.
            args: the kernel's arguments, and what its launch is given besides.

        Returns:
            Whether there is such a kernel.
        """
        functions = {} if self.module is None else self.module.functions
        for var, func in functions.items():
            if (
                isinstance(func, PrimFunc)
                and is_kernel(func)
                and func.attrs.get("global_symbol", var.name_hint) == symbol
            ):
                count, given = len(func.params), func.attrs[LAUNCH_PARAMS]
                if len(args) != count + len(given):
                    raise refusal(
                        "call",
                        f"kernel {symbol} takes {count} arguments and its launch {', '.join(given)}; got {len(args)} in all",
                    )
                self._asked = dict(zip(given, args[count:]))
                misfit = kernel_launch(func).misfit(self._asked)
                if misfit is not None:
                    raise refusal("thread", f"kernel {symbol}: {misfit}")
                self.call_by_name(var, args[:count])
                return True
        return False

    def _returned(self, func: PrimFunc, args: Sequence[Any]) -> tuple[Any, str]:
        """What a function returns, with its dtype; None where its body ends."""
        env = self._variables()
        bind(self, func, args, env)
        body = self._bodies.get(func)
        if body is None:
            self._refuse_misfits(func)
            body = self._bodies[func] = Statements(self, func).translate(func.body)
        try:
            body(env)
        except InterpreterError as error:
            error.at(func.body)
            raise
        except Returned as returned:
            return returned.value, returned.dtype
        return None, "void"

    def _refuse_misfits(self, func: PrimFunc) -> None:
        """Refuse a function that calls another one of the module in a way that does not fit, before it runs."""
        if self.module is None:
            return
        name = next((var.name_hint for var, item in self.module.functions.items() if item is func), "it")
        for misfit in misfits(func, name, self.module):
            error = refusal("call", misfit.message)
            raise error if misfit.statement is None else error.at(misfit.statement)

    def evaluate(self, expr: E.PrimExpr) -> Any:
        """The value of an expression of symbolic variables, such as an extent, as a numpy scalar."""
        with np.errstate(all="ignore"):
            return as_numpy(Expressions(self).index(expr)(self._variables()), expr.dtype)

    def order(self, iterations: range) -> Iterable[int]:
        """The order in which the iterations of a parallel or vectorized loop run, or blocks and threads: no result may depend on it."""
        return iterations

    def launch(self, extents: Mapping[str, int], env: dict[Any, Any], body: Closure) -> None:
        """Runs a kernel: its body in all threads, each with variables of its own."""
        asked, self._asked = self._asked, None
        if asked is not None and {tag: asked[tag] for tag in asked if tag in LAUNCH_ORDER} != extents:
            raise refusal(
                "thread", f"a kernel is launched with {_told(asked)}, and asks for {_told(extents)}"
            )
        launch(self, asked or extents, env, body)

    def _variables(self) -> dict[Any, Any]:
        return {var: number(value, var.dtype) for var, value in self.values.items()}


def _told(extents: Mapping[str, int]) -> str:
    return ", ".join(f"{tag} = {extent}" for tag, extent in extents.items())


def _too_deep(name: GlobalVar, depth: int) -> UndefinedError:
    return refusal(
        "call-depth",
        f"{name.name_hint} is called {depth} calls deep, which is the limit; does the recursion end?",
    )


def run(
    program: PrimFunc | IRModule, *args: Any, name: str = "main", values: Mapping[E.Var, Any] | None = None
) -> Any:
    """Runs a function on numpy arrays (outputs are written in place) and numbers.

    Args:
        program: a PrimFunc, or a module of them.
        args: one per parameter: arrays for buffers, numbers for scalars.
        name: the function of the module to run.
        values: values of symbolic variables that no array's shape gives.

    Raises:
        InterpreterError: the program does what ``docs/semantics.md`` calls undefined, an assertion fails, or an intrinsic is not known
            here.
    """
    if not isinstance(program, PrimFunc | IRModule):
        raise InterpreterError(
            f"run takes a PrimFunc or an IRModule and then its arguments, got {program!r}, a {type(program).__name__}"
        )
    module = program if isinstance(program, IRModule) else None
    func = program[name] if isinstance(program, IRModule) else program
    interpreter = Interpreter(module)
    interpreter.values.update(values or {})
    return interpreter.call(func, args)  # type: ignore[arg-type]
