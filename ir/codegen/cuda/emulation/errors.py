"""What goes wrong when CUDA kernels are emulated: one error for each kind of mistake."""

from __future__ import annotations

from ....error import IRTypeError, IRValueError
from ...error import CodegenError, CudaCompileError


class EmulationError(CodegenError):
    """Base class of the errors of emulated CUDA kernels."""


class NoCompilerError(EmulationError):
    """There is no C++ compiler on this machine, or it cannot be run."""


class KernelSourceError(EmulationError, CudaCompileError):
    """The source is no CUDA C++ that the emulation knows; each error is in the message with the line of the source that it is about."""


class LaunchError(EmulationError, IRValueError):
    """A launch that no device accepts: too many threads or blocks, too much shared memory, an unknown kernel."""


class ArgumentError(EmulationError, IRTypeError):
    """Arguments that do not fit the kernel's parameters, in number or type."""


class BarrierError(EmulationError):
    """Threads wait for others that never come; the message names the block, the threads and the lines where they wait."""


class TrapError(EmulationError):
    """A kernel ended itself: an assertion that does not hold, ``__trap()``, or an instruction with operands that it does not have."""


class EmulationMemoryError(EmulationError, MemoryError):
    """There is no memory for the stacks of a block's threads."""
