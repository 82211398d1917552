"""Databases for the tests of reports: trials that nobody measured, of kernels whose names somebody chose."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence

from cost_models import Calibration
from database import Database, MachineCalibration, MemoryDatabase, Session, TuningRecord
from database.record import EXPECTED_SECS
from ir.target import Target
from schedules import Schedule
from tests.programs.expressions import matmul
from tuner.calibration import VERSION, machine_fingerprint

HOSTILE = '</title><script>document.title="broken"</script><img src=x onerror=alert(1)>"\'&\x00\x1b[31m\ud800'
"""What a name may hold that somebody wrote into a database to break a page."""
FAILURES = ("build_timeout", "wrong_result", "run_timeout", "illegal_schedule")


def filled(
    names: Sequence[str],
    trials: int,
    *,
    seed: int = 0,
    only_failures: bool = False,
    named: bool = True,
    calibrated: bool = True,
    store: Database | None = None,
) -> Database:
    """A database with ``trials`` records of each of some kernels (matrix products of different sizes).

    Args:
        names: of the kernels in their model.
        trials: records of each.
        only_failures: none of them ran.
        named: whether a session tells names, weights and phases.
        calibrated: whether the machine was measured.
        store: the database to fill; one in memory by default.
    """
    random_numbers = random.Random(seed)
    store = MemoryDatabase() if store is None else store
    target = Target("cpu")
    session = Session(command="loopsmith tune", seed=seed, started_at=1.7e9, finished_at=1.7e9 + 95)
    for number, name in enumerate(names):
        workload = store.commit_workload(matmul(16 * (number + 1)))
        session.kernels[workload.shash] = name
        session.weights[workload.shash] = 1.0 + number % 3
        trace_json = Schedule(workload.mod).trace.as_json()
        best = 2e-5 * (number + 1) * random_numbers.uniform(0.7, 1.3)
        for trial in range(trials):
            failure = random_numbers.random() < 0.15 or only_failures
            secs = best * (
                1 + 4 * math.exp(-trial / 12) * random_numbers.random() + 0.4 * random_numbers.random()
            )
            steps, decisions = json.loads(json.dumps(trace_json))
            steps.append(["Annotate", [], [f"trial{trial}"], []])
            store.commit_tuning_record(
                TuningRecord(
                    None,
                    workload,
                    None if failure else [secs * random_numbers.uniform(1, 1.04) for _ in range(5)],
                    target,
                    trace_json=[steps, decisions],
                    verified=not failure,
                    failure_kind=random_numbers.choice(FAILURES) if failure else None,
                    failure_message=f"{name} took too long" if failure else None,
                    metrics={}
                    if failure or trial < 8
                    else {EXPECTED_SECS: secs * random_numbers.uniform(0.7, 1.4)},
                    session_id=session.id,
                )
            )
    session.phases = {"search": 20.0, "build and measure": 60.0, "check": 10.0, "other": 5.0}
    if named:
        store.commit_session(session)
    if calibrated:
        figures = {
            "hertz": 3e9,
            "fma_per_cycle": 2.0,
            "l1_fill_all": 40.0,
            "l2_fill_all": 12.0,
            "l3_fill_all": 4.0,
        }
        measured = Calibration.checked(figures, cores=2).as_json()
        store.commit_calibration(MachineCalibration(machine_fingerprint(), VERSION, measured))
    return store
