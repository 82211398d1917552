"""The skeleton of a program: its loop nests with extents and strides as arrays over a population of candidates.

Features, validity and the analytical model work on skeletons; :mod:`schedules.population.extraction` finds them in loop trees. A
materialized program is the case of one candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .warp_tile import WarpTile


@dataclass
class LoopAxis:
    """One loop of a nest."""

    name: str
    extent: np.ndarray
    """int64 [N]."""
    mark: str
    """"" (serial), "parallel", "vectorize", "unroll", "dot" (the group of a dot product, which no finished nest has as its innermost
    loop), or a thread axis such as "threadIdx.x"."""
    is_reduction: bool
    key: int
    """Equal for the same loop seen from several nests (shared outer loops)."""
    ahead: np.ndarray | int = 0
    """Iterations by which asynchronous copies to shared memory are begun before what they bring is used [N]; 0 where threads wait."""


@dataclass
class Access:
    """How a nest touches one buffer."""

    buffer: int
    """Number of the buffer, the same for all accesses of it in the skeleton."""
    name: str
    scope: str
    is_write: bool
    element_bytes: int
    shape: list[np.ndarray]
    """Extent of each dimension [N] (of the whole buffer, before compaction)."""
    strides: np.ndarray
    """Elements that the flattened index moves per step of each loop: int64 [n_loops, N]; 0 for loops of extent 1."""
    reach: np.ndarray
    """Index distance per step of each loop and dimension: int64 [n_dims, n_loops, N]."""
    count: int = 1
    """Number of syntactic accesses with the same strides."""
    warp: np.ndarray | None = None
    """Of nests that GPU threads run: elements from what the first thread of a warp accesses to what each one does, int64 [N, WARP]."""
    held: np.ndarray | None = None
    """Of what is written to shared memory: elements that a block of threads has of the buffer, those between its rows, too: int64 [N]."""

    def moves_like(self, other: Access) -> bool:
        """Whether both are of one buffer and kind, and each loop, and each thread of a warp, moves them by the same distances."""
        same = self.buffer == other.buffer and self.is_write == other.is_write
        if not same or not np.array_equal(self.reach, other.reach):
            return False
        # A thread's distance is not always its number times a loop's: rows of a fused loop end within a warp.
        if self.warp is None or other.warp is None:
            return self.warp is other.warp
        return np.array_equal(self.warp, other.warp)

    def take(self, rows: np.ndarray) -> Access:
        """The access in some of the candidates."""
        return replace(
            self,
            shape=[extent[rows] for extent in self.shape],
            strides=self.strides[:, rows],
            reach=self.reach[:, :, rows],
            warp=None if self.warp is None else self.warp[rows],
            held=None if self.held is None else self.held[rows],
        )


@dataclass
class OperationGroup:
    """The operations of a nest whose values change with the same loops."""

    counts: dict[str, int]
    """Of each kind, as in :attr:`Nest.operations`."""
    moved: tuple[bool, ...]
    """For each loop whether it changes their values; a compiler takes the operations out of the others."""


@dataclass
class Nest:
    """A block that computes, with all loops around it, outermost first."""

    name: str
    loops: list[LoopAxis]
    accesses: list[Access]
    operations: dict[str, int]
    """Counts per innermost iteration: float_mad, float_addsub, float_mul, float_divmod, float_cmp, float_math, int_ops, bool_ops,
    select.
    """
    is_reduction: bool
    groups: list[OperationGroup]
    """The same operations by the loops that change their values."""
    is_preprocessing: bool = False
    """Runs once when the model is compiled (packing of constant weights), not with the kernel."""
    shared_out: np.ndarray | None = None
    """Of a copy whose elements the threads of a GPU's block will share out: adjacent elements for one thread at a time, int64 [N]."""

    tile: WarpTile | None = None
    """Of what the threads of a warp do together: instructions run the innermost loops."""
    box_dims: int = 0
    """Innermost loops of what the tensor copy engine copies at once, for all threads of a block; 0 of what threads do."""

    def take(self, rows: np.ndarray) -> Nest:
        """The nest for some of the candidates."""
        return replace(
            self,
            loops=[replace(loop, extent=loop.extent[rows]) for loop in self.loops],
            accesses=[access.take(rows) for access in self.accesses],
            shared_out=None if self.shared_out is None else self.shared_out[rows],
        )

    @property
    def is_last_step(self) -> bool:
        """Whether it only combines, in straight-line code, what another nest left in registers: the lanes of a vector, say."""
        written = {access.buffer for access in self.accesses if access.is_write}
        operands = [access for access in self.accesses if access.buffer not in written]
        return (
            self.is_reduction
            and bool(operands)
            and all(access.scope == "local" for access in operands)
            and all(loop.mark in ("unroll", "vectorize") for loop in self.loops if loop.is_reduction)
        )

    def iterations(self) -> np.ndarray:
        """Total number of innermost iterations [N], float64."""
        total: np.ndarray = np.ones(1)
        for loop in self.loops:
            total = total * loop.extent.astype(np.float64)
        return total


@dataclass
class Skeleton:
    """All nests of a function in program order, for N candidates."""

    size: int
    nests: list[Nest] = field(default_factory=list)

    def take(self, rows: np.ndarray) -> Skeleton:
        """The same nests for some of the candidates: int64 [n] tells which, in which order."""
        return Skeleton(len(rows), [nest.take(rows) for nest in self.nests])
