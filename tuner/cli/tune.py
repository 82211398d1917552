"""``loopsmith tune``: search for fast schedules of a model's kernels, then show what they bring."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated

import typer

from cost_models import CostModel
from database.pareto import UNITS
from ir.codegen.llvm.compile import require_processor
from ir.target import Target

from ..calibration import check_mode
from ..callback.base import MeasureCallback
from ..callback.optuna_export import OptunaExport
from ..compare.builds import compare_builds
from ..compare.reference import TOLERANCE
from ..compare.survival import EndsProcessError
from ..error import TunerError
from ..model import Model, load_model
from ..progress import progress_display
from ..scheduler.base import check_final_choice
from ..search.base import SearchStrategy
from ..task import extract_tasks
from ..tune import check_budget, contexts_of, open_store, tune_tasks
from .console import out, working
from .options import (
    DatabaseOption,
    ModelFile,
    Seed,
    Shapes,
    TargetOption,
    Zoo,
    checked_target,
    objectives_of,
    parse_duration,
)

_KEPT = "all finished trials are in the database; the same command goes on from here"


def tune(
    model: ModelFile = None,
    zoo: Zoo = None,
    target: TargetOption = "cpu",
    trials: Annotated[
        int,
        typer.Option(help="Candidates to measure, all kernels and earlier runs on this database together."),
    ] = 1000,
    trials_per_task: Annotated[int | None, typer.Option(min=1, help="Limit for one kernel.")] = None,
    time: Annotated[
        str | None, typer.Option(help="Wall-clock budget: seconds (90 or 90s), minutes (30m) or hours (2h).")
    ] = None,
    database: DatabaseOption = "tuning.db",
    shape: Shapes = [],  # noqa: B006  typer copies it
    seed: Seed = 0,
    strategy: Annotated[
        str, typer.Option(help=f"One of {', '.join(SearchStrategy.kinds.names())}.")
    ] = "evolutionary",
    objectives: Annotated[
        str,
        typer.Option(
            help=f"What to minimize, with commas between, of {', '.join(UNITS)}; several need one of Optuna's strategies."
        ),
    ] = "time",
    optuna_storage: Annotated[
        str | None,
        typer.Option(
            help="Show the search in Optuna studies as well, one per kernel: an SQLite file (study.db), a journal (study.log) or a URL;"
            " optuna-dashboard sqlite:///study.db shows them while the search runs."
        ),
    ] = None,
    cost_model: Annotated[str, typer.Option(help=f"One of {', '.join(CostModel.kinds.names())}.")] = "xgb",
    calibrate: Annotated[
        str,
        typer.Option(
            help="Figures of this machine for the estimates: auto (measure once, keep in the database), never, again."
        ),
    ] = "auto",
    final_choice: Annotated[
        str,
        typer.Option(
            help="Whose fastest candidates are measured again in turns at the end: auto (those of heavy kernels, in a tenth of the time),"
            " all, never."
        ),
    ] = "auto",
    check: Annotated[
        bool, typer.Option(help="Afterwards build, run and compare with the untuned build and ONNX Runtime.")
    ] = True,
) -> None:
    """Search for fast schedules of a model's kernels on this machine.

    Every measurement is in the database as soon as it is there: stop with Ctrl-C (or SIGTERM), and run the same command again to go on.

    When the budget is used up the model is built with the best records and compared.

    Example: loopsmith tune --zoo resnet18 --trials 256 --database tuning.db
    """
    seconds = parse_duration(time) if time is not None else None
    check_budget(trials, seconds)
    check_mode(calibrate)
    check_final_choice(final_choice)
    search = _strategy(strategy, objectives)
    ranking = CostModel.create(cost_model, seed=seed)
    callbacks: list[MeasureCallback] = [progress_display(trials, seconds)]
    if optuna_storage is not None:
        callbacks.append(OptunaExport(optuna_storage))
    chosen = checked_target(target)
    require_processor(chosen)  # no candidate could be built for another target
    loaded = load_model(model, zoo, shape, seed)
    store = open_store(database, None)
    with working("preparing the model"):
        contexts = contexts_of(extract_tasks(loaded.mod, chosen, loaded.params), seed)
    if not contexts:
        raise TunerError(f"{loaded.name} has no kernel to tune")
    out.print(f"records go to {database}")
    try:
        tune_tasks(
            tasks=contexts,
            database=store,
            max_trials_global=trials,
            max_trials_per_task=trials_per_task,
            max_seconds=seconds,
            strategy=search,
            cost_model=ranking,
            calibrate=calibrate,
            final_choice=final_choice,
            measure_callbacks=callbacks,
            seed=seed,
        )
    except KeyboardInterrupt:
        out.print(f"interrupted: {_KEPT}")
        sys.exit(130)
    except SystemExit:
        with suppress(OSError):  # SIGHUP comes where the terminal is gone
            out.print(f"asked to end: {_KEPT}")
        raise
    if check:
        _show(loaded, chosen, store)


def _strategy(kind: str, objectives: str) -> SearchStrategy:
    """The strategy that minimizes what was asked for.

    Raises:
        TunerError: it minimizes nothing but the time.
    """
    names = objectives_of(objectives)
    if names == ("time",):
        return SearchStrategy.create(kind)
    if kind.partition(":")[0] != "optuna":
        raise TunerError(
            f"--strategy {kind} minimizes the time only, not {objectives}; take --strategy optuna:nsga2 or another of Optuna's"
        )
    return SearchStrategy.create(kind, objectives=names)


def _show(model: Model, target: Target, store: object) -> None:
    try:
        with working("building with the best records and comparing"):
            outcome = compare_builds(model, target, store)
    except EndsProcessError as problem:  # what was tuned is in the database all the same
        out.print(f"not compared: {problem}")
        return
    except KeyboardInterrupt:
        out.print("the comparison was interrupted; the search had ended, and all trials are in the database")
        sys.exit(130)
    for line in outcome.lines:
        out.print(line)
    if not outcome.is_accurate:
        raise TunerError(
            f"outputs differ from ONNX Runtime's by {outcome.error:.2e}, more than {TOLERANCE:g}"
        )
