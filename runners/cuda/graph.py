"""CUDA graphs: work that a stream was given is captured instead of done, and done by one launch whenever it is asked for."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import Any

from .context import Context

_IN_THREAD = 1
"""CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may go on using the device."""


class CudaGraph:
    """Captured work; it goes when nobody has it any more, and what was started is done all the same.

    Args:
        of: the device's context.
        work: gives work to the stream of this thread, and waits for none of it.

    Raises:
        CudaError: something that the work does cannot be captured.
    """

    def __init__(self, of: Context, work: Callable[[], Any]) -> None:
        self.context = of
        stream = of.stream.handle
        of.make_current()
        of.driver.call("cuStreamBeginCapture_v2", stream, _IN_THREAD)
        graph = ctypes.c_void_p()
        try:
            self.result = work()
            """What the work returned."""
        except BaseException:
            of.driver.status("cuStreamEndCapture", stream, ctypes.byref(graph))
            raise
        of.driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        try:
            self.handle = of.driver.handle("cuGraphInstantiateWithFlags", graph, 0)
        finally:
            of.driver.status("cuGraphDestroy", graph)
        weakref.finalize(self, of.destroy, "cuGraphExecDestroy", self.handle).atexit = False

    def launch(self) -> None:
        """Put the work into the stream of this thread.

        Raises:
            CudaError: the driver refuses it.
        """
        self.context.make_current()
        self.context.driver.call("cuGraphLaunch", self.handle, self.context.stream.handle)
