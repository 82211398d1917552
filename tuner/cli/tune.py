"""``loopsmith tune``: search for fast schedules of a model's kernels, then show what they bring."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Annotated, Any

import typer

from cost_models import CostModel
from database.pareto import UNITS
from database.secrets import masked
from ir.relax.vm_build import require_buildable
from ir.target import Target

from ..calibration import check_mode
from ..callback.base import MeasureCallback
from ..callback.optuna_export import OptunaExport
from ..compare.accuracy import require_tolerance
from ..compare.builds import Comparison, compare_builds
from ..compare.survival import EndsProcessError
from ..error import TunerError
from ..measurable import require_energy, require_measurable
from ..model import Model, load_model
from ..progress import progress_display
from ..report.live import LivePage
from ..report.page import title_of
from ..report.server import PageServer, parse_address
from ..scheduler.base import check_final_choice
from ..search.base import SearchStrategy
from ..state import TuningRun
from ..task import extract_tasks
from ..tune import check_budget, contexts_of, open_store, tune_tasks
from .console import Loudness, loudness, note, out, print_json, working
from .elsewhere import Elsewhere, elsewhere_of
from .options import (
    DatabaseOption,
    JsonOption,
    ModelFile,
    Seed,
    Serve,
    Shapes,
    TargetOption,
    ToleranceOption,
    Zoo,
    checked_target,
    objectives_of,
    parse_duration,
    say_where,
)

_HERE = "cpu"
"""The target unless another is named: this machine's processor, or what devices elsewhere are."""
_KEPT = "all finished trials are in the database; the same command goes on from here"


def tune(
    model: ModelFile = None,
    zoo: Zoo = None,
    target: TargetOption = _HERE,
    trials: Annotated[
        int,
        typer.Option(help="Candidates to measure, all kernels and earlier runs on this database together."),
    ] = 1000,
    trials_per_task: Annotated[int | None, typer.Option(min=1, help="Limit for one kernel.")] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Wall-clock budget of the search and all that prepares it, without the comparison at the end (--no-check): seconds (90 or"
            " 90s), minutes (30m) or hours (2h)."
        ),
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
    serve: Serve = None,
    tracker: Annotated[
        str | None,
        typer.Option(
            help="Measure on devices elsewhere, which the tracker at this address hands out (loopsmith rpc); with --key.",
            metavar="HOST:PORT",
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Which of the tracker's devices, such as cpu-zen4.")] = None,
    priority: Annotated[
        int, typer.Option(help="Among those who wait for the same devices; the higher goes first.")
    ] = 1,
    ray: Annotated[
        str | None,
        typer.Option(
            help="Build on the nodes of a Ray cluster, and measure on those that have this resource, such as cpu-zen4; in a job of Ray's"
            " (`ray job submit`), too.",
            metavar="RESOURCE",
        ),
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(
            help="Of the Ray cluster, as ray.init takes it; by default what RAY_ADDRESS says, or one that runs on this machine.",
            metavar="HOST:PORT",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            help="Afterwards compare a build with a default build, an unscheduled one, and ONNX Runtime."
        ),
    ] = True,
    tolerance: ToleranceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search for fast schedules of a model's kernels on this machine, or on devices elsewhere.

    Every measurement is in the database as soon as it is there: stop with Ctrl-C (or SIGTERM), and run the same command again to go on.

    When the budget is used up the model is built with the best records and compared.

    Example: loopsmith tune --zoo resnet18 --trials 256 --database tuning.db

    With --serve a page shows the search while it runs, and ends with it; `loopsmith report` shows the same at any time.

    Example: loopsmith tune model.onnx --serve 127.0.0.1:8080

    Example: loopsmith tune model.onnx --tracker 10.0.0.1:9190 --key cpu-zen4

    Example: ray job submit --address http://10.0.0.1:8265 --working-dir . -- loopsmith tune model.onnx --ray cpu-zen4
    """
    begin = monotonic()
    seconds = parse_duration(time) if time is not None else None
    check_budget(trials, seconds)
    check_mode(calibrate)
    require_tolerance(tolerance)
    check_final_choice(final_choice)
    if serve is not None:
        parse_address(serve)
    named = None if target == _HERE else target
    elsewhere = elsewhere_of(tracker, key, priority, ray, ray_address, named)
    search = _strategy(strategy, objectives)
    ranking = CostModel.create(cost_model, seed=seed)
    summary = _Summary()
    callbacks: list[MeasureCallback] = [summary]
    if loudness() > Loudness.QUIET:
        callbacks.append(progress_display(trials, seconds))
    if optuna_storage is not None:
        callbacks.append(OptunaExport(optuna_storage))
    chosen = _target(named, elsewhere, search)
    loaded = load_model(model, zoo, shape, seed)
    store = open_store(database, None)
    with working("preparing the model"):
        contexts = contexts_of(extract_tasks(loaded.mod, chosen, loaded.params), seed)
    if not contexts:
        raise TunerError(f"{loaded.name} has no kernel to tune")
    if time is not None and seconds is not None:
        seconds = _left(time, seconds, monotonic() - begin)
    note(f"records go to {masked(str(database))}")
    with _stoppable(), _served(serve) as server:
        if server is not None:
            callbacks.append(LivePage(server, f"{loaded.name}: {title_of(str(database))}", trials))
        tune_tasks(
            tasks=contexts,
            database=store,
            max_trials_global=trials,
            max_trials_per_task=trials_per_task,
            max_seconds=seconds,
            builder="local" if elsewhere is None else elsewhere.builder(),
            runner="local" if elsewhere is None else elsewhere.runner(),
            strategy=search,
            cost_model=ranking,
            calibrate=calibrate,
            final_choice=final_choice,
            measure_callbacks=callbacks,
            seed=seed,
        )
    if serve is not None:
        place = masked(str(database))
        note(f"the live page has ended; `loopsmith report {place} --serve {serve}` shows the database again")
    if elsewhere is not None:
        source = f"--zoo {zoo}" if zoo else str(model)
        command = f"loopsmith build {source} --database {masked(str(database))} --target {str(chosen)!r} -o model.so"
        note(f"nothing is compared here, as it was measured elsewhere; to build with the records: {command}")
    outcome = _compared(loaded, chosen, store, tolerance) if elsewhere is None and check else None
    if as_json:
        builds = {} if outcome is None else {"median_secs": outcome.times}
        print_json({"model": loaded.name, "target": str(chosen), "kernels": summary.kernels, **builds})
    elif outcome is not None:
        for line in outcome.lines:
            out.print(line)
    if outcome is not None and outcome.accuracy is not None and not outcome.accuracy.holds:
        raise TunerError(outcome.accuracy.refusal("ONNX Runtime"))


class _Summary(MeasureCallback):
    """What the search found of each kernel, for programs."""

    def __init__(self) -> None:
        self.kernels: list[dict[str, Any]] = []

    def finish(self, task_scheduler: TuningRun) -> None:
        self.kernels = [
            {
                "kernel": task.context.task_name,
                "weight": task.context.weight,
                "trials": task.all_trials,
                "best_secs": task.best_secs,
                "gflops": task.gflops if task.best_secs < float("inf") else None,
                "share": share,
                "failures": dict(task.failures),
            }
            for task, share in zip(task_scheduler.tasks, task_scheduler.shares(), strict=True)
        ]


def _target(named: str | None, elsewhere: Elsewhere | None, search: SearchStrategy) -> Target:
    """What is tuned for, which can be measured where it is to be.

    Args:
        named: by the option; None stands for what the devices are.
        elsewhere: where it is measured, if not on this machine.
        search: whose objectives are measured.

    Raises:
        TargetError, CodegenError, TunerError, RunnerError: it is none, or no candidate could be built for it, or measured.
    """
    chosen = checked_target(named or (_HERE if elsewhere is None else elsewhere.target()))
    if elsewhere is not None:
        require_buildable(chosen)
        return chosen
    require_measurable(chosen)
    if "energy" in search.objectives:
        require_energy(chosen)
    return chosen


def _left(asked: str, seconds: float, used: float) -> float:
    """The seconds of a budget that are left for the search.

    Args:
        asked: the budget as it was written.
        seconds: the budget.
        used: what preparing the model took of it.

    Raises:
        TunerError: none are.
    """
    if used >= seconds:
        raise TunerError(
            f"--time {asked} was over before the search began: preparing the model took {used:.0f} seconds; give more"
        )
    return seconds - used


@contextmanager
def _stoppable() -> Iterator[None]:
    """A search that ends with the process where somebody stops it, and says that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"interrupted: {_KEPT}")
        sys.exit(130)
    except SystemExit:
        with suppress(OSError):  # SIGHUP comes where the terminal is gone
            note(f"asked to end: {_KEPT}")
        raise


@contextmanager
def _served(address: str | None) -> Iterator[PageServer | None]:
    """The server of a live page, which ends with the search; None where no address was asked for."""
    if address is None:
        yield None
        return
    with PageServer(address) as server:
        say_where(server)
        yield server


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


def _compared(model: Model, target: Target, store: object, tolerance: float | None) -> Comparison | None:
    """The tuned build beside others; None where that would end this process."""
    try:
        with working("building with the best records and comparing"):
            return compare_builds(model, target, store, tolerance)
    except EndsProcessError as problem:  # what was tuned is in the database all the same
        note(f"not compared: {problem}")
        return None
    except KeyboardInterrupt:
        note("the comparison was interrupted; the search had ended, and all trials are in the database")
        sys.exit(130)
