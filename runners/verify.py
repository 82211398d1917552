"""Whether a candidate computes what the unscheduled program computes.

Two cases are compared. On small integers every order of summation is exact, so that any difference is a miscompilation; on
random data the difference must stay within what rounding explains. The unscheduled program runs once per workload, in a
fast order of its loops (:mod:`runners.reference_order`); its outputs are kept in a file that all workers of a machine share.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ir import structural_hash
from ir.node import post_order_visit
from ir.tir.intrinsic.declaration import find

from .error import RunnerError
from .ndarray import aligned_empty, numpy_dtype

Array = np.ndarray[Any, Any]

_SEED = 0x5EED
_PERIOD = 1_000_003
"""After so many elements inputs repeat: a prime, so that no two rows of a tensor are alike."""


@dataclass(frozen=True, slots=True)
class Param:
    """One tensor parameter of a kernel."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    output: bool
    """The kernel writes to it."""
    index: bool = False
    """Its values are used to index other tensors, so that large ones would be out of bounds."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What verification needs to know of a program."""

    params: tuple[Param, ...]
    reduction: int
    """Product of the extents of all reduction axes of the longest chain: how many roundings add up in one output."""
    magnitude: int
    """Integer inputs up to this magnitude keep every sum exact; 0 when the program is not exact on integers."""

    @property
    def nbytes(self) -> int:
        """Memory of one set of arguments."""
        return sum(math.prod(item.shape) * numpy_dtype(item.dtype).itemsize for item in self.params)


def entry(mod: Any) -> Any:
    """The PrimFunc that a tuning module is about: its only function, or ``main``.

    Raises:
        RunnerError: there is no such function.
    """
    functions = {var.name_hint: func for var, func in mod.functions.items()}
    if len(functions) == 1:
        return next(iter(functions.values()))
    if "main" not in functions:
        raise RunnerError(
            f"a candidate has one function, or one called 'main'; this module has {sorted(functions)}"
        )
    return functions["main"]


def params_of(func: Any) -> tuple[Param, ...]:
    """The tensor parameters of a PrimFunc with static shapes.

    Raises:
        RunnerError: a parameter is not a tensor, or an extent is symbolic.
    """
    written: set[int] = set()
    indexing: set[int] = set()

    def note_index(node: Any) -> None:
        if type(node).__name__ == "BufferLoad":
            indexing.add(id(node.buffer.data))

    def visit(node: Any) -> None:
        kind = type(node).__name__
        if kind == "BufferStore":
            written.add(id(node.buffer.data))
        if kind in ("BufferLoad", "BufferStore"):
            for index in node.indices:
                post_order_visit(index, note_index)

    post_order_visit(func.body, visit)
    found: list[Param] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            raise RunnerError(
                f"parameter {param.name} is not a tensor; a kernel to be measured takes tensors only"
            )
        shape: list[int] = []
        for extent in buffer.shape:
            value = getattr(extent, "value", extent)
            if not isinstance(value, int):
                raise RunnerError(
                    f"tensor {buffer.name} has the symbolic extent {extent}; give it a value before measuring"
                )
            shape.append(value)
        key = id(buffer.data)
        found.append(Param(buffer.name, buffer.dtype, tuple(shape), key in written, key in indexing))
    return tuple(found)


def facts_of(mod: Any) -> KernelFacts:
    """Parameters, reduction length and exactness of an unscheduled program."""
    func = entry(mod)
    params = params_of(func)
    reductions: list[int] = []
    exact = True

    def visit(node: Any) -> None:
        nonlocal exact
        kind = type(node).__name__
        if kind == "Block":
            length = math.prod(
                getattr(axis.dom.extent, "value", 1)
                for axis in node.iter_vars
                if int(getattr(axis, "iter_type", 0)) == 2
            )
            if length > 1:
                reductions.append(int(length))
        elif kind == "Div":
            exact = False
        elif kind == "Call":
            intrinsic = find(node)
            exact = exact and intrinsic is not None and intrinsic.exact
        elif kind == "FloatImm" and math.isfinite(node.value) and node.value != int(node.value):
            exact = False

    post_order_visit(func.body, visit)
    total = math.prod(reductions)
    magnitude = 0
    if exact:
        limit = min(_exact_limit(param.dtype) for param in params) if params else 0.0
        for candidate in (4, 2, 1):
            # Each stage of sums multiplies by its length and by one more input.
            if total * candidate ** (len(reductions) + 1) <= limit:
                magnitude = candidate
                break
    return KernelFacts(params, total, magnitude)


def _exact_limit(dtype: str) -> float:
    """Up to which magnitude a dtype holds all integers; narrow integers wrap around the same way in any order."""
    if dtype.startswith("float8") or dtype.startswith("float4"):
        return 0.0
    return {"float64": 2.0**53, "float32": 2.0**24, "float16": 2.0**11, "bfloat16": 2.0**8}.get(
        dtype, math.inf
    )


def make_value(param: Param, rng: np.random.Generator, *, magnitude: int, positive: bool) -> Array:
    """Contents for one input: small integers when ``magnitude`` is above zero, else random numbers around one.

    Drawing the weights of a large layer takes longer than running it: behind ``_PERIOD`` elements the numbers repeat.
    """
    value = aligned_empty(param.shape, param.dtype)
    flat = value.reshape(-1)
    begin = flat[:_PERIOD]
    kind = numpy_dtype(param.dtype)
    if kind == np.bool_:
        begin[...] = rng.integers(0, 2, begin.shape, dtype=np.int8)
    elif kind.kind in "iu":
        low = 0 if kind.kind == "u" or param.index or positive else -(magnitude or 4)
        high = 1 if param.index else (magnitude or 4)
        begin[...] = rng.integers(low, high + 1, begin.shape)
    elif magnitude:
        begin[...] = rng.integers(1 if positive else -magnitude, magnitude + 1, begin.shape).astype(
            np.float32
        )
    elif positive:
        begin[...] = rng.random(begin.shape, dtype=np.float32) + np.float32(0.5)
    else:
        begin[...] = rng.random(begin.shape, dtype=np.float32) * np.float32(2) - np.float32(1)
    for start in range(_PERIOD, flat.size, _PERIOD):
        flat[start : start + _PERIOD] = begin[: flat.size - start]
    return value


def fill_unwritten(value: Array) -> None:
    """Mark an output before the call, so that an element that is never written shows."""
    if value.dtype.kind in "iu":
        value[...] = np.iinfo(value.dtype).max - 1
    elif value.dtype.kind == "b":
        value[...] = True
    else:
        value[...] = np.nan


@dataclass(slots=True)
class Case:
    """One set of inputs with the outputs that the unscheduled program gave."""

    name: str
    magnitude: int
    positive: bool
    outputs: list[Array]
    inputs: list[Array | None] = field(default_factory=list)
    """One entry per parameter, None for outputs; made from the seed when needed."""

    @property
    def exact(self) -> bool:
        """Whether outputs must agree to the last bit."""
        return self.magnitude > 0

    def arguments(self, params: Sequence[Param]) -> list[Array]:
        """The inputs, and fresh outputs."""
        if not self.inputs:
            self.inputs = _inputs(params, self.magnitude, self.positive)
        made = []
        for param, value in zip(params, self.inputs):
            if value is None:
                value = aligned_empty(param.shape, param.dtype)
                fill_unwritten(value)
            made.append(value)
        return made


def _inputs(params: Sequence[Param], magnitude: int, positive: bool) -> list[Array | None]:
    rng = np.random.default_rng(_SEED)
    return [None if p.output else make_value(p, rng, magnitude=magnitude, positive=positive) for p in params]


@dataclass(slots=True)
class Reference:
    """The unscheduled program's outputs on both cases, and the time that it took for one call."""

    facts: KernelFacts
    cases: list[Case]
    secs: float
    _rooms: dict[int, Array] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Memory that the inputs and outputs of all cases take, and their packed copies."""
        return self.facts.nbytes * len(self.cases) + sum(room.nbytes for room in self._rooms.values())

    def room(self, position: int, shape: Sequence[int], dtype: Any) -> Array:
        """Memory for a parameter in another layout; all cases and candidates use the same, since new pages are slow."""
        n_bytes = math.prod(shape) * numpy_dtype(dtype).itemsize
        memory = self._rooms.get(position)
        if memory is None or memory.nbytes < n_bytes:
            memory = self._rooms[position] = aligned_empty((n_bytes,), "uint8")
        found: Array = memory[:n_bytes].view(numpy_dtype(dtype)).reshape(shape)
        return found


def compute_reference(
    mod: Any, run: Callable[[list[Array]], object], facts: KernelFacts | None = None
) -> Reference:
    """Run the unscheduled program; ``run`` takes its arguments in order."""
    facts = facts or facts_of(mod)
    cases: list[Case] = []
    secs = math.inf
    for name, magnitude in (("small integers", facts.magnitude), ("random numbers", 0)):
        if name == "small integers" and not magnitude:
            continue
        for positive in (False, True):
            case = Case(name, magnitude, positive, [])
            arguments = case.arguments(facts.params)
            begin = time.perf_counter()
            run(arguments)
            secs = min(secs, time.perf_counter() - begin)
            case.outputs = [value for param, value in zip(facts.params, arguments) if param.output]
            # Logarithms and roots of negative numbers hide everything behind NaN: use positive numbers then.
            if all(np.isfinite(out).all() for out in case.outputs if out.dtype.kind == "f"):
                break
        cases.append(case)
    return Reference(facts, cases, secs)


def tolerance(dtype: str, reduction: int) -> float:
    """Relative error that rounding explains for sums of ``reduction`` terms; zero for integers.

    >>> tolerance("int32", 100)
    0.0
    """
    kind = numpy_dtype(dtype)
    if kind.kind in "iub":
        return 0.0
    bits = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}.get(dtype, 2)
    # Double precision is held to what its constants and intrinsics keep in every mode.
    epsilon = max(2.0**-bits, 1e-14)
    return epsilon * (32 + 4 * math.sqrt(reduction))


def compare(case: Case, facts: KernelFacts, arguments: Sequence[Array]) -> str | None:
    """What is wrong with the outputs among ``arguments``, in one sentence; None when they are right."""
    outputs = [(param, value) for param, value in zip(facts.params, arguments) if param.output]
    for (param, got), expected in zip(outputs, case.outputs):
        # The usual case first, without temporaries.
        if case.exact or got.dtype.kind in "iub":
            if np.array_equal(got, expected):
                continue
            bad = (got != expected) & ~(_isnan(got) & _isnan(expected))
        else:
            wide_got, wide = got.astype(np.float64), expected.astype(np.float64)
            allowed = tolerance(param.dtype, facts.reduction)
            finite = np.abs(wide[np.isfinite(wide)])
            scale = float(finite.max()) if finite.size else 1.0
            with np.errstate(invalid="ignore"):
                close = np.isfinite(wide) & (np.abs(wide_got - wide) <= allowed * (np.abs(wide) + scale))
            bad = ~(close | (wide_got == wide) | (np.isnan(wide_got) & np.isnan(wide)))
        count = int(np.count_nonzero(bad))
        if count:
            where = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
            return (
                f"output {param.name} differs from the unscheduled program's on {case.name} in {count} of {bad.size} "
                f"elements; at {where} it is {got[where]}, expected {expected[where]}"
            )
    return None


def _isnan(value: Array) -> Array | bool:
    return np.isnan(value) if value.dtype.kind not in "iub" else False


# ------------------------------------------------------------------------------------------------ shared file


class ReferenceStore:
    """References by workload, in memory and in files that the workers of one pool share."""

    def __init__(self, folder: Path | None = None, memory_bytes: int = 512 << 20) -> None:
        """
        Args:
            folder: where files are shared; by default the folder of the pool that this process works for, if any.
            memory_bytes: what would go beyond this is dropped from memory, the longest unused first.
        """
        shared = os.environ.get("LOOPSMITH_REFERENCE_FOLDER")
        self.folder = folder or (Path(shared) if shared else None)
        self._memory_bytes = memory_bytes
        self._memory: OrderedDict[str, Reference] = OrderedDict()

    @staticmethod
    def key(mod: Any, target: Any) -> str:
        """Names a workload: the structure of its program, and what it is built for."""
        return hashlib.sha256(f"{structural_hash(mod)} {target}".encode()).hexdigest()[:32]

    def in_memory(self, key: str) -> Reference | None:
        """The reference of a workload when it is at hand."""
        known = self._memory.get(key)
        if known is not None:
            self._memory.move_to_end(key)
        return known

    def get(self, key: str, mod: Any, make_run: Callable[[], Callable[[list[Array]], object]]) -> Reference:
        """The reference of a workload: from memory, from the file, or computed by ``make_run()(arguments)``."""
        known = self.in_memory(key)
        if known is None:
            facts = facts_of(mod)
            # Before the new one is made: its arrays then take the place of the old ones.
            while self._memory and self._nbytes() + 3 * facts.nbytes > self._memory_bytes:
                self._memory.popitem(last=False)
            known = self._load(key, facts)
            if known is None:
                known = compute_reference(mod, make_run(), facts)
                self._save(key, known)
            self._memory[key] = known
        return known

    def _nbytes(self) -> int:
        return sum(item.nbytes for item in self._memory.values())

    def _load(self, key: str, facts: KernelFacts) -> Reference | None:
        if self.folder is None:
            return None
        try:
            with np.load(self.folder / f"{key}.npz", allow_pickle=False) as data:
                meta = json.loads(str(data["meta"]))
                dtypes = [numpy_dtype(param.dtype) for param in facts.params if param.output]
                cases = []
                for number, (name, magnitude, positive) in enumerate(meta["cases"]):
                    outputs = [data[f"{number}_{i}"].view(dtype) for i, dtype in enumerate(dtypes)]
                    cases.append(Case(name, magnitude, positive, outputs))
                return Reference(facts, cases, meta["secs"])
        except (
            OSError,
            ValueError,
            KeyError,
            zipfile.BadZipFile,
        ):  # none yet, or a damaged one: compute it again
            return None

    def _save(self, key: str, reference: Reference) -> None:
        if self.folder is None:
            return
        cases = reference.cases
        meta = {
            "cases": [(case.name, case.magnitude, case.positive) for case in cases],
            "secs": reference.secs,
        }
        arrays: dict[str, Any] = {
            # bfloat16 and its like are no numpy types: keep their bytes.
            f"{n}_{i}": out if out.dtype.kind in "iufb" else out.view(f"u{out.dtype.itemsize}")
            for n, case in enumerate(cases)
            for i, out in enumerate(case.outputs)
        }
        part = self.folder / f".{key}.{os.getpid()}.npz"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            np.savez(part, meta=np.array(json.dumps(meta)), **arrays)
            part.replace(self.folder / f"{key}.npz")
        except OSError:  # a full disk costs time, not correctness: the next worker computes it again
            part.unlink(missing_ok=True)
