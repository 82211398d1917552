"""TuneContext: one tuning task with everything that its search needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from cost_models import Calibration, FeatureMatrix, PerStoreFeature, estimate_seconds
from database import WorkloadSummary, key_of_trace
from ir import IRModule, structural_hash
from ir.target import Target
from ir.tir import PrimFunc
from schedules import Schedule, ScheduleError
from schedules.dlight import cpu
from schedules.population import Sketch
from schedules.space import PostOrderApply, SpaceGenerator, Structures

from .compile import default_of_builds
from .error import TunerError

_EXTRACTOR = PerStoreFeature()


def check_seed(seed: object) -> None:
    """Refuse what is no seed.

    Raises:
        TunerError: it is no whole number, or negative.
    """
    if not isinstance(seed, Integral) or seed < 0:
        raise TunerError(f"the seed must be a whole number of at least 0, got {seed!r}")


def _name_of(name: str, func: PrimFunc) -> str:
    """What a kernel is called that nobody gave a name: its function's in the module, that of its definition, or its blocks'."""
    symbol = func.attrs.get("global_symbol", "main")
    named = name if name != "main" else str(getattr(symbol, "value", symbol))
    return WorkloadSummary.of(IRModule({named: func})).described


@dataclass(eq=False)
class TuneContext:
    """A workload on a target, its design space, and its random state.

    Attributes:
        mod: the unscheduled module; a PrimFunc becomes its ``main``.
        target: what it is tuned for.
        space_generator: makes the sketches; the context has a copy, whose rules and postprocessors know this task.
        task_name: for people; by default that of the function, or of one without a name of its own, its blocks.
        seed: of all random choices in this task.
        weight: how often the kernel runs in the model.
        flops: floating-point operations of one run, for GFLOP/s.
        calibration: what was measured of the target's machine; None for nothing. Whoever estimates for this task goes by it.
    """

    mod: Any
    target: Any = "cpu"
    space_generator: SpaceGenerator = field(default_factory=PostOrderApply)
    task_name: str = ""
    seed: int = 0
    weight: float = 1.0
    flops: float = 0.0
    calibration: Calibration | None = None
    _structures: Structures | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.mod, PrimFunc):
            self.mod = IRModule({"main": self.mod})
        if not isinstance(self.mod, IRModule):
            raise TunerError(
                f"a kernel to tune is a PrimFunc or an IRModule, got {type(self.mod).__name__};"
                " te.create_prim_func makes a PrimFunc of tensors"
            )
        names = [var.name_hint for var, func in self.mod.functions.items() if isinstance(func, PrimFunc)]
        if not names:
            raise TunerError(
                "a kernel to tune is a PrimFunc, and the module has none; tune_relax tunes a model (Relax functions)"
            )
        if len(names) > 1:
            raise TunerError(
                f"a kernel to tune is one PrimFunc, and the module has {len(names)}: {', '.join(names)}; tune each by itself,"
                f" as in tune_tir(mod[{names[0]!r}], ...)"
            )
        self.target = self.target if isinstance(self.target, Target) else Target(self.target)
        check_seed(self.seed)
        self.task_name = self.task_name or _name_of(names[0], self.func)
        self.generator = np.random.default_rng(self.seed)
        self.space_generator = self.space_generator.clone()
        self.space_generator.initialize_with_tune_context(self)

    @property
    def func(self) -> PrimFunc:
        """The function that is tuned."""
        (func,) = [item for item in self.mod.functions.values() if isinstance(item, PrimFunc)]
        return func

    def structures(self) -> Structures:
        """The structures of the design space; those that a search begins with are generated once, others as they are looked for."""
        if self._structures is None:
            self._structures = self.space_generator.structures(self.mod, self.target)
        return self._structures

    def generator_of(self, sketch: Sketch) -> SpaceGenerator:
        """The generator whose postprocessors and mutators the candidates of a structure have: of a union, the one that made it."""
        return self.space_generator.generator_of(self.structures(), sketch)

    @cached_property
    def default(self) -> Schedule | None:
        """The schedule of builds without records; None where no structure of the rules' own design space applies."""
        try:
            return default_of_builds(self.mod, self.target)
        except ScheduleError:
            return None

    @property
    def default_key(self) -> str | None:
        """The key of the default schedule's trace, by which records of it are known."""
        trace = None if self.default is None else self.default.trace
        return None if trace is None else key_of_trace(trace.as_json())

    @cached_property
    def first_candidate(self) -> Schedule | None:
        """What a search begins with: the default schedule, or on GPUs, where that is none of the design space, the best by estimate."""
        if not self.target.is_gpu:
            return self.default
        try:
            return cpu.default_schedule(self.mod, self.target, rank=estimate_seconds)
        except ScheduleError:
            return None

    def default_in(self, structures: Structures) -> tuple[int, np.ndarray] | None:
        """The first candidate's number among some structures and its decisions int64 [n_columns]; None where none of them has it."""
        first = self.first_candidate
        return None if first is None or first.trace is None else structures.explaining(first.trace)

    def structures_of(self, design_spaces: Sequence[Sketch]) -> Structures:
        """What a strategy searches that is given these structures: all of the design space for those that are known, else only them."""
        own = self.structures()
        return own if design_spaces is own.known else Structures(design_spaces)

    def sketches(self) -> list[Sketch]:
        """The structures that are known by now."""
        return self.structures().known

    def generate_design_space(self) -> Sequence[Any]:
        """Random schedules, one per structure."""
        return self.space_generator.generate_design_space(self.mod, self.target)

    def features(self, sketch: Sketch, matrix: np.ndarray) -> FeatureMatrix:
        """Features of the candidates of a structure, decisions int64 [N, n_columns], on this task's machine."""
        return _EXTRACTOR.features_of(sketch.skeleton(matrix), self.target, self.calibration)

    def workload_hash(self) -> int:
        """Structural hash of the module."""
        return structural_hash(self.mod)
