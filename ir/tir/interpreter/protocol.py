"""What translated code asks of the machine that runs it, so that the translation does not know the machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ...expr import GlobalVar
from ..expr import PrimExpr
from .async_copies import Copies
from .kernels import Kernel
from .lanes import Closure
from .meetings import Meeting
from .memory import Memory
from .races import Watch
from .transaction_barriers import TransactionBarrier, TransactionBarriers


class Thread(Protocol):
    """:class:`.threads.Thread`, a thread of a launched kernel, as the code that it runs sees it."""

    number: int
    """Its place among the threads of its block, along x first."""
    everyone: Sequence[int]
    """The numbers of the threads of its block."""
    warp: Sequence[int]
    """Those of its warp, in the order of their lanes."""
    copies: Copies
    """Its asynchronous copies."""
    barriers: TransactionBarriers
    """Those of its block that count bytes."""
    seen_phases: dict[TransactionBarrier, int]
    """How many phases of a barrier it knows to have ended."""
    products: Any
    """:class:`.warp_groups.Products` that it has begun."""
    virtual: int
    """How many loops over virtual threads it runs."""

    def index(self, tag: str, extent: int) -> int:
        """Its index along an axis of threads or of blocks.

        Raises:
            UndefinedError: the kernel was not launched with this extent there.
        """

    def along(self, tags: Collection[str]) -> Sequence[int]:
        """The numbers of the threads of its block that differ from it along these axes only."""

    def memory(self, statement: Any, scope: str, size: int, owner: Any) -> Memory:
        """Memory that it shares with others, as it comes to the statement that allocates it."""

    def meet(self, meeting: Meeting) -> Any:
        """Waits for other threads; what the meeting gave it."""


class Machine(Protocol):
    """:class:`.machine.Interpreter`, as expressions, statements and arguments see it."""

    loops: list[Watch]
    """The parallel and vectorized loops and the launches that run, from the outermost to the innermost."""
    thread: Thread | None
    """The thread that runs; None outside of kernels."""

    def call_by_name(self, name: GlobalVar, args: Sequence[Any]) -> Any:
        """Runs a function of the module that the program calls."""

    def launch_by_name(self, symbol: str, args: Sequence[Any]) -> bool:
        """Launches a kernel of the module with its arguments and extents; whether there is one of this name."""

    def launch(self, extents: Mapping[str, int], env: dict[Any, Any], body: Callable[..., Any]) -> None:
        """Runs a kernel: its body in all threads, each with variables of its own.

        Args:
            extents: how many threads or blocks there are, by the tag of the axis.
            env: the variables.
            body: what runs, with the variables.
        """

    def order(self, iterations: range) -> Iterable[int]:
        """The order in which the iterations of a parallel or vectorized loop run, or blocks and threads."""


class Translator(Protocol):
    """:class:`.expressions.Expressions`, as families of intrinsics see it."""

    machine: Machine
    kernel: Kernel
    accesses: Any
    """:class:`.access.Accesses`."""

    def data(self, expr: PrimExpr) -> Closure:
        """The closure of a value that wraps."""

    def index(self, expr: PrimExpr) -> Closure:
        """The closure of a number of ℤ."""

    def condition(self, expr: PrimExpr) -> Closure:
        """The closure of what decides."""
