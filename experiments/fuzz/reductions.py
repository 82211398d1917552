"""Random programs around one or two reductions, as script text: what their variables are bound to is what makes them hard.

The combiner of a reduction depends on no order (rule ``[reduce-order]``), but its bindings may repeat instances, begin late, count down, or
share elements, so that it matters which instance runs first. Two thirds of the programs are plain, so that most steps are taken:
loops and even tiles, nothing else. Numbers are small integers, exact in any order, or wrap.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ir.script import from_source
from ir.tir import interpreter

from .oracle import interpreted
from .reductions_steps import ReductionStep
from .schedules import Program, ScheduledKernel, arguments_for, scheduled

_EXTENTS = [2, 2, 3, 3, 4, 4, 5, 6, 8]
_WRAPPING = ["int32", "int8", "int32", "int64"]
_FLOATS = ["float32", "float64"]
_MOST_STEPS = 400
"""Iterations of a nest: the interpreter takes its time."""
_MOST_FACTORS = 15
"""As many numbers of up to 3 have a product that float32 holds."""


@dataclass
class _Loop:
    name: str
    begin: str
    extent: str
    """As text; both may mention loops further out, and parameters."""

    @property
    def parents(self) -> set[str]:
        return _loops_of(f"{self.begin} {self.extent}")


@dataclass
class _Axis:
    kind: str
    """S or R."""
    binding: str
    predicate: str = ""
    domain: str = ""
    """Its extent, where that is not the numbers it is bound to."""
    begin: int = 0
    end: int = 0


@dataclass
class _Nest:
    """The loops and variables of a block, with the numbers that the loops run over."""

    loops: list[_Loop] = field(default_factory=list)
    axes: list[_Axis] = field(default_factory=list)

    def iterations(self, n: int) -> Iterator[dict[str, int]]:
        """The values of the loops, in order."""

        def inner(position: int, values: dict[str, int]) -> Iterator[dict[str, int]]:
            if position == len(self.loops):
                yield dict(values)
                return
            loop = self.loops[position]
            begin, extent = _value(loop.begin, values), _value(loop.extent, values)
            for number in range(begin, begin + extent):
                yield from inner(position + 1, {**values, loop.name: number})

        yield from inner(0, {"n": n})


def _loops_of(text: str) -> set[str]:
    """The loops that an expression mentions."""
    return set(re.findall(r"\bl\d+\b", text))


def _value(text: str, values: dict[str, int]) -> int:
    """What an expression of loops is; Python's operators are those of the script."""
    return int(eval(text.replace("T.", ""), {"max": max, "min": min}, values))


class ReductionProgram:
    """Draws the text of a program."""

    def __init__(self, generator: random.Random) -> None:
        self.random = generator
        self.n = generator.choice([0, 1, 2, 3, 3, 4, 5])
        """The value of the parameter that gives symbolic extents."""
        self.is_symbolic = generator.random() < 0.25
        self.dtype = generator.choice(_WRAPPING + _FLOATS * 2)
        self.is_irregular = generator.random() < 0.35
        self.params: list[tuple[str, tuple[int, ...], str]] = []
        self.temporaries: list[tuple[str, tuple[int, ...], str]] = []
        self.lines: list[str] = []
        self.number = itertools.count()

    # -- choices ---------------------------------------------------------------------
    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def odd(self, share: float) -> bool:
        """A chance that only irregular programs have."""
        return self.is_irregular and self.chance(share)

    def extent(self) -> int:
        if not self.is_irregular:
            return self.random.choice(_EXTENTS)
        draw = self.random.random()
        return 0 if draw < 0.02 else 1 if draw < 0.12 else self.random.choice(_EXTENTS)

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self.number)}"

    def const(self, value: int) -> str:
        """The text of a number."""
        return f'T.const({value}, "{self.dtype}")'

    def loop(self, nest: _Nest, extent: str | None = None, begin: str = "0") -> str:
        """A new loop of a nest."""
        name = self.fresh("l")
        nest.loops.append(_Loop(name, begin, str(self.extent()) if extent is None else extent))
        return name

    # -- variables -------------------------------------------------------------------
    def nest(self) -> _Nest:
        """Loops and variables of a reduction, at least one of which reduces."""
        nest = _Nest()
        kinds = ["S"] * self.random.choice([0, 1, 1, 1, 2, 2]) + ["R"] * self.random.choice(
            [1, 1, 1, 2, 2, 3]
        )
        self.random.shuffle(kinds)
        while kinds:
            if len(kinds) > 1 and self.odd(0.12):
                self.fused_axes(nest, kinds.pop(), kinds.pop())
            else:
                nest.axes.append(self.axis(nest, kinds.pop()))
        if self.odd(0.06):
            self.loop(nest, self.random.choice(["1", "2"]))  # feeds nothing
        self.order(nest)
        return nest

    def fused_axes(self, nest: _Nest, kind: str, other: str) -> None:
        """Two variables that one loop counts."""
        low = self.random.choice([2, 3])
        high = "n" if self.is_symbolic and self.chance(0.4) else str(self.random.choice([1, 2, 3]))
        loop = self.loop(nest, f"{high} * {low}")
        nest.axes += [_Axis(kind, f"{loop} // {low}"), _Axis(other, f"{loop} % {low}")]

    def axis(self, nest: _Nest, kind: str) -> _Axis:
        """A variable and what it is bound to."""
        if not self.is_irregular:
            return self.random.choice([self.plain] * 4 + [self.tiled])(nest, kind)
        draws = [self.plain] * 8 + [self.tiled] * 3 + [self.uneven] * 2 + [self.triangular] * 2
        draws += [
            self.reversed,
            self.shifted,
            self.halved,
            self.overlapped,
            self.strided,
            self.constant,
            self.repeated,
        ]
        draws += [self.clamped, self.from_one, self.rotated]
        return self.random.choice(draws)(nest, kind)

    def plain(self, nest: _Nest, kind: str) -> _Axis:
        if self.is_symbolic and self.chance(0.5):
            return _Axis(kind, self.loop(nest, "n"), domain="n")
        return _Axis(kind, self.loop(nest))

    def tiled(self, nest: _Nest, kind: str) -> _Axis:
        low = self.random.choice([1, 2, 3])
        outer, inner = (
            self.loop(nest, "n" if self.is_symbolic and self.chance(0.3) else None),
            self.loop(nest, str(low)),
        )
        return _Axis(kind, f"{outer} * {low} + {inner}")

    def uneven(self, nest: _Nest, kind: str) -> _Axis:
        """A tile of which the last one is cut."""
        low, extent = self.random.choice([2, 3]), self.random.choice(["3", "4", "5", "7"])
        if self.is_symbolic and self.chance(0.5):
            extent = "n"
        outer = self.loop(nest, f"({extent} + {low - 1}) // {low}")
        binding = f"{outer} * {low} + {self.loop(nest, str(low))}"
        return _Axis(kind, binding, f"{binding} < {extent}", extent)

    def triangular(self, nest: _Nest, kind: str) -> _Axis:
        """A loop that runs as far as another one has come, or from there."""
        if not nest.loops:
            return self.plain(nest, kind)
        outer = self.random.choice(nest.loops).name
        begin, extent = self.random.choice(
            [("0", f"{outer} + 1"), ("0", f"5 - {outer}"), (outer, f"6 - {outer}"), ("0", outer)]
        )
        name = self.loop(nest, extent, begin)
        return _Axis(kind, self.random.choice([name, name, name, f"T.max({outer} - {name}, 0)"]))

    def reversed(self, nest: _Nest, kind: str) -> _Axis:
        extent = self.extent()
        return _Axis(kind, f"{extent - 1} - {self.loop(nest, str(extent))}")

    def shifted(self, nest: _Nest, kind: str) -> _Axis:
        return _Axis(kind, f"{self.loop(nest)} + {self.random.choice([1, 2])}")

    def halved(self, nest: _Nest, kind: str) -> _Axis:
        return _Axis(kind, f"{self.loop(nest)} {self.random.choice(['//', '%'])} 2")

    def overlapped(self, nest: _Nest, kind: str) -> _Axis:
        outer, inner = self.loop(nest), self.loop(nest, "2")
        return _Axis(
            kind,
            self.random.choice(
                [f"{outer} + {inner}", f"{outer} % 2 + {inner}", f"{outer} * 2 - {inner} + 1"]
            ),
        )

    def strided(self, nest: _Nest, kind: str) -> _Axis:
        return _Axis(kind, f"{self.loop(nest)} * 2")

    def constant(self, nest: _Nest, kind: str) -> _Axis:
        return _Axis(kind, self.random.choice(["0", "0", "1"]))

    def clamped(self, nest: _Nest, kind: str) -> _Axis:
        return _Axis(kind, f"T.max({self.loop(nest)} - 1, 0)")

    def from_one(self, nest: _Nest, kind: str) -> _Axis:
        loop = self.loop(nest, begin="1")
        return _Axis(kind, self.random.choice([loop, f"{loop} - 1"]))

    def rotated(self, nest: _Nest, kind: str) -> _Axis:
        extent = self.random.choice([2, 3, 4])
        return _Axis(kind, f"({self.loop(nest, str(extent))} + 1) % {extent}")

    def repeated(self, nest: _Nest, kind: str) -> _Axis:
        """A loop that another variable has already."""
        if not nest.loops:
            return self.plain(nest, kind)
        return _Axis(kind, self.random.choice(nest.loops).name)

    def order(self, nest: _Nest) -> None:
        """Loops in an order in which each stands below those that its extent needs; most often as they were drawn."""
        pending = list(nest.loops)
        if self.chance(0.5):
            self.random.shuffle(pending)
        placed: list[_Loop] = []
        while pending:
            ready = next(loop for loop in pending if loop.parents <= {item.name for item in placed})
            placed.append(ready)
            pending.remove(ready)
        nest.loops = placed

    # -- blocks ----------------------------------------------------------------------
    def measured(self, nest: _Nest) -> bool:
        """Finds the domains of variables; False where a binding is negative, or there is too much to run."""
        values = list(itertools.islice(nest.iterations(self.n), _MOST_STEPS + 1))
        if len(values) > _MOST_STEPS:
            return False
        for axis in nest.axes:
            found = [
                _value(axis.binding, item)
                for item in values
                if not axis.predicate or _value(axis.predicate, item)
            ]
            axis.begin, axis.end = min(found, default=0), max(found, default=-1) + 1
            if axis.begin < 0:
                return False
            if axis.domain:
                axis.end = max(axis.end, _value(axis.domain, {"n": self.n}))
        return True

    def domain(self, axis: _Axis) -> str:
        if axis.domain:
            return axis.domain
        if axis.begin > 0 and self.chance(0.5):
            return f"({axis.begin}, {axis.end})"
        return str(axis.end + (self.random.choice([1, 2]) if self.odd(0.08) else 0))

    def conditions(self, nest: _Nest) -> list[str]:
        """Of the loops, for predicates and ifs."""
        found = []
        for _ in range(self.random.choice([0, 0, 0, 0, 1, 1, 2]) if self.is_irregular else 0):
            names = [loop.name for loop in self.random.sample(nest.loops, min(len(nest.loops), 2))]
            if not names:
                break
            one, two = names[0], names[-1]
            bound = self.random.choice([1, 2, 3, 4])
            found.append(
                self.random.choice(
                    [
                        f"{one} < {bound}",
                        f"{one} >= {bound - 1}",
                        f"{one} + {two} < {bound + 2}",
                        f"{one} <= {two}",
                    ]
                    + [f"{one} % 2 == 0", f"{one} != {bound}"]
                    + [f"{two} < n"] * self.is_symbolic
                )
            )
        return found

    def source(self, axes: list[tuple[str, int]], old: list[tuple[str, tuple[int, ...]]]) -> str:
        """An element at some variables, of a new parameter or of what was computed before."""
        if old and self.chance(0.7):
            name, shape = self.random.choice(old)
            indices = []
            for extent in shape:
                fitting = [var for var, end in axes if end <= extent]
                others = [f"{var} % {extent}" for var, _ in axes if extent]
                indices.append(self.random.choice(fitting or others or ["0"]))
            return f"{name}[{', '.join(indices) or '()'}]"
        used = [axis for axis in axes if self.chance(0.85)] or axes
        if self.chance(0.3):
            used = used[::-1]
        name, shape = self.fresh("A"), tuple(max(end, 1) for _, end in used)
        self.params.append((name, shape, self.dtype))
        return f"{name}[{', '.join(var for var, _ in used) or '()'}]"

    def reduction(self, old: list[tuple[str, tuple[int, ...]]], is_last: bool) -> tuple[str, tuple[int, ...]]:
        """Appends a reduction; what it computes, and its shape."""
        nest = self.nest()
        while not self.measured(nest):
            nest = self.nest()
        variables = [f"v{position}" for position in range(len(nest.axes))]
        self_axes = list(zip(variables, [axis.end for axis in nest.axes], strict=True))
        spatial = [item for item, axis in zip(self_axes, nest.axes, strict=True) if axis.kind == "S"]
        if spatial and self.odd(0.06):
            spatial = spatial[:-1]  # instances share elements
        elif self.chance(0.3):
            spatial = spatial[::-1]
        shape = tuple(max(end, 1) for _, end in spatial)
        place = ", ".join(var for var, _ in spatial) or "()"
        target, block = self.fresh("C"), self.fresh("red")
        terms = self.source(self_axes, old)
        if self.chance(0.3):
            terms = (
                f"{terms} * {self.source(self_axes, [])}"
                if self.dtype not in _FLOATS
                else f"{terms} + {self.source(self_axes, [])}"
            )
        steps = sum(1 for _ in nest.iterations(self.n))
        body, outputs = self.update(target, place, shape, terms, steps, old, is_last, self_axes, nest)
        for name, dtype in outputs:
            is_param = is_last or self.chance(0.4)
            (self.params if is_param else self.temporaries).append((name, shape, dtype))
        conditions = self.conditions(nest)
        where = [axis.predicate for axis in nest.axes if axis.predicate]
        around = [condition for condition in conditions if self.chance(0.4)]
        where += [condition for condition in conditions if condition not in around]
        indent = self.open_loops(nest, around)
        self.lines.append(f'{indent}with T.block("{block}"):')
        indent += "    "
        for var, axis in zip(variables, nest.axes, strict=True):
            kind = "spatial" if axis.kind == "S" else "reduce"
            self.lines.append(f"{indent}{var} = T.axis.{kind}({self.domain(axis)}, {axis.binding})")
        if where:
            self.lines.append(f"{indent}T.where({' and '.join(where)})")
        self.lines += [indent + line for line in body]
        return target, shape

    def open_loops(self, nest: _Nest, conditions: list[str]) -> str:
        """Appends loops, with conditions as far out as they can stand, or innermost; the indentation below."""
        pending, indent = list(conditions), "    "
        seen: set[str] = set()
        is_early = self.chance(0.5)
        for position, loop in enumerate([None, *nest.loops]):
            if loop is not None:
                ends = loop.extent if loop.begin == "0" else f"{loop.begin}, {loop.begin} + {loop.extent}"
                self.lines.append(f"{indent}for {loop.name} in range({ends}):")
                indent += "    "
                seen.add(loop.name)
            for condition in list(pending):
                if _loops_of(condition) <= seen and (is_early or position == len(nest.loops)):
                    self.lines.append(f"{indent}if {condition}:")
                    indent += "    "
                    pending.remove(condition)
        return indent

    def update(
        self,
        target: str,
        place: str,
        shape: tuple[int, ...],
        term: str,
        steps: int,
        old: list[tuple[str, tuple[int, ...]]],
        is_last: bool,
        axes: list[tuple[str, int]],
        nest: _Nest,
    ) -> tuple[list[str], list[tuple[str, str]]]:
        """The body of a block, and the buffers that it writes with their dtypes."""
        t, here = self.dtype, f"{target}[{place}]"
        sums = (
            self.const(0),
            self.random.choice([f"{here} + {term}", f"{term} + {here}", f"{here} - {term}"]),
        )
        least = (f'T.max_value("{t}")', f"T.min({here}, {term})")
        most = (
            f'T.min_value("{t}")',
            self.random.choice([f"T.max({here}, {term})", f"T.max({term}, {here})"]),
        )
        kinds = [sums, sums, sums, least, most]
        if t not in _FLOATS or (is_last and not old and steps <= _MOST_FACTORS and "+" not in term):
            kinds.append((self.const(1), f"{here} * {term}"))
        start, update = self.random.choice(kinds)
        if self.odd(0.12):
            start = self.const(2)
        if self.odd(0.04):
            start = self.source([axis for axis in axes if axis[0] in place], [])
        body = [f"{here} = {update}"]
        if self.odd(0.1):
            var = self.random.choice(axes)[0]
            body = [f"if {var} {self.random.choice(['>', '<', '!='])} 1:", f"    {body[0]}"]
        outputs = [(target, t)]
        inits = [f"{here} = {start}"]
        reduced = [var for (var, _), axis in zip(axes, nest.axes, strict=True) if axis.kind == "R"]
        if self.chance(0.18):
            if self.chance(0.5) or len(reduced) > 1:
                other = self.fresh("D")
                outputs.append((other, t))
                beside = f"{other}[{place}]"
                inits.append(f'{beside} = T.min_value("{t}")')
                body.append(f"{beside} = T.max({beside}, {term})")
            else:
                other, var = self.fresh("P"), reduced[0]
                outputs.insert(0, (other, "int32"))
                beside, better = f"{other}[{place}]", f"{here} > {term}"
                tie = f"{here} == {term} and {beside} < {var}"
                odd = f"{here} != {here} and ({term} == {term} or {beside} < {var})"  # the order is total: NaN first
                inits = [f"{beside} = 2147483647", f'{here} = T.min_value("{t}")']
                body = [
                    f"p: T.int32 = T.Select({better} or {tie} or {odd}, {beside}, {var})",
                    f"w: T.{t} = T.Select({better} or {here} != {here}, {here}, {term})",
                    f"{beside} = p",
                    f"{here} = w",
                ]
        if not self.odd(0.04):
            return ["with T.init():", *["    " + line for line in inits], *body], outputs
        return body, outputs

    def elementwise(self, name: str, shape: tuple[int, ...], value: str, block: str) -> None:
        """Appends a block that stores a value of ``{i}`` to each element."""
        indent = "    "
        for position, extent in enumerate(shape):
            self.lines.append(f"{indent}for e{position} in range({extent}):")
            indent += "    "
        self.lines.append(f'{indent}with T.block("{block}"):')
        for position, extent in enumerate(shape):
            self.lines.append(f"{indent}    u{position} = T.axis.spatial({extent}, e{position})")
        place = ", ".join(f"u{position}" for position in range(len(shape))) or "()"
        self.lines.append(f"{indent}    {name}[{place}] = {value.replace('_', place)}")

    def text(self) -> str:
        """The text of a program."""
        old: list[tuple[str, tuple[int, ...]]] = []
        if self.chance(0.35):
            shape = tuple(self.random.choice(_EXTENTS) for _ in range(self.random.choice([1, 2])))
            made, source = self.fresh("E"), self.fresh("A")
            self.params.append((source, shape, self.dtype))
            self.temporaries.append((made, shape, self.dtype))
            self.elementwise(made, shape, f"{source}[_] + {self.const(1)}", self.fresh("before"))
            old = [(made, shape)]
        has_consumer = self.chance(0.4)
        is_double = self.chance(0.3 if self.is_irregular else 0.15)
        reduced = self.reduction(old, not is_double and not has_consumer)
        if is_double:
            reduced = self.reduction([*old, reduced, reduced], not has_consumer)
        if has_consumer:
            name, shape = self.fresh("F"), reduced[1]
            self.params.append((name, shape, self.dtype))
            self.elementwise(name, shape, f"{reduced[0]}[_] - {self.const(1)}", self.fresh("after"))
        parameters = [f'{name}: T.Buffer({shape}, "{dtype}")' for name, shape, dtype in self.params]
        parameters += ["n: T.int32"] * self.is_symbolic
        return "\n".join(
            [
                "@T.prim_func",
                f"def main({', '.join(parameters)}):",
                '    T.func_attr({"tir.noalias": True})',
                *[
                    f'    {name} = T.alloc_buffer({shape}, "{dtype}")'
                    for name, shape, dtype in self.temporaries
                ],
                *self.lines,
            ]
        )


def reduction_program(generator: random.Random, seed: int) -> Program:
    """A program that the interpreter can run, with arguments for it."""
    while True:
        drawn = ReductionProgram(generator)
        func = from_source(drawn.text())
        arguments = arguments_for(func, seed)
        if drawn.is_symbolic:
            arguments[-1] = drawn.n
        program = Program(func, arguments)
        try:
            interpreted(func, arguments)
        except interpreter.InterpreterError:
            continue  # it reads what nothing wrote
        return program


def scheduled_reduction(seed: int) -> ScheduledKernel:
    """The program and the schedule of a seed.

    Raises:
        RefusalError: a primitive refused and left something behind.
    """
    generator = random.Random(seed)
    return scheduled(reduction_program(generator, seed), generator, seed, ReductionStep)
