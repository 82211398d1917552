"""One kernel has one name wherever it is shown, and the numbers of a model are those of its search."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from database import Database, MemoryDatabase, Session, SQLDatabase, Workload, export_records, import_records
from ir import IRModule
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.target import Target
from ir.tir import PrimFunc
from runners import ReplayBuilder, ReplayRunner
from tests.database.attack import commit
from tests.programs.nodes import matmul
from tuner.cli import main as entry
from tuner.error import TunerError
from tuner.task import extract_tasks
from tuner.tune import contexts_of, tune_tasks, tune_tir


@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((8, 8), "float32"), y: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, x)
            b = R.permute_dims(a)
            c = R.add(y, y)
            d = R.matmul(c, b)
            R.output(b, d)
        return b, d


def tuned(store: Database) -> list[str]:
    """The names of the kernels, as the search shows them."""
    contexts = contexts_of(extract_tasks(Net, "cpu"), 0)
    tune_tasks(
        tasks=contexts,
        database=store,
        max_trials_global=2 * len(contexts),
        max_trials_per_task=2,
        task_scheduler="round-robin",
        builder=ReplayBuilder(),
        runner=ReplayRunner(lambda _: 1e-3),
        measure_callbacks=[],
    )
    return [item.task_name for item in contexts]


def shown(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["loopsmith", *arguments])
    entry.main()
    return capsys.readouterr().out


def rows(text: str) -> list[tuple[str, str]]:
    """(number, kernel) of the lines of a table."""
    found = [
        [cell.strip() for cell in line.split("│")[1:3]] for line in text.splitlines() if line.startswith("│")
    ]
    return [(number, kernel) for number, kernel in found]


def test_what_has_no_numbers_to_measure_comes_last() -> None:
    tasks = extract_tasks(Net, Target("cpu"))
    names = [item.task_name for item in tasks]
    contexts = contexts_of(tasks, 0)
    assert 0 < len(contexts) < len(tasks)
    assert [item.task_name for item in contexts] == names[: len(contexts)]


def test_names_and_numbers_are_those_of_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t.db")
    names = tuned(SQLDatabase(path))
    listed = rows(shown(["db", "ls", path], monkeypatch, capsys))
    assert listed == [(str(number), name) for number, name in enumerate(names)]
    for number, name in listed:
        title = f"#{number} {name}: the"
        assert title in shown(["db", "top", path, "--task", number], monkeypatch, capsys)
        assert title in shown(["db", "top", path, "--task", name], monkeypatch, capsys)


def test_studies_have_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    optuna = pytest.importorskip("optuna")
    path = str(tmp_path / "t.db")
    names = tuned(SQLDatabase(path))
    shown(["db", "export-study", path, str(tmp_path / "study.db")], monkeypatch, capsys)
    studies = optuna.get_all_study_names(f"sqlite:///{tmp_path / 'study.db'}")
    assert sorted(item.split(" [")[0] for item in studies) == sorted(names)


@pytest.mark.parametrize("pruned", [False, True])
def test_names_travel_with_the_records(tmp_path: Path, pruned: bool) -> None:
    source, copy = MemoryDatabase(), MemoryDatabase()
    names = tuned(source)
    export_records(source, tmp_path / "a.jsonl", pruned=pruned)
    import_records(copy, tmp_path / "a.jsonl")
    (session,) = copy.get_sessions()
    assert [session.kernels[item.shash] for item in copy.get_workloads()] == names


def test_the_newest_search_names_a_kernel_and_unnamed_ones_are_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t.db")
    store = SQLDatabase(path)
    commit(store, 1.0)
    described = rows(shown(["db", "ls", path], monkeypatch, capsys))[0][1]
    assert described and described != "main"
    shash = Workload(matmul()).shash
    for started, name in ((2.0, "newer"), (1.0, "older"), (3.0, "main")):
        store.commit_session(Session(started_at=started, kernels={shash: name}))
    assert rows(shown(["db", "ls", path], monkeypatch, capsys)) == [("0", "newer")]


@T.prim_func
def blur(x: T.Buffer((16,), "float32"), y: T.Buffer((14,), "float32")):
    for i in range(14):
        with T.block("sum"):
            vi = T.axis.spatial(14, i)
            y[vi] = x[vi] + x[vi + 1] + x[vi + 2]


@pytest.mark.parametrize(
    ("kernel", "given", "name"),
    [
        (blur, {}, "blur"),
        (matmul(4), {}, "C"),
        (IRModule({"main": blur}), {}, "blur"),
        (IRModule({"dense": matmul(4)["main"]}), {}, "dense"),
        (blur, {"task_name": "mine"}, "mine"),
    ],
)
def test_a_kernel_has_the_name_of_its_function_or_of_its_blocks(
    kernel: PrimFunc | IRModule, given: dict[str, str], name: str
) -> None:
    parts = {"builder": ReplayBuilder(), "runner": ReplayRunner(lambda _: 1e-3), "measure_callbacks": []}
    store = tune_tir(kernel, "cpu", None, 1, **parts, **given)
    assert [list(session.kernels.values()) for session in store.get_sessions()] == [[name]]


def test_a_kernel_that_is_not_there_or_not_the_only_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t.db")
    store = SQLDatabase(path)
    for size in (4, 8):
        store.commit_workload(matmul(size))
    kernels = {Workload(matmul(size)).shash: "dense" for size in (4, 8)}
    store.commit_session(Session(kernels=kernels))
    for asked, says in (
        ("dense", "take one of their numbers: 0, 1"),
        ("dens", "did you mean 'dense'"),
        ("7", "0 to 1"),
    ):
        monkeypatch.setattr(sys, "argv", ["loopsmith", "db", "top", path, "--task", asked])
        with pytest.raises(TunerError, match=says):
            entry.app(standalone_mode=False)


@I.ir_module
class Two:
    @R.function
    def main(x: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            a = R.nn.relu(R.matmul(x, x))
            b = R.add(R.matmul(a, a), a)
            R.output(b)
        return b


def test_kernels_of_one_anchor_block_are_one_task() -> None:
    exact = extract_tasks(Two, Target("cpu"))
    alike = extract_tasks(Two, Target("cpu"), module_equality="anchor-block")
    assert len(exact) == 2 and len(alike) == 1
    assert alike[0].weight == sum(item.weight for item in exact) == 2
    assert sorted(alike[0].names) == sorted(name for item in exact for name in item.names)
