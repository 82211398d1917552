"""Products of any axes in the form in which tensor intrinsics describe their tiles: two matrices, each with the sum's axis first or last.

    C[n, y, x, f] += D[n, y + r, x + s, c] * W[r, s, c, f]     becomes     C2[m, f] += D2[m, k] * W2[k, f]

with the places of the image as rows (m) and what the filter is over as the sum's axis (k). An image whose channels come first has the
filters as rows, since neighbouring results in memory are to be neighbours in a tile. The matrices D2, W2 and C2 are no memory in the
end: copies to and from tiles compute their elements' places. (Implicit GEMM: Chetlur et al., "cuDNN: Efficient Primitives for Deep
Learning", 2014.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ir import tir
from ir.tir.stmt_functor import loads_in, variables_in

from ..affine import coefficient_of
from ..block_facts import is_one, node_of, operand_loads
from ..random_variable import BlockRV
from ..schedule import Schedule
from ..tree import BlockNode
from .matrix_form import Order, as_matrices
from .product_form import ProductAxes, product_axes

_WIDEST_STEP = 3
"""Elements that the operands of neighbouring results may lie apart and still be read side by side: the strides of usual convolutions."""
_LHS: dict[bool, Order] = {True: ("batch", "k", "m"), False: ("batch", "m", "k")}
_RHS: dict[bool, Order] = {True: ("batch", "n", "k"), False: ("batch", "k", "n")}


@dataclass(frozen=True)
class TileForm:
    """How the operands of ``C[m, n] += A * B`` lie, and of which dtypes they are."""

    dtypes: tuple[str, str, str]
    """Of C, A and B."""
    trans_a: bool
    """Whether A is ``A[k, m]``, not ``A[m, k]``."""
    trans_b: bool
    """Whether B is ``B[n, k]``, not ``B[k, n]``."""

    def likeness(self, other: TileForm) -> int:
        """How many operands lie as those of another form."""
        return (self.trans_a == other.trans_a) + (self.trans_b == other.trans_b)


def described_form(desc: tir.PrimFunc) -> TileForm | None:
    """The form of an intrinsic's description; None of what describes no product of matrices."""
    found: list[tir.Block] = []
    tir.post_order_visit(
        desc.body, lambda node: found.append(node) if isinstance(node, tir.Block) and node.iter_vars else None
    )
    if not found or not isinstance(found[0].body, tir.BufferStore):
        return None
    store = found[0].body
    loads = [load for load in loads_in(store.value) if load.buffer is not store.buffer]
    if len(loads) != 2 or {len(store.indices), *(len(load.indices) for load in loads)} != {2}:
        return None
    (m, n), (a, b) = store.indices, loads
    if m not in a.indices or n not in b.indices:
        return None
    dtypes = (store.buffer.dtype, a.buffer.dtype, b.buffer.dtype)
    return TileForm(dtypes, a.indices[1] is m, b.indices[0] is n)


@dataclass(frozen=True)
class ProductForm:
    """A block's product in the form that its memory suggests: copies read and write neighbours."""

    axes: ProductAxes
    """With the filters of a convolution as rows where places are neighbours in the result; digits in the order of memory."""
    form: TileForm


def product_in_memory(node: BlockNode) -> ProductForm | None:
    """The product that a block computes, by rows and columns that suit its memory; None of a block that is no product of matrices."""
    axes = product_axes(node)
    if axes is None or not axes.m or not axes.n:
        return None
    loads = {load.buffer: load for load in operand_loads(node)}
    written = node.writes[0]
    output = [item.min for item in written.region]
    last = _neighbours(output, written.buffer.shape)
    if last and last <= set(axes.m):
        axes = replace(axes, m=axes.n, n=axes.m, lhs=axes.rhs, rhs=axes.lhs)
    a, b = (loads[node.reads[position].buffer] for position in (axes.lhs, axes.rhs))
    trans_a = _is_along(a, axes.m, axes.k)
    trans_b = not _is_along(b, axes.n, axes.k)
    summed = a if not trans_a else b
    axes = replace(
        axes,
        batch=_sorted(axes.batch, output),
        m=_sorted(axes.m, output),
        n=_sorted(axes.n, output),
        k=_sorted(axes.k, summed.indices),
    )
    dtypes = (written.buffer.dtype, a.buffer.dtype, b.buffer.dtype)
    return ProductForm(axes, TileForm(dtypes, trans_a, trans_b))


def nearest_form(product: ProductForm, forms: Iterable[TileForm]) -> TileForm | None:
    """The one of some forms that is most like a product's; None where none has its dtypes."""
    fitting = [form for form in forms if form.dtypes == product.form.dtypes]
    return max(fitting, key=product.form.likeness, default=None)


def bring_into_form(sch: Schedule, block: BlockRV, product: ProductForm, form: TileForm) -> None:
    """Make a block a product ``C[b, m, n] += A * B`` whose operands lie as a form says; it is left alone where it is one.

    Raises:
        ScheduleError: an operand is read in several ways, say.
    """
    lhs, rhs = _LHS[form.trans_a], _RHS[form.trans_b]
    if not _has_form(node_of(sch, block), product.axes, lhs, rhs):
        as_matrices(sch, block, product.axes, lhs, rhs)


def _has_form(node: BlockNode, axes: ProductAxes, lhs: Order, rhs: Order) -> bool:
    """Whether a block runs over batch, m, n and k, and indexes its memory by them in the wanted order."""
    if not axes.is_matrix():
        return False
    names = {var: kind for kind in ("batch", "m", "n", "k") for var in getattr(axes, kind)}
    variables = [names.get(item.var) for item in node.iter_vars]
    sides = ((node.writes[0], ("batch", "m", "n")), (node.reads[axes.lhs], lhs), (node.reads[axes.rhs], rhs))
    return variables == [*["batch"] * len(axes.batch), "m", "n", "k"] and all(
        _in_order([names.get(item.min) for item in region.region], order) for region, order in sides
    )


def _in_order(kinds: Sequence[str | None], order: Sequence[str]) -> bool:
    """Whether dimensions are batches, and then the two of a matrix."""
    return list(kinds[-2:]) == list(order[-2:]) and all(kind == "batch" for kind in kinds[:-2])


def _neighbours(indices: Sequence[tir.PrimExpr], shape: Sequence[tir.PrimExpr]) -> set[Any]:
    """The variables by which one comes to the next element in memory, or to one near it."""
    for index, extent in zip(reversed(indices), reversed(shape), strict=True):
        if not is_one(extent):
            steps = {var: coefficient_of(index, var) for var in variables_in(index)}
            return {var for var, step in steps.items() if step and abs(step) <= _WIDEST_STEP}
    return set()


def _is_along(load: tir.BufferLoad, own: Sequence[Any], summed: Sequence[Any]) -> bool:
    """Whether neighbours in memory are at neighbouring rows or columns, rather than on the sum's axis."""
    near = _neighbours(load.indices, load.buffer.shape)
    return bool(near & set(own)) or not near & set(summed)


def _sorted(variables: Sequence[Any], indices: Sequence[tir.PrimExpr]) -> tuple[Any, ...]:
    """Variables by the dimension that they index, the outermost first."""
    order = {var: place for place, index in enumerate(indices) for var in variables_in(index)}
    return tuple(sorted(variables, key=lambda var: order.get(var, -1)))
