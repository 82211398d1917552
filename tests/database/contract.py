"""The contract of databases: a class that every implementation's tests derive from.

A subclass provides the fixture ``database``; one that stores to files or servers also overrides ``reopen``.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from database import (
    Database,
    DatabaseError,
    MachineCalibration,
    MemoryDatabase,
    Session,
    TensorInfo,
    TuningRecord,
    Workload,
)
from database.base import CLAIM_SECONDS
from database.claim_owner import new_owner
from ir import assert_structural_equal, te, tir
from ir.target import Target
from tests.database.processes import OtherProcess
from tests.programs.expressions import softmax
from tests.programs.nodes import matmul, scaled

TARGET = Target("llvm -mcpu=znver4 -num-cores 2")
OTHER = Target("llvm -mcpu=znver4 -num-cores 8")


class FakeTrace:
    """A trace as a database sees it: something with ``as_json``."""

    def __init__(self, name: str = "trace") -> None:
        self.name = name

    def as_json(self) -> Any:
        return [[["Named", [], [self.name], []]], []]


def record(
    workload: Workload, secs: float | None, target: Any = TARGET, name: str | None = None, **options: Any
) -> TuningRecord:
    """A record of a candidate; without a name of one that no other record is of."""
    name = uuid.uuid4().hex if name is None else name
    times = None if secs is None else [secs, secs]
    if secs is None:
        options.setdefault("failure_kind", "crash")
    return TuningRecord(FakeTrace(name), workload, times, target, [TensorInfo("float32", (4, 4))], **options)


class DatabaseContract:
    @pytest.fixture
    def database(self) -> Database:
        raise AssertionError("a subclass provides the fixture `database`")

    @pytest.fixture
    def other_process(self) -> Iterator[OtherProcess]:
        with OtherProcess() as process:
            yield process

    def reopen(self, database: Database) -> Database:
        """The database as another process would open it; the same object when it lives in memory only."""
        return database

    def test_starts_empty(self, database: Database) -> None:
        assert len(database) == 0
        assert database.get_all_tuning_records() == []
        assert database.get_workloads() == []
        assert not database.has_workload(matmul())
        assert database.query_tuning_record(matmul(), TARGET) is None
        assert database.nearest_record(matmul(), TARGET) is None

    def test_calibrations_are_kept_by_machine_and_version(self, database: Database) -> None:
        machine, other = {"cpu": "a", "cores": 2}, {"cpu": "b", "cores": 2}
        assert database.get_calibration(machine, 1) is None
        first = MachineCalibration(machine, 1, {"hertz": 3e9, "notes": ["some"]}, created_at=1.0)
        database.commit_calibration(first)
        database.commit_calibration(MachineCalibration(other, 1, {"hertz": 2e9}, created_at=2.0))
        newer = MachineCalibration(machine, 2, {"hertz": 4e9}, created_at=3.0)
        database.commit_calibration(newer)
        again = self.reopen(database)
        # The order of a fingerprint's fields says nothing.
        assert again.get_calibration({"cores": 2, "cpu": "a"}, 1) == first
        assert again.get_calibration(machine, 2) == newer
        assert again.get_calibration(machine, 3) is None and again.get_calibration({"cpu": "c"}, 1) is None
        assert [item.created_at for item in again.get_calibrations()] == [1.0, 2.0, 3.0]

    def test_a_second_calibration_takes_the_place_of_the_first(self, database: Database) -> None:
        for hertz in (1e9, 2e9):
            database.commit_calibration(MachineCalibration({"cpu": "a"}, 1, {"hertz": hertz}))
        (kept,) = self.reopen(database).get_calibrations()
        assert kept.figures == {"hertz": 2e9}

    def test_equal_programs_are_one_workload(self, database: Database) -> None:
        first = database.commit_workload(matmul())
        assert database.commit_workload(matmul()) is first
        assert database.commit_workload(matmul(5, 5, 5)) is not first
        assert database.has_workload(matmul())
        again = self.reopen(database)
        assert again.has_workload(matmul()) and not again.has_workload(scaled())
        assert_structural_equal(again.commit_workload(matmul()).mod, matmul())

    def test_a_program_with_an_infinity_is_kept(self, database: Database) -> None:
        a = te.placeholder((4,), name="a")
        func = te.create_prim_func(
            [a, te.compute((4,), lambda i: tir.max(a[i], tir.const(-math.inf)), name="b")]
        )
        workload = database.commit_workload(func)
        database.commit_tuning_record(TuningRecord(FakeTrace(), workload, [1e-3], TARGET))
        (found,) = self.reopen(database).get_workloads()
        assert_structural_equal(found.mod, workload.mod)

    def test_records_come_back_as_they_were(self, database: Database) -> None:
        session = Session(id="s1", command="tune", seed=3)
        database.commit_session(session)
        workload = database.commit_workload(matmul())
        good = record(
            workload,
            1.5e-3,
            verified=True,
            cut=True,
            remeasured=True,
            metrics={"code_size": 512, "energy": 0.25},
            fingerprint={"cpu": "x", "cores": 2},
            versions={"loopsmith": "0.1"},
            session_id="s1",
        )
        bad = record(
            workload, None, failure_kind="wrong_result", failure_message="output C differs \u2260 \x00"
        )
        database.commit_tuning_record(good)
        database.commit_tuning_record(bad)
        again = self.reopen(database)
        first, second = again.get_all_tuning_records()
        assert first.as_json() == good.as_json()
        assert first.run_secs == (1.5e-3, 1.5e-3) and first.mean_secs == 1.5e-3
        assert first.verified and first.cut and first.remeasured and first.target == TARGET
        assert first.metrics == {"code_size": 512.0, "energy": 0.25} and second.metrics == {}
        assert first.args_info == (TensorInfo("float32", (4, 4)),)
        assert second.failure_kind == "wrong_result" and not second.is_valid()
        assert (second.failure_message or "").startswith("output C differs \u2260")
        assert first.workload == second.workload == workload
        assert len(again) == 2

    def test_one_disturbed_repeat_does_not_count(self, database: Database) -> None:
        """Records are ordered by the median of the repeats."""
        workload = database.commit_workload(matmul())
        for name, run_secs in (
            ("steady", [2.0, 2.0, 2.0]),
            ("disturbed", [1.0, 1.0, 9.0]),
            ("lucky once", [1.5, 0.1, 1.5]),
        ):
            database.commit_tuning_record(
                TuningRecord(FakeTrace(name), workload, run_secs, TARGET, verified=True)
            )
        again = self.reopen(database)
        workload = again.commit_workload(matmul())
        for count in (1, 2, 3):
            found = [item.secs for item in again.get_top_k(workload, count)]
            assert found == pytest.approx([1.0, 1.5, 2.0][:count])

    def test_top_k_are_the_fastest_that_ran(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        for secs in (3.0, 1.0, None, 2.0):
            database.commit_tuning_record(record(workload, secs))
        again = self.reopen(database)
        workload = again.commit_workload(matmul())
        assert [r.mean_secs for r in again.get_top_k(workload, 2)] == [1.0, 2.0]
        assert [r.mean_secs for r in again.get_top_k(workload, 9)] == [1.0, 2.0, 3.0]
        assert again.get_top_k(workload, 0) == []
        assert again.get_top_k(Workload(scaled()), 3) == []
        with pytest.raises(DatabaseError, match="-1"):
            again.get_top_k(workload, -1)

    def test_a_record_of_another_target_is_never_found(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        database.commit_tuning_record(record(workload, 1.0, OTHER))
        database.commit_tuning_record(record(workload, 0.5, None))
        again = self.reopen(database)
        assert again.query_tuning_record(matmul(), TARGET) is None
        assert again.query_schedule(matmul(), TARGET) is None
        assert again.query_ir_module(matmul(), TARGET) is None
        found = again.query_tuning_record(matmul(), str(OTHER))
        assert found is not None and found.mean_secs == 1.0

    def test_records_of_a_workload_and_target_include_failures(self, database: Database) -> None:
        workload, other = database.commit_workload(matmul()), database.commit_workload(scaled())
        for index, (where, target, secs) in enumerate(
            [(workload, TARGET, 2.0), (workload, OTHER, 1.0), (other, TARGET, 1.0), (workload, TARGET, None)]
        ):
            database.commit_tuning_record(record(where, secs, target, name=str(index)))
        again = self.reopen(database)
        found = again.get_records(Workload(matmul()), TARGET)
        assert [r.trace_json[0][0][2] for r in found] == [["0"], ["3"]]
        found = again.records_of(Workload(matmul()))
        assert [r.trace_json[0][0][2] for r in found] == [["0"], ["1"], ["3"]]
        assert again.records_of(Workload(softmax(4, 8))) == []

    def test_queries_find_the_fastest(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        for secs in (2.0, 1.0, 3.0):
            database.commit_tuning_record(record(workload, secs))
        again = self.reopen(database)
        found = again.query(matmul(), TARGET, kind="record")
        assert found.mean_secs == 1.0
        with pytest.raises(DatabaseError, match="unknown kind of query 'best'"):
            again.query(matmul(), TARGET, kind="best")

    @pytest.mark.parametrize("kind", ["record", "schedule", "ir_module"])
    def test_a_query_without_an_answer_says_for_which_program(
        self, database: Database, kind: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.DEBUG, logger="database"):
            assert database.query(matmul(), TARGET, workload_name="encoder.matmul", kind=kind) is None
        assert f"{type(database).__name__} has no record of 'encoder.matmul' for" in caplog.text

    @pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
    def test_what_was_measured_again_supersedes(self, database: Database, order: list[int]) -> None:
        workload, other = database.commit_workload(matmul()), database.commit_workload(scaled())
        records = [
            record(workload, 1.0, name="lucky", created_at=1.0),
            record(workload, 2.0, name="solid", created_at=3.0),
            record(workload, 3.0, name="lucky", created_at=5.0, remeasured=True),
            record(workload, 0.5, name="lucky", created_at=4.0, remeasured=True),
            record(workload, 4.0, name="lucky", target=OTHER, created_at=1.0),
        ]
        database.commit_tuning_record(record(other, 1.0, name="lucky"))
        for index in order:
            database.commit_tuning_record(records[index])
        again = self.reopen(database)
        found = again.query_tuning_record(matmul(), TARGET)
        assert found is not None and found.mean_secs == 2.0
        elsewhere = again.query_tuning_record(scaled(), TARGET)
        assert elsewhere is not None and elsewhere.mean_secs == 1.0
        for count in (1, 2, 3, 9):
            assert [r.mean_secs for r in again.get_top_k(workload, count)] == [2.0, 3.0, 4.0][:count]
        assert len(again) == 6 and len(again.get_records(workload, TARGET)) == 4
        pruned = MemoryDatabase()
        again.dump_pruned(pruned)
        assert sorted(r.mean_secs for r in pruned.get_all_tuning_records()) == [1.0, 2.0, 4.0]

    @pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]])
    def test_one_wrong_answer_is_a_failure_for_good(self, database: Database, order: list[int]) -> None:
        """Whatever was measured before, afterwards, or later by another machine's clock."""
        workload = database.commit_workload(matmul())
        records = [
            record(workload, 1.0, name="lucky", created_at=100.0),
            record(workload, None, name="lucky", created_at=50.0, failure_kind="wrong_result"),
            record(workload, 1.1, name="lucky", created_at=200.0, remeasured=True),
            record(workload, 2.0, name="solid", created_at=1.0),
        ]
        for index in order:
            database.commit_tuning_record(records[index])
        again = self.reopen(database)
        for count in (1, 2, 9):
            assert [r.mean_secs for r in again.get_top_k(workload, count)] == [2.0]
        found = again.query_tuning_record(matmul(), TARGET)
        assert found is not None and found.mean_secs == 2.0

    def test_what_was_compared_and_measured_in_full_comes_first(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        database.commit_tuning_record(record(workload, 1.0, name="unverified", verified=False))
        database.commit_tuning_record(record(workload, 0.5, name="cut", verified=True, cut=True))
        database.commit_tuning_record(record(workload, 2.0, name="verified", verified=True))
        database.commit_tuning_record(record(workload, 3.0, name="slower", verified=True))
        again = self.reopen(database)
        for count in (1, 2, 3, 9):
            assert [r.mean_secs for r in again.get_top_k(workload, count)] == [2.0, 3.0, 0.5, 1.0][:count]
        best = again.query_tuning_record(matmul(), TARGET)
        assert best is not None and best.mean_secs == 2.0

    def test_what_fails_when_measured_again_is_not_found(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        first = record(workload, 1.0)
        database.commit_tuning_record(first)
        database.commit_tuning_record(first.measured_again(None, failure_kind="crash"))
        again = self.reopen(database)
        assert again.query_tuning_record(matmul(), TARGET) is None
        assert again.get_top_k(workload, 1) == []

    def test_the_first_measurement_of_a_candidate_is_kept_once(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        first = record(workload, 2.0, name="a", verified=True)
        database.commit_tuning_record(first)
        for other in (
            first,
            record(workload, 1.0, name="a", verified=True),
            record(workload, None, name="a"),
            record(workload, 1.0, name="a", cut=True, verified=True),
        ):
            database.commit_tuning_record(other)
        database.commit_tuning_record(record(workload, 3.0, OTHER, name="a"))
        database.commit_tuning_record(record(database.commit_workload(scaled()), 4.0, name="a"))
        again = self.reopen(database)
        assert sorted(item.secs for item in again.get_all_tuning_records()) == [2.0, 3.0, 4.0]
        assert again.count_trials(workload, TARGET) == 1
        again.commit_tuning_record(record(workload, 1.0, name="a", verified=True))
        assert len(again) == 3

    def test_another_first_measurement_that_says_more_is_kept_as_a_second_one(
        self, database: Database
    ) -> None:
        """A time after a failure, one in full after one that was cut, a checked one after that, and a wrong result after all of them."""
        workload = database.commit_workload(matmul())
        says_more = [
            record(workload, None, name="a", created_at=1.0),
            record(workload, 2.0, name="a", created_at=1.5, cut=True),
            record(workload, 3.0, name="a", created_at=2.0),
            record(workload, 4.0, name="a", created_at=3.0, verified=True),
            record(workload, None, name="a", created_at=4.0, failure_kind="wrong_result"),
        ]
        fastest = [[], [2.0], [3.0], [4.0], []]
        for index, (item, secs) in enumerate(zip(says_more, fastest, strict=True)):
            for _ in range(2):  # also where it comes again
                database.commit_tuning_record(item)
            again = self.reopen(database)
            assert len(again) == index + 1 and again.count_trials(workload, TARGET) == 1
            assert [each.secs for each in again.get_top_k(workload, 9)] == secs
        assert [item.remeasured for item in again.get_records(workload, TARGET)] == [False, *[True] * 4]

    def test_a_second_measurement_is_kept_once(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        first = record(workload, 1.0, name="a")
        again = [first.measured_again([secs]) for secs in (2.0, 3.0)]
        for item in (*again, first, *again):
            database.commit_tuning_record(item)
        assert len(self.reopen(database)) == 3
        assert [item.secs for item in database.get_top_k(workload, 9)] == [3.0]

    def test_many_records_are_committed_and_read_one_by_one(self, database: Database) -> None:
        workloads = [database.commit_workload(matmul(4, 4, extent)) for extent in (4, 6)]
        made = [record(workloads[number % 2], 1.0 + number, name=str(number // 4)) for number in range(1200)]
        # Of each four two are of one workload: the second is a duplicate.
        assert database.commit_tuning_records(iter(made)) == 600
        assert database.commit_tuning_records(iter(made)) == 0
        found = [item.secs for item in self.reopen(database).stream_records()]
        assert found == [item.secs for number, item in enumerate(made) if number % 4 < 2]

    def test_records_without_a_target_are_kept_once_too(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        for _ in range(2):
            database.commit_tuning_record(record(workload, 1.0, None, name="a"))
        assert len(self.reopen(database)) == 1

    def test_the_newest_records_of_a_target(self, database: Database) -> None:
        workload, other = database.commit_workload(matmul()), database.commit_workload(scaled())
        for number in range(6):
            of = workload if number % 2 else other
            database.commit_tuning_record(record(of, None if number == 3 else 1.0 + number, name=str(number)))
        database.commit_tuning_record(record(workload, 9.0, OTHER))
        again = self.reopen(database)

        def names(**options: Any) -> list[str]:
            return [item.trace_json[0][0][2][0] for item in again.recent_records(TARGET, **options)]

        assert names(count=3) == ["5", "4", "3"] and names(count=9) == ["5", "4", "3", "2", "1", "0"]
        assert names(count=2, of=workload) == ["5", "3"] and names(count=2, without=[workload]) == ["4", "2"]
        assert (
            names(count=9, of=Workload(softmax())) == [] and names(count=9, without=[workload, other]) == []
        )

    def test_similar_workloads_come_by_their_extents(self, database: Database) -> None:
        for extents in ((4, 4, 4), (64, 64, 64), (8, 8, 8), (4, 4, 32)):
            entry = database.commit_workload(matmul(*extents))
            database.commit_tuning_record(
                record(entry, 1.0, target=OTHER if extents == (4, 4, 32) else TARGET)
            )
        database.commit_tuning_record(record(database.commit_workload(matmul(8, 8, 16)), None))
        database.commit_tuning_record(record(database.commit_workload(scaled()), 1.0))
        again = self.reopen(database)

        def found(count: int, target: Target = TARGET) -> list[Workload]:
            return again.similar_workloads(Workload(matmul(4, 4, 8)), target, count)

        near, next_one, far = (Workload(matmul(*item)) for item in ((4, 4, 4), (8, 8, 8), (64, 64, 64)))
        assert found(9) == [near, next_one, far] and found(1) == [near]
        assert found(9, OTHER) == [Workload(matmul(4, 4, 32))]
        assert again.similar_workloads(Workload(softmax()), TARGET, 9) == []

    def test_many_superseded_records_hide_nothing(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        database.commit_tuning_record(record(workload, 1.0, name="lucky"))
        for index in range(12):
            second = record(workload, 1.0 + index / 100, name="lucky", created_at=index, remeasured=True)
            database.commit_tuning_record(second)
        last = record(workload, 5.0, name="lucky", created_at=99.0, remeasured=True)
        database.commit_tuning_record(last)
        database.commit_tuning_record(record(workload, 2.0, name="solid"))
        again = self.reopen(database)
        assert [r.mean_secs for r in again.get_top_k(workload, 1)] == [2.0]
        assert [r.mean_secs for r in again.get_top_k(workload, 5)] == [2.0, 5.0]

    def test_nearest_record_says_what_differs(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        database.commit_tuning_record(record(workload, 1.0, OTHER))
        database.commit_tuning_record(record(database.commit_workload(scaled()), 1.0, TARGET))
        again = self.reopen(database)
        near = again.nearest_record(matmul(), TARGET)
        assert near is not None
        assert near.explain() == "target.num-cores is 8 there, 2 here"
        near = again.nearest_record(matmul(4, 4, 6), OTHER)
        assert near is not None
        assert near.explain() == "A.shape is (4, 4) there, (4, 6) here; B.shape is (4, 4) there, (6, 4) here"
        assert near.record.workload == workload
        near = again.nearest_record(softmax(), TARGET)
        assert near is not None
        assert near.explain().startswith("no record of this kernel: it has blocks (")
        assert (
            "the nearest that was tuned (" in near.explain() and "number of arguments" not in near.explain()
        )

    def test_with_makes_it_current(self, database: Database) -> None:
        assert Database.current() is None
        with database as entered:
            assert entered is database is Database.current()
            with MemoryDatabase() as inner:
                assert Database.current() is inner
            assert Database.current() is database
            found: list[Any] = []
            thread = threading.Thread(target=lambda: found.append(Database.current()))
            thread.start()
            thread.join()
            assert found == [None]
        assert Database.current() is None

    def test_pruning_keeps_the_best_of_each_workload_and_target(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        for secs, target in ((2.0, TARGET), (1.0, TARGET), (3.0, OTHER), (None, OTHER)):
            database.commit_tuning_record(record(workload, secs, target))
        pruned = MemoryDatabase()
        self.reopen(database).dump_pruned(pruned)
        assert sorted(r.mean_secs for r in pruned.get_all_tuning_records()) == [1.0, 3.0]

    def test_sessions_are_updated(self, database: Database) -> None:
        session = Session(id="b", started_at=2.0, command="tune b", seed=1, versions={"python": "3"})
        database.commit_session(session)
        database.commit_session(Session(id="a", started_at=1.0))
        session.finished_at = 5.0
        database.commit_session(session)
        first, second = self.reopen(database).get_sessions()
        assert (first.id, second) == ("a", session)

    def test_threads_may_commit_at_once(self, database: Database) -> None:
        def work(index: int) -> None:
            workload = database.commit_workload(matmul(3, 3, 3))
            for trial in range(5):
                database.commit_tuning_record(record(workload, 1.0 + index + trial, name=f"{index}.{trial}"))

        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        again = self.reopen(database)
        assert len(again) == 20 and len(again.get_workloads()) == 1

    def test_closing_twice_is_fine(self, database: Database) -> None:
        database.close()
        database.close()

    def test_second_measurements_are_no_trials(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        assert database.count_trials(workload, TARGET) == 0
        database.commit_tuning_record(record(workload, 1.0))
        database.commit_tuning_record(record(workload, None, name="failed"))
        database.commit_tuning_record(record(workload, 1.1, remeasured=True))
        database.commit_tuning_record(record(workload, 1.0, OTHER))
        assert self.reopen(database).count_trials(workload, TARGET) == 2

    def test_records_can_be_read_from_a_place_on(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        for number in range(4):
            database.commit_tuning_record(record(workload, number + 1.0, name=str(number)))
        database.commit_tuning_record(record(workload, 9.0, OTHER))
        assert [item.mean_secs for item in database.get_records(workload, TARGET, 2)] == [3.0, 4.0]
        assert database.get_records(workload, TARGET, 4) == []

    def test_a_candidate_is_claimed_by_one_owner_until_it_is_released(self, database: Database) -> None:
        workload, other = database.commit_workload(matmul()), database.commit_workload(softmax(4, 8))
        assert database.claim(workload, TARGET, ["a", "b", "a"], "one") == [True, True, True]
        second = self.reopen(database)
        assert second.claim(workload, TARGET, ["c", "a"], "two") == [True, False]
        assert second.claim(workload, OTHER, ["a"], "two") == [True]
        assert second.claim(other, TARGET, ["a"], "two") == [True]
        assert database.claim(workload, TARGET, ["a", "c"], "one") == [True, False]
        database.release("one")
        assert second.claim(workload, TARGET, ["a", "b"], "two") == [True, True]
        assert database.claim(workload, TARGET, ["b"], "one") == [False]
        database.release("nobody")

    def test_claims_of_the_dead_end(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        workload, now = database.commit_workload(matmul()), time.time()
        monkeypatch.setattr(time, "time", lambda: now)
        assert database.claim(workload, TARGET, ["a"], "killed") == [True]
        monkeypatch.setattr(time, "time", lambda: now + CLAIM_SECONDS - 1)
        assert database.claim(workload, TARGET, ["a"], "next") == [False]
        monkeypatch.setattr(time, "time", lambda: now + CLAIM_SECONDS + 1)
        assert database.claim(workload, TARGET, ["a"], "next") == [True]
        assert database.claim(workload, TARGET, ["a"], "third") == [False]

    def test_claims_last_as_long_as_their_tuner_commits(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        workload, now = database.commit_workload(matmul()), time.time()
        monkeypatch.setattr(time, "time", lambda: now)
        assert database.claim(workload, TARGET, ["a"], "tuner") == [True]
        for minutes in range(1, 30):
            monkeypatch.setattr(time, "time", lambda: now + 61 * minutes)
            database.commit_tuning_record(record(workload, 1.0))
        again = self.reopen(database)
        assert again.claim(workload, TARGET, ["a"], "next") == [False]
        monkeypatch.setattr(time, "time", lambda: now + 61 * minutes + CLAIM_SECONDS + 1)
        assert again.claim(workload, TARGET, ["a"], "next") == [True]

    def test_claims_of_a_process_end_with_it(self, database: Database, other_process: OtherProcess) -> None:
        """At once, also while nobody has asked for its exit status, and of no other owner."""
        workload = database.commit_workload(matmul())
        assert database.claim(workload, TARGET, ["a", "b"], other_process.owner) == [True, True]
        assert database.claim(workload, TARGET, ["c"], "elsewhere") == [True]
        again = self.reopen(database)
        assert again.claim(workload, TARGET, ["a"], new_owner()) == [False]
        other_process.kill()
        assert again.claim(workload, TARGET, ["a", "b", "c"], new_owner()) == [True, True, False]

    def test_claims_from_the_future_end(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who was killed while the clock was ahead by a year holds nothing; clocks of two machines differ by less."""
        workload, now = database.commit_workload(matmul()), time.time()
        for ahead, is_free in ((3e7, True), (CLAIM_SECONDS + 60, True), (CLAIM_SECONDS - 60, False)):
            monkeypatch.setattr(time, "time", lambda: now + ahead)
            assert database.claim(workload, TARGET, [str(ahead)], "killed") == [True]
            monkeypatch.setattr(time, "time", lambda: now)
            assert database.claim(workload, TARGET, [str(ahead)], "next") == [is_free]

    @pytest.mark.parametrize("were_claimed", [False, True], ids=["free", "of a process that was killed"])
    def test_of_many_who_ask_at_once_one_gets_a_candidate(
        self, database: Database, other_process: OtherProcess, were_claimed: bool
    ) -> None:
        workload = database.commit_workload(matmul())
        candidates, granted = [str(number) for number in range(12)], {}
        if were_claimed:
            database.claim(workload, TARGET, candidates, other_process.owner)
            other_process.kill()

        def ask(number: int) -> None:
            order = candidates if number % 2 else candidates[::-1]
            found = database.claim(workload, TARGET, order, new_owner())
            granted[number] = [item for item, own in zip(order, found, strict=True) if own]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(item for items in granted.values() for item in items) == sorted(candidates)

    def test_a_candidate_is_removed_with_all_that_was_measured_of_it(self, database: Database) -> None:
        """What was wrong does not come back with the record that said so."""
        workload, other = database.commit_workload(matmul()), database.commit_workload(scaled())
        first = record(workload, 1.0, name="first")
        for item in (
            first,
            first.measured_again(None, failure_kind="wrong_result"),
            record(workload, 1.5, OTHER, name="first"),
            record(workload, 2.0, name="second"),
            record(other, 3.0, name="first"),
        ):
            database.commit_tuning_record(item)
        mistaken = database.get_all_tuning_records()[1]
        assert database.remove_records([mistaken]) == 2
        assert database.remove_records([mistaken]) == 0
        again = self.reopen(database)
        assert sorted(item.secs for item in again.get_all_tuning_records()) == [1.5, 2.0, 3.0]
        assert again.count_trials(workload, TARGET) == 1
        assert [item.secs for item in again.get_top_k(workload, 3)] == [1.5, 2.0]
        database.commit_tuning_record(record(workload, 0.5, name="first"))
        found = self.reopen(database).query_tuning_record(matmul(), TARGET)
        assert found is not None and found.secs == 0.5

    def test_programs_without_records_are_removed(self, database: Database) -> None:
        session = Session(id="s", finished_at=1.0)
        database.commit_session(session)
        kept = database.commit_workload(matmul())
        database.commit_tuning_record(record(kept, 1.0))
        unused = database.commit_workload(scaled())
        emptied = database.commit_workload(softmax(4, 8))
        database.commit_tuning_record(record(emptied, 1.0))
        database.remove_records(database.get_records(emptied, TARGET))
        assert database.compact() == 2 and database.compact() == 0
        again = self.reopen(database)
        assert [item.shash for item in again.get_workloads()] == [kept.shash]
        assert len(again) == 1 and again.get_sessions() == [session]
        assert database.commit_workload(scaled()) == unused
        database.commit_tuning_record(record(unused, 1.0))
        assert len(self.reopen(database).get_workloads()) == 2

    def test_a_record_is_known_by_what_it_says(self, database: Database) -> None:
        workload = database.commit_workload(matmul())
        made = record(workload, 1.0, verified=True, metrics={"energy": 0.1}, fingerprint={"b": 1, "a": [2]})
        database.commit_tuning_record(made)
        database.commit_tuning_record(made.measured_again([1.0, 1.0]))
        first, second = self.reopen(database).get_all_tuning_records()
        assert first.digest == made.digest != second.digest and len(made.digest) == 16
