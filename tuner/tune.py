"""The composition root: from tasks and options to a running search. Every part may be given as an instance or by name."""

from __future__ import annotations

import inspect
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from cost_models import Calibration, CostModel
from database import (
    Database,
    MemoryDatabase,
    Session,
    Workload,
    hardware_fingerprint,
    has_static_arguments,
    open_database,
    open_for_writing,
    software_versions,
)
from ir import IRModule
from ir.error import IRTypeError, did_you_mean
from ir.tir import IntImm, PrimFunc, Var
from runners import Builder, LocalRunner, Runner, WorkerPool
from runners.session import SessionPart, SessionSettings
from schedules.population import flops_of
from schedules.space import SpaceGenerator

from .calibration import calibrate as calibration_of_host
from .calibration import check_mode, describes_host, known_calibration
from .callback.base import MeasureCallback
from .context import TuneContext, check_seed
from .error import TunerError
from .interrupt import Interrupts
from .measurable import require_measurable
from .progress import progress_display
from .scheduler.base import TaskScheduler, check_final_choice
from .search.base import SearchStrategy
from .search.records import pretrain
from .session_command import session_command
from .task import ExtractedTask, extract_tasks
from .weights import weight_distance

_PRELOADED = ("runners.native", "runners.candidate", "schedules", "tuner.program")
"""What workers have loaded when they begin."""
_CALIBRATED_SECS = 20.0
"""The least time budget in which a machine that the database does not know is measured first: that takes two seconds."""


def _strategy(kind: str | SearchStrategy | type[SearchStrategy]) -> SearchStrategy:
    if isinstance(kind, SearchStrategy):
        return kind.clone()
    return kind() if isinstance(kind, type) else SearchStrategy.create(kind)


@contextmanager
def _parts_of_session(
    builder: str | Builder,
    runner: str | Runner,
    strategies: Sequence[SearchStrategy],
    tasks: Sequence[TuneContext],
) -> Iterator[tuple[Builder, Runner]]:
    """Builder and runner, made where they are named. Those of this machine share one pool, and measure what strategies minimize, with the
    data in the caches that the model leaves there."""
    given = [part.own_pool for part in (builder, runner) if isinstance(part, SessionPart)]
    pools = [pool for pool in given if pool is not None]
    if any(pool is not pools[0] for pool in pools):
        raise TunerError(
            "builder and runner have a worker pool each, so that everything would be built twice; give one of them the pool, and"
            " leave it out of the other"
        )
    with ExitStack() as stack:
        if not pools and any(
            isinstance(part, SessionPart) or not isinstance(part, Builder | Runner)
            for part in (builder, runner)
        ):
            pools.append(stack.enter_context(WorkerPool(preload=_PRELOADED)))
        made_builder = builder if isinstance(builder, Builder) else Builder.create(builder)
        made_runner = runner if isinstance(runner, Runner) else Runner.create(runner)
        objectives = {strategy.objectives for strategy in strategies}
        for part in (made_builder, made_runner):
            if isinstance(part, SessionPart):
                settings = SessionSettings(
                    pools[0],
                    weight_distance(tasks),
                    in_full=any(names != ("time",) for names in objectives),
                    measure_energy=any("energy" in names for names in objectives),
                    portable=made_runner.takes_bytes,
                )
                stack.enter_context(part.serving(settings))
        yield made_builder, made_runner


def check_budget(
    max_trials: int,
    max_seconds: float | None,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int | None = None,
) -> None:
    """Refuse budgets under which nothing would be tuned, and what is no budget."""
    counts = {"the number of trials": max_trials}
    if max_trials_per_task is not None:
        counts["max_trials_per_task"] = max_trials_per_task
    if num_trials_per_iter is not None:
        counts["num_trials_per_iter"] = num_trials_per_iter
    for name, count in counts.items():
        if not isinstance(count, Integral):
            raise TunerError(f"{name} must be a whole number, got {count!r}")
    for name, count in counts.items():
        if count < 1:
            raise TunerError(f"{name} must be at least 1, got {count}; leave it out for the default")
    if max_seconds is not None and not isinstance(max_seconds, Real):
        raise TunerError(f"the time budget must be a number of seconds, got {max_seconds!r}")
    if max_seconds is not None and not max_seconds > 0:
        raise TunerError(f"the time budget must be positive, got {max_seconds} seconds")


def _check_tasks(tasks: object) -> None:
    given = tasks if isinstance(tasks, Sequence) else [tasks]
    wrong = [item for item in given if not isinstance(item, TuneContext)]
    if wrong or given is not tasks:
        got = type(wrong[0] if wrong else tasks).__name__
        fix = "tuner.contexts_of(tasks, seed=0) makes them of extracted tasks; tune_relax takes a model, tune_tir a kernel"
        raise TunerError(f"tasks is a list of TuneContexts, got {got}; {fix}")


def _check_callbacks(callbacks: object) -> None:
    given = callbacks if isinstance(callbacks, Sequence) else [callbacks]
    wrong = [item for item in given if not isinstance(item, MeasureCallback)]
    if wrong or given is not callbacks:
        raise TunerError(
            f"measure_callbacks is a list of instances of MeasureCallback, got {wrong[0] if wrong else callbacks!r}"
        )


def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    database: Database | str | Path | None = None,
    work_dir: str | Path | None = None,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int | None = None,
    max_seconds: float | None = None,
    builder: str | Builder = "local",
    runner: str | Runner = "local",
    cost_model: str | CostModel = "xgb",
    strategy: str | SearchStrategy | type[SearchStrategy] = "evolutionary",
    task_scheduler: str | TaskScheduler = "gradient",
    measure_callbacks: Sequence[MeasureCallback] | None = None,
    progress: bool | None = None,
    calibrate: str = "auto",
    final_choice: str = "auto",
    seed: int = 0,
) -> Database:
    """Tune tasks and return the database with all records.

    Args:
        tasks: contexts of the kernels.
        database: a Database, a path or URL.
        work_dir: folder of the database ``tuning.db``, in place of ``database``. Without either, records are kept in memory. They go where
            they are sent: a ``with database:`` block, which says what builds apply, plays no part.
        max_trials_global: trials of all tasks together, those included that the database has already, and those that other tuners add
            meanwhile.
        max_trials_per_task: limit of one task.
        num_trials_per_iter: trials between two updates of the cost model; by default 4 to 16, so that every task gets some.
        max_seconds: wall-clock budget of the call, the calibration and the final choice included. What is being measured when it is over
            is measured to its end.
        builder, runner: instances, or "local" for worker processes of this machine, which measure on its first CUDA device where all
            tasks are for CUDA ("cuda", :class:`runners.CudaRunner`). A LocalBuilder and a LocalRunner of one's own have the
            same pool, which one of them may bring; what is left open of how they measure is as it is by default.
        strategy: "evolutionary", "replay-trace", "optuna", "optuna:cmaes" and so on, a class, or an instance, of which each task gets a
            clone (:attr:`OptunaSearch.studies` are those of its clones). Where it minimizes several objectives, the local runner
            measures slow candidates in full, too, and energy if that is one.
        cost_model: "xgb", "mlp", "random", "prior" or an instance. All tasks share it, and what the database has of other workloads
            trains it first; an instance keeps what it has learnt.
        measure_callbacks: told of each result; by default the display of progress (``progress``) alone.
        progress: whether to show the search: as a table in a notebook and on a terminal, else as lines on standard error. By default where
            there are no ``measure_callbacks``; True shows it beside these, False shows nothing.
        calibrate: "auto" takes what the database knows of this machine, and measures it once (two seconds) where it knows nothing, unless
            ``max_seconds`` is less than 20;
            "again" measures in any case, "never" leaves the estimates to what the target says. A runner that measures elsewhere, and
            a task whose target is not this machine, go without.
        final_choice: whose fastest candidates are measured again in turns at the end: "auto" those of the kernels that got trials and
            matter, the heaviest first, while a tenth of the search's time lasts; "all" those of every kernel, of earlier runs, too;
            "never" those of none.
        seed: of every random choice; the same seed, database, calibration and measured times give the same search.

    Raises:
        TunerError: a budget, the seed, a task, a callback or ``final_choice`` is none; there are both a database and a ``work_dir``, or two
            worker pools; ``calibrate="again"``, but no task is measured on this machine; a target has more cores than this machine, or is
            another device than its first.
        CodegenError, CudaUnavailable, CudaToolkitError: LLVM does not know a task's target, or candidates for it cannot run on this
            machine, which is to measure them.
        KeyboardInterrupt: Ctrl-C ended the search; all finished trials are in the database, and the same call goes on.
        SystemExit: SIGTERM or SIGHUP did, likewise, unless the process has a handler of its own for it or ignores it; the code is 128
            and the signal's number.
    """
    begin = time.monotonic()
    check_budget(max_trials_global, max_seconds, max_trials_per_task, num_trials_per_iter)
    check_seed(seed)
    check_mode(calibrate)
    check_final_choice(final_choice)
    _check_tasks(tasks)
    shows = measure_callbacks is None if progress is None else progress
    measure_callbacks = [] if measure_callbacks is None else measure_callbacks
    if runner == "local" and tasks and all(task.target.device_type == "cuda" for task in tasks):
        runner = "cuda"
    if runner in ("local", "cuda"):  # one of this machine
        for task in tasks:
            require_measurable(task.target)
    _check_callbacks(measure_callbacks)
    if shows:
        measure_callbacks = [progress_display(max_trials_global, max_seconds), *measure_callbacks]
    strategies = [_strategy(strategy) for _ in tasks]
    model = cost_model if isinstance(cost_model, CostModel) else CostModel.create(cost_model, seed=seed)
    with Interrupts() as interrupts:
        if num_trials_per_iter is None:
            num_trials_per_iter = max(4, min(16, max_trials_global // (2 * max(1, len(tasks)))))
        scheduler = (
            task_scheduler
            if isinstance(task_scheduler, TaskScheduler)
            else TaskScheduler.create(task_scheduler)
        )
        with _parts_of_session(builder, runner, strategies, tasks) as (builder, runner):
            here = _measured_here(tasks, runner, calibrate)
            # Nothing is refused from here on: who made a mistake finds no folder, no file and no session in it afterwards.
            store = open_store(database, work_dir)
            hashes = [Workload(task.mod).shash for task in tasks]
            session = Session(
                command=session_command(sys.argv),
                seed=seed,
                fingerprint=runner.hardware() or hardware_fingerprint(),
                versions=software_versions(),
                kernels={shash: task.task_name for shash, task in zip(hashes, tasks, strict=True)},
                weights={shash: float(task.weight) for shash, task in zip(hashes, tasks, strict=True)},
            )
            store.commit_session(session)
            try:
                is_used_up = _trials_of(tasks, store) >= max_trials_global
                if here and isinstance(runner, LocalRunner) and (calibrate == "again" or not is_used_up):
                    is_short = max_seconds is not None and max_seconds < _CALIBRATED_SECS
                    if is_short and calibrate == "auto":
                        _give_calibration(here, known_calibration(store))
                    else:
                        _calibrate_tasks(here, store, runner, measure_callbacks, again=calibrate == "again")
                if not is_used_up:
                    pretrain(model, store, tasks)
                interrupts.check()
                scheduler.tune(
                    tasks,
                    strategies,
                    max_trials_global=max_trials_global,
                    max_trials_per_task=max_trials_per_task,
                    num_trials_per_iter=num_trials_per_iter,
                    builder=builder,
                    runner=runner,
                    database=store,
                    cost_models=[model] * len(tasks),
                    measure_callbacks=measure_callbacks,
                    max_seconds=None
                    if max_seconds is None
                    else max(0.0, max_seconds - (time.monotonic() - begin)),
                    session_id=session.id,
                    final_choice=final_choice,
                )
            finally:
                session.finished_at = time.time()
                session.phases = scheduler.times.phases()
                store.commit_session(session)
    return store


def _trials_of(tasks: Sequence[TuneContext], store: Database) -> int:
    """Trials that the database has of tasks."""
    return sum(store.count_trials(store.commit_workload(task.mod), task.target) for task in tasks)


def _measured_here(tasks: Sequence[TuneContext], runner: Runner, calibrate: str) -> list[TuneContext]:
    """The tasks that are to get the calibration of this machine: those that are measured on it and have none yet.

    Raises:
        TunerError: ``calibrate="again"``, and there is none.
    """
    if calibrate == "never":
        return []
    is_local = isinstance(runner, LocalRunner)
    here = [task for task in tasks if is_local and task.calibration is None and describes_host(task.target)]
    if not here and calibrate == "again":
        raise TunerError(
            "calibrate='again' measures this machine, on which no task is measured; leave it at 'auto'"
        )
    return here


def _calibrate_tasks(
    tasks: Sequence[TuneContext],
    store: Database,
    runner: LocalRunner,
    callbacks: Sequence[MeasureCallback],
    *,
    again: bool,
) -> None:
    """Give tasks that are measured on this machine its calibration."""

    def tell(text: str) -> None:
        for callback in callbacks:
            callback.notice(text)

    _give_calibration(tasks, calibration_of_host(store, runner.pool, again=again, tell=tell))


def _give_calibration(tasks: Sequence[TuneContext], found: Calibration | None) -> None:
    for task in tasks:
        task.calibration = found


def open_store(database: Database | str | Path | None, work_dir: str | Path | None) -> Database:
    """The database to use; a folder gets a SQLite file in it.

    Raises:
        TunerError: there are both.
    """
    if database is not None and work_dir is not None:
        raise TunerError(
            f"work_dir={str(work_dir)!r} is the folder of the database, and database= says which one; leave one of them out"
        )
    if database is not None:
        return open_for_writing(database)
    if work_dir is None:
        return MemoryDatabase()
    if not isinstance(work_dir, str | Path):
        raise TunerError(f"work_dir is the path of a folder, got {work_dir!r}")
    folder = Path(work_dir)
    folder.mkdir(parents=True, exist_ok=True)
    return open_database(folder / "tuning.db")


def _space(kind: str | SpaceGenerator | Callable[..., Any]) -> SpaceGenerator:
    return kind if isinstance(kind, SpaceGenerator) else SpaceGenerator.create(kind)


def contexts_of(
    tasks: Sequence[ExtractedTask],
    seed: int,
    space: str | SpaceGenerator | Callable[..., Any] = "post-order-apply",
) -> list[TuneContext]:
    """A context per task; each has a seed of its own, derived from the session's and from the workload, and a copy of the ``space``.

    Kernels with scalar arguments or symbolic shapes are left out: they have no inputs to be measured on.
    """
    contexts, generator = [], _space(space)
    for task in tasks:
        if not task.is_static:
            continue
        own = zlib.crc32(f"{seed}/{task.task_name}".encode())
        contexts.append(
            TuneContext(
                task.mod,
                task.target,
                generator,
                task_name=task.task_name,
                seed=own,
                weight=task.weight,
                flops=task.flops,
            )
        )
    return contexts


def tune_tir(
    mod: IRModule | PrimFunc,
    target: Any,
    work_dir: str | Path | None = None,
    max_trials_global: int = 64,
    *,
    database: Database | str | Path | None = None,
    seed: int = 0,
    task_name: str = "",
    space: str | SpaceGenerator | Callable[..., Any] = "post-order-apply",
    **options: Any,
) -> Database:
    """Tune one kernel; options are those of :func:`tune_tasks`.

    Args:
        task_name: what the display, the database's lists and Optuna's studies call it; by default the function's name, or of one that
            is called ``main``, those of its blocks.
        space: the design space that is searched, by name or as an instance, such as ``PostOrderApply(sch_rules=[...])`` with rules of
            one's own; or the function of a :class:`schedules.space.ScheduleFn`. By default the rules of the target make it.

    Raises:
        ScheduleError: there is no space of that name.
        IRTypeError: an option that there is not.
        TunerError: there is nothing to measure the kernel on, as it takes a number or has a symbolic shape.
    """
    _check_options(tune_tir, options)
    context = TuneContext(mod, target, _space(space), task_name=task_name, seed=seed)
    _require_static_arguments(context.func)
    context.flops = flops_of(context.func)
    return tune_tasks(
        tasks=[context],
        database=database,
        work_dir=work_dir,
        max_trials_global=max_trials_global,
        seed=seed,
        **options,
    )


def _check_options(call: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that neither a call nor :func:`tune_tasks`, to which it passes them, takes.

    Raises:
        IRTypeError: there is one.
    """
    known = {*inspect.signature(call).parameters, *inspect.signature(tune_tasks).parameters}
    known -= {"options", "tasks"}
    for name in options.keys() - known:
        near = did_you_mean(name, sorted(known), 0.5) or f"; there are {', '.join(sorted(known))}"
        raise IRTypeError(f"{call.__name__} takes no option {name!r}{near}")


def _require_static_arguments(func: PrimFunc) -> None:
    """Refuse what no trial could measure."""
    if has_static_arguments(func):
        return
    for number, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            what, variable = f"its parameter {param.name} is no tensor", f"func.params[{number}]"
            break
        symbolic = [axis for axis, extent in enumerate(buffer.shape) if not isinstance(extent, IntImm)]
        if symbolic:
            what = f"its tensor {buffer.name} has the symbolic shape ({', '.join(map(str, buffer.shape))})"
            plain = [axis for axis in symbolic if isinstance(buffer.shape[axis], Var)]
            place = f"func.buffer_map[func.params[{number}]].shape[{(plain or symbolic)[0]}]"
            variable = place if plain else f"*tir.analysis.undefined_vars({place})"
            break
    raise TunerError(
        f"the kernel cannot be measured: {what}; give it a value with PrimFunc.specialize, as in func.specialize({{{variable}: 128}})"
    )


def tune_relax(
    mod: IRModule,
    params: dict[str, Any] | None = None,
    target: Any = "cpu",
    work_dir: str | Path | None = None,
    max_trials_global: int = 1000,
    *,
    database: Database | str | Path | None = None,
    seed: int = 0,
    space: str | SpaceGenerator | Callable[..., Any] = "post-order-apply",
    **options: Any,
) -> Database:
    """Tune all kernels of a model; ``space`` is that of :func:`tune_tir`, options are those of :func:`tune_tasks`.

    Raises:
        TunerError: it is no model, or has no kernel that can be tuned.
        IRTypeError: an option that there is not.
    """
    _check_options(tune_relax, options)
    check_budget(max_trials_global, options.get("max_seconds"))
    contexts = contexts_of(extract_tasks(mod, target, params), seed, space)
    if not contexts and all(isinstance(func, PrimFunc) for func in mod.functions.values()):
        raise TunerError("a model has Relax functions, and the module has none; tune_tir tunes a kernel")
    if not contexts:
        raise TunerError("the model has no kernel to tune: it calls no operator on tensors of known shape")
    return tune_tasks(
        tasks=contexts,
        database=database,
        work_dir=work_dir,
        max_trials_global=max_trials_global,
        seed=seed,
        **options,
    )
