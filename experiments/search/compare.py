"""Strategies compared on stored spaces: how many trials each needs, with and without transfer, and each piece switched off.

Every search is replayed (``replay.py``) with ten seeds on every space. Trials to a share of the best speed are medians over the
seeds; searches that did not get there count as one more than the budget. With transfer, the database holds a search of the same length
on the space of the same kind and other extents (:data:`PARTNERS`), as tuning another model would have left it.

    python -m experiments.search.compare                      # all, and results/search_spaces.{md,json}
    python -m experiments.search.compare --ways random evolution --spaces GMM_1x128 --seeds 3
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cost_models import CostModel, PriorModel, XGBModel
from database import Database, MemoryDatabase, TuningRecord
from schedules.population import Sketch
from tuner import EvolutionarySearch, MeasureCandidate, ReplayTrace, SearchStrategy
from tuner.search.records import pretrain

from ..harness import results
from .replay import SHARES, Outcome, StoredGenerator, judge, replay
from .stored_space import FOLDER, StoredSpace, load_all

TRIALS, BATCH, SEEDS = 64, 8, 10


class Exhaustive(SearchStrategy):
    """Every candidate in the order of its decisions: what a grid search does."""

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Sketch],
        database: Database | None,
        cost_model: CostModel,
    ) -> None:
        self._left: list[MeasureCandidate] = []
        for sketch in design_spaces:
            rows = sketch.all_rows(sketch.size())
            assert rows is not None
            self._left += [MeasureCandidate(sketch, row) for row in rows]
        self._left, self._batch = self._left[:max_trials], num_trials_per_iter

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        batch, self._left = self._left[: self._batch], self._left[self._batch :]
        return batch or None

    def notify_runner_results(
        self, measure_candidates: Sequence[MeasureCandidate], results: Sequence[float | None]
    ) -> None:
        """The order is fixed."""


@dataclass(frozen=True)
class Way:
    """A way to search.

    Attributes:
        strategy: makes the strategy.
        model: makes the model from a seed.
        transfer: whether the database holds a search of the similar space, where the strategy finds it.
        pretrained: whether the model has learnt from that search.
        uniform: whether only those candidates of a large space are there that were drawn uniformly, as in the space itself.
        note: what it is, for the table.
    """

    strategy: Callable[[], SearchStrategy]
    model: Callable[[int], CostModel] = lambda seed: XGBModel(seed=seed)
    transfer: bool = False
    pretrained: bool = False
    uniform: bool = False
    note: str = ""


def _evolution(**options: Any) -> Callable[[], SearchStrategy]:
    return lambda: EvolutionarySearch(from_default=False, **options)


def _prior(seed: int) -> CostModel:
    return PriorModel()


WAYS: dict[str, Way] = {
    "random": Way(ReplayTrace, _prior, uniform=True, note="uniform in the whole space, none twice"),
    "random among the measured": Way(
        ReplayTrace, _prior, note="uniform in the measured set, which is enriched"
    ),
    "exhaustive": Way(Exhaustive, _prior, note="in the order of the decisions"),
    "evolution, no learned model": Way(_evolution(), _prior, note="the analytical estimate ranks"),
    "evolution": Way(_evolution(), note="as the tuner runs it"),
    "evolution, transfer": Way(
        _evolution(), transfer=True, pretrained=True, note="a similar workload in the database"
    ),
}
"""What is compared; strategies that other modules register can be added by their names."""

ABLATIONS: dict[str, Way] = {
    "expected score only": Way(_evolution(acquisition="mean"), note="no uncertainty"),
    "upper confidence": Way(
        _evolution(acquisition="upper-confidence"), note="in place of expected improvement"
    ),
    "no random picks": Way(_evolution(eps_greedy=0.0)),
    "no diversity": Way(_evolution(diversity=0.0)),
    "no descent": Way(_evolution(descent_share=0.0)),
    "transfer, model only": Way(
        _evolution(seed_share=0.0), transfer=True, pretrained=True, note="no seeds of the similar workload"
    ),
    "transfer, seeds only": Way(
        _evolution(), transfer=True, note="model not trained on the similar workload"
    ),
}
"""The same with one piece switched off or exchanged."""

PARTNERS = {
    "GMM": ("GMM 1x128x128x128", "GMM 1x96x192x64"),
    "C2D": ("C2D 1x14x14x32x32x3x1x1", "C2D 1x28x28x16x32x3x1x1"),
    "DEP": ("DEP 1x28x28x64x3x1x1", "DEP 1x14x14x96x3x1x1"),
    "max_pool_nhwc": ("max_pool_nhwc 1x28x28x64x3x2x1", "max_pool_nhwc 1x14x14x96x3x2x1"),
    "matvec": ("matvec 512x512", "matvec 768x384"),
}
"""Spaces that transfer to each other."""


def partner_of(space: StoredSpace, spaces: Sequence[StoredSpace]) -> StoredSpace | None:
    """The stored space of the same kind on the same target, if there is one."""
    for pair in PARTNERS.values():
        for other in spaces:
            if space.row in pair and other.row in pair and other.row != space.row:
                if str(other.target) == str(space.target):
                    return other
    return None


@dataclass
class Comparison:
    """Replays of some ways on the spaces of one machine.

    Attributes:
        spaces: what is searched; of every workload one.
        trials, batch: budget of each search and trials between two of its updates.
        outcomes: by way, by row of the space, one per seed.
    """

    spaces: Sequence[StoredSpace]
    trials: int = TRIALS
    batch: int = BATCH
    outcomes: dict[str, dict[str, list[Outcome]]] = field(default_factory=dict)
    only: str | None = None
    """The one row to search, where others are there for transfer."""

    def __post_init__(self) -> None:
        self.generator = StoredGenerator(self.spaces)
        self._uniform = StoredGenerator(self.spaces, sources=("all", "uniform"))
        self._searches: dict[tuple[str, int], list[TuningRecord]] = {}

    def run(self, name: str, way: Way, seeds: Sequence[int]) -> None:
        """Replay a way on every space; with transfer, on those that have a partner."""
        for space in self.spaces:
            if self.only not in (None, space.row):
                continue
            partner = partner_of(space, self.spaces)
            if way.transfer and partner is None:
                continue
            found = [self._one(space, partner, way, seed) for seed in seeds]
            self.outcomes.setdefault(name, {})[space.row] = found

    def _one(self, space: StoredSpace, partner: StoredSpace | None, way: Way, seed: int) -> Outcome:
        context, model = (
            (self._uniform if way.uniform else self.generator).context(space, seed),
            way.model(seed),
        )
        database = None
        if way.transfer and partner is not None:
            database = self._searched(partner, seed)
            if way.pretrained:
                pretrain(model, database, [context])
        history = replay(context, way.strategy(), model, self.trials, self.batch, database)
        return judge(history, space.best_secs, self.trials)

    def _searched(self, space: StoredSpace, seed: int) -> MemoryDatabase:
        """A database after a search of another space."""
        key = (space.row, seed)
        if key not in self._searches:
            made = MemoryDatabase()
            context = self.generator.context(space, 1000 + seed)
            replay(context, _evolution()(), XGBModel(seed=seed), self.trials, self.batch, made)
            self._searches[key] = made.get_all_tuning_records()
        database = MemoryDatabase()
        for record in self._searches[key]:
            database.commit_tuning_record(record)
        return database

    # ---- figures -------------------------------------------------------------------------------------------------

    def trials_to(self, name: str, row: str, share: float) -> float:
        """The median over the seeds; what did not get there counts as one more than the budget."""
        return float(np.median([item.trials[share] or self.trials + 1 for item in self.outcomes[name][row]]))

    def summary(self, name: str, rows: Sequence[str] | None = None) -> dict[str, float]:
        """Over all spaces: geometric means of the trials, the mean area and the mean regret."""
        chosen = [row for row in self.outcomes[name] if rows is None or row in rows]
        every = [item for row in chosen for item in self.outcomes[name][row]]
        found = {
            f"trials to {share:.0%}": float(
                np.exp(np.mean([np.log(self.trials_to(name, row, share)) for row in chosen]))
            )
            for share in SHARES
        }
        found["area"] = float(np.mean([item.area for item in every]))
        found["regret"] = float(np.mean([item.regret for item in every]))
        found["within 32"] = float(np.mean([(item.trials[0.95] or self.trials + 1) <= 32 for item in every]))
        return found


# ---- the table ---------------------------------------------------------------------------------------------------


def by_machine(spaces: Sequence[StoredSpace]) -> dict[str, list[StoredSpace]]:
    """The spaces of each machine, by its name."""
    found: dict[str, list[StoredSpace]] = {}
    for space in spaces:
        machine = f"{space.facts['machine']['cpu']} ({space.target.attrs.get('mcpu')})"
        found.setdefault(machine, []).append(space)
    return found


def page(comparisons: dict[str, Comparison], ways: dict[str, Way], seeds: int) -> str:
    """Markdown: what the figures are, and the tables of every machine."""
    budget = next(iter(comparisons.values()))
    lines = [
        "# Searches on stored spaces",
        "",
        f"Spaces measured on {' and '.join(comparisons)}, one thread; replays, {seeds} seeds each,"
        f" {budget.trials} trials in batches of {budget.batch}. `python -m experiments.search.compare` writes this page.",
        "",
        "Trials to 90, 95 and 99 % of the best speed known: medians over the seeds, of searches that did not get there one more than"
        " the budget; over several spaces their geometric mean. Area: speed of the best so far relative to the best known, averaged over"
        " the trials. Regret: time of the best found over the best known, minus one. Within 32: share of the searches that had 95 %"
        " after 32 trials.",
        "",
    ]
    return "\n".join(lines + [table(name, comparison, ways) for name, comparison in comparisons.items()])


def table(machine: str, comparison: Comparison, ways: dict[str, Way]) -> str:
    """A line per way, and one per space."""
    lines = [f"## {machine}", ""]
    shared = [row for row in comparison.outcomes["evolution"] if _is_everywhere(comparison, row)]
    for title, rows in (("All spaces", None), ("Spaces with a partner", shared)):
        lines += [
            f"### {title}",
            "",
            "| way | 90 % | 95 % | 99 % | area | regret | within 32 | |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for name in comparison.outcomes:
            if rows is None and ways[name].transfer:
                continue
            figures = comparison.summary(name, rows)
            trials = " | ".join(f"{figures[f'trials to {share:.0%}']:.1f}" for share in SHARES)
            lines.append(
                f"| {name} | {trials} | {figures['area']:.3f} | {figures['regret']:.2%} | {figures['within 32']:.0%} | {ways[name].note} |"
            )
        lines.append("")
    lines += ["### Trials to 95 % on each space", ""]
    names = [name for name in comparison.outcomes if name in WAYS]
    lines += ["| space | candidates | of | " + " | ".join(names) + " |", "|---" * (3 + len(names)) + "|"]
    for space in comparison.spaces:
        cells = [
            f"{comparison.trials_to(name, space.row, 0.95):.0f}"
            if space.row in comparison.outcomes[name]
            else ""
            for name in names
        ]
        lines.append(
            f"| {space.row} | {len(space)} | {space.facts['candidates']} | " + " | ".join(cells) + " |"
        )
    return "\n".join(lines) + "\n"


def _is_everywhere(comparison: Comparison, row: str) -> bool:
    return all(row in rows for rows in comparison.outcomes.values())


def _part(
    options: argparse.Namespace, machine: str, row: str, names: Sequence[str]
) -> dict[str, dict[str, list[Outcome]]]:
    """All ways on one space, in a process of its own."""
    spaces = by_machine(load_all(options.folder, options.spaces))[machine]
    comparison = Comparison(spaces, options.trials, options.batch, only=row)
    for name in names:
        comparison.run(name, {**WAYS, **ABLATIONS}[name], range(options.seeds))
    print(f"{row}: done", file=sys.stderr, flush=True)
    return comparison.outcomes


def main(given: Sequence[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.search.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ways = {**WAYS, **ABLATIONS}
    parser.add_argument(
        "--ways",
        nargs="*",
        default=list(ways),
        choices=list(ways),
        metavar="WAY",
        help="of " + ", ".join(ways),
    )
    parser.add_argument("--spaces", nargs="*", default=(), help="beginnings of file names")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the stored spaces")
    parser.add_argument(
        "--out", type=Path, default=None, help=f"folder of the results; {results.DEFAULT} for all ways"
    )
    options = parser.parse_args(given)
    comparisons = {
        machine: Comparison(spaces, options.trials, options.batch)
        for machine, spaces in by_machine(load_all(options.folder, options.spaces)).items()
    }
    names = list(dict.fromkeys(["evolution", *options.ways]))
    if options.jobs > 1:
        with ProcessPoolExecutor(options.jobs) as pool:
            parts = [
                (comparison, pool.submit(_part, options, machine, space.row, names))
                for machine, comparison in comparisons.items()
                for space in comparison.spaces
            ]
            for comparison, part in parts:
                for name, rows in part.result().items():
                    comparison.outcomes.setdefault(name, {}).update(rows)
        for comparison in comparisons.values():
            known = comparison.outcomes
            comparison.outcomes = {name: known[name] for name in names if name in known}
    else:
        for comparison in comparisons.values():
            for name in names:
                comparison.run(name, ways[name], range(options.seeds))
    text = page(comparisons, ways, options.seeds)
    print(text)
    everything = set(options.ways) == set(ways) and not options.spaces
    out = options.out or (results.DEFAULT if everything else None)
    if out is not None:
        (out / "search_spaces.md").write_text(text)
        found = {
            "trials": options.trials,
            "batch": options.batch,
            "spaces": [
                {"row": space.row, "target": str(space.target), "measured": len(space), **space.facts}
                for comparison in comparisons.values()
                for space in comparison.spaces
            ],
            "outcomes": {
                machine: {
                    name: {row: [asdict(item) for item in items] for row, items in rows.items()}
                    for name, rows in comparison.outcomes.items()
                }
                for machine, comparison in comparisons.items()
            },
        }
        (out / "search_spaces.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
