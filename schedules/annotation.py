"""Annotations by which rules say what postprocessors are to do, and by which programs are estimated before these have done it.

On a loop: how it runs. On a block: what is made of it. On the root block: how the loops of all nests run that nobody has marked. The
names are MetaSchedule's, so that its traces mean the same here. What kernels say to other packages is in :mod:`ir.tir.kernel_attributes`.
"""

PREFIX = "meta_schedule."
"""Begins all of them."""

PARALLEL = PREFIX + "parallel"
"""Loops whose iterations the cores share; on the root block as many of the outer iterations of a nest as the number says."""
VECTORIZE = PREFIX + "vectorize"
"""Loops that run as lanes; on the root block up to the number of lanes."""
UNROLL = PREFIX + "unroll"
"""Loops that are unrolled whole."""
SKIP_MASKED = PREFIX + "skip_masked"
"""Loops of which iterations are left out where a mask hides everything, with the percentage that is left of them on average."""
HIDDEN_BY_ZERO = PREFIX + "hidden_by_zero"
"""Sums of products that may take a product with 0 for 0, whatever the other factor is (``[tune-hidden]`` in docs/semantics.md)."""
UNROLL_EXPLICIT, UNROLL_IMPLICIT = PREFIX + "unroll_explicit", PREFIX + "unroll_implicit"
"""On the root block: nests up to the number of statements are unrolled, by lowering or by LLVM."""
UNROLL_MAX_STEP, UNROLL_IN_TIR = "pragma_auto_unroll_max_step", "pragma_unroll_explicit"
"""On a loop: up to how many statements its body is unrolled, and whether by lowering. What the root block says is not for such nests."""

COOPERATIVE_FETCH = PREFIX + "cooperative_fetch"
"""Copies whose elements the threads of a block share out, with the number of adjacent ones for a thread at a time."""

TILING_STRUCTURE = PREFIX + "tiling_structure"
"""Tiled blocks, with the levels of their tiles; for people who read a trace."""
FEWEST_THREADS, MOST_THREADS = PREFIX + "thread_extent_low_inclusive", PREFIX + "thread_extent_high_inclusive"
"""Blocks whose kernels have so many threads in a block at least, and at most."""

AUTO_TENSORIZE = PREFIX + "auto_tensorize"
"""Blocks in whose place :class:`~schedules.postproc.RewriteTensorize` puts an intrinsic, with its name."""
AUTO_TENSORIZE_INIT = PREFIX + "auto_tensorize_init"
"""Blocks that have an intrinsic for what initialises their results, once that is a block of its own."""
