"""The command line as people use it, and what it says when they make a mistake."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import sqlite3
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
import typer

from cost_models import CostModel
from database import TuningRecord, export_records, open_database, software_versions
from schedules import Schedule
from tests.database.attack import commit, seconds_in
from tests.programs.expressions import matmul
from tuner.cli import main as entry
from tuner.cli.console import size_text
from tuner.scheduler.base import TaskScheduler
from tuner.search.base import SearchStrategy

_MAIN = [sys.executable, "-m", "tuner.cli.main"]


def loopsmith(*arguments: str, cwd: Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "40"}
    return subprocess.run(
        [*_MAIN, *arguments], cwd=cwd, capture_output=True, text=True, timeout=timeout, env=environment
    )


def _is_one_paragraph(text: str) -> bool:
    return (
        text.startswith("loopsmith: error: ")
        and len(text.strip().splitlines()) == 1
        and "Traceback" not in text
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tune", "--zoo", "resnet18", "--trials", "0"], "at least 1, got 0"),
        (["tune", "--zoo", "resnet18", "--trials", "many"], "integer. Try 'loopsmith tune --help'."),
        (["tune", "missing.onnx"], "no file missing.onnx"),
        (["tune", "broken.onnx"], "truncated"),
        (["tune", "--zoo", "alexnet"], "resnet18"),
        (["tune"], "name one model"),
        (["tune", "--zoo", "resnet18", "--time", "soon"], "seconds (90 or 90s), minutes (30m)"),
        (["tune", "--zoo", "resnet18", "--target", "abacus"], "abacus"),
        (["tasks", "open.onnx"], "such as --shape x:1,3 --shape w:1,1"),
        (["build", "one.onnx", "--strict"], "strict build refuses: relu: no database; tune them first"),
        (["build", "--zoo", "resnet18", "--database", "missing.db"], "does not exist"),
        (["build", "--zoo", "resnet18", "-o", "no/such/folder/model.so"], "no folder"),
        (["build", "--zoo", "resnet18", "-o", "model.txt"], ".so; name it model.so"),
        (["build", "--zoo", "resnet18", "-o", "model.h"], ".so; name it model.so"),
        (["tasks", "."], ". is a folder; name an ONNX file in it"),
        (["run", "."], ". is a folder; name a model's shared library in it"),
        (["run", "missing.so"], "no file missing.so; check the path, or make the file: `loopsmith build"),
        (["bench", "missing.so"], "no file missing.so"),
        (["bench", "missing.so", "--rounds", "0"], "greater than or equal to 1"),
        (["bench", "missing.so", "--threads", "-1"], "greater than or equal to 0"),
        (["tune", "--zoo", "resnet18", "--seed", "-1"], "greater than or equal to 0"),
        (["tune", "--zoo", "resnet18", "--trials-per-task", "0"], "greater than or equal to 1"),
        (["tune", "--zoo", "resnet18", "--strategy", "optuna:cma"], "did you mean"),
        (["tune", "missing.onnx", "--cost-model", "xbg"], "did you mean 'xgb'"),
        (
            ["tune", "--zoo", "resnet18", "--objectives", "time,memory"],
            "minimizes the time only, not time,memory",
        ),
        (
            ["tune", "--zoo", "resnet18", "--strategy", "optuna", "--objectives", "speed"],
            "unknown objective 'speed'",
        ),
        (["tune", "--zoo", "resnet18", "--optuna-storage", "study"], "ends in .db, .sqlite"),
        (["db", "export-study", "missing.db", "study.db"], "does not exist"),
        (["tune", "--zoo", "resnet18", "--target", "opencl"], "'opencl' is not generated yet"),
        (["tune", "--zoo", "resnet18", "--target", "llvm -mcpu=znver99"], "did you mean 'znver5'"),
        (["tasks", "--zoo", "resnet18", "--target", "llvm -mcpu=skylak"], "did you mean 'skylake'"),
        (["build", "--zoo", "resnet18", "--target", "llvm -mcpu=skylak"], "did you mean 'skylake'"),
        (["db", "top", "missing.db", "-k", "0"], "greater than or equal to 1"),
        (["db", "import", "records.jsonl", "records.jsonl"], "only read"),
        (["db", "ls", "missing.db"], "does not exist"),
        (["db", "top", "missing.db"], "does not exist"),
        (["db", "ls", "newer.db"], "newer"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else None,
)
def test_mistakes_get_one_paragraph_and_status_2(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x07\x12\x04oops" * 7)
    (tmp_path / "records.jsonl").write_text("")
    if "open.onnx" in arguments:
        _write_model(tmp_path / "open.onnx", {"x": ["n", 3], "w": ["n", "m"]})
    if "one.onnx" in arguments:
        _write_model(tmp_path / "one.onnx", {"x": [2, 3]})
    if "newer.db" in arguments:
        _database_of_the_future(tmp_path / "newer.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["loopsmith", *arguments])
    with pytest.raises(SystemExit) as leaving:
        entry.main()
    complaint = capsys.readouterr().err
    assert leaving.value.code == 2, complaint
    assert _is_one_paragraph(complaint), complaint
    assert says in complaint


def _write_model(path: Path, inputs: dict[str, list[int | str]]) -> None:
    """A Relu of each input."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("Relu", [name], [f"{name}_relu"]) for name in inputs]
    given = [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()]
    found = [helper.make_tensor_value_info(f"{name}_relu", kind, shape) for name, shape in inputs.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "relus", given, found),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    path.write_bytes(model.SerializeToString())


def test_a_mistake_is_the_same_for_the_shell(tmp_path: Path) -> None:
    done = loopsmith("tune", "missing.onnx", cwd=tmp_path)
    assert done.returncode == 2
    assert _is_one_paragraph(done.stderr) and "no file missing.onnx" in done.stderr


def test_without_a_command_there_is_help_and_no_complaint(tmp_path: Path) -> None:
    for command in ([], ["db"]):
        done = loopsmith(*command, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (2, "") and "--help" in done.stdout


def test_the_status_that_a_command_asks_for_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends ``tune`` with 130: a script sees that the search was not finished."""
    app = typer.Typer()

    @app.command()
    def interrupted() -> None:
        raise typer.Exit(130)

    monkeypatch.setattr(entry, "app", app)
    monkeypatch.setattr(sys, "argv", ["loopsmith"])
    with pytest.raises(SystemExit) as leaving:
        entry.main()
    assert leaving.value.code == 130


def test_ctrl_c_in_a_search_says_what_is_kept(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TaskScheduler, "_loop", ctrl_c)
    monkeypatch.setattr(
        sys, "argv", ["loopsmith", "tune", str(small / "conv.onnx"), "--database", str(tmp_path / "t.db")]
    )
    with pytest.raises(SystemExit) as leaving:
        entry.main()
    assert leaving.value.code == 130
    assert "all finished trials are in the database" in " ".join(capsys.readouterr().out.split())


def _database_of_the_future(path: Path) -> None:
    import sqlite3

    from tests.database.attack import filled

    filled(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("update alembic_version set version_num = '9999'")


def test_an_unsupported_operator_and_an_open_dimension_are_named(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    info = helper.make_tensor_value_info("x", 1, ["batch", 4])
    out = helper.make_tensor_value_info("y", 1, None)
    strange = helper.make_node("Frobnicate", ["x"], ["y"], name="middle", domain="com.example")
    relu = helper.make_node("Relu", ["x"], ["y"])
    for name, node in (("strange", strange), ("open", relu)):
        graph = helper.make_graph([node], name, [info], [out])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / f"{name}.onnx")
    done = loopsmith("tasks", "strange.onnx", cwd=tmp_path)
    assert done.returncode == 2
    assert all(word in done.stderr for word in ("Frobnicate", "middle", "com.example"))
    done = loopsmith("tasks", "open.onnx", cwd=tmp_path)
    assert done.returncode == 2
    assert "batch" in done.stderr and "--shape x:" in done.stderr
    assert loopsmith("tasks", "open.onnx", "--shape", "x:2,4", cwd=tmp_path).returncode == 0


def test_from_a_file_to_a_checked_library(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    import numpy as np

    helper, weights = onnx.helper, np.random.default_rng(0)
    conv = onnx.numpy_helper.from_array(weights.standard_normal((16, 8, 3, 3)).astype("float32") * 0.1, "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    info = helper.make_tensor_value_info("x", 1, [1, 8, 12, 12])
    out = helper.make_tensor_value_info("y", 1, None)
    boolean, truth = (helper.make_tensor_value_info(name, 9, [1, 8, 12, 12]) for name in "xy")
    graph = helper.make_graph(nodes, "net", [info], [out], [conv])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        tmp_path / "net.onnx",
    )

    listed = loopsmith("tasks", "net.onnx", cwd=tmp_path)
    assert listed.returncode == 0 and re.search(r"│ 0 │ fused_conv2d_relu │", listed.stdout)
    # a pipe has no width: nothing is cut, whatever COLUMNS says of some terminal
    assert all(word in listed.stdout for word in ("weight", "MFLOP", "share", "structures", "candidates"))
    assert "…" not in listed.stdout
    tuned = loopsmith("tune", "net.onnx", "--trials", "8", "--database", "t.db", "--no-check", cwd=tmp_path)
    assert tuned.returncode == 0, tuned.stderr
    assert re.search(r"8 trials in", tuned.stderr)
    assert "records go to t.db" in tuned.stdout
    optuna_search = [
        "--strategy",
        "optuna:nsga2",
        "--objectives",
        "time,code_size",
        "--optuna-storage",
        "study.db",
    ]
    more = loopsmith(
        "tune", "net.onnx", "--trials", "12", "--database", "t.db", "--no-check", *optuna_search, cwd=tmp_path
    )
    assert more.returncode == 0 and re.search(r"4 trials in", more.stderr), more.stderr
    with sqlite3.connect(tmp_path / "study.db") as connection:
        ((trials,),) = connection.execute("SELECT count(*) FROM trials").fetchall()
        studies = [name for (name,) in connection.execute("SELECT study_name FROM studies")]
    assert "fused_conv2d_relu" in {name.split(" [")[0] for name in studies}
    assert trials == 12  # those of the first search, which were measured before the study was made, included
    built = loopsmith("build", "net.onnx", "--database", "t.db", "-o", "net.so", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    assert "record" in built.stdout and (tmp_path / "net.h").exists()
    ran = loopsmith("run", "net.so", "--random-inputs", "--check", "net.onnx", "--profile", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "relative error" in ran.stdout
    assert re.search(
        r"^ +time \(us\) +share +what\n( +[\d.]+ +[\d.]+%  \w+\n)+ +[\d.]+ +all$", ran.stdout, re.M
    )
    other = helper.make_graph([helper.make_node("Not", ["x"], ["y"])], "other", [boolean], [truth])
    onnx.save(
        helper.make_model(other, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        tmp_path / "other.onnx",
    )
    for command in (
        ["run", "net.so", "--check", "other.onnx"],
        ["bench", "net.so", "--compare", "onnxruntime", "--onnx", "other.onnx"],
    ):
        wrong = loopsmith(*command, cwd=tmp_path)
        assert wrong.returncode == 2 and _is_one_paragraph(wrong.stderr), wrong.stderr
        assert "the file that the library was built from" in wrong.stderr
    both = loopsmith("run", "net.so", "--random-inputs", "--inputs", "x.npz", cwd=tmp_path)
    assert both.returncode == 2 and "exclude each other" in both.stderr
    timed = loopsmith("bench", "net.so", "--compare", "onnxruntime", "--rounds", "2", cwd=tmp_path)
    assert timed.returncode == 0 and "onnxruntime" in timed.stdout
    summary = tuned.stderr.splitlines()
    assert any("GFLOP/s" in line and "errors" in line for line in summary)
    assert re.search(r"│ 0 │ fused_conv2d_relu │", tuned.stderr)
    stored = loopsmith("db", "ls", "t.db", cwd=tmp_path)
    assert stored.returncode == 0 and re.search(r"│ 0 │ fused_conv2d_relu │", stored.stdout)
    assert "shapes" in stored.stdout and not re.search(r"\broot\b", stored.stdout)
    assert re.search(r"-num-cores=\d+ │", stored.stdout)  # the target is not cut
    for options, traces in (((), False), (("--trace",), True)):
        text = loopsmith("db", "top", "t.db", "--task", "0", *options, cwd=tmp_path).stdout
        assert "#0 fused_conv2d_relu: the" in text and ("sch." in text) == traces
    traced = loopsmith("db", "top", "t.db", "--trace", cwd=tmp_path).stdout
    assert re.search(r"sch\.split\(loop=l\d+, factors=\[v\d+, ", traced)  # nothing is taken for markup
    exported = loopsmith("db", "export", "t.db", "records.jsonl", cwd=tmp_path)
    written = re.search(r"wrote (\d+) records", exported.stdout)
    assert (
        written and int(written[1]) >= 8
    )  # the trials, and second measurements of those whose times were close
    imported = [loopsmith("db", "import", "other.db", "records.jsonl", cwd=tmp_path) for _ in range(2)]
    assert [item.returncode for item in imported] == [0, 0]
    assert imported[0].stdout == f"added {written[1]} records from records.jsonl\n"
    assert imported[1].stdout == f"added 0 records from records.jsonl; {written[1]} were there already\n"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model, its library, and models that take the same inputs."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    import numpy as np

    folder = tmp_path_factory.mktemp("small")
    helper = onnx.helper
    info = helper.make_tensor_value_info("x", 1, [1, 3, 8, 8])
    for name, channels in (("conv", 8), ("weights", 8), ("channels", 4)):
        value = np.full((channels, 3, 3, 3), 1.0 if name == "weights" else 0.5, "float32")
        out = helper.make_tensor_value_info("y", 1, [1, channels, 6, 6])
        node = helper.make_node("Conv", ["x", "w"], ["y"])
        graph = helper.make_graph([node], name, [info], [out], [onnx.numpy_helper.from_array(value, "w")])
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / f"{name}.onnx")
    built = loopsmith("build", "conv.onnx", "-o", "conv.so", cwd=folder)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("weights.onnx", "output 0 differs from the library's"),
        ("channels.onnx", "output 0 is [1, 4, 6, 6] there, [1, 8, 6, 6] in the library"),
    ],
)
def test_another_model_is_not_compared(model: str, says: str, small: Path) -> None:
    done = loopsmith("bench", "conv.so", "--compare", "onnxruntime", "--onnx", model, cwd=small)
    assert done.returncode == 2 and _is_one_paragraph(done.stderr), done.stderr
    assert "onnxruntime runs another model than the library" in done.stderr and says in done.stderr


def test_an_unreadable_exported_program_is_named(small: Path) -> None:
    pytest.importorskip("torch")
    (small / "conv.pt2").write_text("no archive")
    done = loopsmith("bench", "conv.so", "--compare", "torch", "--rounds", "1", cwd=small)
    (small / "conv.pt2").unlink()
    assert done.returncode == 2 and _is_one_paragraph(done.stderr), done.stderr
    assert "PyTorch cannot read conv.pt2" in done.stderr


@pytest.mark.parametrize(
    ("shape", "says"),
    [("q:1,3,8,8", "--shape) names ['q']"), ("x:1,3", "--shape) gives the input 'x' the shape [1, 3]")],
)
def test_a_wrong_shape_is_told_in_the_words_of_the_command_line(shape: str, says: str, small: Path) -> None:
    done = loopsmith("tasks", "conv.onnx", "--shape", shape, cwd=small)
    assert done.returncode == 2 and says in done.stderr


def _on_terminal(*arguments: str, columns: int, cwd: Path) -> tuple[int | None, list[str]]:
    """The status and the lines of the command on a terminal so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm"}
    process = subprocess.Popen(
        [*_MAIN, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environment
    )
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 1 << 16):
            written += part
    except OSError:  # how Linux tells that nobody writes any more
        pass
    os.close(ours)
    status = process.wait(60)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode()).replace("\r\n", "\n")
    return status, [line.split("\r")[-1] for line in text.split("\n")]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--help"], 0, ("tune", "bench")),
        (["tune", "--help"], 0, ("--trials-per-task",)),
        (["bench", "--help"], 0, ("onnxruntime",)),
        (["tasks", "conv.onnx"], 0, ("kernel", "weight", "MFLOP", "structures", "candidates")),
        (["bench", "conv.so", "--rounds", "1"], 0, ("loopsmith", "median", "1.00x")),
        (["run", "conv.so", "--check", "conv.onnx"], 0, ("float32[1,", "relative")),
        (["tune", "missing.onnx"], 2, ("loopsmith:", "error:", "missing.onnx")),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else None,
)
def test_a_narrow_terminal_is_not_overrun(
    arguments: list[str], status: int, words: tuple[str, ...], small: Path
) -> None:
    found, lines = _on_terminal(*arguments, columns=40, cwd=small)
    text = "\n".join(lines)
    assert found == status, text
    # The help's second column is never narrower than ten characters.
    assert max(map(len, lines)) <= (44 if "--help" in arguments else 40)
    assert "…" not in text and "Traceback" not in text
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("one.npy", "holds one array without a name"),
        ("text.txt", "is no .npz file"),
        ("empty.npz", "is no .npz file"),
        ("torn.npz", "is no .npz file"),
        ("objects.npz", "an array of numbers per input"),
        ("other.npz", "has no array for input 'x'; it has ['z']"),
        ("more.npz", "has an array 'y', which is no input of the model; it has the inputs ['x']"),
    ],
)
def test_inputs_that_are_none_say_how_to_write_them(
    name: str, says: str, small: Path, tmp_path: Path
) -> None:
    import numpy as np

    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "text.txt").write_text("1 2 3")
    (tmp_path / "empty.npz").write_bytes(b"")
    np.savez(tmp_path / "other.npz", z=np.zeros(3))
    np.savez(tmp_path / "more.npz", x=np.zeros(3), y=np.zeros(3))
    (tmp_path / "torn.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:80])
    np.savez(tmp_path / "objects.npz", x=np.array([None]))
    done = loopsmith("run", "conv.so", "--inputs", str(tmp_path / name), cwd=small)
    assert done.returncode == 2 and _is_one_paragraph(done.stderr), done.stderr
    assert says in done.stderr
    assert name in ("other.npz", "more.npz") or "numpy.savez('inputs.npz', x=...)" in done.stderr


def test_outputs_go_where_they_are_asked_for(small: Path, tmp_path: Path) -> None:
    import numpy as np

    refused = loopsmith("run", "conv.so", "--outputs", "no/such/folder/o.npz", cwd=small)
    assert refused.returncode == 2 and _is_one_paragraph(refused.stderr), refused.stderr
    assert "no folder" in refused.stderr
    assert refused.stdout == ""  # it was not run first
    ran = loopsmith("run", "conv.so", "--outputs", str(tmp_path / "outputs"), cwd=small)
    assert ran.returncode == 0, ran.stderr
    assert np.load(tmp_path / "outputs")["arr_0"].shape == (1, 8, 6, 6)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("arguments", [["run", "conv.so"], ["--version"]], ids=" ".join)
def test_a_full_disk_is_one_paragraph(arguments: list[str], small: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*_MAIN, *arguments], cwd=small, stdout=full, stderr=subprocess.PIPE, text=True, timeout=240,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
    assert done.returncode == 2 and _is_one_paragraph(done.stderr), done.stderr
    assert "No space left" in done.stderr


@pytest.mark.parametrize("module", ["tuner", "tuner.cli", "tuner.cli.main"])
def test_the_package_runs_as_a_program(module: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"loopsmith {software_versions()['loopsmith']}\n"), (
        done.stderr
    )


def test_help_names_what_the_registries_have(tmp_path: Path) -> None:
    assert loopsmith("-h", cwd=tmp_path).stdout == loopsmith("--help", cwd=tmp_path).stdout
    help_ = "".join(
        loopsmith("tune", "-h", cwd=tmp_path).stdout.split()
    )  # lines may end at the hyphens of names
    assert f"Oneof{','.join(CostModel.kinds.names())}." in help_
    assert f"Oneof{','.join(SearchStrategy.kinds.names())}." in help_
    assert "[default:tuning.db]" in help_
    assert "90or90s" in help_


def test_sizes_have_the_unit_that_shows_them() -> None:
    assert [size_text(n) for n in (0, 999, 1000, 21_700, 2_540_000)] == [
        "0 bytes", "999 bytes", "1.0 kB", "21.7 kB", "2.5 MB",
    ]  # fmt: skip


def test_a_zoo_model_with_its_onnx_file(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    built = loopsmith("build", "--zoo", "resnet18", "-o", "r.so", "--save-onnx", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    ran = loopsmith("run", "r.so", "--check", "r.onnx", cwd=tmp_path)
    assert ran.returncode == 0 and "relative error" in ran.stdout, ran.stderr
    timed = loopsmith("bench", "r.so", "--compare", "onnxruntime", "--rounds", "1", cwd=tmp_path)
    assert timed.returncode == 0 and "onnxruntime" in timed.stdout, timed.stderr
    refused = loopsmith("build", "r.onnx", "-o", "s.so", "--save-onnx", cwd=tmp_path)
    assert refused.returncode == 2 and "--save-onnx" in refused.stderr and _is_one_paragraph(refused.stderr)


def test_torch_runs_whatever_can_be_imported(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    import onnx

    from ir.relax.frontend.onnx import to_onnx
    from tuner import zoo

    mod, params, inputs = zoo.load("llama_block", **zoo.small_config("llama_block"))
    onnx.save(to_onnx(mod, params), tmp_path / "block.onnx")
    built = loopsmith("build", "block.onnx", "-o", "block.so", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    timed = loopsmith("bench", "block.so", "--compare", "torch", "--rounds", "1", cwd=tmp_path)
    assert timed.returncode == 0 and "torch" in timed.stdout, timed.stderr
    # a program that PyTorch itself saved is preferred: this one takes too few inputs, and says so
    program = torch.export.export(torch.nn.Identity(), (torch.zeros(3),))
    torch.export.save(program, tmp_path / "block.pt2")
    assert loopsmith("bench", "block.so", "--compare", "torch", "--rounds", "1", cwd=tmp_path).returncode != 0
    refused = loopsmith("bench", "block.so", "--compare", "torch", "--onnx", "gone.onnx", cwd=tmp_path)
    assert refused.returncode == 2 and _is_one_paragraph(refused.stderr) and "--zoo" in refused.stderr


def test_an_output_without_elements_is_described(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    info, out = (helper.make_tensor_value_info(name, 1, [0, 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "empty", [info], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "empty.onnx")
    assert loopsmith("build", "empty.onnx", "-o", "empty.so", cwd=tmp_path).returncode == 0
    ran = loopsmith("run", "empty.so", "--random-inputs", cwd=tmp_path)
    assert ran.returncode == 0 and "float32[0, 4]" in ran.stdout


def test_a_file_without_records_is_not_imported_in_silence(tmp_path: Path) -> None:
    (tmp_path / "garbage.jsonl").write_text("this is no record\n")
    found = loopsmith("db", "import", "new.db", "garbage.jsonl", cwd=tmp_path)
    assert found.returncode == 2 and "holds no tuning records" in found.stderr


def test_a_build_without_a_database_says_how_records_are_applied(tmp_path: Path) -> None:
    _write_model(tmp_path / "one.onnx", {"x": [2, 3], "w": [4]})
    found = loopsmith("build", "one.onnx", "--strict", cwd=tmp_path)
    assert "strict build refuses: relu, relu1: no database; tune them first" in found.stderr
    found = loopsmith("build", "one.onnx", cwd=tmp_path)
    assert found.returncode == 0 and "no database was named: --database applies records" in found.stdout
    (tmp_path / "empty.db").touch()
    found = loopsmith("build", "one.onnx", "--database", "empty.db", cwd=tmp_path)
    assert found.returncode == 0 and "was named" not in found.stdout


@pytest.mark.parametrize("output", [".", "..", "/"])
def test_a_folder_is_no_library(output: str, tmp_path: Path) -> None:
    found = loopsmith("build", "--zoo", "resnet18", "-o", output, cwd=tmp_path)
    assert found.returncode == 2 and _is_one_paragraph(found.stderr)
    assert f"name it {Path(output) / 'model.so'}" in found.stderr


def test_databases_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, secs in (("a.db", 1e-3), ("b.db", 2e-3)):
        with open_database(tmp_path / name) as store:
            commit(store, secs)
    for there in (0, 1):
        command = ["db", "import", str(tmp_path / "a.db"), str(tmp_path / "b.db")]
        monkeypatch.setattr(sys, "argv", ["loopsmith", *command])
        entry.main()
        says = f"added {1 - there} records from"
        assert says in capsys.readouterr().out
    assert seconds_in(tmp_path / "a.db") == [1e-3, 2e-3]
    assert seconds_in(tmp_path / "b.db") == [2e-3]


def test_a_pruned_export_shows_its_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where what is left of a trial is its second measurement."""
    with open_database(tmp_path / "t.db") as store:
        for secs in (1e-3, 2e-3):
            commit(store, secs)
        first, _ = store.get_all_tuning_records()
        store.commit_tuning_record(first.measured_again([0.5e-3]))
        export_records(store, tmp_path / "best.jsonl", pruned=True)
    for name, trials in (("t.db", 2), ("best.jsonl", 1)):
        monkeypatch.setattr(sys, "argv", ["loopsmith", "db", "ls", str(tmp_path / name)])
        entry.main()
        row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("│ 0"))
        assert [cell.strip() for cell in row.split("│")[4:7]] == [str(trials), "0", "0.5000"]


def test_db_top_says_which_record_a_build_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first that applies, of the target."""
    store = open_database(tmp_path / "t.db")
    workload = store.commit_workload(matmul(16))
    for block, secs in (("gone", 1e-3), ("C", 2e-3)):
        trace = [[["GetBlock", [], [block, "main"], ["b0"]]], []]
        store.commit_tuning_record(TuningRecord(None, workload, [secs], "cpu", trace_json=trace))
    store.close()
    monkeypatch.setattr(sys, "argv", ["loopsmith", "db", "top", str(tmp_path / "t.db")])
    entry.main()
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any("│ 1.0000 │ 1 │ no │ no │ llvm -keys=cpu" in line for line in lines)
    assert any("│ 2.0000 │ 1 │ no │ yes │ llvm -keys=cpu" in line for line in lines)


def test_times_of_small_kernels_keep_their_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_database(tmp_path / "t.db") as store:
        for secs in (2.134e-7, 2.171e-7):
            commit(store, secs)
    for arguments in (["ls", str(tmp_path / "t.db")], ["top", str(tmp_path / "t.db")]):
        monkeypatch.setattr(sys, "argv", ["loopsmith", "db", *arguments])
        entry.main()
        shown = capsys.readouterr().out
        assert "0.000213" in shown and ("0.000217" in shown) == (arguments[0] == "top")


def test_db_top_shows_the_front_of_several_objectives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_database(tmp_path / "t.db") as store:
        workload = store.commit_workload(matmul(16))
        for number, (secs, size) in enumerate(((1e-3, 900), (2e-3, 400), (3e-3, 500))):
            trace = [[["GetBlock", [], ["C", "main"], [f"b{number}"]]], []]
            metrics = {"code_size": float(size)}
            store.commit_tuning_record(
                TuningRecord(None, workload, [secs], "cpu", trace_json=trace, verified=True, metrics=metrics)
            )
        wrong = TuningRecord(
            None,
            workload,
            [1e-4],
            "cpu",
            trace_json=[[["GetBlock", [], ["C", "main"], ["b9"]]], []],
            verified=True,
            metrics={"code_size": 100.0},
        )
        store.commit_tuning_record(wrong)
        store.commit_tuning_record(wrong.measured_again(None, failure_kind="wrong_result"))
    command = ["loopsmith", "db", "top", str(tmp_path / "t.db"), "--objectives"]
    monkeypatch.setattr(sys, "argv", [*command, "time,code_size"])
    entry.main()
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line[:1] in "┃│"]
    assert lines[0].startswith("┃ ms ┃ code_size bytes ┃ runs")
    assert [line[:20] for line in lines[1:]] == ["│ 1.0000 │ 900 │ 1 │", "│ 2.0000 │ 400 │ 1 │"]
    for names, says in (
        ("time,energy", "tells time,energy; `loopsmith tune --objectives"),
        ("size", "there are time"),
    ):
        monkeypatch.setattr(sys, "argv", [*command, names])
        with pytest.raises(SystemExit):
            entry.main()
        assert says in " ".join(capsys.readouterr().err.split())


def test_db_top_says_why_a_kernel_has_no_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_database(tmp_path / "t.db")
    store.commit_workload(matmul(8))
    failed = store.commit_workload(matmul(16))
    store.commit_tuning_record(
        TuningRecord(None, failed, None, "cpu", trace_json=[[], []], failure_kind="crash")
    )
    store.close()
    for number, says in (("0", "`loopsmith tune` with more trials comes to it"), ("1", "1 failed")):
        monkeypatch.setattr(
            sys, "argv", ["loopsmith", "db", "top", str(tmp_path / "t.db"), "--task", number, "--trace"]
        )
        entry.main()
        shown = " ".join(capsys.readouterr().out.split())
        assert "no record of a candidate that ran; " + says in shown and "fastest" not in shown


def test_rows_of_records_without_decisions_say_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sch = Schedule(matmul(8))
    sch.unroll(sch.get_loops("C")[1])
    with open_database(tmp_path / "t.db") as store:
        workload = store.commit_workload(matmul(8))
        for secs, trace in ((1e-3, sch.trace.as_json()), (2e-3, [[], []])):
            store.commit_tuning_record(TuningRecord(None, workload, [secs], "cpu", trace_json=trace))
    monkeypatch.setattr(sys, "argv", ["loopsmith", "db", "top", str(tmp_path / "t.db")])
    entry.main()
    shown = capsys.readouterr().out
    assert "none; Unroll" in shown and "none; the loops as they were given" in shown and "[]" not in shown


def test_lists_name_devices_by_their_cards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    described = "cuda -arch=sm_80 -multi_processor_count=56 -l2_cache_size_bytes=1048576"
    with open_database(tmp_path / "t.db") as store:
        workload = store.commit_workload(matmul(8))
        for target in ("nvidia/nvidia-a100", described):
            store.commit_tuning_record(TuningRecord(None, workload, [1e-3], target, trace_json=[[], []]))
    for command in ("ls", "top"):
        monkeypatch.setattr(sys, "argv", ["loopsmith", "db", command, str(tmp_path / "t.db")])
        entry.main()
        shown = capsys.readouterr().out
        assert "nvidia/nvidia-a100" in shown and "cuda -arch=sm_80 -multi_processor_count=56" in shown
        assert "l2_cache" not in shown
