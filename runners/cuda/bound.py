"""Calls on fixed arguments: launches that are prepared once, started again and again, and timed by the device's clock.

Many calls are one CUDA graph, so that kernels of a microsecond are not timed at the pace at which Python launches them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from .context import Context, Event
from .graph import CudaGraph
from .launch import Launch
from .memory import DeviceMemory, allocator, fill

_MOST_IN_GRAPH = 512
"""Launches of one graph: instantiating it takes microseconds for each."""
_FLUSHED_L2S = 2
"""So many times the level-2 cache is written over between calls that are to find it cold."""


class BoundCall:
    """A call whose launches are known.

    Args:
        of: the device's context.
        launches: in their order.
        keep: arrays and memory that they use.
    """

    def __init__(self, of: Context, launches: Sequence[Launch], keep: Sequence[Any] = ()) -> None:
        self.context = of
        self.launches = tuple(launches)
        self._keep = tuple(keep)
        self._graphs: dict[int, CudaGraph] = {}

    def start(self) -> None:
        """Put the launches into the stream of this thread.

        Raises:
            CudaError: the driver refuses one.
        """
        of, stream = self.context, self.context.stream.handle
        of.make_current()
        for launch in self.launches:
            launch.start(of, stream)

    def __call__(self) -> None:
        """One call, and wait for it.

        Raises:
            CudaError: it fails.
        """
        self.start()
        self.context.stream.synchronize()

    def time_calls(self, number: int) -> float:
        """Seconds on the device that so many calls take, one behind the other."""
        if not self.launches:
            return 1e-9 * number
        size = min(number, max(1, _MOST_IN_GRAPH // len(self.launches)))
        whole, rest = divmod(number, size)
        graphs = [self._graph(size)] * whole + ([self._graph(rest)] if rest else [])
        stream, (begin, end) = self.context.stream, self._events
        self.context.make_current()
        stream.record(begin)
        for graph in graphs:
            graph.launch()
        stream.record(end)
        return max(end.seconds_since(begin), 1e-9 * number)

    def time_flushed_calls(self, number: int) -> float:
        """The same of calls that each find the level-2 cache without their data; writing over it is not counted."""
        stream, (begin, end), total = self.context.stream, self._events, 0.0
        for _ in range(number):
            fill(self.context, self._flushed.address, 0, self._flushed.nbytes)
            stream.record(begin)
            self.start()
            stream.record(end)
            total += max(end.seconds_since(begin), 1e-9)
        return total

    @cached_property
    def _events(self) -> tuple[Event, Event]:
        return Event(self.context), Event(self.context)

    @cached_property
    def _flushed(self) -> DeviceMemory:
        return allocator(self.context).allocate(max(_FLUSHED_L2S * self.context.l2_bytes, 1))

    def _graph(self, calls: int) -> CudaGraph:
        """The graph of so many calls."""
        found = self._graphs.get(calls)
        if found is None:
            found = self._graphs[calls] = CudaGraph(self.context, lambda: self._start_all(calls))
        return found

    def _start_all(self, calls: int) -> None:
        for _ in range(calls):
            self.start()
