"""One model tuned by several tuners on a Ray cluster, which share one database.

Each tuner is a Ray task with a seed of its own. They see each other's records while they search, and claim what they are about to measure
in the database (:meth:`database.Database.claim`), so that no two measure the same candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from database import Database, MemoryDatabase, open_database, open_for_writing
from ir import IRModule
from runners import ray as ray_cluster

from .error import TunerError
from .tune import tune_relax


def tune_relax_on_ray(
    mod: IRModule,
    target: Any,
    database: str,
    max_trials_global: int = 1000,
    *,
    tuners: int = 2,
    resource: str = "loopsmith",
    address: str | None = None,
    seed: int = 0,
    runner_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Database:
    """Tune all kernels of a model by several tuners at a time.

    Args:
        mod: the model, with its weights bound.
        target: what the devices are, as text.
        database: a URL that every node of the cluster can open, such as a PostgreSQL server's; an SQLite file is enough on one machine.
        max_trials_global: trials of all tuners together.
        tuners: how many search at a time, spread over the nodes; each keeps about one processor busy beside the builds.
        resource: of the nodes, one for each device: see :class:`runners.RayRunner`.
        address: of the cluster; by default that which this process is connected to, or can find.
        seed: of the first tuner; the next ones have the next seeds.
        runner_options: further ones of each tuner's :class:`runners.RayRunner`.
        options: those of :func:`tuner.tune_relax`, which each tuner gets. Unless one names a builder, :class:`runners.RayBuilder` builds.

    Returns:
        The database with the records of all.

    Raises:
        TunerError: there are no tuners, the database is in the memory of one process, or a tuner ended with an error; the others are
            waited for, and all of their trials are in the database.
        DatabaseError: it is none, or one that is only read.
        RunnerError: Ray is not installed, or there is no cluster.
    """
    if not isinstance(tuners, int) or tuners < 1:
        raise TunerError(f"tuners is a whole number of at least 1, got {tuners!r}")
    if not isinstance(database, str) or type(open_for_writing(database)) is MemoryDatabase:
        raise TunerError(
            f"the tuners are processes, and share a database by its URL or path, got {database!r}"
        )
    ray_cluster.connect(address)
    import ray  # an extra

    # No processors are set aside for the tuners: builds need them, and would wait for the tuners, which wait for builds.
    task = ray.remote(_tune).options(num_cpus=0, max_retries=1, scheduling_strategy="SPREAD")
    told = {"resource": resource, **(runner_options or {})}
    waiting = [
        task.remote(mod, str(target), database, max_trials_global, seed + number, told, options)
        for number in range(tuners)
    ]
    failed = []
    for number, tuner in enumerate(waiting):
        try:
            ray.get(tuner)
        except ray.exceptions.RayError as error:
            failed.append(f"tuner {number}: {error}")
    if failed:
        raise TunerError(f"{len(failed)} of {tuners} tuners ended with an error: {'; '.join(failed)}")
    return open_database(database)


def _tune(
    mod: IRModule,
    target: str,
    database: str,
    max_trials: int,
    seed: int,
    runner_options: Mapping[str, Any],
    options: Mapping[str, Any],
) -> None:
    """What each tuner does, in a process of the cluster."""
    told = {"builder": ray_cluster.RayBuilder(), "progress": False, **options}
    told["runner"] = ray_cluster.RayRunner(**runner_options)
    tune_relax(mod, None, target, None, max_trials, database=database, seed=seed, **told)
