"""The design spaces of random kernels: the default rules of every kind of target, and random lists of rules with random parameters."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ir.target import Target
from ir.tir.analysis.written_params import written_params
from ir.tir.function import PrimFunc
from ir.tir.kernel_attributes import LAYOUT_FREE_BUFFERS
from schedules.population import Sketch
from schedules.postproc import Postproc
from schedules.postproc.default import cpu_postprocs, gpu_postprocs, hexagon_postprocs, tensor_core_postprocs
from schedules.rule import (
    AddRFactor,
    AutoBind,
    AutoInline,
    CrossThreadReduction,
    InlineConstantScalars,
    MultiLevelTiling,
    MultiLevelTilingTensorCore,
    MultiLevelTilingWideVector,
    MultiLevelTilingWithIntrin,
    ParallelizeVectorizeUnroll,
    RandomComputeLocation,
    RegisterTiling,
    ReuseType,
    ScheduleRule,
    SpatialThreads,
    SpatialTiling,
    cpu_rules,
    gpu_rules,
    hexagon_rules,
)
from schedules.space import PostOrderApply

from ..oracle import TARGETS, usable_targets
from .intrinsics import fragments, product
from .programs import Program, program_of

DESCRIBED = {
    "sapphire rapids": "llvm -mcpu=sapphirerapids -num-cores 8",
    "cascade lake": "llvm -mcpu=cascadelake -num-cores 4",
    "arm": "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores 4",
    "gpu": "nvidia/nvidia-h100",
}
"""What this machine may not be: candidates for it are interpreted and not compiled."""

_WORK = [60, 400, 400, 2000]
"""Steps of a kernel: the small ones have extents that no tile fits."""
_FEW = 400
"""Steps of a kernel whose candidates repeat them: threads of a GPU that are interpreted each fill what they share."""


@dataclass(frozen=True)
class Space:
    """A kernel and a design space of it."""

    name: str
    program: Program
    func: PrimFunc
    target: Target
    generator: PostOrderApply
    sketches: Sequence[Sketch]
    is_native: bool
    """Whether candidates can be run by this machine."""


def target_names() -> list[str]:
    """The names of all targets whose spaces can be had here."""
    return [*usable_targets(), *DESCRIBED]


def space_of(seed: int, target: str) -> Space:
    """The design space of a seed; some weights are known when the kernel is compiled."""
    generator = random.Random(seed)
    is_gpu = target == "gpu"
    program = program_of(generator, seed, min(generator.choice(_WORK), _FEW if is_gpu else _WORK[-1]))
    func = program.func
    weight = min(1, len(func.params) - 2)
    if (
        generator.random() < 0.3
        and not program.pitches
        and weight >= 0
        and weight not in written_params(func)
    ):
        func = func.with_attr(LAYOUT_FREE_BUFFERS, [weight])
    name, rules, postprocs = (_gpu_space if is_gpu else _cpu_space)(generator)
    space = PostOrderApply(sch_rules=rules, postprocs=postprocs)
    chosen = _target(target)
    for postproc in postprocs:
        postproc.initialize(chosen)
    sketches = space.generate_sketches(func, chosen)
    return Space(name, program, func, chosen, space, sketches, target in TARGETS)


def _target(name: str) -> Target:
    description = {**TARGETS, **DESCRIBED}[name]
    if name in DESCRIBED or name == "cpu":
        return Target(description)
    return Target(f"{description} -num-cores 2")


# -- spaces ------------------------------------------------------------------------
Described = tuple[str, list[ScheduleRule], list[Postproc]]


def _cpu_space(generator: random.Random) -> Described:
    """The default rules for CPUs half of the time."""
    chance = generator.random()
    if chance < 0.5:
        # Winograd's algorithm rounds, and spreads what is not finite: the check's bounds judge that (:mod:`experiments.kernel_mutants`).
        rules = [rule for rule in cpu_rules() if not rule.changes_rounding]
        return "cpu", rules, cpu_postprocs()
    if chance < 0.6:
        return "hexagon", hexagon_rules(), hexagon_postprocs()
    return "random rules", _random_cpu_rules(generator), cpu_postprocs()


def _gpu_space(generator: random.Random) -> Described:
    chance = generator.random()
    if chance < 0.4:
        return "gpu", gpu_rules(), gpu_postprocs()
    if chance < 0.6:
        return "tensor cores", _tensor_core_rules(generator), tensor_core_postprocs()
    return "random gpu rules", _random_gpu_rules(generator), gpu_postprocs()


def _random_cpu_rules(generator: random.Random) -> list[ScheduleRule]:
    """Some rules with random parameters, in an order that spaces use: what inlines, what tiles, what moves, what marks loops."""
    rules: list[ScheduleRule] = []
    for make in (_inlining, _factoring, _tiling, _moving, _transposing, _marking):
        if generator.random() < 0.75:
            rules.append(make(generator))
    return rules or [_tiling(generator)]


def _random_gpu_rules(generator: random.Random) -> list[ScheduleRule]:
    rules: list[ScheduleRule] = []
    for make in (_gpu_tiling, _inlining, _sharing, _threading):
        if generator.random() < 0.7:
            rules.append(make(generator))
    return [*rules, AutoBind(generator.choice([1, 4, 256]), generator.choice([[1, 2, 4], [32, 64]]))]


def _tensor_core_rules(generator: random.Random) -> list[ScheduleRule]:
    group = fragments(*(generator.choice([1, 2, 4]) for _ in range(3)))
    tiling = MultiLevelTilingTensorCore(
        [group],
        "SSSRRSRS",
        tile_binds=["blockIdx.x", "blockIdx.y", "threadIdx.y"],
        reuse_read=ReuseType("must", [4], "shared"),
        reuse_write=ReuseType("must", [3], "shared"),
    )
    return [tiling, AutoInline(into_producer=True), AutoBind(256, [2, 4, 32])]


def _inlining(generator: random.Random) -> ScheduleRule:
    if generator.random() < 0.2:
        return InlineConstantScalars()
    consumers, producers, injective, branching, ordered = (generator.random() < 0.5 for _ in range(5))
    return AutoInline(
        into_producer=producers,
        into_consumer=consumers,
        disallow_if_then_else=branching,
        require_injective=injective,
        require_ordered=ordered,
        disallow_op=generator.choice([[], ["tir.exp"]]),
    )


def _factoring(generator: random.Random) -> ScheduleRule:
    return AddRFactor(generator.choice([1, 16, 64]), generator.choice([None, 4, 64]))


def _tiling(generator: random.Random) -> ScheduleRule:
    limit = generator.choice([None, 2, 4, 64])
    kind = generator.randrange(4)
    if kind == 0:
        structure = generator.choice(["SSSRRS", "SRS", "SSRSRS"])
        padding = generator.choice([0.0, 0.1, 1.0])
        return RegisterTiling(
            structure, limit or 64, generator.choice([4, 128]), generator.random() < 0.5, padding
        )
    structure = generator.choice(["SSRSRS", "SRS", "RSS", "SSRSR", "S", "SSSRRSRS"])
    finished = (
        structure.index("R") if "R" in structure else len(structure)
    )  # sums may be copied outside of these levels
    read, write = _reuse(generator, len(structure)), _reuse(generator, finished)
    if kind == 1:
        return MultiLevelTilingWideVector(structure, generator.choice([64, 128, 1024]), limit, read, write)
    if kind == 2:
        sizes = [generator.choice([1, 2, 4]) for _ in range(3)]
        return MultiLevelTilingWithIntrin(product(*sizes), structure, None, limit, None, read, write)
    return MultiLevelTiling(structure, None, limit, None, read, write)


def _reuse(generator: random.Random, levels: int) -> ReuseType:
    """Caches behind one or two of the first levels; none where there are none."""
    if not levels:
        return ReuseType()
    chosen = generator.sample(range(1, levels + 1), min(levels, generator.choice([1, 1, 2])))
    return ReuseType(generator.choice(["no", "may", "must"]), sorted(chosen), "global")


def _gpu_tiling(generator: random.Random) -> ScheduleRule:
    structure = generator.choice(["SSSRRSRS", "SSSRS", "SSRS"])
    axes = ["blockIdx.x", "vthread.x", "threadIdx.x"]
    axes = axes if structure.startswith("SSS") else [axes[0], axes[2]]
    shared, local = structure.index("R") + 1, structure.index("R")
    read = ReuseType(generator.choice(["no", "must"]), [shared], "shared")
    write = ReuseType(generator.choice(["no", "may", "must"]), [local], "local")
    return MultiLevelTiling(structure, axes, generator.choice([4, 64]), [1, 2, 4], read, write)


def _sharing(generator: random.Random) -> ScheduleRule:
    return CrossThreadReduction(generator.choice([[2], [2, 4, 8], [32]]))


def _threading(generator: random.Random) -> ScheduleRule:
    sides = generator.choice([(1, 4), (2, 8), (8, 64)])
    items, lengths = generator.choice([[1], [1, 2, 4]]), generator.choice([[1, 2, 4, 8, 16], [2, 3]])
    return SpatialThreads(generator.choice([[1, 2, 4], [32, 64]]), lengths, items, sides)


def _moving(generator: random.Random) -> ScheduleRule:
    return RandomComputeLocation()


def _transposing(generator: random.Random) -> ScheduleRule:
    return SpatialTiling(generator.choice([1, 3, 8]), generator.choice([2, 4, 64]))


def _marking(generator: random.Random) -> ScheduleRule:
    steps = generator.choice([None, [0, 4], [16, 512]])
    return ParallelizeVectorizeUnroll(
        generator.choice([-1, 1, 16, 64]), generator.choice([-1, 4, 16, 64]), steps, generator.random() < 0.7
    )
