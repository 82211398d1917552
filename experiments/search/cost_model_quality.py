"""How well the cost models order measured candidates: rank correlation and top-k regret over the records of databases.

Every record becomes a feature row and a time. Three questions are asked of each model: how it orders a task's records after having
seen the first n of them (*within*), after all records of other tasks (*transfer*), and after both (*both*). The regret of k is
the best time among the model's first k over the best of the set, minus one.

    python -m experiments.search.cost_model_quality tuning.db more.db
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cost_models import CostModel, FeatureMatrix, MLPModel, PerStoreFeature, PriorModel, XGBModel
from database import TuningRecord, open_database
from schedules.space import PostOrderApply
from tuner.search.records import measured_rows

MODELS: dict[str, Callable[[], CostModel]] = {
    "prior": PriorModel,
    "xgb": lambda: XGBModel(seed=0),
    "mlp": lambda: MLPModel(seed=0),
}


@dataclass
class Part:
    """Measured candidates of one structure: features of N candidates, seconds [N], and when each was measured [N]."""

    features: FeatureMatrix
    seconds: np.ndarray
    order: np.ndarray

    def take(self, rows: np.ndarray) -> Part:
        """Some of the candidates."""
        return Part(self.features.take(rows), self.seconds[rows], self.order[rows])


@dataclass
class TaskRecords:
    """The measured candidates of one workload."""

    name: str
    parts: list[Part]

    def __len__(self) -> int:
        return sum(len(part.seconds) for part in self.parts)

    def split(self, count: int) -> tuple[TaskRecords, TaskRecords]:
        """The first ``count`` records in order of measurement, and the others."""
        return (
            TaskRecords(self.name, [part.take(part.order < count) for part in self.parts]),
            TaskRecords(self.name, [part.take(part.order >= count) for part in self.parts]),
        )

    @property
    def seconds(self) -> np.ndarray:
        """Times of all parts [N]."""
        return np.concatenate([part.seconds for part in self.parts])

    def learn_into(self, model: CostModel) -> None:
        """Update a model with all records."""
        for part in self.parts:
            if len(part.seconds):
                model.update_arrays(part.features, part.seconds, self.name)

    def scores(self, model: CostModel) -> np.ndarray:
        """A model's scores of all records [N]."""
        return np.concatenate([model.predict_arrays(part.features) for part in self.parts])


def task_records(name: str, records: Sequence[TuningRecord]) -> TaskRecords:
    """The records of one workload as arrays; those that no sketch of today's space explains are left out."""
    target = records[0].target
    assert target is not None
    sketches = PostOrderApply().generate_sketches(records[0].workload.mod, target)
    extractor = PerStoreFeature()
    rows = [item for item in measured_rows(records, sketches) if np.isfinite(item[2])]
    parts = []
    for number, sketch in enumerate(sketches):
        mine = [(row, secs, position) for position, (own, row, secs) in enumerate(rows) if own == number]
        if mine:
            decisions, seconds, order = zip(*mine, strict=True)
            features = extractor.features_of(sketch.skeleton(np.stack(decisions)), target)
            parts.append(Part(features, np.array(seconds), np.array(order)))
    return TaskRecords(name, parts)


def load(paths: Sequence[str]) -> Iterator[TaskRecords]:
    """All workloads of some databases, without candidates that were cut: their times are no more than bounds."""
    for path in paths:
        by_workload: dict[str, list[TuningRecord]] = {}
        for record in open_database(path, must_exist=True).get_all_tuning_records():
            if not record.cut:
                by_workload.setdefault(record.workload.shash, []).append(record)
        for records in by_workload.values():
            blocks = [name for name in records[0].workload.summary.blocks if name != "root"]
            shape = "x".join(str(item) for item in records[0].workload.summary.args[-1][2])
            shash = records[0].workload.shash[-4:]
            yield task_records(f"{'+'.join(blocks)[:32]} {shape} {shash}", records)


def rank_correlation(scores: np.ndarray, seconds: np.ndarray) -> float:
    """Spearman's coefficient between scores and speed."""
    first, second = (np.argsort(np.argsort(item, kind="stable")) for item in (scores, -seconds))
    return float(np.corrcoef(first, second)[0, 1])


def regret(scores: np.ndarray, seconds: np.ndarray, count: int) -> float:
    """Best time among the first ``count`` by score over the best time, minus one."""
    return float(seconds[np.argsort(-scores, kind="stable")[:count]].min() / seconds.min() - 1.0)


def trained(make: Callable[[], CostModel], sets: Sequence[TaskRecords]) -> CostModel:
    """A new model that has learnt from some sets, in this order."""
    model = make()
    for item in sets:
        item.learn_into(model)
    return model


def main() -> None:
    """Print one line per setting and model, and with ``--tasks`` one per task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("databases", nargs="+")
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--least", type=int, default=8, help="records that a task needs to be judged")
    parser.add_argument("--seen", type=int, nargs="*", default=[8, 16], help="records of a task seen before")
    parser.add_argument("--tasks", action="store_true", help="print every task")
    options = parser.parse_args()
    tasks = [task for task in load(options.databases) if len(task)]
    judged = [task for task in tasks if len(task) >= options.least]
    print(f"{len(tasks)} tasks with {sum(map(len, tasks))} records; {len(judged)} are judged")
    if options.tasks:
        for task in tasks:
            print_estimate(task)
    for seen in [0, *options.seen]:
        for learns in ("transfer",) if seen == 0 else ("within", "both"):
            for name in options.models:
                evaluate(name, learns, seen, tasks, judged, options.tasks)


def print_estimate(task: TaskRecords) -> None:
    """How the analytical estimate compares with a task's times."""
    estimate = np.concatenate([part.features.prior_seconds() for part in task.parts])
    ratio = task.seconds / estimate
    rank = rank_correlation(-estimate, task.seconds) if len(task) > 2 else np.nan
    print(
        f"  {task.name:60} {len(task):3} records, best {task.seconds.min() * 1e6:8.1f} us; measured/estimated"
        f" {np.exp(np.log(ratio).mean()):5.2f} ({ratio.min():.2f}..{ratio.max():.2f}); rank {rank:5.2f}"
    )


def evaluate(
    name: str, learns: str, seen: int, tasks: Sequence[TaskRecords], judged: Sequence[TaskRecords], each: bool
) -> None:
    """Print how a model orders what it has not seen of each task."""
    ranks, regrets = [], []
    for task in judged:
        mine, held = task.split(seen)
        if len(held) < 5:
            continue
        others = [] if learns == "within" else [item for item in tasks if item is not task]
        model = trained(MODELS[name], [*others, mine])
        scores = held.scores(model)
        ranks.append(rank_correlation(scores, held.seconds))
        regrets.append([regret(scores, held.seconds, count) for count in (1, 3, 5)])
        if each:
            print(f"    {task.name:60} {ranks[-1]:6.3f}  {regrets[-1]}")
    mean = np.mean(regrets, axis=0) * 100
    print(
        f"{learns:8} {seen:2} seen, {name:5}: rank {np.mean(ranks):6.3f} (median {np.median(ranks):6.3f}),"
        f" regret of 1, 3, 5: {mean[0]:5.1f} {mean[1]:5.1f} {mean[2]:5.1f} %  over {len(ranks)} tasks",
        flush=True,
    )


if __name__ == "__main__":
    main()
