"""The primitive that computes a 3 x 3 convolution with fewer multiplications: winograd.

A tile of ``m x m`` outputs needs ``m + 2`` times as many products as in one dimension, instead of nine for each output: the filter and
the window of inputs below the tile are transformed, multiplied point by point, and what is summed up over the channels is transformed back.
(Winograd, Arithmetic Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Generic, NamedTuple, TypeVar

from ir import tir
from ir.tir import IterVar
from ir.tir.analysis.block_access_region import stating_its_accesses
from ir.tir.kernel_attributes import LAYOUT_REWRITE_PREPROC, ROUNDING_PROGRAM

from ..access import state_around
from ..analysis import require, require_blocks_only
from ..argument import Argument, Block
from ..convolution import Convolution, convolution_of, extent_of
from ..cook_toom import CookToom, Matrix, cook_toom
from ..declaration import PrimitiveFamily, primitive
from ..effects import require_no_effects
from ..layout_rewrite import layout_free_parameters
from ..linear_map import StraightLine
from ..random_variable import BlockRV
from ..tree import (
    BlockNode,
    LeafNode,
    LoopNode,
    TreeNode,
    fresh_block_name,
    insert_beside,
    loops_around,
    replace_node,
    scope_of,
    take_place_of,
)

_TAPS = 3
_POINTS = {2: (0, 1, -1), 4: (0, 1, -1, 2, -2)}
"""Points of interpolation by the size of the tile; infinity is one more. Small ones of either sign keep the entries of the matrices, by
which roundings grow, small."""
TILES = tuple(_POINTS)
"""The sizes of tiles that there are."""
DTYPES = ("float32", "float64")
"""Whole numbers have no halves, and narrow floats not the digits for what roundings grow to."""

_OUTER_NAMES, _TAP_NAMES = "zuvw", "rsde"
"""Of the variables of outer axes, and of their taps."""

_T = TypeVar("_T")
Nest = tuple[TreeNode, BlockNode]
"""Loops, and the block in them."""


class ProductAxes(NamedTuple, Generic[_T]):
    """What is known of each data-parallel axis of the block that multiplies, by what the axis runs over.

    Attributes:
        point: the points of a tile.
        image: batch, outer axes, and tiles of the last two.
        between: the tiles between each other's outputs, of each dilation that there is.
        filters: the filters.
    """

    point: _T
    image: list[_T]
    between: list[_T]
    filters: _T

    @staticmethod
    def of(axes: Sequence[_T], form: Convolution) -> ProductAxes[_T]:
        """Of something for each axis, in the block's order."""
        point, *windows, filters = axes
        first = len(windows) - len(_phases(form))
        return ProductAxes(point, windows[:first], windows[first:], filters)


def saves_products(form: Convolution, tile: int) -> bool:
    """Whether tiles of a size take fewer products than the convolution: whole tiles reach beyond a small image, or a wide dilation."""
    sides = zip(_tile_counts(form, tile), form.dilations, strict=True)
    points = (tile + _TAPS - 1) ** 2
    return points * prod(count * dilation for count, dilation in sides) < _TAPS**2 * prod(
        map(extent_of, form.places)
    )


def _tile_counts(form: Convolution, tile: int) -> list[int]:
    """Tiles along the last two axes, those between each other's outputs being one."""
    return [
        -(-extent_of(place) // (tile * dilation))
        for place, dilation in zip(form.places, form.dilations, strict=True)
    ]


def _phases(form: Convolution) -> list[int]:
    """How many tiles lie between each other's outputs, along each of the last two axes that has a dilation."""
    return [dilation for dilation in form.dilations if dilation > 1]


class WinogradPrimitives(PrimitiveFamily):
    """Convolutions by interpolation."""

    @primitive("Winograd", block=Block(), tile=Argument())
    def winograd(self, block: BlockRV | str, tile: int) -> list[BlockRV]:
        """Compute a 3 x 3 convolution by Winograd's algorithm F(tile x tile, 3 x 3), with ``tile`` 2 or 4.

        ``O[n, h, w, k] = sum(D[n, h + r, w + s, c] * W[r, s, c, k])`` becomes, with ``G``, ``B^T``, ``A^T`` from
        :func:`schedules.cook_toom.cook_toom` and one product per point ``p`` of ``(tile + 2) ** 2``::

            O_weights[p, c, k]       = G W[:, :, c, k] G^T
            O_inputs[p, n, y, x, c]  = B^T D[n, y * tile: y * tile + tile + 2, ..., c] B
            O_products[p, n, y, x, k] = sum over c of O_inputs[p, n, y, x, c] * O_weights[p, c, k]
            O_tiles[n, y, x, :, :, k] = A^T O_products[:, n, y, x, k] A
            O[n, h, w, k]            = O_tiles[n, h // tile, w // tile, h % tile, w % tile, k]

        Of a convolution with dilation the inputs and outputs of a tile lie so far apart; the tiles between each other's outputs make one
        larger tile. Where the filter moves along more axes (volumes), the algorithm is that of the last two, and the products are summed
        up over the taps of the others, too.

        The last of these is the block that the caller has. Where the channels are not the data's last dimension, tiles reach beyond it, or
        it is more than a load, a block before the second brings it into ``O_padded[n, h, w, c]``. Weights in whose layout the function is
        free (``layout_free_buffers``) are transformed when a model is compiled.

        Rounding errors are larger than those of the convolution, six to nine times for 4 x 4 tiles (docs/performance.md), and a number
        that is not finite spoils its whole tile: the function's attribute ``rounding_program`` holds the program as it is now, by which
        a check may judge what errors are right. There each transform of this convolution takes two steps, the columns of its windows and
        then their rows, which rounds the same numbers; the whole of a 4 x 4 tile's transforms takes seconds to analyse and compile.

        Returns:
            The blocks that transform weights and inputs, multiply, and transform the products.

        Raises:
            ScheduleError: the block is no convolution of float32 or float64 with known extents, 3 x 3 taps along its last two axes, stride
                1 and one group, alone in its nest; or there is no such tile.
        """
        node = self._block(block)
        name = self._function_of(node)
        copies: dict[int, TreeNode] = {}
        root = self._roots[name].copy(copies)
        made = _winograd(node, tile, layout_free_parameters(self._functions[name]))
        copied = copies[id(node)]
        assert isinstance(copied, BlockNode) and isinstance(root, BlockNode)
        _winograd(copied, tile, (), in_steps=True)
        rounding = self._function_with(name, root).without_attr(ROUNDING_PROGRAM)
        self._functions[name] = self._functions[name].with_attr(ROUNDING_PROGRAM, rounding)
        return self._new(made)


def _winograd(
    block: BlockNode, tile: int, constants: Sequence[tir.Buffer], *, in_steps: bool = False
) -> list[BlockNode]:
    name = "winograd"
    require(tile in TILES, name, f"the tile is {' or '.join(map(str, TILES))}, got {tile!r}")
    require_blocks_only(block, name)
    require_no_effects([block], name)
    form = convolution_of(block)
    scope = scope_of(block)
    assert scope is not None
    require(
        form.dtype in DTYPES, name, f"block {block.name!r} computes {form.dtype}, not {' or '.join(DTYPES)}"
    )
    operands = (form.data.dtype, form.weights.dtype)
    require(
        operands == (form.dtype, form.dtype),
        name,
        f"block {block.name!r} multiplies {' and '.join(operands)}, not {form.dtype}",
    )
    require(
        len(form.outer) <= len(_OUTER_NAMES),
        name,
        f"the filter of block {block.name!r} moves along {len(form.outer) + 2} axes, more than {len(_OUTER_NAMES) + 2}",
    )
    taps = [extent_of(item) for item in form.taps]
    require(taps == [_TAPS, _TAPS], name, f"block {block.name!r} has {taps[0]} x {taps[1]} taps, not 3 x 3")
    top = loops_around(block)[0]
    stages = _Stages(block, form, tile, in_steps)
    made = stages.nests(is_constant=any(form.weights.buffer is buffer for buffer in constants))
    for nest, inner in made:
        insert_beside(top, nest, before=True)
        state_around(inner)
    nest, last = stages.whole_image()
    replace_node(top, nest)
    take_place_of(block, last)  # the caller's reference follows the last step
    scope.change(alloc_buffers=(*scope.alloc_buffers, *stages.buffers))
    return [inner for _, inner in made[-4:]]


@dataclass(frozen=True)
class _Transform:
    """``matrix * window * matrix^T`` for the windows at all points of a domain.

    Attributes:
        name: of the step.
        matrix: a constant matrix.
        extents, names: the domain.
        window: the element ``(row, column, *point)``.
        target: where the result goes.
        place: of its element ``(row, column, *point)``.
    """

    name: str
    matrix: Matrix
    extents: Sequence[int]
    names: str
    window: Callable[..., tir.PrimExpr]
    target: tir.Buffer
    place: Callable[..., Sequence[Any]]


class _Stages:
    """The stages of a convolution by Winograd's algorithm; in steps, each transform is a nest for columns and one for rows."""

    def __init__(self, block: BlockNode, form: Convolution, tile: int, in_steps: bool) -> None:
        self.buffers: list[tir.Buffer] = []
        self._block, self._form, self._tile, self._in_steps = block, form, tile, in_steps
        self._width = tile + _TAPS - 1
        self._matrices: CookToom = cook_toom(tile, _TAPS, _POINTS[tile])
        self._index_type = form.batch.var.dtype
        self._batch, self._channels, self._filters = (
            extent_of(item) for item in (form.batch, form.channels, form.filters)
        )
        self._outer = [extent_of(axis.place) for axis in form.outer]
        self._outer_taps = [extent_of(axis.tap) for axis in form.outer]
        self._spans = [tile * dilation for dilation in form.dilations]
        """Outputs along the sides of a tile, with those of the tiles in between where there is a dilation."""
        self._counts, self._phases = _tile_counts(form, tile), _phases(form)
        sides = [tile, tile, *self._phases]
        self._tiles = self._buffer("tiles", [self._batch, *self._outer, *self._counts, *sides, self._filters])

    def nests(self, *, is_constant: bool) -> list[Nest]:
        """Those up to the tiles of the output, in order."""
        data, before = self._data()
        points = self._width**2
        weights = self._buffer("weights", [points, *self._outer_taps, self._channels, self._filters])
        inputs = self._buffer("inputs", [points, *self._windows(self._planes()), self._channels])
        products = self._buffer("products", [points, *self._windows(self._outer), self._filters])
        stages = [
            *self._transformed(self._weights_transform(weights)),
            *self._transformed(self._inputs_transform(data, inputs)),
            self._multiply(inputs, weights, products),
            *self._transformed(self._outputs_transform(products)),
        ]
        if is_constant:
            stages[0][1].annotations[LAYOUT_REWRITE_PREPROC] = 1
        return [*before, *stages]

    def _windows(self, outer: Sequence[int]) -> list[int]:
        """The extents of what windows are numbered by: batch, outer axes, tiles, and those between each other's outputs."""
        return [self._batch, *outer, *self._counts, *self._phases]

    @property
    def _window_names(self) -> str:
        return "n" + _OUTER_NAMES[: len(self._outer)] + "yx" + "gh"[: len(self._phases)]

    def _planes(self) -> list[int]:
        """Extents of the padded data along the outer axes."""
        return [
            extent + axis.dilation * (taps - 1)
            for axis, extent, taps in zip(self._form.outer, self._outer, self._outer_taps, strict=True)
        ]

    def _in_image(self, tile: Sequence[Any], phases: Sequence[Any], element: Sequence[Any]) -> list[Any]:
        """Row and column of an element of a tile."""
        left = list(phases)
        found = []
        for number, offset, dilation in zip(tile, element, self._form.dilations, strict=True):
            place = number * self._const(self._tile) + offset
            found.append(place if dilation == 1 else place * self._const(dilation) + left.pop(0))
        return found

    def _from_image(self, image: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Of an output's row and column: which tile it is in, where in that, and in which of those between each other's outputs."""
        tile, element, phases = [], [], []
        for place, span, dilation in zip(image, self._spans, self._form.dilations, strict=True):
            tile.append(place // self._const(span))
            within = place % self._const(span)
            element.append(within if dilation == 1 else within // self._const(dilation))
            if dilation > 1:
                phases.append(place % self._const(dilation))
        return tile, element, phases

    def whole_image(self) -> Nest:
        """The output from its tiles."""
        form = self._form
        items = (form.batch, form.filters, *(axis.place for axis in form.outer), *form.places)
        order = [next(item for item in items if item.var is index) for index in form.output.indices]

        def body(*point: Any) -> tir.Stmt:
            at = dict(zip([item.var for item in order], point, strict=True))
            tile, element, phases = self._from_image([at[item.var] for item in form.places])
            outer = [at[axis.place.var] for axis in form.outer]
            place = [at[form.batch.var], *outer, *tile, *element, *phases, at[form.filters.var]]
            return tir.BufferStore(form.output.buffer, tir.BufferLoad(self._tiles, place), list(point))

        names = [item.var.name.removeprefix("v_") for item in order]
        return self._nest(self._block.name, [extent_of(item) for item in order], names, body)

    def _data(self) -> tuple[Callable[..., tir.PrimExpr], list[Nest]]:
        """The data of ``(batch, (*outer, row, column), channel)``, and the nest that brings it into such an order where one has to."""
        form = self._form
        image = list(zip(form.places, form.dilations, self._counts, strict=True))
        given = [extent_of(place) + dilation * (_TAPS - 1) for place, dilation, _ in image]
        wanted = [(count * self._tile + _TAPS - 1) * dilation for _, dilation, count in image]
        if (
            given == wanted
            and isinstance(form.data, tir.BufferLoad)
            and form.data.indices[-1] is form.channels.var
        ):
            return form.data_at, []
        extents = [self._batch, *self._planes(), *wanted, self._channels]
        padded = self._buffer("padded", extents)

        def body(*point: Any) -> tir.Stmt:
            n, *places, c = point
            value = form.data_at(n, places, c)
            inside: Any = None
            for place, size, reach in zip(places[-2:], given, wanted, strict=True):
                if reach > size:
                    here = place < self._const(size)
                    inside = here if inside is None else tir.operators.logical_and(inside, here)
            if inside is not None:
                value = tir.if_then_else(inside, value, tir.const(0.0, form.dtype))
            return tir.BufferStore(padded, value, list(point))

        names = "n" + _OUTER_NAMES[: len(self._outer)] + "yxc"
        nest = self._nest(self._fresh("pad"), extents, names, body)
        return lambda n, places, c: tir.BufferLoad(padded, [n, *places, c]), [nest]

    def _weights_transform(self, weights: tir.Buffer) -> _Transform:
        return _Transform(
            "transform_weights",
            self._matrices.weights,
            [*self._outer_taps, self._channels, self._filters],
            _TAP_NAMES[: len(self._outer)] + "ck",
            lambda i, j, *point: self._form.weight_at((*point[:-2], i, j), *point[-2:]),
            weights,
            lambda i, j, *point: [self._point(i, j), *point],
        )

    def _inputs_transform(self, data: Callable[..., tir.PrimExpr], inputs: tir.Buffer) -> _Transform:
        def window(i: Any, j: Any, n: Any, *point: Any) -> tir.PrimExpr:
            outer, tile, phases, c = self._parts(point)
            return data(n, (*outer, *self._in_image(tile, phases, (i, j))), c)

        return _Transform(
            "transform_inputs",
            self._matrices.inputs,
            [*self._windows(self._planes()), self._channels],
            f"{self._window_names}c",
            window,
            inputs,
            lambda i, j, *point: [self._point(i, j), *point],
        )

    def _outputs_transform(self, products: tir.Buffer) -> _Transform:
        def place(i: Any, j: Any, n: Any, *point: Any) -> list[Any]:
            outer, tile, phases, k = self._parts(point)
            return [n, *outer, *tile, i, j, *phases, k]

        return _Transform(
            "transform_outputs",
            self._matrices.outputs,
            [*self._windows(self._outer), self._filters],
            f"{self._window_names}k",
            lambda i, j, *point: tir.BufferLoad(products, [self._point(i, j), *point]),
            self._tiles,
            place,
        )

    def _parts(self, point: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any], Any]:
        """The numbers of a window without its batch: along outer axes, of the tile, of that in between, and what comes last."""
        outer = len(self._outer)
        return point[:outer], point[outer : outer + 2], point[outer + 2 : -1], point[-1]

    def _multiply(self, inputs: tir.Buffer, weights: tir.Buffer, products: tir.Buffer) -> Nest:
        outer, windows = len(self._outer), self._windows(self._outer)

        def body(p: Any, *point: Any) -> tir.Stmt:
            window, k, taps, c = (
                point[: len(windows)],
                point[len(windows)],
                point[len(windows) + 1 : -1],
                point[-1],
            )
            place = [p, *window, k]
            moved = [
                here + tap * self._const(axis.dilation)
                for axis, here, tap in zip(self._form.outer, window[1 : 1 + outer], taps, strict=True)
            ]
            source = [p, window[0], *moved, *window[1 + outer :], c]
            term = tir.BufferLoad(inputs, source) * tir.BufferLoad(weights, [p, *taps, c, k])
            return tir.BufferStore(products, tir.BufferLoad(products, place) + term, place)

        extents = [self._width**2, *windows, self._filters, *self._outer_taps, self._channels]
        taps = _TAP_NAMES[:outer]
        names = f"p{self._window_names}k{taps}c"
        return self._nest(self._fresh("multiply"), extents, names, body, reduced=f"{taps}c")

    # ---- transforms --------------------------------------------------------------------------------------------

    def _transformed(self, transform: _Transform) -> list[Nest]:
        return self._columns_and_rows(transform) if self._in_steps else [self._both_sides(transform)]

    def _both_sides(self, transform: _Transform) -> Nest:
        """A nest that transforms a whole window at a time."""
        size = range(len(transform.matrix[0]))

        def body(*point: Any) -> tir.Stmt:
            lines = StraightLine(self._form.dtype)
            window = [[transform.window(self._const(i), self._const(j), *point) for j in size] for i in size]
            values = lines.on_both_sides(transform.matrix, window)
            return lines.stored(
                transform.target,
                values,
                lambda i, j: transform.place(self._const(i), self._const(j), *point),
            )

        return self._nest(self._fresh(transform.name), transform.extents, transform.names, body)

    def _columns_and_rows(self, transform: _Transform) -> list[Nest]:
        """Nests that transform the columns of windows, and the rows of what comes out."""
        matrix, extents = transform.matrix, transform.extents
        rows, columns = len(matrix), len(matrix[0])
        between = self._buffer(f"{transform.name}_columns", [*extents, rows, columns])

        def column(*place: Any) -> tir.Stmt:
            *point, j = place
            lines = StraightLine(self._form.dtype)
            items = [lines.named(transform.window(self._const(i), j, *point)) for i in range(columns)]
            values = lines.applied(matrix, items)
            return lines.stored(between, [values], lambda _, i: [*point, self._const(i), j])

        def row(*place: Any) -> tir.Stmt:
            *point, i = place
            lines = StraightLine(self._form.dtype)
            items = [
                lines.named(tir.BufferLoad(between, [*point, i, self._const(j)])) for j in range(columns)
            ]
            values = lines.applied(matrix, items)
            return lines.stored(
                transform.target, [values], lambda _, j: transform.place(i, self._const(j), *point)
            )

        return [
            self._nest(
                self._fresh(f"{transform.name}_columns"), [*extents, columns], f"{transform.names}j", column
            ),
            self._nest(self._fresh(transform.name), [*extents, rows], f"{transform.names}i", row),
        ]

    # ---- how they are made -------------------------------------------------------------------------------------

    def _const(self, value: int) -> tir.IntImm:
        return tir.const(value, self._index_type)  # type: ignore[return-value]

    def _point(self, row: tir.PrimExpr, column: tir.PrimExpr) -> tir.PrimExpr:
        return row * self._const(self._width) + column

    def _fresh(self, step: str) -> str:
        return fresh_block_name(self._block, f"{self._block.name}_{step}")

    def _buffer(self, suffix: str, shape: Sequence[int]) -> tir.Buffer:
        extents = [self._const(extent) for extent in shape]
        made = tir.decl_buffer(extents, self._form.dtype, f"{self._form.output.buffer.name}_{suffix}")
        self.buffers.append(made)
        return made

    def _nest(
        self,
        name: str,
        extents: Sequence[int],
        names: Sequence[str],
        body: Callable[..., tir.Stmt],
        reduced: Sequence[str] = "",
    ) -> Nest:
        """Loops around a block with a body of its variables; sums over some of them begin at zero."""
        loops = [tir.Var(item, self._index_type) for item in names]
        point = [tir.Var(f"v_{item}", self._index_type) for item in names]
        iter_vars = [
            IterVar(
                tir.Range.from_min_extent(self._const(0), self._const(extent)),
                var,
                IterVar.CommReduce if item in reduced else IterVar.DataPar,
            )
            for item, var, extent in zip(names, point, extents, strict=True)
        ]
        leaf = body(*point)
        stated = stating_its_accesses(tir.Block(iter_vars, (), (), name, leaf))
        written = {region.buffer for region in stated.writes}
        init = None
        if reduced:
            assert isinstance(leaf, tir.BufferStore)
            init = tir.BufferStore(leaf.buffer, tir.const(0.0, self._form.dtype), leaf.indices)
        block = BlockNode(
            name,
            tuple(iter_vars),
            tuple(loops),
            tuple(region for region in stated.reads if region.buffer not in written),
            tuple(stated.writes),
            LeafNode(leaf),
            init=init,
        )
        nest: TreeNode = block
        for loop, extent in zip(reversed(loops), reversed(extents), strict=True):
            nest = LoopNode(loop, self._const(extent), nest)
        return nest, block
