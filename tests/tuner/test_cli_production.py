"""``loopsmith build --lock``, ``lock`` and ``inspect``: what production builds say, and with which status they end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from database import open_database
from database.tuning_lock import LockError, TuningLock
from ir.relax.frontend.onnx import to_onnx
from runners.program import ExecutableError
from tests.tuner.locked_model import model, tuned
from tuner.cli.main import app
from tuner.error import TunerError
from tuner.model import load_model


def loopsmith(*arguments: object) -> Result:
    """What a command prints; errors of the user are raised, as the process's entry point gets them."""
    done = CliRunner().invoke(app, [str(item) for item in arguments], standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def status(done: Result) -> int:
    """What the process would end with."""
    return done.return_value or 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, a database with records of the first, and what a strict build with it has written."""
    pytest.importorskip("onnx")
    made = tmp_path_factory.mktemp("production")
    for name, rows in (("net", 8), ("other", 9)):
        (made / f"{name}.onnx").write_bytes(to_onnx(model(rows), {}).SerializeToString())
    tuned(made / "tuning.db", load_model(made / "net.onnx", None, []).mod).close()
    done = loopsmith(
        *("build", made / "net.onnx", "--database", made / "tuning.db", "--strict", "--lock", made / "tuning.lock"),
        *("--prefix", "net", "--licence", "MIT", "-o", made / "net.so"),
    )  # fmt: skip
    assert f"wrote {made / 'tuning.lock'}" in done.output.replace("\n", "")
    return made


def test_the_next_build_needs_the_lock_alone(folder: Path, tmp_path: Path) -> None:
    done = loopsmith(
        *("build", folder / "net.onnx", "--strict", "--lock", folder / "tuning.lock", "--prefix", "net"),
        *("--licence", "MIT", "-o", tmp_path / "net.so"),
    )
    assert "pinned the records; no database was opened" in " ".join(done.output.split())
    assert (tmp_path / "net.so").read_bytes() == (folder / "net.so").read_bytes()
    assert "net_main_run" in (tmp_path / "net.h").read_text()


def test_mistakes_are_found_before_the_build(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TunerError, match="--update-lock writes the file that --lock names"):
        loopsmith("build", folder / "net.onnx", "--update-lock", "-o", tmp_path / "net.so")
    with pytest.raises(Exception, match="the prefix 'a-b' is no name in C"):
        loopsmith("build", folder / "net.onnx", "--prefix", "a-b", "-o", tmp_path / "net.so")
    with pytest.raises(LockError, match="not the one that .* was written for"):
        loopsmith("build", folder / "other.onnx", "--lock", folder / "tuning.lock", "-o", tmp_path / "net.so")
    assert not (tmp_path / "net.so").exists()


def test_check_passes_what_is_right(folder: Path) -> None:
    for arguments in ([], [folder / "net.onnx"], ["--target", "cpu"]):
        done = loopsmith("lock", "check", folder / "tuning.lock", *arguments)
        assert status(done) == 0 and "each of 2 kernels has a record" in done.output


def test_check_names_kernels_without_a_record(folder: Path, tmp_path: Path) -> None:
    mod = load_model(folder / "net.onnx", None, []).mod
    tuned(tmp_path / "half.db", mod, count=1).close()
    loopsmith(
        *("build", folder / "net.onnx", "--database", tmp_path / "half.db", "--lock", tmp_path / "half.lock"),
        *("-o", tmp_path / "half.so"),
    )
    done = loopsmith("lock", "check", tmp_path / "half.lock")
    assert status(done) == 1 and "softmax: no record; a build takes the default schedule" in done.output


def test_check_names_kernels_of_another_target_and_model(folder: Path) -> None:
    done = loopsmith("lock", "check", folder / "tuning.lock", "--target", "llvm -mcpu=x86-64-v2")
    assert status(done) == 1 and done.output.count("a record of another target (mcpu") == 2
    done = loopsmith("lock", "check", folder / "tuning.lock", folder / "other.onnx")
    assert status(done) == 1 and done.output.count("not in the lock") == 2
    assert done.output.count("no kernel of the model any more") == 2


def test_show_and_diff(folder: Path, tmp_path: Path) -> None:
    shown = loopsmith("lock", "show", folder / "tuning.lock").output
    lock = TuningLock.read(folder / "tuning.lock")
    assert all(kernel.record and kernel.record["id"][:8] in shown for kernel in lock.kernels)
    same = loopsmith("lock", "diff", folder / "tuning.lock", folder / "tuning.lock")
    assert status(same) == 0 and "both pin the same" in same.output
    tuned(tmp_path / "tuning.db", load_model(folder / "net.onnx", None, []).mod, secs=5e-4).close()
    loopsmith(
        *(
            "build",
            folder / "net.onnx",
            "--database",
            tmp_path / "tuning.db",
            "--lock",
            tmp_path / "new.lock",
        ),
        *("-o", tmp_path / "net.so"),
    )
    done = loopsmith("lock", "diff", folder / "tuning.lock", tmp_path / "new.lock")
    assert status(done) == 1 and done.output.count("1.0000 ms (record") == 2
    assert done.output.count("-> 0.5000 ms (record") == 2


def test_inspect_tells_where_a_library_comes_from(folder: Path) -> None:
    output = loopsmith("inspect", folder / "net.so").output
    assert "model       net " in output and "licences    runtime: Apache-2.0, model: MIT" in output
    assert "function    main(x), native" in output and "the checksum is right" in output
    told = json.loads(loopsmith("inspect", folder / "net.so", "--json").output)
    provenance = told["provenance"]
    locked = TuningLock.read(folder / "tuning.lock")
    assert provenance["lock"] == locked.checksum and told["prefix"] == "net"
    assert {item["record"] for item in provenance["kernels"]} == {
        kernel.record["id"] for kernel in locked.kernels if kernel.record
    }
    assert len(open_database(folder / "tuning.db")) == 2


def test_inspect_refuses_what_is_damaged(folder: Path, tmp_path: Path) -> None:
    data = bytearray((folder / "net.so").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "net.so").write_bytes(data)
    with pytest.raises(ExecutableError, match="was changed or cut short"):
        loopsmith("inspect", tmp_path / "net.so")


@pytest.fixture(scope="module")
def open_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library for any number of rows, beside the ONNX file."""
    onnx = pytest.importorskip("onnx")
    made = tmp_path_factory.mktemp("open")
    helper = onnx.helper
    x, y = (helper.make_tensor_value_info(name, 1, ["rows", size]) for name, size in (("x", 16), ("y", 4)))
    weight = onnx.numpy_helper.from_array(np.eye(16, 4, dtype="float32"), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "open", [x], [y], [weight])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), made / "open.onnx")
    with pytest.raises(TunerError, match="dynamic dimensions have no value"):
        loopsmith("build", made / "open.onnx", "-o", made / "open.so")
    loopsmith("build", made / "open.onnx", "--dynamic", "-o", made / "open.so")
    return made / "open.so"


def test_a_library_of_open_dimensions_runs_on_shapes_that_are_named(
    open_library: Path, tmp_path: Path
) -> None:
    done = loopsmith("run", open_library, "--shape", "x:3,16")
    assert "output 0: float32[3, 4]" in done.output
    np.savez(tmp_path / "inputs.npz", x=np.arange(32, dtype="float32").reshape(2, 16))
    arguments = ("--inputs", tmp_path / "inputs.npz", "--outputs", tmp_path / "outputs.npz")
    loopsmith("run", open_library, *arguments)
    np.testing.assert_array_equal(
        np.load(tmp_path / "outputs.npz")["arr_0"], [[0, 1, 2, 3], [16, 17, 18, 19]]
    )
    assert "loopsmith" in loopsmith("bench", open_library, "--shape", "x:3,16", "--rounds", 1).output


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ([], r"input x \(rows,16\) has open dimensions; .* --shape x:1,16"),
        (["x:3,15"], r"--shape x:3,15 does not fit input x \(rows,16\)"),
        (["x:3"], "does not fit input x"),
        (["x:3,16", "z:1"], "--shape z: the model has no such input; it has x"),
    ],
)
@pytest.mark.parametrize("command", ["run", "bench"])
def test_shapes_that_do_not_fit_are_named(
    command: str, shapes: list[str], says: str, open_library: Path
) -> None:
    with pytest.raises(TunerError, match=says):
        loopsmith(command, open_library, *(item for text in shapes for item in ("--shape", text)))
