"""What was typed is kept without what is secret in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from database import SQLDatabase
from ir.target import Target
from runners import ReplayBuilder, ReplayRunner
from tests.programs.expressions import matmul
from tuner import tune_tir
from tuner.session_command import session_command

URL = "postgresql+psycopg://ann:hunter2@server/db?sslpassword=hunter2"


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (["loopsmith", "tune", "net.onnx", "--trials", "8"], "loopsmith tune net.onnx --trials 8"),
        (["/opt/bin/loopsmith", "tune", f"--database={URL}"],
         "loopsmith tune --database=postgresql+psycopg://ann:***@server/db?sslpassword=***"),
        (["/site/tuner/__main__.py", "tune"], "loopsmith tune"),
        (["/site/tuner/cli/main.py", "tune"], "loopsmith tune"),
        (["/home/ann/nightly.py", "--password", "hunter2"], "nightly.py"),
        (["/home/ann/my_tuner", "--password", "hunter2"], "my_tuner"),
        (["-c", "hunter2"], "Python"),
        ([""], "Python"),
        ([], "Python"),
    ],
)  # fmt: skip
def test_the_command_of_a_session_has_no_secrets(arguments: list[str], kept: str) -> None:
    assert session_command(arguments) == kept


def test_no_byte_of_a_database_holds_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tuning.db"
    store = SQLDatabase(path)
    for arguments in (["loopsmith", "tune", "--database", URL], ["nightly.py", "--password", "hunter2"]):
        monkeypatch.setattr(sys, "argv", arguments)
        tune_tir(
            matmul(16), Target("cpu"), None, 1, database=store, calibrate="never", measure_callbacks=[],
            builder=ReplayBuilder(), runner=ReplayRunner(lambda _: 1e-3), strategy="replay-trace",
        )  # fmt: skip
    store.close()
    assert all(b"hunter2" not in file.read_bytes() for file in tmp_path.iterdir())
    assert [item.command for item in SQLDatabase(path).get_sessions()][-1] == "nightly.py"
