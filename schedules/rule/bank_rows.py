"""Rows of matrices in shared memory that lie so far apart that the threads of a warp meet in no bank.

A warp reads eight rows of a fragment at once. Where rows begin a multiple of 128 bytes apart, which all banks together are wide, they
begin in one bank, and the accesses wait for each other; where they begin as many bytes further on as one access takes of a row, the
eight lie side by side. (Ruetsch and Micikevicius: "Optimizing matrix transpose in CUDA", 2009, for the idea; the layouts of fragments:
PTX ISA, "Matrix Fragments for mma.m16n8k16".)
"""

from __future__ import annotations

from ir import dtype as dt
from ir import tir
from ir.target.gpu_facts import ACCESS_BYTES

from ..block_facts import node_of
from ..random_variable import BlockRV
from ..schedule import Schedule
from .device_limits import RowStep

BANKS_BYTES = 128
"""Bytes that all banks of shared memory give at once."""
_ROW_ELEMENTS = 8
"""Of a row of the sums, or of an operand whose rows run across the sum: four threads have two of them each, or eight one."""


def row_step(buffer: tir.Buffer, along_sum: bool = False) -> RowStep:
    """How far rows of a matrix lie apart so that loads and stores of fragments are free of conflicts.

    >>> from ir.tir import decl_buffer
    >>> row_step(decl_buffer((64, 64), "float16"), along_sum=True), row_step(decl_buffer((64, 64), "float32"))
    (RowStep(factor=64, offset=8), RowStep(factor=32, offset=8))

    Args:
        buffer: the matrix; of its elements four bytes or fewer are one access.
        along_sum: whether its rows are along the axis that is summed over, of which a thread takes four bytes, a row of threads 16.
    """
    size = dt.bytes_of(buffer.dtype)
    step = ACCESS_BYTES if along_sum else max(ACCESS_BYTES, _ROW_ELEMENTS * size)
    return RowStep(BANKS_BYTES // size, step // size)


def spread_rows(sch: Schedule, writer: BlockRV, step: RowStep) -> None:
    """Lay out what a block writes by rows that far apart, if it is a matrix in shared memory."""
    buffer = node_of(sch, writer).writes[0].buffer
    if buffer.scope().startswith("shared") and len(buffer.shape) > 1:
        sch.storage_align(writer, 0, -2, step.factor, step.offset)
