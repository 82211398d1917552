"""Parts of a model that are the same on every call: memory that is allocated once, and launches that are captured and replayed.

``RewriteCUDAGraph`` marks them, by calls of two functions of the machine. What they keep belongs to one thread and one stream: calls of
others would write into the same memory at the same time. A function that is called again before it has returned, by itself or by Python
that it calls, has other memory there: what it computed before is needed when that call has returned.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .foreign import ARRAYS, ForeignArray
from .home import Home, Replay


def _places(value: Any) -> Any:
    """What a captured call depends on of its arguments: where arrays are, and everything else itself."""
    if isinstance(value, tuple):
        return tuple(map(_places, value))
    if isinstance(value, ARRAYS):
        return (
            value.ptr if isinstance(value, ForeignArray) else id(value),
            tuple(value.shape),
            str(value.dtype),
        )
    return value


class StaticParts(threading.local):
    """What one thread keeps for a machine.

    Args:
        home: where the model runs.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._memory: dict[Any, Any] = {}
        self._captured: dict[Any, tuple[Any, Replay, Any]] = {}
        """Where arguments are, what is launched, and the arguments, which must live as long."""
        self._running: dict[str, int] = {}
        self._level = 0
        """How many calls of the function that runs now have not returned yet, without the latest."""

    @contextmanager
    def call_of(self, name: str) -> Iterator[None]:
        """Within, a function runs whose parts are kept; all such functions say so."""
        around, level = self._level, self._running.get(name, 0)
        self._level, self._running[name] = level, level + 1
        try:
            yield
        finally:
            self._level, self._running[name] = around, level

    def cached_alloc(self, function: Any, number: int) -> Any:
        """What a function without arguments returned when it was called first.

        Args:
            function: a :class:`~runners.interpreter.Closure`.
            number: of the call among those of the model.
        """
        key = (self._home.frame_key(), self._level, number)
        if key not in self._memory:
            self._memory[key] = function.run()
        return self._memory[key]

    def run_or_capture(
        self, function: Any, args: Sequence[Any], number: int, symbols: Sequence[int] = ()
    ) -> Any:
        """Call a function of which only the launches matter: the first call is captured, later ones are replayed.

        Args:
            function: a :class:`~runners.interpreter.Closure`, whose launches depend on its arguments alone.
            args: its arguments; arrays in other places than before are captured anew.
            number: of the call among those of the model.
            symbols: values that its shapes depend on; each is captured for itself.
        """
        key = (self._home.frame_key(), self._level, number, *symbols)
        places = _places(tuple(args))
        found = self._captured.get(key)
        if found is None or found[0] != places:
            replay = self._home.captured(lambda: function.run(*args))
            if replay is None:
                return function.run(*args)
            found = self._captured[key] = (places, replay, tuple(args))
        replay = found[1]
        replay.launch()
        return replay.result
