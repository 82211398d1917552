"""What a kernel says about itself to those who schedule, compile, run and check it: names of attributes that all of them know.

A model's compiler says which parameters of a kernel are weights. A schedule may want them in another layout: the blocks that bring them
there are annotated, and taken out of the kernel, which then says what it takes in place of the original weights. A schedule that
computes by another algorithm says how that rounds.
"""

from __future__ import annotations

from .function import PrimFunc

LAYOUT_FREE_BUFFERS = "layout_free_buffers"
"""Of a function: the positions of the parameters that are constants of a model, whose layout is the kernel's to choose."""

LAYOUT_REWRITE_PREPROC = "meta_schedule.layout_rewrite_preproc"
"""Of a block: it writes a weight in the layout that the kernel wants, and runs once, when the model is compiled."""

LAYOUT_REWRITE_MAPS = "layout_rewrite_maps"
"""Of a kernel without such blocks: by positions of parameters the IndexMap from the original layout of a weight to the one it takes."""

WEIGHT_PROGRAMS = "weight_programs"
"""Of a kernel without such blocks: by positions of parameters the PrimFunc that computes from a weight what the map begins with."""

ROUNDING_PROGRAM = "rounding_program"
"""Of a function: a PrimFunc of the same parameters that rounds as its schedule does.

Most primitives change the order of sums at most, which every check allows for. One that computes the same by other operations (a
convolution by interpolation) leaves the program that it has made here. A check may analyse that program as it analyses the unscheduled
one, and so knows how far a right kernel may be off; the values are those of the unscheduled program in any case.
"""

DOT_PRODUCT = "dot_product"
"""Of a loop: it runs over the group of narrow numbers that one instruction of the processor multiplies and adds to each lane.

It stands inside of a vectorized loop; :class:`ir.tir.transform.InjectDotProduct` takes it for one operation. Which groups a target has an
instruction for, :func:`ir.codegen.llvm.dot_product.group_of` says.
"""

MATRIX_TILE = "matrix_tile"
"""Of a loop: it runs over the sixteen groups of narrow numbers of which registers of a matrix unit have one in each row or column.

The loops of a tile's rows and columns stand in it, and one over the group, see :data:`DOT_PRODUCT`, in these.
:class:`ir.tir.transform.InjectMatrixTiles` makes instructions of all of them.
"""


def layout_free_positions(func: PrimFunc) -> list[int]:
    """The positions of a function's parameters that are constants of a model, in the order in which the function names them."""
    return [int(getattr(item, "value", item)) for item in func.attrs.get(LAYOUT_FREE_BUFFERS, ())]
