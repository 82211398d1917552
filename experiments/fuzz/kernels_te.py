"""Kernels of random shapes made of operators (topi): what operators of every design space leave to a schedule, with epilogues,
several consumers, and tensors that are read twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ir import dtype as dt
from ir import te, topi
from ir.tir.function import PrimFunc

_EXTENTS = [1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 11, 13, 16, 16, 17, 19, 23, 24, 31, 32, 33, 37, 48, 64, 65]
_DTYPES = ["float32"] * 6 + ["float16", "bfloat16", "int8", "uint8", "int32", "float64"]
_ROUNDING = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-3, "float64": 1e-6}
"""Relative error allowed where sums of rounded numbers are added in another order."""


@dataclass(frozen=True)
class Workload:
    """A kernel, how to make arguments for it, and how far its results may differ when sums are reordered."""

    name: str
    func: PrimFunc
    bounds: tuple[tuple[int, int] | None, ...]
    """For each parameter the least and greatest element, where not any will do."""
    tolerance: float
    """Relative; 0 where small integers make every order of summation exact."""

    def arguments(self, seed: int, special: bool = False) -> list[np.ndarray]:
        """Small integers, edges of integer types, and (``special``) NaN and infinities here and there."""
        numbers = np.random.default_rng(seed)
        arrays = []
        for param, bounds in zip(self.func.params, self.bounds, strict=True):
            buffer = self.func.buffer_map[param]
            shape = [int(extent) for extent in buffer.shape]  # type: ignore[call-overload]
            arrays.append(_array(numbers, shape, buffer.dtype, bounds, special and not self.tolerance))
        return arrays


def _array(
    numbers: np.random.Generator, shape: list[int], dtype: str, bounds: tuple[int, int] | None, special: bool
) -> np.ndarray:
    low, high = bounds or ((0, 5) if dt.is_uint(dtype) else (-3, 3))
    array: np.ndarray = numbers.integers(low, high, shape, endpoint=True).astype(dt.to_numpy(dtype))
    if bounds is None and dt.is_float(dtype) and special:
        odd = numbers.choice(np.array([np.nan, np.inf, -np.inf]), shape)
        array = np.where(numbers.random(shape) < 0.02, odd, array.astype("float64")).astype(array.dtype)
    elif bounds is None and not dt.is_float(dtype) and dtype != "bool" and numbers.random() < 0.3:
        ends = np.iinfo(array.dtype)
        array = numbers.integers(ends.min, ends.max, shape, dtype=array.dtype, endpoint=True)
    return array


@dataclass
class Sizes:
    """Random extents below a limit of work, a dtype, and the placeholders made so far."""

    random: random.Random
    work: int
    """How many steps the innermost statement may take."""
    dtype: str = "float32"
    inputs: list[te.Tensor] = field(default_factory=list)
    bounds: list[tuple[int, int] | None] = field(default_factory=list)
    is_exact: bool = True

    def extents(self, count: int, *, at_most: int = 65) -> list[int]:
        """Extents of which the product is below the limit."""
        chosen: list[int] = []
        left = self.work
        for _ in range(count):
            fitting = [item for item in _EXTENTS if item <= min(left, at_most)] or [1]
            chosen.append(self.random.choice(fitting))
            left //= chosen[-1]
        self.random.shuffle(chosen)
        self.work = max(1, left)
        return chosen

    def pick(self, *items: Any) -> Any:
        """One of them."""
        return self.random.choice(items)

    def tensor(
        self, *shape: int, dtype: str | None = None, bounds: tuple[int, int] | None = None
    ) -> te.Tensor:
        """A new input."""
        made = te.placeholder(shape, dtype or self.dtype, name=f"X{len(self.inputs)}")
        self.inputs.append(made)
        self.bounds.append(bounds)
        return made

    def floating(self) -> None:
        """Where an operator has no meaning for integers."""
        self.is_exact = False
        if not dt.is_float(self.dtype):
            self.dtype = "float32"

    @property
    def sum_dtype(self) -> str:
        """What sums of products are computed in: narrow integers mostly in int32."""
        return self.pick("int32", "int32", self.dtype) if self.dtype in ("int8", "uint8") else self.dtype


def workload(generator: random.Random, work: int = 400) -> Workload:
    """A random kernel of about ``work`` steps."""
    name = generator.choice(sorted(FAMILIES))
    sizes = Sizes(generator, work, generator.choice(_DTYPES))
    found = FAMILIES[name](sizes)
    outputs = list(found) if isinstance(found, list | tuple) else [found]
    if generator.random() < 0.6:
        outputs = [_epilogue(sizes, outputs[0]), *outputs[1:]]
    if generator.random() < 0.15:
        outputs.append(_epilogue(sizes, outputs[0]))  # a second consumer
    func = te.create_prim_func([*sizes.inputs, *outputs])
    used = {func.buffer_map[param].dtype for param in func.params}
    worst = max((_ROUNDING.get(dtype, 0.0) for dtype in used), default=0.0)
    bounds = (*sizes.bounds, *([None] * len(outputs)))
    return Workload(name, func, bounds, 0.0 if sizes.is_exact else worst)


# -- what comes behind -------------------------------------------------------------
def _epilogue(sizes: Sizes, tensor: te.Tensor) -> te.Tensor:
    """One to three elementwise operators, some with an input of their own or with one that was read before."""
    for _ in range(sizes.random.randint(1, 3)):
        tensor = sizes.pick(*_EPILOGUES)(sizes, tensor)
    return tensor


def _shape(tensor: te.Tensor) -> list[int]:
    return [int(extent) for extent in tensor.shape]


def _again(sizes: Sizes, tensor: te.Tensor) -> te.Tensor:
    """Adds an input of the same shape that was read before, if there is one."""
    alike = [item for item in sizes.inputs if _shape(item) == _shape(tensor) and item.dtype == tensor.dtype]
    return topi.add(tensor, alike[0] if alike else tensor)


def _biased(sizes: Sizes, tensor: te.Tensor) -> te.Tensor:
    shape = [extent if sizes.random.random() < 0.5 else 1 for extent in _shape(tensor)]
    bias = sizes.tensor(*shape, dtype=tensor.dtype)
    return topi.add(tensor, bias)


def _recast(sizes: Sizes, tensor: te.Tensor) -> te.Tensor:
    if dt.is_float(tensor.dtype):  # whether a rounded sum lies just beside an integer is nobody's promise
        return topi.cast(tensor, sizes.pick("float32", "float64"))
    return topi.cast(tensor, sizes.pick("float32", "int32", "int8", "int64"))


_EPILOGUES: list[Callable[[Sizes, te.Tensor], te.Tensor]] = [
    lambda sizes, tensor: topi.maximum(tensor, te.const(0, tensor.dtype)),
    lambda sizes, tensor: topi.add(tensor, te.const(1, tensor.dtype)),
    lambda sizes, tensor: topi.multiply(tensor, tensor),
    lambda sizes, tensor: topi.transpose(tensor),
    lambda sizes, tensor: topi.reshape(tensor, (int(np.prod(_shape(tensor))),)),
    _biased,
    _recast,
    _again,
]


# -- products and convolutions -----------------------------------------------------
def _matmul(s: Sizes) -> te.Tensor:
    n, m, k = s.extents(3)
    ta, tb = s.pick(False, True), s.pick(False, True)
    a = s.tensor(*((k, n) if ta else (n, k)))
    return topi.matmul(a, s.tensor(*((m, k) if tb else (k, m))), ta, tb)


def _square(s: Sizes) -> te.Tensor:
    n = max(1, round(s.work ** (1 / 3)))
    a = s.tensor(n, n)
    return topi.matmul(a, a, s.pick(False, True), s.pick(False, True))


def _batch_matmul(s: Sizes) -> te.Tensor:
    b, n, m, k = s.extents(4)
    return topi.nn.batch_matmul(s.tensor(b, n, k), s.tensor(b, m, k), out_dtype=s.sum_dtype)


def _dense(s: Sizes) -> te.Tensor:
    n, m, k = s.extents(3)
    return topi.nn.dense(s.tensor(n, k), s.tensor(m, k), out_dtype=s.sum_dtype)


def _contraction(s: Sizes) -> te.Tensor:
    a, b, c, d = s.extents(4)
    text, first, second = s.pick(
        ("abc,cbd->ad", (a, b, c), (c, b, d)),
        ("abd,acd->bca", (a, b, d), (a, c, d)),
        ("ab,cd->bd", (a, b), (c, d)),
    )
    return topi.einsum(text, s.tensor(*first), s.tensor(*second))


def _windows(s: Sizes, count: int) -> tuple[list[int], int, Any, int]:
    """Window extents, stride, padding and dilation."""
    return [s.pick(1, 2, 3) for _ in range(count)], s.pick(1, 1, 2), s.pick(0, 1), s.pick(1, 1, 2)


def _conv1d(s: Sizes) -> te.Tensor:
    (window,), stride, padding, dilation = _windows(s, 1)
    n, w, ci, co = s.extents(4, at_most=33)
    data = s.tensor(n, ci, w + dilation * (window - 1))
    return topi.nn.conv1d_ncw(data, s.tensor(co, ci, window), stride, padding, dilation, s.sum_dtype)


def _conv2d(s: Sizes) -> te.Tensor:
    (kh, kw), stride, padding, dilation = _windows(s, 2)
    h, w, ci, co = s.extents(4, at_most=24)
    h, w = h + dilation * (kh - 1), w + dilation * (kw - 1)
    if s.pick(False, True):
        data, weight = s.tensor(1, ci, h, w), s.tensor(co, ci, kh, kw)
        return topi.nn.conv2d_nchw(data, weight, stride, padding, dilation, s.sum_dtype)
    data, weight = s.tensor(1, h, w, ci), s.tensor(kh, kw, ci, co)
    return topi.nn.conv2d_nhwc(data, weight, stride, padding, dilation, s.sum_dtype)


def _conv3d(s: Sizes) -> te.Tensor:
    (kd, kh, kw), stride, padding, dilation = _windows(s, 3)
    d, h, w, ci, co = s.extents(5, at_most=8)
    extents = [e + dilation * (k - 1) for e, k in ((d, kd), (h, kh), (w, kw))]
    data, weight = s.tensor(1, ci, *extents), s.tensor(co, ci, kd, kh, kw)
    return topi.nn.conv3d_ncdhw(data, weight, stride, padding, dilation, 1, s.sum_dtype)


def _grouped(s: Sizes) -> te.Tensor:
    (kh, kw), stride, padding, dilation = _windows(s, 2)
    groups = s.pick(1, 2, 3)
    h, w, ci, co = s.extents(4, at_most=9)
    h, w = h + dilation * (kh - 1), w + dilation * (kw - 1)
    data, weight = s.tensor(1, ci * groups, h, w), s.tensor(co * groups, ci, kh, kw)
    return topi.nn.group_conv2d_nchw(data, weight, stride, padding, dilation, groups, s.sum_dtype)


def _depthwise(s: Sizes) -> te.Tensor:
    (kh, kw), stride, padding, dilation = _windows(s, 2)
    h, w, c = s.extents(3, at_most=24)
    h, w = h + dilation * (kh - 1), w + dilation * (kw - 1)
    if s.pick(False, True):
        weight = s.tensor(c, 1, kh, kw)
        return topi.nn.depthwise_conv2d_nchw(
            s.tensor(1, c, h, w), weight, stride, padding, dilation, s.sum_dtype
        )
    weight = s.tensor(kh, kw, c, 1)
    return topi.nn.depthwise_conv2d_nhwc(
        s.tensor(1, h, w, c), weight, stride, padding, dilation, out_dtype=s.sum_dtype
    )


def _transposed_conv(s: Sizes) -> te.Tensor:
    h, w, ci, co = s.extents(4, at_most=9)
    kernel, stride = s.pick(1, 2, 3), s.pick(1, 2)
    data, weight = s.tensor(1, ci, h, w), s.tensor(ci, co, kernel, kernel)
    return topi.nn.conv2d_transpose_nchw(data, weight, (stride, stride), (0, 0), s.dtype, (0, 0))


# -- windows, reductions, norms ----------------------------------------------------
def _pool(s: Sizes) -> te.Tensor:
    c, h, w = s.extents(3, at_most=24)
    kernel, stride, padding = s.pick(1, 2, 3), s.pick(1, 2), s.pick(0, 1)
    kind = s.pick("max", "avg")
    if kind == "avg":
        s.floating()
    data = s.tensor(1, c, h + kernel, w + kernel)
    pads = [min(padding, kernel // 2)] * 4
    return topi.nn.pool2d(data, [kernel] * 2, [stride] * 2, [1, 1], pads, kind, s.pick(False, True))


def _adaptive(s: Sizes) -> te.Tensor:
    s.floating()
    c, h, w = s.extents(3, at_most=16)
    return topi.nn.adaptive_pool(s.tensor(1, c, h, w), (s.pick(1, 2, 3), s.pick(1, 2)), s.pick("max", "avg"))


def _reduction(s: Sizes) -> te.Tensor:
    extents = s.extents(s.random.randint(1, 3))
    axes = sorted(s.random.sample(range(len(extents)), s.random.randint(1, len(extents))))
    reduce = s.pick(topi.sum, topi.sum, topi.max, topi.min, topi.prod)
    if reduce is topi.prod:
        s.is_exact = not dt.is_float(s.dtype)
    return reduce(s.tensor(*extents), axes, s.pick(False, True))


def _argument(s: Sizes) -> te.Tensor:
    extents = s.extents(s.random.randint(1, 3))
    axis = s.random.randrange(len(extents))
    return s.pick(topi.argmax, topi.argmin)(s.tensor(*extents), axis, s.pick(False, True))


def _variance(s: Sizes) -> te.Tensor:
    s.floating()
    n, m = s.extents(2)
    data = s.tensor(n, m)
    centred = topi.subtract(data, topi.divide(topi.sum(data, 1, True), te.const(m, s.dtype)))
    return topi.sum(topi.multiply(centred, centred), 1)


def _softmax(s: Sizes) -> te.Tensor:
    s.floating()
    extents = s.extents(s.random.randint(1, 3))
    return s.pick(topi.nn.softmax, topi.nn.log_softmax)(s.tensor(*extents), s.random.randrange(len(extents)))


def _layer_norm(s: Sizes) -> te.Tensor:
    s.floating()
    n, m = s.extents(2)
    data, gamma = s.tensor(n, m), s.tensor(m)
    return s.pick(topi.nn.layer_norm(data, gamma, None, [1]), topi.nn.rms_norm(data, gamma, [1]))


def _instance_norm(s: Sizes) -> te.Tensor:
    s.floating()
    n, c, w = s.extents(3)
    return topi.nn.instance_norm(s.tensor(n, c, w), s.tensor(c), s.tensor(c), 1, [2])


def _attention(s: Sizes) -> te.Tensor:
    s.floating()
    n, m, k = s.extents(3, at_most=24)
    scores = topi.nn.softmax(topi.matmul(s.tensor(n, k), s.tensor(m, k), False, True))
    return topi.matmul(scores, s.tensor(m, k))


def _quantized(s: Sizes) -> te.Tensor:
    n, m, k = s.extents(3)
    sums = topi.nn.dense(s.tensor(n, k, dtype="uint8"), s.tensor(m, k, dtype="int8"), out_dtype="int32")
    return topi.cast(topi.clip(topi.add(sums, te.const(3, "int32")), -128, 127), "int8")


# -- moving elements ---------------------------------------------------------------
def _padded(s: Sizes) -> te.Tensor:
    n, m = s.extents(2)
    data = topi.add(s.tensor(n, m), te.const(1, s.dtype))
    before, after = [s.pick(0, 1, 3) for _ in range(2)], [s.pick(0, 2) for _ in range(2)]
    return topi.sum(topi.nn.pad(data, before, after, s.pick(0, 2)), s.pick(0, 1))


def _transposed(s: Sizes) -> te.Tensor:
    extents = s.extents(s.random.randint(2, 4))
    return topi.transpose(s.tensor(*extents), s.random.sample(range(len(extents)), len(extents)))


def _taken(s: Sizes) -> te.Tensor:
    n, m, k = s.extents(3)
    indices = s.tensor(
        k, dtype=s.pick("int32", "int64"), bounds=(-1, n) if s.pick(True, False) else (0, n - 1)
    )
    data = s.tensor(n, m)
    return topi.take(data, indices, 0, mode="clip" if s.bounds[-2] != (0, n - 1) else "fast")


def _elements(s: Sizes) -> te.Tensor:
    n, m = s.extents(2)
    return topi.gather(s.tensor(n, m), 1, s.tensor(n, m, dtype="int32", bounds=(0, m - 1)))


def _sliced(s: Sizes) -> te.Tensor:
    n, m = s.extents(2)
    data, step = topi.multiply(s.tensor(n, m), te.const(2, s.dtype)), s.pick(1, 2, 3)
    return topi.strided_slice(data, [0, m // 3], [n, m], [step, 1])


def _joined(s: Sizes) -> te.Tensor:
    n, m, k = s.extents(3)
    return topi.concatenate([s.tensor(n, m), topi.negative(s.tensor(n, k))], 1)


def _pieces(s: Sizes) -> list[te.Tensor]:
    n, m = s.extents(2)
    return list(topi.split(topi.add(s.tensor(n, m * 2), te.const(1, s.dtype)), 2, 1))


def _chosen(s: Sizes) -> te.Tensor:
    n, m = s.extents(2)
    return topi.where(s.tensor(n, m, dtype="bool", bounds=(0, 1)), s.tensor(n, m), s.tensor(1, m))


def _flipped(s: Sizes) -> te.Tensor:
    n, m = s.extents(2)
    return topi.add(topi.flip(s.tensor(n, m), s.pick(0, 1)), topi.tile(s.tensor(1, m), (n, 1)))


def _triangle(s: Sizes) -> te.Tensor:
    n, m = s.extents(2)
    return topi.sum(topi.trilu(s.tensor(n, m), te.const(s.pick(-1, 0, 1), "int32"), s.pick(False, True)), 1)


def _scanned(s: Sizes) -> te.Tensor:
    n, m = s.extents(2)
    return topi.cumsum(s.tensor(n, m), s.pick(0, 1), s.dtype)


def _hot(s: Sizes) -> te.Tensor:
    n, m = s.extents(2)
    indices = s.tensor(n, dtype="int32", bounds=(0, m))
    return topi.one_hot(indices, te.const(1, s.dtype), te.const(0, s.dtype), m, -1, s.dtype)


def _elementwise(s: Sizes) -> te.Tensor:
    extents = s.extents(s.random.randint(0, 3))
    return topi.add(
        s.tensor(*extents), s.tensor(*[extent if s.pick(True, False) else 1 for extent in extents])
    )


FAMILIES: dict[str, Callable[[Sizes], te.Tensor | list[te.Tensor]]] = {
    function.__name__.removeprefix("_"): function
    for function in (
        *(_matmul, _square, _batch_matmul, _dense, _contraction, _quantized, _attention),
        *(_conv1d, _conv2d, _conv3d, _grouped, _depthwise, _transposed_conv),
        *(_pool, _adaptive, _reduction, _argument, _variance, _softmax, _layer_norm, _instance_norm),
        *(_padded, _transposed, _taken, _elements, _sliced, _joined, _pieces, _chosen, _flipped, _triangle),
        *(_scanned, _hot, _elementwise),
    )
}
"""Kernels by name: a function that makes inputs and returns what is computed of them."""
