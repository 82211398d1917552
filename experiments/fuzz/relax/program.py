"""Random Relax modules as script text.

Programs are valid by construction, in the manner of NNSmith (Liu et al., ASPLOS 2023): each call is made of values in scope whose
struct info satisfies what the operator requires, and where there is none, of a new parameter that does; extents of the result are
inferred, and its value for the arguments at hand is computed by the reference evaluator, so that nothing undefined is in a program.
"""

from __future__ import annotations

from typing import Any

import ir
from ir import relax as rx
from ir.error import IRError
from ir.relax.testing.evaluate import Frame
from ir.relax.testing.values import EvaluationError

from .declared import declared_call
from .kernels import CALLS
from .scope import FunctionScope, Rejected, Scope, Value
from .structure import STATEMENTS
from .templates import TEMPLATES

_ATTEMPTS = 12


class Writer:
    """Writes functions into a scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.random = scope.random
        self.callable: list[tuple[ir.GlobalVar, list[rx.Var], bool]] = []
        """Functions that may be called: the variable, the parameters, and whether they are pure."""
        self.finished: Any = None
        """The function that was written last."""

    def module(self, size: int) -> ir.IRModule:
        """A module with a function ``main`` of about so many bindings."""
        with self.scope.writing(FunctionScope("main"), Frame()):
            self.scope.tensor([self.scope.dim() for _ in range(2)], self.random.choice(self.scope.dtypes))
            self.body({"global_symbol": "main"}, size)
        self.scope.builder.add_func(self.finished, "main")
        return self.scope.builder.finalize()

    def body(self, attributes: dict[str, Any] | None, statements: int) -> bool:
        """The body of the innermost function, left in ``finished``; whether it is pure.

        Args:
            attributes: of the function; None for a local function, whose body is one plain block.
            statements: how many there are, about.
        """
        function = self.scope.function
        dataflow = (
            self.random.randint(0, statements) if attributes is not None and self.random.random() < 0.6 else 0
        )
        plain = statements - dataflow
        if dataflow:
            function.dataflow = True
            first = len(function.blocks) - 1
            self.statements(dataflow)
            values = function.values if plain else []
            chosen = self._chosen()
            self.scope.end_dataflow([*chosen, *self.random.sample(values, min(3, len(values)))])
        self.statements(plain)
        result = self.scope.normalized(self._result(self._chosen()))
        blocks = [
            (rx.DataflowBlock if dataflow and number == first else rx.BindingBlock)(list(bindings))
            for number, bindings in enumerate(function.blocks)
            if bindings
        ]
        body = rx.SeqExpr(blocks, result)
        self.finished = rx.Function(function.params, body, None, function.pure, attributes or {})
        return function.pure

    def _chosen(self) -> list[Value]:
        """Some values in scope: often the last ones, sometimes parameters, and sometimes one twice."""
        values = [
            value for value in self.scope.function.values if not isinstance(value.info, rx.TupleStructInfo)
        ]
        chosen = values[-1:]
        while values and self.random.random() < 0.55 and len(chosen) < 5:
            chosen.append(self.random.choice(values))
        return chosen

    def _result(self, chosen: list[Value]) -> Any:
        if len(chosen) == 1 and self.random.random() < 0.6:
            return chosen[0].var
        fields: list[Any] = [value.var for value in chosen]
        if len(fields) > 2 and self.random.random() < 0.2:
            fields[:2] = [rx.Tuple(fields[:2])]
        return rx.Tuple(fields)

    def statements(self, count: int) -> None:
        """So many statements, each an operator's call or something of :mod:`.structure`."""
        for _ in range(count):
            for _ in range(_ATTEMPTS):
                if self._attempted():
                    break

    def _attempted(self) -> bool:
        """Whether one statement could be written; what an attempt that fails has bound already stays."""
        scope = self.scope
        try:
            if self.random.random() < 0.25:
                self.random.choice(STATEMENTS)(self)
                return True
            dice = self.random.random()
            if dice < 0.3:
                expr = declared_call(scope)
            elif dice < 0.38:
                expr = self.random.choice(CALLS)(scope)
            else:
                expr = self.random.choice(TEMPLATES)(scope)
            scope.bind(expr)
        except EvaluationError:  # an operator that is not what its inference or its reference says
            raise
        except (Rejected, IRError):  # builders of calls refuse what is not valid as well
            return False
        return True


def relax_module(seed: int, size: int = 10) -> ir.IRModule:
    """The module of a seed.

    Args:
        seed: says everything about the module, together with the size.
        size: how many statements ``main`` has, about.
    """
    return Writer(Scope(seed)).module(size)


def relax_program(seed: int, size: int = 10) -> str:
    """The script of the module of a seed."""
    return relax_module(seed, size).script(show_meta=True)
