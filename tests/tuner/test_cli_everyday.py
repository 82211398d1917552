"""What every command has: a file of options, how much it says, results for programs, completion; and what is here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runners.disturbance import Disturbance
from tuner import doctor as examination
from tuner.cli.main import app
from tuner.cli.reference import reference
from tuner.doctor import Finding, examine
from tuner.zoo.catalog import names

from .command_line import command
from .test_cli import _on_terminal

ROOT = Path(__file__).resolve().parents[2]
onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model, tuned and built."""
    folder = tmp_path_factory.mktemp("everyday")
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [4, 8]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Exp", ["x"], ["y"])], "m", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "m.onnx")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        assert (
            command(monkeypatch, "tune", "m.onnx", "--trials", "2", "--no-check", "--calibrate", "never") == 0
        )
        assert command(monkeypatch, "build", "m.onnx", "-o", "m.so") == 0
    return folder


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def write(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of options of this test alone."""
    path.write_text(text)
    monkeypatch.setenv("LOOPSMITH_CONFIG", str(path))


def test_a_file_of_options_holds_for_commands(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        tmp_path / "options.toml",
        f'database = "{tmp_path}/other.db"\n[tune]\ntrials = 2\ncheck = false\ncalibrate = "never"\n[tasks]\nshape = []\n',
        monkeypatch,
    )
    assert command(monkeypatch, "tune", "m.onnx") == 0
    assert (tmp_path / "other.db").exists() and "/2 trials" in capsys.readouterr().err
    assert command(monkeypatch, "tune", "m.onnx", "--database", str(tmp_path / "typed.db")) == 0
    assert (tmp_path / "typed.db").exists()
    assert command(monkeypatch, "tasks", "m.onnx") == 0


def test_the_nearest_file_above_is_read(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "loopsmith.toml").write_text("[doctor]\nmeasure = 3\n")
    monkeypatch.chdir(below)
    assert command(monkeypatch, "zoo") == 2
    assert f"{tmp_path / 'loopsmith.toml'}: measure takes true or false, got 3" in capsys.readouterr().err
    monkeypatch.setenv("LOOPSMITH_CONFIG", "")
    assert command(monkeypatch, "zoo") == 0
    monkeypatch.delenv("LOOPSMITH_CONFIG")
    (tmp_path / "a" / "loopsmith.toml").write_text("")
    assert command(monkeypatch, "zoo") == 0
    assert command(monkeypatch, "--config", str(tmp_path / "loopsmith.toml"), "zoo") == 2


@pytest.mark.parametrize(
    "text, says",
    [
        ("[tune]\ntrails = 3\n", "[tune] 'trails' is no option; did you mean 'trials'?"),
        ("[db.top]\nrows = 3\n", "[db.top] 'rows' is no option; there are"),
        ("speed = 1\n", "'speed' is no option"),
        ("tune = 3\n", "tune is a command; write its options in a table [tune]"),
        ("[tune.trials]\nx = 1\n", "trials is an option and no table"),
        ("[tune]\nshape = 'x:1'\n", "shape takes a list, got 'x:1'"),
        ("[tune]\ntrials = [1]\n", "trials takes one value, got [1]"),
        ("[tune]\njson = true\n", "'json' is no option"),
        ("[tune\n", "cannot read options from"),
        ("[tune]\ntrials = 'many'\n", "as an integer. It stands in loopsmith.toml, or what --config names."),
    ],
)
def test_mistakes_in_the_file_are_named(
    text: str,
    says: str,
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(tmp_path / "options.toml", text, monkeypatch)
    assert command(monkeypatch, "tune", "m.onnx") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert says in said
    write(tmp_path / "options.toml", "", monkeypatch)
    assert command(monkeypatch, "--config", "missing.toml", "zoo") == 2
    assert "missing.toml: No such file" in capsys.readouterr().err
    monkeypatch.setenv("LOOPSMITH_CONFIG", "missing.toml")
    assert command(monkeypatch, "zoo") == 2
    assert "the environment variable LOOPSMITH_CONFIG names it" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("first", [True, False])
def test_how_much_is_said(
    first: bool,
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def said(option: str, *arguments: str) -> tuple[str, str]:
        line = (option, *arguments) if first else (*arguments, option)
        assert command(monkeypatch, *line) == 0
        found = capsys.readouterr()
        return found.out, found.err

    tune = (
        "tune",
        "m.onnx",
        "--trials",
        "1",
        "--no-check",
        "--calibrate",
        "never",
        "--database",
        f"{tmp_path}/",
    )
    assert said("-q", *tune) == ("", "")
    assert command(monkeypatch, *tune) == 0
    usual = capsys.readouterr()
    assert "records go to" in usual.out and "info:" not in usual.err
    told = said("-v", *tune[:3], "2", *tune[4:])[1]
    assert "info: tuner.scheduler.base: tir_exp: " in told and "debug:" not in told
    assert "debug:" in said("-vv", "build", "m.onnx", "-o", "other.so", "--database", "tuning.db")[1]
    assert "for example" not in said("--quiet", "zoo")[0]


def test_a_command_in_a_process_of_others_begins_anew(here: Path) -> None:
    for option in ("--json", "-q"):
        assert CliRunner().invoke(app, ["zoo", option]).exit_code == 0
        assert "for example" in CliRunner().invoke(app, ["zoo"]).output


def test_results_for_programs(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def result(*arguments: str) -> dict:
        assert command(monkeypatch, *arguments, "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert isinstance(found, dict)
        return found

    assert [item["kernel"] for item in result("tasks", "m.onnx")["tasks"]] == ["tir_exp"]
    tuned = result("tune", "m.onnx", "--trials", "2", "--calibrate", "never")
    assert tuned["kernels"][0]["trials"] == 2 and tuned["median_secs"]["tuned"] > 0
    assert set(tuned["kernels"][0]) >= {"kernel", "weight", "best_secs", "gflops", "share", "failures"}
    ran = result("run", "m.so", "--check", "m.onnx", "--profile")
    assert ran["outputs"][0]["shape"] == [4, 8] and ran["check"]["holds"] is True
    assert "exp" in ran["profile"][0]["name"] and ran["profile"][0]["secs"] > 0
    timed = result("bench", "m.so", "--rounds", "1")
    assert timed["runtimes"][0]["runtime"] == "loopsmith" and timed["runtimes"][0]["ratio"] == 1.0
    assert [item["name"] for item in result("zoo")["architectures"]] == names()
    assert result("devices")["devices"][0]["device"] == "cpu"
    assert any(item["tag"] == "nvidia/nvidia-a100" for item in result("devices", "--tags")["tags"])
    # On a busy machine the measurement is told all the same, and the exit status says that it is not kept.
    assert command(monkeypatch, "calibrate", "--json") in (0, 2)
    assert json.loads(capsys.readouterr().out)["cores"] >= 1


def test_the_zoo_and_the_devices_are_shown(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("zoo", "devices"):
        assert command(monkeypatch, name) == 0
    said = capsys.readouterr().out
    assert "resnet18" in said and "11.7 M" in said and "float32[1, 3, 224, 224]" in said
    assert "llvm -keys=cpu" in said


@pytest.mark.parametrize("columns", [60, 80])
def test_a_small_terminal_has_whole_sentences(columns: int, here: Path) -> None:
    """80 columns in boxes would be longer than 60 without."""
    _, lines = _on_terminal("--help", columns=columns, cwd=here)
    text = " ".join(" ".join(lines).split())
    assert "tidy it up, and move records." in text and "..." not in text.split("Commands:")[1]
    _, lines = _on_terminal("tune", "--help", columns=columns, cwd=here)
    assert not any("│" in line for line in lines) and max(map(len, lines)) <= columns
    _, lines = _on_terminal("doctor", "--no-measure", columns=60, cwd=here)
    assert max(map(len, lines)) <= 60 and any(line.startswith("software, python, 3.") for line in lines)


def test_what_does_not_work_is_a_problem(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "doctor", "--no-measure") == 0
    assert "everything that is always needed works" in capsys.readouterr().out
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert command(monkeypatch, "doctor", "--no-measure", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    linker = next(item for item in found["findings"] if item["what"] == "linker")
    assert found["problems"] == 1 and linker["is_problem"] and "install gcc" in linker["advice"]


def test_extras_that_are_not_there_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        examination,
        "requires",
        lambda _: ["numpy>=2", 'absent_package>=1; extra == "odd"', 'ruff; extra == "dev"'],
    )
    extras = [item for item in examine(measures=False) if item.topic == "extras"]
    assert extras == [
        Finding("extras", "odd", "without absent_package", "pip install 'loopsmith[odd]' where it is wanted")
    ]


def test_the_machine_is_measured_and_noise_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination.Watch, "lap", lambda self: Disturbance(others=0.5))
    found = {(item.topic, item.what): item for item in examine()}
    assert found["noise", "now"].advice and "50%" in found["noise", "now"].says
    assert any(topic == "peak" for topic, _ in found)
    assert not any(item.is_problem for item in found.values())


def test_the_shell_completes(tmp_path: Path) -> None:
    def completed(words: str) -> list[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_LOOPSMITH_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        program = "import sys; sys.argv[0] = 'loopsmith'; from tuner.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        return done.stdout.split()

    assert completed("loopsmith tune --zoo ") == names()
    assert "nvidia/nvidia-a100" in completed("loopsmith tune --target nvidia/nvidia-a")
    assert set(completed("loopsmith d")) >= {"db", "devices", "doctor"}


def test_the_page_of_the_commands_is_theirs() -> None:
    """``python -m tuner.cli.reference > docs/cli.md`` makes it."""
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == reference()
