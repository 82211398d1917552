"""How well the cost models order measured candidates: rank correlation and top-k regret over the records of databases.

Every record becomes a feature row and a time. Three questions are asked of each model: how it orders a task's records after having
seen the first n of them (*within*), after all records of other tasks (*transfer*), and after both (*both*). The regret of k is
the best time among the model's first k over the best of the set, minus one.

    python -m experiments.search.cost_model_quality tuning.db more.db

With ``--publish NAME`` the estimate, by assumed figures and by a calibration of this machine, stands beside the learned model, which
has seen the records of all other operators and none of the judged one: rows of ``results/cost_models.md`` that begin with the name.

    loopsmith calibrate --database machine.db
    python -m experiments.search.cost_model_quality random.db --calibration machine.db --publish "random, one core"
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cost_models import Calibration, CostModel, FeatureMatrix, MLPModel, PerStoreFeature, PriorModel, XGBModel
from database import TuningRecord, open_database
from schedules.space import PostOrderApply
from tuner.calibration import describes_host, known_calibration
from tuner.search.records import measured_rows

from ..harness import results, tables

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


def task_records(
    name: str, records: Sequence[TuningRecord], calibration: Calibration | None = None
) -> TaskRecords:
    """The records of one workload as arrays; those that no sketch of today's space explains are left out.

    Features go by the calibration of this machine where the records were measured on it.
    """
    target = records[0].target
    assert target is not None
    found = calibration if describes_host(target) else None
    structures = PostOrderApply().structures(records[0].workload.mod, target)
    extractor = PerStoreFeature()
    rows = [item for item in measured_rows(records, structures) if np.isfinite(item.secs)]
    parts = []
    for number, sketch in enumerate(structures.known):
        mine = [
            (item.row, item.secs, position) for position, item in enumerate(rows) if item.number == number
        ]
        if mine:
            decisions, seconds, order = zip(*mine, strict=True)
            features = extractor.features_of(sketch.skeleton(np.stack(decisions)), target, found)
            parts.append(Part(features, np.array(seconds), np.array(order)))
    return TaskRecords(name, parts)


def load(paths: Sequence[str], calibration: Calibration | None = None) -> Iterator[TaskRecords]:
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
            yield task_records(f"{'+'.join(blocks)[:32]} {shape} {shash}", records, calibration)


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
    parser.add_argument("--calibration", help="a database with the calibration of this machine")
    parser.add_argument(
        "--publish", metavar="NAME", help="write what is judged to the results, under this name"
    )
    parser.add_argument("--out", type=Path, default=results.DEFAULT, help="folder of the results")
    options = parser.parse_args()
    calibration = None if options.calibration is None else calibration_in(options.calibration)
    if options.publish is not None:
        if calibration is None:
            parser.error("--publish compares with a calibration: name its database with --calibration")
        publish(options.publish, options.databases, calibration, options.least, options.out)
        return
    tasks = [task for task in load(options.databases, calibration) if len(task)]
    judged = [task for task in tasks if len(task) >= options.least]
    print(f"{len(tasks)} tasks with {sum(map(len, tasks))} records; {len(judged)} are judged")
    if options.tasks:
        for task in tasks:
            print_estimate(task)
    for seen in [0, *options.seen]:
        for learns in ("transfer",) if seen == 0 else ("within", "both"):
            for name in options.models:
                evaluate(name, learns, seen, tasks, judged, options.tasks)


def calibration_in(path: str) -> Calibration:
    """The calibration of this machine that a database has.

    Raises:
        SystemExit: it has none.
    """
    found = known_calibration(open_database(path, must_exist=True))
    if found is None:
        raise SystemExit(f"{path} knows nothing of this machine: run 'loopsmith calibrate --database {path}'")
    return found


def publish(name: str, databases: Sequence[str], calibration: Calibration, least: int, folder: Path) -> None:
    """Write a row for each operator, and the table of all rows."""
    assumed = [task for task in load(databases) if len(task) >= least]
    measured = [task for task in load(databases, calibration) if len(task) >= least]
    store = results.Results(folder, "cost_models")
    for number, (plain, calibrated) in enumerate(zip(assumed, measured, strict=True)):
        row: dict[str, Any] = {"records": len(plain), "calibration": calibration.as_json()}
        for kind, task, others in (("assumed", plain, assumed), ("calibrated", calibrated, measured)):
            row[f"prior, {kind}"] = {**judged_by(PriorModel(), task), "ratio": measured_to_estimated(task)}
            model = trained(MODELS["xgb"], [item for at, item in enumerate(others) if at != number])
            row[f"learned, {kind}"] = judged_by(model, task)
        store.add(f"{name}: {plain.name}", row)
    (folder / "cost_models.md").write_text(tables.TABLES["cost_models"](store.rows) + "\n")


def measured_to_estimated(task: TaskRecords) -> float:
    """How many times the estimate a task's times are: the geometric mean."""
    estimate = np.concatenate([part.features.prior_seconds() for part in task.parts])
    return float(np.exp(np.log(task.seconds / estimate).mean()))


def judged_by(model: CostModel, task: TaskRecords) -> dict[str, float]:
    """How a model orders a task's records: rank correlation, and regrets of its first one, three and five."""
    scores, seconds = task.scores(model), task.seconds
    regrets = {f"regret {count}": regret(scores, seconds, count) for count in (1, 3, 5)}
    return {"rank": rank_correlation(scores, seconds), **regrets}


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
