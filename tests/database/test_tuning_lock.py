"""Lock files: what a build writes pins the next one, whatever else is there, and what does not fit is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from database import (
    DatabaseError,
    DatabaseFileError,
    MemoryDatabase,
    SchemaVersionError,
    export_records,
    import_records,
    open_database,
    tuning_lock,
)
from database.meta_schedule_apply_database import ApplyReport, MissingRecordError
from database.tuning_lock import LockedDatabase, LockError, TuningLock
from tests.programs.expressions import matmul
from tests.tuner.locked_model import model, tuned
from tuner import compile_relax


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database ``tuning.db`` with records of both kernels, the lock ``tuning.lock`` and the library ``first.so`` of a build with it."""
    made = tmp_path_factory.mktemp("locked")
    tuned(made / "tuning.db", model()).close()
    executable = compile_relax(model(), database=made / "tuning.db", lock=made / "tuning.lock", strict=True)
    executable.export_library(made / "first.so")
    return made


def test_a_build_with_the_lock_needs_no_database_and_gives_the_same_file(
    folder: Path, tmp_path: Path
) -> None:
    report = ApplyReport()
    again = compile_relax(
        model(), database=tmp_path / "missing.db", lock=folder / "tuning.lock", strict=True, report=report
    )
    again.export_library(tmp_path / "first.so")
    assert [kernel.source for kernel in report.kernels] == ["record", "record"]
    assert (tmp_path / "first.so").read_bytes() == (folder / "first.so").read_bytes()
    assert (tmp_path / "first.h").read_bytes() == (folder / "first.h").read_bytes()


def test_the_text_says_a_thing_a_line_and_reads_back(folder: Path) -> None:
    text = (folder / "tuning.lock").read_text()
    lock = TuningLock.from_text(text)
    assert lock.as_text() == text
    assert [line for line in text.splitlines() if '["Split"' in line]
    assert max(map(len, text.splitlines())) < 400
    assert [kernel.names for kernel in lock.kernels] == sorted(kernel.names for kernel in lock.kernels)
    assert {kernel.record["run_secs"][0] for kernel in lock.kernels if kernel.record} == {1e-3}


def test_a_faster_record_changes_what_is_locked_when_asked(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "tuning.lock"
    path.write_bytes((folder / "tuning.lock").read_bytes())
    tuned(tmp_path / "faster.db", model(), secs=1e-4).close()
    before = TuningLock.read(path)
    compile_relax(model(), database=tmp_path / "faster.db", lock=path)
    assert TuningLock.read(path) == before
    compile_relax(model(), database=tmp_path / "faster.db", lock=path, update_lock=True)
    after = TuningLock.read(path)
    times = [kernel.record["run_secs"] for kernel in after.kernels if kernel.record]
    assert times == [[1e-4], [1e-4]]
    assert before.by_key.keys() == after.by_key.keys()


def test_kernels_without_a_record_are_locked_as_such(tmp_path: Path) -> None:
    """A build takes their default schedules, also where a database has records by now; a strict one refuses them."""
    tuned(tmp_path / "half.db", model(), count=1).close()
    first = compile_relax(model(), database=tmp_path / "half.db", lock=tmp_path / "half.lock")
    tuned(tmp_path / "half.db", model()).close()
    again = compile_relax(model(), database=tmp_path / "half.db", lock=tmp_path / "half.lock")
    assert first.metadata["provenance"] == again.metadata["provenance"]
    (without,) = TuningLock.read(tmp_path / "half.lock").without_record()
    assert "no record; a build takes the default schedule" in without
    with pytest.raises(MissingRecordError, match=without.partition(":")[0]):
        compile_relax(model(), lock=tmp_path / "half.lock", strict=True)


def test_what_was_left_unscheduled_stays_so(tmp_path: Path) -> None:
    compile_relax(model(), scheduled=False, lock=tmp_path / "plain.lock")
    report = ApplyReport()
    compile_relax(model(), lock=tmp_path / "plain.lock", report=report)
    assert {kernel.source for kernel in report.kernels} == {"unscheduled"}


def test_another_model_is_refused_by_its_kernels(folder: Path) -> None:
    with pytest.raises(LockError) as error:
        compile_relax(model(rows=9), lock=folder / "tuning.lock")
    message = str(error.value)
    assert "matmul" in message and "softmax" in message and "--update-lock" in message
    assert "not in the lock" in message and "in the lock, and no kernel of the model any more" in message
    with pytest.raises(LockError, match="softmax.*no kernel of the model any more"):
        compile_relax(model(with_softmax=False), lock=folder / "tuning.lock")


def test_another_target_is_refused_by_what_differs(folder: Path) -> None:
    with pytest.raises(LockError, match="locked for another target .*'x86-64-v2' instead of"):
        compile_relax(model(), "llvm -mcpu=x86-64-v2", lock=folder / "tuning.lock")


def test_other_versions_are_told_and_refused_where_it_is_strict(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = tuning_lock.software_versions()
    monkeypatch.setattr(tuning_lock, "software_versions", lambda: {**own, "llvmlite": "99.0"})
    compile_relax(model(), lock=folder / "tuning.lock")
    assert f"llvmlite 99.0 (the lock was written with {own['llvmlite']})" in caplog.text
    with pytest.raises(LockError, match="Install those versions"):
        compile_relax(model(), lock=folder / "tuning.lock", strict=True)


def _changed(path: Path, change) -> str:
    """The text of a lock whose document was changed, with a checksum that is right."""
    document = json.loads(path.read_text())
    document.pop("checksum")
    change(document)
    return json.dumps({"checksum": tuning_lock._checksum(document), **document})


def test_a_record_that_does_not_apply_is_an_error(folder: Path, tmp_path: Path) -> None:
    """Where a database would try the next best."""

    def break_trace(document) -> None:
        document["kernels"][0]["record"]["trace"][0][-1][0] = "NoSuchInstruction"

    path = tmp_path / "broken.lock"
    path.write_text(_changed(folder / "tuning.lock", break_trace))
    with pytest.raises(LockError, match="does not apply in this version.*NoSuchInstruction"):
        compile_relax(model(), lock=path)


def test_changes_by_hand_are_found(folder: Path) -> None:
    text = (folder / "tuning.lock").read_text()
    with pytest.raises(LockError, match="by hand or by a merge"):
        TuningLock.from_text(text.replace("0.001", "0.002", 1))
    with pytest.raises(LockError, match="is no lock file"):
        TuningLock.from_text(text[: len(text) // 2])
    with pytest.raises(LockError, match="is no lock file"):
        TuningLock.from_text(text.replace('"kernels": [', '<<<<<<< ours\n"kernels": ['))
    with pytest.raises(LockError, match="is no lock file"):
        TuningLock.from_text("[" * 100_000)


def test_a_file_of_another_kind_is_no_lock_and_nobody_is_told_to_write_over_it() -> None:
    for data in (b"\x08\x09\xc9L\n", b"import os\n", b'{"a": 1}'):
        with pytest.raises(
            LockError, match="no lock file of loopsmith.*`loopsmith build --lock` wrote"
        ) as refused:
            TuningLock.from_text(data, "model.onnx")
        assert "--update-lock" not in str(refused.value) and "\\x" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(kernels=5),
        lambda document: document["kernels"].append(None),
        lambda document: document["kernels"][0].update(source="magic"),
        lambda document: document["kernels"][0].update(names=[]),
        lambda document: document["kernels"][0].pop("record"),
        lambda document: document["kernels"][0]["record"].update(run_secs=[-1]),
        lambda document: document["kernels"][0]["record"].update(run_secs="fast"),
        lambda document: document["kernels"][0]["record"].update(trace="x"),
        lambda document: document["kernels"][0]["record"].update(versions=[]),
        lambda document: document["kernels"][0].update(target={"kind": "abacus"}),
        lambda document: document.update(target=[]),
        lambda document: document.update(versions=3),
    ],
)
def test_documents_that_nobody_wrote_are_refused(change, folder: Path) -> None:
    """Also where the checksum is right."""
    with pytest.raises(LockError):
        TuningLock.from_text(_changed(folder / "tuning.lock", change))


def test_other_forms_are_refused_with_both_numbers(folder: Path) -> None:
    with pytest.raises(SchemaVersionError, match="has the form 2, this version of loopsmith reads 1"):
        TuningLock.from_text(
            _changed(folder / "tuning.lock", lambda document: document.update(loopsmith_lock=2))
        )


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(DatabaseFileError, match="build --lock` writes it"):
        TuningLock.read(tmp_path / "missing.lock")
    with pytest.raises(DatabaseFileError, match="cannot read"):
        TuningLock.read(tmp_path)
    with pytest.raises(DatabaseFileError, match="cannot write the lock file"):
        compile_relax(model(), lock=tmp_path / "nowhere" / "tuning.lock")


def test_other_files_are_not_overwritten_and_damaged_locks_are(folder: Path, tmp_path: Path) -> None:
    lock, path = TuningLock.read(folder / "tuning.lock"), tmp_path / "model.onnx"
    path.write_bytes(b"a model")
    with pytest.raises(LockError, match="model.onnx is no lock file, and is not overwritten"):
        lock.write(path)
    assert path.read_bytes() == b"a model"
    for text in ("", "<<<<<<< ours\n" + lock.as_text()):
        path.write_text(text)
        lock.write(path)
        assert TuningLock.read(path) == lock


def test_who_writes_to_a_link_writes_where_it_leads(folder: Path, tmp_path: Path) -> None:
    lock, path, link = TuningLock.read(folder / "tuning.lock"), tmp_path / "real.lock", tmp_path / "link.lock"
    link.symlink_to(path.name)
    for _ in range(2):
        lock.write(link)
        assert link.is_symlink() and not path.is_symlink() and TuningLock.read(path) == lock


def test_a_text_that_only_speaks_of_locks_stays(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all: loopsmith_lock\n")
    with pytest.raises(LockError, match="Makefile is no lock file"):
        TuningLock.read(folder / "tuning.lock").write(tmp_path / "Makefile")


def test_as_a_database_it_answers_and_takes_nothing(folder: Path) -> None:
    lock = TuningLock.read(folder / "tuning.lock")
    database = LockedDatabase(lock)
    assert len(database) == 2 and database.get_all_tuning_records() == []
    assert not database.has_workload(matmul())
    with pytest.raises(DatabaseError, match="a build with --update-lock writes it"):
        database.commit_workload(matmul())


def test_a_record_has_one_name_in_all_databases(folder: Path, tmp_path: Path) -> None:
    source = open_database(folder / "tuning.db")
    export_records(source, tmp_path / "records.jsonl")
    other = MemoryDatabase()
    import_records(other, tmp_path / "records.jsonl")
    names = [sorted(record.digest for record in item.get_all_tuning_records()) for item in (source, other)]
    assert names[0] == names[1] and len({*names[0]}) == 2
    locked = TuningLock.read(folder / "tuning.lock")
    assert sorted(kernel.record["id"] for kernel in locked.kernels if kernel.record) == names[0]


def test_libraries_name_records_as_databases_do(folder: Path) -> None:
    names = {record.digest for record in open_database(folder / "tuning.db").stream_records()}
    for executable in (
        compile_relax(model(), database=folder / "tuning.db"),
        compile_relax(model(), lock=folder / "tuning.lock"),
    ):
        assert {kernel["record"] for kernel in executable.metadata["provenance"]["kernels"]} == names


def test_a_lock_that_cannot_be_written_is_refused_before_the_build(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(*_: object) -> None:
        raise AssertionError("graph passes ran")

    monkeypatch.setattr("tuner.compile.prepare", built)
    other, lock = tmp_path / "model.onnx", tmp_path / "tuning.lock"
    other.write_bytes(b"a model")
    lock.write_bytes((folder / "tuning.lock").read_bytes())
    with pytest.raises(LockError, match="model.onnx is no lock file, and is not overwritten"):
        compile_relax(model(), database=folder / "tuning.db", lock=other, update_lock=True)
    with pytest.raises(DatabaseFileError, match="cannot write the lock file .*: there is no such folder"):
        compile_relax(model(), lock=tmp_path / "nowhere" / "tuning.lock")
    with pytest.raises(LockError, match="is written again from a database, and none was named"):
        compile_relax(model(), lock=lock, update_lock=True)
    with pytest.raises(LockError, match="update_lock=True writes the file that lock= names"):
        compile_relax(model(), database=folder / "tuning.db", update_lock=True)
    assert other.read_bytes() == b"a model" and lock.read_bytes() == (folder / "tuning.lock").read_bytes()
