"""Random functions of float64 tensors to a number, with a random choice of parameters to differentiate them by.

Each operator is computed by the reference evaluator when it is written, so that values stay moderate. Operands of divisions, roots and
logarithms are made positive before.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ir import relax as rx
from ir.error import IRError
from ir.module import IRModule
from ir.relax.testing.evaluate import Evaluator, Frame

R = rx.op
_LARGEST = 50.0
_SHAPES = ((), (3,), (1, 3), (2, 1), (2, 3), (3, 2), (3, 3), (2, 1, 3), (1, 2, 4, 4))

_UNARY: list[Callable[[Any], Any]] = [
    R.abs, R.cos, R.erf, R.negative, R.sigmoid, R.sin, R.square, R.tanh, R.nn.gelu, R.nn.gelu_tanh, R.nn.relu, R.nn.silu,
    R.grad.start_checkpoint, R.grad.end_checkpoint, R.builtin.stop_lift_params, R.nn.batch_flatten, R.flatten, R.squeeze,
    R.sum, R.mean, R.permute_dims,
]  # fmt: skip
_OF_SMALL: list[Callable[[Any], Any]] = [R.exp, R.tan]
_OF_POSITIVE: list[Callable[[Any], Any]] = [R.log, R.sqrt, R.rsqrt]
_BINARY: list[Callable[[Any, Any], Any]] = [
    R.add, R.subtract, R.multiply, R.maximum, R.minimum, R.log_add_exp, R.matmul,
]  # fmt: skip


@dataclass(frozen=True)
class Differentiable:
    """A module whose ``main`` returns a number (and perhaps more), its arguments, and the parameters to differentiate by."""

    mod: IRModule
    given: list[np.ndarray]
    wanted: list[int]


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.builder = rx.BlockBuilder()
        self.evaluator = Evaluator(None)
        self.values: list[rx.Var] = []

    def array(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.numbers.uniform(-2, 2, shape)

    def const(self, shape: tuple[int, ...]) -> Any:
        return rx.const(self.array(shape), "float64")

    def data(self, var: rx.Var) -> np.ndarray:
        found = self.evaluator.frame.values[var.vid]
        assert isinstance(found, np.ndarray)
        return found

    def shape(self, var: rx.Var) -> tuple[int, ...]:
        return self.data(var).shape

    def pick(self) -> rx.Var:
        return self.random.choice(self.values[-4:] if self.random.random() < 0.6 else self.values)

    def bind(self, expr: Any) -> rx.Var:
        """A binding of an expression; raises IRError for one that is not valid, or whose value would spoil what follows."""
        normalized = self.builder.normalize(expr)
        with np.errstate(all="ignore"):
            value = self.evaluator.expr(normalized)
        for part in value if isinstance(value, list) else [value]:
            if part.size > 64 or not np.isfinite(part).all() or (np.abs(part) > _LARGEST).any():
                raise IRError("too large")
        var: rx.Var = self.builder.emit(normalized)
        self.evaluator.frame.values[var.vid] = value
        if not isinstance(value, list):
            self.values.append(var)
        return var

    # -- statements ---------------------------------------------------------------------------
    def statement(self) -> None:
        x = self.pick()
        shape, pick = self.shape(x), self.random.choice
        dice = self.random.random()
        if dice < 0.3:
            self.bind(pick(_UNARY)(x))
        elif dice < 0.36:
            self.bind(pick(_OF_SMALL)(self.bind(R.tanh(x))))
        elif dice < 0.42:
            self.bind(pick(_OF_POSITIVE)(self.positive(x)))
        elif dice < 0.62:
            self.bind(pick(_BINARY)(x, self.pick()))
        elif dice < 0.67:
            self.bind(pick([R.divide, R.power])(self.positive(self.pick()), self.positive(x)))
        elif dice < 0.7:
            self.bind(R.where(rx.const(self.array(shape) > 0, "bool"), x, self.pick()))
        elif dice < 0.75:
            fields = self.bind(rx.Tuple([x, self.pick()]))
            self.bind(rx.TupleGetItem(fields, pick([0, 1])))
        elif shape:
            self.with_axis(x, shape, self.random.randrange(len(shape)))

    def positive(self, x: rx.Var) -> rx.Var:
        return self.bind(R.add(self.bind(R.square(self.bind(R.tanh(x)))), rx.const(0.5, "float64")))

    def with_axis(self, x: rx.Var, shape: tuple[int, ...], axis: int) -> None:
        pick, extent, keep = self.random.choice, shape[axis], self.random.random() < 0.5
        options: list[Callable[[], Any]] = [
            *[lambda f=f: f(x, axis, keep) for f in (R.sum, R.mean, R.max, R.min, R.variance)],  # type: ignore[misc]
            *[lambda f=f: f(x, axis) for f in (R.nn.softmax, R.nn.log_softmax)],  # type: ignore[misc]
            lambda: R.cumsum(x, axis, exclusive=keep),
            lambda: R.flip(x, axis),
            lambda: R.expand_dims(x, axis),
            lambda: R.concat([x, self.bind(R.negative(x)), x], axis),
            lambda: R.broadcast_to(x, (2, *shape)),
            lambda: R.collapse_sum_to(x, [1, *shape[1:]]),
            lambda: R.take(x, rx.const(self.numbers.integers(0, extent, pick([1, 4])), "int64"), axis),
            lambda: R.reshape(x, [-1, extent]),
            lambda: R.permute_dims(x, self.random.sample(range(len(shape)), len(shape))),
            lambda: R.nn.pad(x, [1, 0] * len(shape)),
            lambda: rx.TupleGetItem(self.bind(R.split(x, extent, axis)), self.random.randrange(extent)),
            lambda: R.matmul(x, self.const((shape[-1], 2))),
        ]
        if len(shape) == 4 and min(shape[2:]) > 1:
            weight = self.const((2, shape[1], 2, 2))
            stride, padding = pick([1, 2]), pick([0, 1])
            images = [
                lambda: R.nn.conv2d(x, weight, stride, padding),
                lambda: R.nn.max_pool2d(x, 2, stride, padding),
                lambda: R.nn.avg_pool2d(x, 2, stride, padding, count_include_pad=keep),
            ]
            options = [*options, *images * 5]
        self.bind(pick(options)())

    def total(self) -> Any:
        """A number that depends on the last values, and on some others."""
        chosen = [*self.values[-3:], *self.random.sample(self.values, min(3, len(self.values)))]
        parts = [self.builder.emit(R.sum(R.multiply(item, self.const(self.shape(item))))) for item in chosen]
        found = parts[0]
        for part in parts[1:]:
            found = self.builder.emit(R.add(found, part))
        return found


def differentiable(seed: int, size: int) -> Differentiable:
    """The function of a seed, of about so many statements."""
    writer = _Writer(seed)
    shapes = [writer.random.choice(_SHAPES) for _ in range(writer.random.randint(1, 3))]
    given = [writer.array(shape) for shape in shapes]
    params = [rx.Var(f"x{n}", rx.TensorStructInfo(shape, "float64")) for n, shape in enumerate(shapes)]
    writer.evaluator.stack.append(Frame())
    for param, value in zip(params, given, strict=True):
        writer.evaluator.frame.values[param.vid] = value
        writer.values.append(param)
    with writer.builder.function("main", params):
        with writer.builder.dataflow():
            for _ in range(size):
                try:
                    writer.statement()
                except IRError:  # a call that is not valid
                    continue
            out = writer.builder.emit_output(writer.total())
        writer.builder.emit_func_output(out)
    wanted = sorted(writer.random.sample(range(len(params)), writer.random.randint(1, len(params))))
    return Differentiable(writer.builder.finalize(), given, wanted)
