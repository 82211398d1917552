"""Arithmetic of a nest: operation counts, vector width, and the register tile of its straight-line body.

The body is what the code generator turns into straight-line code: the unrolled and vectorized loops at the bottom of a nest.
Its instructions (arithmetic, loads, stores, spills) and its longest chain of dependent operations decide how busy the
arithmetic units can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ir.tir.analysis.contiguous import MOST_PICKED
from ir.tir.analysis.register_squares import square_side
from schedules.population.skeleton import Nest, OperationGroup
from schedules.rule.register_tile import LONG_BODY

from .loops import Array, NestLoops, at_level
from .machine import Machine
from .memory import Slot

KINDS = (
    "float_mad",
    "float_addsub",
    "float_mul",
    "float_divmod",
    "float_cmp",
    "float_math",
    "int_ops",
    "bool_ops",
    "select",
)
"""Kinds of operations that a nest counts."""


@dataclass
class RegisterTile:
    """The straight-line body of a nest, per candidate; arrays are float64 [N]."""

    lanes: Array
    """Elements per vector instruction."""
    vector_extent: Array
    """Extent of the vector loop."""
    implicit: Array
    """bool: vectorized by the compiler, not by a mark."""
    iterations: Array
    """Iterations of the body's loops."""
    vector_iterations: Array
    """The same in vector instructions."""
    steps: Array
    """Dependent reduction steps in the body."""
    chained: Array
    """bool: consecutive bodies depend on each other through an accumulator."""
    accumulators: Array
    """Vector registers that hold what the nest writes."""
    operands: Array
    """Vector registers that one reduction step needs besides."""
    spilled: Array
    """Vectors that move to the stack and back in every body because registers do not suffice."""
    reloads: Array
    """Vectors that the compiler loads well before their (last) use, spills, and loads again: where windows of reduction steps
    overlap, and in long bodies."""
    loads: Array
    """Load instructions of a body."""
    broadcasts: Array
    """Those among them that fill a vector with one element."""
    gathered: Array
    """Elements inserted one by one into vectors."""
    stores: Array
    """Store instructions of a body."""
    scattered: Array
    """Elements stored one by one."""
    in_registers: list[Array]
    """Per slot, bool [N]: lives in registers while the nest's inner loops run."""


def operation_counts(nest: Nest) -> dict[str, int]:
    """Operations per innermost iteration, every kind."""
    return {kind: int(nest.operations.get(kind, 0)) for kind in KINDS}


def executions(group: OperationGroup, loops: NestLoops, tile: RegisterTile) -> Array:
    """How often a body executes each operation of a group, in vector instructions: float64 [N].

    What no loop of the body changes the compiler computes before it, and what an outer loop does not change, outside of that.
    """
    moved = [group.moved[position] for position in loops.kept]
    if all(moved):
        return tile.vector_iterations
    times, before = np.ones_like(tile.lanes), np.ones_like(tile.lanes)
    innermost = loops.innermost(np.array(moved, dtype=np.float64)[:, None] * np.ones_like(loops.extents)) > 0
    for position, changes in enumerate(moved):
        inside, extent = position >= loops.body, loops.extents[position]
        if changes:
            times = times * np.where(inside, extent, 1.0)
            before = np.where(inside | (extent == 1), before, 1.0)
        else:
            # Trips of the loops around the body since the last execution.
            before = before * np.where(inside, 1.0, extent)
    by_mark = loops.vector is not None and moved[loops.vector]
    vectors = np.where(tile.implicit, innermost, by_mark)
    times = np.where(vectors, np.maximum(times / tile.lanes, 1.0), times)
    # What several vectors hold would need as many registers to stay from one body to the next.
    return np.asarray(np.where(times > 1, times, times / before))


def _vectors(extent: Array, most: int) -> Array:
    """How many vectors run a loop over elements: whole ones, and for what is left narrower ones of powers of two."""
    rest = extent % most
    narrower = sum((rest >> bit) & 1 for bit in range(most.bit_length()))
    return np.asarray(extent // most + narrower)


def _lanes(loops: NestLoops, slots: list[Slot], machine: Machine, free: Array) -> tuple[Array, Array, Array]:
    """(lanes, vector extent, implicit) as the postprocessor and then LLVM, where it is ``free`` to, choose them."""
    size = loops.inner.shape[1]
    width = min((slot.element_bytes for slot in slots if slot.writes), default=4)
    most = max(1, machine.vector_bytes // width)
    lanes = np.ones(size)
    extent = np.ones(size)
    if loops.vector is not None:
        extent = loops.extents[loops.vector]
        lanes = np.where(extent > 1, extent / _vectors(extent.astype(np.int64), most), 1.0)
    # LLVM vectorizes an innermost loop by itself where accesses are contiguous or invariant; in a reduction, what it writes
    # must be invariant.
    friendly = np.zeros((loops.count, size))
    for position in range(loops.count):
        if loops.marks[position] == "parallel":
            continue
        fits = np.ones(size, dtype=bool)
        for slot in slots:
            fits &= slot.strides[position] <= (0 if slot.writes and loops.reductions[position] else 1)
            if slot.writes and slot.reads and not loops.reductions[position]:
                fits &= slot.moved_by(position)  # else a value passes from step to step, as in a running sum
        friendly[position] = np.where(fits, 1.0, 0.0)
    length = loops.innermost(loops.extents, 1.0)
    implicit = (extent <= 1) & (loops.innermost(friendly) > 0) & (length >= 4) & free
    lanes = np.where(implicit, np.minimum(float(most), length), lanes)
    return lanes, np.where(implicit, length, extent), implicit


def compiler_vectorizes(loops: Sequence[NestLoops]) -> Array:
    """Where LLVM's own vectorizer runs on a program: if no loop is vectorized explicitly, or a reduction is left scalar. bool [N]."""
    size = loops[0].inner.shape[1]
    explicit, scalar_reduction = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    for nest in loops:
        wide = np.zeros(size, dtype=bool) if nest.vector is None else nest.extents[nest.vector] > 1
        explicit |= wide
        innermost_reduces = nest.innermost(
            np.array(nest.reductions, dtype=np.float64)[:, None] * np.ones_like(nest.extents)
        )
        scalar_reduction |= ~wide & (innermost_reduces > 0)
    return ~explicit | scalar_reduction


def register_tile(loops: NestLoops, slots: list[Slot], machine: Machine, free: Array) -> RegisterTile:
    """Facts about the straight-line body of a nest; ``free`` says where the compiler vectorizes by itself."""
    size = loops.inner.shape[1]
    lanes, vector_extent, implicit = _lanes(loops, slots, machine, free)
    body = loops.body
    iterations = at_level(loops.inner, body)
    by_compiler = implicit & (iterations == 1)  # loops that are marked, but run once, are no body either
    iterations = np.where(by_compiler, lanes, iterations)
    steps = loops.product_inside(body, loops.reductions)
    outside = np.maximum(body - 1, 0)
    accumulators, operands = np.zeros(size), np.zeros(size)
    loads, broadcasts, gathered = np.zeros(size), np.zeros(size), np.zeros(size)
    stores, scattered = np.zeros(size), np.zeros(size)
    chained = np.zeros(size, dtype=bool)
    resident_slots = []
    live, repeated = np.zeros(size), np.zeros(size)
    pending: list[tuple[Slot, Array, Array]] = []
    for slot in slots:
        stride = _vector_stride(slot, loops, implicit)
        count = at_level(slot.elements, body)
        contiguous = stride == 1
        vectors = np.where(contiguous | (lanes == 1), count / np.where(by_compiler, 1.0, lanes), count)
        vectors = np.maximum(vectors, 1.0)
        still = np.zeros(size, dtype=bool)
        if loops.count:
            moved = np.stack([slot.strides[position] != 0 for position in range(loops.count)])
            still = ~moved[outside, np.arange(size)] & (body > 0)
        if slot.writes:
            held = vectors
            if slot.is_local:
                # The tile is a register array if all of it is addressed by constants.
                whole = slot.elements[min(slot.shared, loops.count)]
                held = np.maximum(np.where(contiguous | (lanes == 1), whole / lanes, whole), 1.0)
                resident = whole <= count + 0.5
            else:
                resident = still & (slot.reads > 0)
            reduces = slot.reads > 0
            accumulators = accumulators + np.where(resident & (reduces | slot.is_local), held, 0.0)
            chained = chained | (still & reduces)
            kept = resident & (still | slot.is_local) & (reduces | slot.is_local)
            plain = np.where(contiguous | (lanes == 1) | (stride == 0), vectors, 0.0)
            spread = np.where(contiguous | (lanes == 1) | (stride == 0), 0.0, vectors)
            stores = stores + np.where(kept, 0.0, plain)
            scattered = scattered + np.where(kept, 0.0, spread)
            loads = loads + np.where(kept | (slot.reads == 0), 0.0, vectors)
            resident_slots.append(resident & (reduces | slot.is_local))
            continue
        if slot.is_local:
            resident = slot.elements[min(slot.shared, loops.count)] <= count + 0.5
            resident_slots.append(resident)
            loads = loads + np.where(resident, 0.0, vectors)
            continue
        resident_slots.append(np.zeros(size, dtype=bool))
        reads = vectors * max(1, slot.reads)
        spread = (stride > 1) & (lanes > 1)
        # Lanes near each other are picked out of as many whole vectors as they are apart.
        picked = spread & (stride <= np.minimum(MOST_PICKED, lanes // 2))
        side = square_side(8 * slot.element_bytes, 8 * machine.vector_bytes, machine.vector_registers)
        turned = np.where(spread & ~picked, _turned_share(slot, slots, loops, lanes, side), 0.0)
        loaded = np.where(picked, stride / lanes, turned / side + 1.0 - turned)
        loads = loads + np.where(still & (vectors <= 4), 0.1, 1.0) * reads * loaded
        broadcasts = broadcasts + np.where((stride == 0) & (lanes > 1), reads, 0.0)
        # Of a square that is turned in registers each vector takes a logarithm of shuffles.
        one_by_one = 1.0 - turned * (1.0 - np.log2(side) / side)
        gathered = gathered + np.where(spread, reads, 0.0) * np.where(
            picked, (stride - 1) / lanes, one_by_one
        )
        pending.append((slot, vectors, stride))
        kept_live, reused = _shared_by_steps(slot, loops)
        scale = np.where(contiguous, lanes, 1.0)
        live = live + kept_live / scale
        repeated = repeated + reused / scale
    # One reduction step needs a row of the vector operand in registers; broadcasts can be memory operands of the FMA.
    for _slot, vectors, stride in pending:
        operands = operands + np.where(stride == 0, 1.0, np.minimum(vectors / steps, 8.0))
    pressure = accumulators + operands
    # One register too few makes the compiler keep most accumulators on the stack from one body to the next.
    spilled = np.where(
        pressure > machine.vector_registers,
        np.maximum(pressure - machine.vector_registers, 0.7 * accumulators),
        0.0,
    )
    # Loads that several steps share stay live from the first to the last of these steps.
    crowded = np.clip((pressure + live - machine.vector_registers) / np.maximum(live, 1.0), 0.0, 1.0)
    reloads = np.where(live > 0, crowded, 0.0) * repeated
    # In long bodies the compiler moves loads far ahead of their use.
    half = machine.vector_registers / 2
    reloads = reloads + 0.3 * np.clip((pressure - half - 1.0) / 2.0, 0.0, 1.0) * np.maximum(
        iterations / lanes - LONG_BODY, 0.0
    )
    return RegisterTile(
        lanes,
        vector_extent,
        implicit,
        iterations,
        np.maximum(iterations / lanes, 1.0),
        steps,
        chained,
        accumulators,
        operands,
        spilled,
        reloads,
        loads,
        broadcasts,
        gathered,
        stores,
        scattered,
        resident_slots,
    )


def _turned_share(slot: Slot, slots: list[Slot], loops: NestLoops, lanes: Array, side: int) -> Array:
    """Of vectors that lie apart in what a slot reads, the share that is read along a loop and turned in registers, in squares of ``side``
    vectors (:class:`ir.tir.transform.TransposeInRegisters`): float64 [N]."""
    share = np.zeros_like(lanes)
    if side < 2 or any(other.writes and other.reads for other in slots):
        return share  # what a reduction adds to is read by the next iteration
    for position in range(loops.count):
        if loops.marks[position] in ("", "unroll"):
            extent = loops.extents[position]
            whole = np.where(slot.strides[position] == 1, extent - extent % side, 0.0) / extent
            share = np.maximum(share, np.where(lanes % side == 0, whole, 0.0))
    return share


def _shared_by_steps(slot: Slot, loops: NestLoops) -> tuple[Array, Array]:
    """(elements that are live between reduction steps which share them, uses of such elements beyond the first): [N] each."""
    size = loops.inner.shape[1]
    live, growth = np.zeros(size), np.ones(size)
    for position in range(loops.count - 1, -1, -1):
        if not loops.reductions[position] or loops.marks[position] not in ("unroll", "vectorize"):
            continue
        extent = loops.extents[position]
        apart = slot.elements[position + 1] * extent
        shares = (apart > 1.01 * slot.elements[position]) & slot.moved_by(position) & (position >= loops.body)
        live = np.where(shares, slot.elements[position], live)
        growth = np.where(shares, growth * apart / slot.elements[position], growth)
    return live, (growth - 1.0) * at_level(slot.elements, loops.body)


def _vector_stride(slot: Slot, loops: NestLoops, implicit: Array) -> Array:
    """Elements between neighbouring lanes: of the vector loop, or of the innermost loop where that is vectorized: int64 [N]."""
    size = loops.inner.shape[1]
    if not loops.count:
        return np.zeros(size, dtype=np.int64)
    inner = loops.innermost(slot.strides.astype(np.float64)).astype(np.int64)
    if loops.vector is None:
        return inner
    return np.asarray(
        np.where(implicit | (loops.extents[loops.vector] == 1), inner, slot.strides[loops.vector])
    )
