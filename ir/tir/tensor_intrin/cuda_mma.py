"""Tensor cores of NVIDIA's GPUs by ``mma.sync``: matrices that the registers of a warp hold, loaded by ``ldmatrix``.

Names are those of the field: ``mma_ldmatrix_f16_a``, ``mma_f16f16f32_trans_b``, ``mma_fill_16x16_f32``,
``mma_store_16x16_f32_shared_dyn_simple_``. Matrices of registers have the scope "warp" and the shape (lanes, elements of a lane), in the
layouts of :mod:`.fragment_layouts`, which are those of the registers themselves: a lane that reads an element there finds it. (The
field describes operands that ``ldmatrix`` transposes as if it did not.) A tile of results is 16 by 16, two instructions of 8 columns.

``_a_trans`` says that A lies in memory as (k, m), ``_b_trans`` that B does as (n, k), where ``ldmatrix`` transposes nothing. It transposes
elements of 16 bits alone: of others, each lane loads its elements by themselves where a transposition is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from ... import dtype as dt
from ...error import IRValueError
from ..buffer import Buffer, decl_buffer
from ..expr import IterVar, PrimExpr, Var
from ..function import TensorIntrin
from ..intrinsic.gpu import mma_fill, mma_store, ptx_ldmatrix, ptx_mma
from ..intrinsic.rounding import round_to_tf32
from ..operators import cast, const
from ..stmt import Block, BlockRealize, BufferStore, Evaluate, For, ForKind, Stmt, seq
from .fragment_layouts import LANES, Layout, operand_layout, packed, place_in_memory, sums_layout
from .programs import Pair, function, nest, tile, whole

TILE = 16
"""Rows and columns of results."""
_COLUMNS = 8
"""Of one instruction's results."""
_ROW_BYTES = 16
"""What ``ldmatrix`` moves at once."""


class _Operand(NamedTuple):
    """A type of operands."""

    dtype: str
    ptx: str

    @property
    def k(self) -> int:
        """Products that an instruction adds to each result."""
        return 8 * packed(self.dtype)

    def extents(self, side: str, is_transposed: bool) -> tuple[int, int]:
        """Rows and columns of a tile in memory."""
        return (self.k, TILE) if (side == "a") == is_transposed else (TILE, self.k)


_OPERANDS = {
    "f16": _Operand("float16", "fp16"), "bf16": _Operand("bfloat16", "bf16"), "tf32": _Operand("float32", "tf32"),
    "i8": _Operand("int8", "int8"), "u8": _Operand("uint8", "uint8"),
    "e4m3": _Operand("float8_e4m3fn", "e4m3"), "e5m2": _Operand("float8_e5m2", "e5m2"),
}  # fmt: skip
"""By what stands in names."""
_SUMS = {
    "f16": _Operand("float16", "fp16"),
    "f32": _Operand("float32", "fp32"),
    "i32": _Operand("int32", "int32"),
}
_PRODUCTS = (
    ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"),
    *[(a, b, "i32") for a, b in product(("i8", "u8"), repeat=2)],
    *[(a, b, c) for a, b, c in product(("e4m3", "e5m2"), ("e4m3", "e5m2"), ("f32", "f16"))],
)  # fmt: skip
"""Types of both operands and of sums."""
_IN_HALVES = (("f16", "f16", "f32"), ("f16", "f16", "f16"))
"""Those that older architectures (sm_75) multiply by instructions of half the length along k."""
_LOADED_FROM = {"shared": "", "shared.dyn": "_dyn"}
_STORED_TO = {"global": "_global", "shared": "_shared", "shared.dyn": "_shared_dyn"}
"""Scopes in names."""


# ---- what they are made of -------------------------------------------------------------------------------------------
def _held(name: str, elements: int, dtype: str) -> Buffer:
    """A matrix of so many elements that the lanes hold."""
    return tile(name, (LANES, elements // LANES), dtype, "warp")


def _in_memory(name: str, extents: tuple[int, int], dtype: str, scope: str) -> Buffer:
    """A matrix in memory: rows are anywhere, their elements side by side."""
    stride = Var(f"{name}_s0", "int32")
    return decl_buffer(list(extents), dtype, name, scope=scope, offset_factor=1, strides=[stride, const(1)])


def _by_lanes(body: Callable[[Var], Stmt]) -> Stmt:
    """What each lane of a warp does."""
    lane = Var("lane", "int32")
    axis = IterVar(None, Var("", "int32"), IterVar.ThreadIndex, "threadIdx.x")
    return For(lane, 0, LANES, ForKind.THREAD_BINDING, body(lane), axis)


def _first_of(held: Buffer, lane: Var) -> PrimExpr:
    """Where what a lane has of a matrix begins."""
    return held.elem_offset + lane * held.shape[1]  # type: ignore[no-any-return,operator]


def _each(count: int, body: Callable[[Any], Stmt], kind: ForKind = ForKind.UNROLLED) -> Stmt:
    var = Var("e", "int32")
    return For(var, 0, count, kind, body(var))


# ---- loads -----------------------------------------------------------------------------------------------------------
def _load(operand: _Operand, side: str, scope: str, is_transposed: bool) -> Pair:
    extents = operand.extents(side, is_transposed)
    layout = operand_layout(side, operand.dtype, is_transposed)

    def buffers() -> tuple[Buffer, Buffer]:
        held = _held("held", extents[0] * extents[1], operand.dtype)
        return _in_memory("source", extents, operand.dtype, scope), held

    source, held = buffers()
    axes = [("S", extent) for extent in extents]
    body = nest("load", axes, lambda i, j: BufferStore(held, source[i, j], layout(i, j)))
    description = function([source, held], [source], [held], body)
    source, held = buffers()
    by_rows = (
        side == "b"
    ) == is_transposed  # whether what the instruction wants in a register lies side by side
    if by_rows or dt.bits(operand.dtype) == 16:
        moved = _by_lanes(partial(_rows_to_registers, source, held, side, by_rows))
    else:
        moved = _by_lanes(partial(_elements_to_registers, source, held, layout, extents))
    return description, function([source, held], [source], [held], moved)


def _rows_to_registers(source: Buffer, held: Buffer, side: str, by_rows: bool, lane: Var) -> Stmt:
    """Four matrices of 8 rows by ``ldmatrix``: eight lanes each say where the rows of one are, in the order of the registers."""
    in_row = _ROW_BYTES // dt.bytes_of(source.dtype)
    row, matrix = lane % 8, lane // 8
    # The second register of A is that of the second half of rows in the product, the second one of B that of the second half of k.
    if (side == "a") == by_rows:
        place = (row + matrix % 2 * 8, matrix // 2 * in_row)
    else:
        place = (row + matrix // 2 * 8, matrix % 2 * in_row)
    offset = source.elem_offset + place[0] * source.strides[0] + place[1]
    target = (held.data, _first_of(held, lane))
    return Evaluate(ptx_ldmatrix(source.dtype, not by_rows, 4, ".b16", *target, source.data, offset))


def _elements_to_registers(
    source: Buffer, held: Buffer, layout: Layout, extents: tuple[int, int], lane: Var
) -> Stmt:
    """One by one."""

    def load(place: Any) -> Stmt:
        return BufferStore(held, source[place_in_memory(layout, extents, lane, place)], (lane, place))

    return _each(int(held.shape[1]), load)  # type: ignore[call-overload]


# ---- sums ------------------------------------------------------------------------------------------------------------
def _fill(sums: _Operand) -> Pair:
    axes = [("S", TILE), ("S", TILE)]
    held = _held("sums", TILE * TILE, sums.dtype)
    body = nest("init", axes, lambda i, j: BufferStore(held, const(0, sums.dtype), sums_layout(i, j)))
    description = function([held], [], [held], body)
    held = _held("sums", TILE * TILE, sums.dtype)
    count = TILE * TILE // LANES
    fill = _by_lanes(lambda lane: Evaluate(mma_fill(sums.dtype, count, held.data, _first_of(held, lane))))
    return description, function([held], [], [held], fill)


def _store(sums: _Operand, scope: str, is_simple: bool, stored: str) -> Pair:
    """``is_simple``: by stores of pairs, not by one call; ``stored``: the dtype in memory."""

    def buffers() -> tuple[Buffer, Buffer]:
        held = _held("sums", TILE * TILE, sums.dtype)
        return held, _in_memory("target", (TILE, TILE), stored, scope)

    def value(held: Buffer, indices: Any) -> PrimExpr:
        return cast(stored, held[tuple(indices)])

    held, target = buffers()
    axes = [("S", TILE), ("S", TILE)]
    body = nest("store", axes, lambda i, j: BufferStore(target, value(held, sums_layout(i, j)), (i, j)))
    description = function([held, target], [held], [target], body)
    held, target = buffers()

    def pairs(lane: Var) -> Stmt:
        """In loops over halves of columns and of rows: indices whose digits tell that lanes do not meet."""

        def element(half: Any, lower: Any, e: Any) -> Stmt:
            where = (lane // 4 + lower * 8, half * _COLUMNS + lane % 4 * 2 + e)
            return BufferStore(target, value(held, (lane, half * 4 + lower * 2 + e)), where)

        def pair(half: Any, lower: Any) -> Stmt:
            return _each(2, partial(element, half, lower), ForKind.VECTORIZED)

        return _each(2, lambda half: _each(2, partial(pair, half)))

    def by_call(lane: Var) -> Stmt:
        pointer = target.access_ptr("w")
        return Evaluate(
            mma_store(sums.dtype, TILE, TILE, pointer, held.data, _first_of(held, lane), target.strides[0])
        )

    return description, function([held, target], [held], [target], _by_lanes(pairs if is_simple else by_call))


# ---- products --------------------------------------------------------------------------------------------------------
def _multiply(
    left: _Operand, right: _Operand, sums: _Operand, trans_a: bool, trans_b: bool, halves: int = 1
) -> Pair:
    """``halves``: by how many instructions along k."""
    layouts = operand_layout("a", left.dtype, trans_a), operand_layout("b", right.dtype, trans_b)

    def buffers() -> tuple[Buffer, Buffer, Buffer]:
        a, b = _held("a", TILE * left.k, left.dtype), _held("b", right.k * TILE, right.dtype)
        return a, b, _held("sums", TILE * TILE, sums.dtype)

    def factor(value: PrimExpr, operand: _Operand) -> PrimExpr:
        return round_to_tf32(value) if operand.ptx == "tf32" else cast(sums.dtype, value)

    a, b, c = buffers()

    def update(i: Any, j: Any, k: Any) -> BufferStore:
        place_a = layouts[0](*((k, i) if trans_a else (i, k)))
        place_b = layouts[1](*((j, k) if trans_b else (k, j)))
        place = sums_layout(i, j)
        value = c[place] + factor(a[place_a], left) * factor(b[place_b], right)
        return BufferStore(c, value, place)

    body = nest("update", [("S", TILE), ("S", TILE), ("R", left.k)], update)
    description = function([a, b, c], [c, a, b], [c], body)
    a, b, c = buffers()
    implementation = _by_lanes(partial(_instructions, a, b, c, (left, right, sums), halves))
    return description, function([a, b, c], [c, a, b], [c], implementation)


def _instructions(
    a: Buffer, b: Buffer, c: Buffer, types: tuple[_Operand, ...], halves: int, lane: Var
) -> Stmt:
    """One for each 8 columns of the results, and for each half of k."""
    if types[0].ptx == "tf32":
        return _rounded(a, b, c, types, lane)
    at = _first_of(a, lane), _first_of(b, lane), _first_of(c, lane)
    data = (a.data, b.data, c.data)
    return seq(
        *[
            _instruction(types, data, at, columns, (part, halves))
            for part in range(halves)
            for columns in range(TILE // _COLUMNS)
        ]
    )


def _instruction(
    types: tuple[_Operand, ...],
    data: tuple[Var, ...],
    at: tuple[Any, ...],
    columns: int,
    part: tuple[int, int] = (0, 1),
) -> Stmt:
    """``columns``: which 8 of the results; ``part``: which of how many along k, whose registers lie one behind the other in operands."""
    left, right, sums = types
    number, count = part
    shape = f"m{TILE}n{_COLUMNS}k{left.k // count}"
    a_at = at[0] + number * (TILE * left.k // LANES // count) if number else at[0]
    b_at = at[1] + columns * (right.k * _COLUMNS // LANES) + number * (right.k * _COLUMNS // LANES // count)
    c_at = at[2] + columns * (TILE * _COLUMNS // LANES)
    a, b, c = data
    dtypes = (left.ptx, right.ptx, sums.ptx)
    return Evaluate(ptx_mma(sums.dtype, shape, "row", "col", *dtypes, a, a_at, b, b_at, c, c_at, False))


def _rounded(a: Buffer, b: Buffer, c: Buffer, types: tuple[_Operand, ...], lane: Var) -> Stmt:
    """The instruction cuts bits of float32 off: operands are rounded before, into registers of their own."""
    steps: list[Stmt] = []
    registers = []
    for held in (a, b):
        own = decl_buffer([held.shape[1]], held.dtype, f"{held.name}_tf32", scope="local")

        def rounded(e: Any, own: Buffer = own, held: Buffer = held) -> Stmt:
            return BufferStore(own, round_to_tf32(held[lane, e]), (e,))

        registers.append(own)
        steps.append(_each(int(held.shape[1]), rounded))  # type: ignore[call-overload]
    data, at = (registers[0].data, registers[1].data, c.data), (const(0), const(0), _first_of(c, lane))
    steps += [_instruction(types, data, at, half) for half in range(TILE // _COLUMNS)]
    reads, writes = [whole(c), whole(a), whole(b)], [whole(c)]
    block = Block((), reads, writes, "rounded", seq(*steps), alloc_buffers=registers)
    return BlockRealize((), const(True), block)


# ---- names -----------------------------------------------------------------------------------------------------------
def _load_name(operand: str, side: str, is_transposed: bool, scope: str) -> str:
    return f"mma_ldmatrix_{operand}_{side}{'_trans' if is_transposed else ''}{_LOADED_FROM[scope]}"


def _product_name(types: tuple[str, str, str], trans_a: bool, trans_b: bool, halves: int = 1) -> str:
    by = "" if halves == 1 else f"_k{_OPERANDS[types[0]].k // halves}"
    return f"mma_{''.join(types)}{by}{'_trans_a' if trans_a else ''}{'_trans_b' if trans_b else ''}"


def _fill_name(sums: str) -> str:
    return f"mma_fill_16x16_{sums}"


def _store_name(sums: str, scope: str, is_simple: bool, stored: str) -> str:
    to = "" if stored == sums else f"_{stored}"
    return f"mma_store_16x16_{sums}{to}{_STORED_TO[scope]}{'_simple' if is_simple else ''}_"


def _constant(name: str) -> str:
    """What a name is called in Python: ``LDMATRIX_f16_A_DYN_INTRIN``, ``MMA_f16f16f32_TRANS_B_INTRIN``."""
    kind, *parts = name.removeprefix("mma_").rstrip("_").split("_")
    if kind == "ldmatrix":
        return "_".join(["LDMATRIX", parts[0], *[part.upper() for part in parts[1:]], "INTRIN"])
    if kind in ("fill", "store"):
        return "_".join(["MMA", kind, *parts, "INTRIN"])
    return "_".join(["MMA", kind, *[part.upper() for part in parts], "INTRIN"])


def _makers() -> dict[str, Callable[[], Pair]]:
    """What makes each intrinsic, by its name."""
    makers: dict[str, Callable[[], Pair]] = {}
    both = (False, True)
    for (name, operand), side, is_transposed, scope in product(_OPERANDS.items(), "ab", both, _LOADED_FROM):
        makers[_load_name(name, side, is_transposed, scope)] = partial(
            _load, operand, side, scope, is_transposed
        )
    for types, trans_a, trans_b in product(_PRODUCTS, both, both):
        left, right, sums = types
        kinds = _OPERANDS[left], _OPERANDS[right], _SUMS[sums]
        makers[_product_name(types, trans_a, trans_b)] = partial(_multiply, *kinds, trans_a, trans_b)
    for types, trans_a, trans_b in product(_IN_HALVES, both, both):
        left, right, sums = types
        kinds = _OPERANDS[left], _OPERANDS[right], _SUMS[sums]
        name = _product_name(types, trans_a, trans_b, 2)
        makers[name] = partial(_multiply, *kinds, trans_a, trans_b, 2)
    for name, sums_type in _SUMS.items():
        makers[_fill_name(name)] = partial(_fill, sums_type)
        for scope in _STORED_TO:
            makers[_store_name(name, scope, False, name)] = partial(
                _store, sums_type, scope, False, sums_type.dtype
            )
            for stored, stored_type in _SUMS.items():
                makers[_store_name(name, scope, True, stored)] = partial(
                    _store, sums_type, scope, True, stored_type.dtype
                )
    return makers


def register() -> dict[str, str]:
    """Register all of them; the names by what they are called in Python."""
    return {_constant(name): TensorIntrin.register_made(name, make) for name, make in _makers().items()}


def _short(dtype: str, known: dict[str, _Operand]) -> str | None:
    """How names spell a dtype: by itself, or as it is spelled there already."""
    plain = {
        "e4m3_float8": "float8_e4m3fn",
        "e5m2_float8": "float8_e5m2",
        "float8_e4m3": "float8_e4m3fn",
    }.get(dtype, dtype)
    return next(
        (name for name, item in known.items() if plain == name or (plain == item.dtype and name != "tf32")),
        None,
    )


def mma_shape(in_dtype: str) -> tuple[int, int, int]:
    """m, n and k of the instruction that the intrinsics are made of, for a type of operands; "tf32" for float32 that is rounded.

    >>> mma_shape("float16"), mma_shape("int8"), mma_shape("tf32")
    ((16, 8, 16), (16, 8, 32), (16, 8, 8))
    """
    return TILE, _COLUMNS, _OPERANDS[str(_short(in_dtype, _OPERANDS))].k


def get_mma_intrin_group(
    load_scope: str,
    store_scope: str,
    in_dtype: str,
    out_dtype: str,
    trans_a: bool,
    trans_b: bool,
    not_use_mma_store_intrinsic: bool = True,
    store_to_smem_dtype: str | None = None,
    in_halves: bool = False,
) -> dict[str, Any]:
    """The names of the intrinsics of a product: "init", "load_a", "load_b", "compute" and "store"; and "index_map", their layouts.

    >>> get_mma_intrin_group("shared", "global", "float16", "float32", False, True)["compute"]
    'mma_f16f16f32_trans_b'

    Args:
        load_scope: where operands are loaded from: "shared" or "shared.dyn".
        store_scope: where sums are stored to: one of these, or "global".
        in_dtype: of both operands; "tf32" for float32 that is rounded.
        out_dtype: of the sums.
        trans_a: whether the first operand is stored as (k, m).
        trans_b: whether the second operand is stored as (n, k).
        not_use_mma_store_intrinsic: store sums by pairs, not by the call ``mma_store``.
        store_to_smem_dtype: what sums are stored as; by default as they are.
        in_halves: multiply by instructions of half the length along k (m16n8k8 of float16), which are all that ``sm_75`` has.

    Returns:
        "index_map" has a function each for A, B and sums: from row and column in a tile of memory to a lane and a place.

    Raises:
        IRValueError: there are no such instructions, or ``mma_store`` is to convert.
    """
    operand, sums = _short(in_dtype, _OPERANDS), _short(out_dtype, _SUMS)
    stored = sums if store_to_smem_dtype is None else _short(store_to_smem_dtype, _SUMS)
    types = (operand, operand, sums)
    if (
        types not in _PRODUCTS
        or stored is None
        or load_scope not in _LOADED_FROM
        or store_scope not in _STORED_TO
    ):
        known = ", ".join(f"{a} to {c}" for a, b, c in _PRODUCTS if a == b)
        raise IRValueError(
            f"there is no mma for products of {in_dtype} summed in {out_dtype}, loaded from {load_scope!r} and stored to {store_scope!r}"
            f" as {store_to_smem_dtype or out_dtype}; there are {known}; scopes 'shared', 'shared.dyn' and (for stores) 'global'"
        )
    if stored != sums and not not_use_mma_store_intrinsic:
        raise IRValueError(
            f"mma_store converts nothing: {out_dtype} is stored as {store_to_smem_dtype} by pairs only"
        )
    if in_halves and types not in _IN_HALVES:
        raise IRValueError(f"there is no mma in halves for products of {in_dtype} summed in {out_dtype}")
    dtype = _OPERANDS[str(operand)].dtype
    layouts = (operand_layout("a", dtype, trans_a), operand_layout("b", dtype, trans_b), sums_layout)
    return {
        "init": _fill_name(str(sums)),
        "load_a": _load_name(str(operand), "a", trans_a, load_scope),
        "load_b": _load_name(str(operand), "b", trans_b, load_scope),
        "compute": _product_name(types, trans_a, trans_b, 2 if in_halves else 1),  # type: ignore[arg-type]
        "store": _store_name(str(sums), store_scope, not_use_mma_store_intrinsic, str(stored)),
        "index_map": layouts,
    }
