"""The authority of a fleet: what it makes, for whom, and what a second call leaves as it is."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from typer.testing import CliRunner

from runners import RunnerError
from runners.rpc.certificates import Role, make_certificates, token_file
from runners.rpc.credentials import Credentials
from tuner.cli.main import app


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((path / "own.crt").read_bytes())


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_fleet(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    make_certificates(
        fleet, trackers=["10.0.0.1"], hosts=["dev1"], clients=["alice"], keys=["cpu/zen 4"], days=30
    )
    authority = x509.load_pem_x509_certificate((fleet / "authority.crt").read_bytes())
    for role, name in ((Role.TRACKER, "10.0.0.1"), (Role.SERVER, "dev1"), (Role.CLIENT, "alice")):
        own = certificate(fleet / role.folder / name)
        own.verify_directly_issued_by(authority)
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.UniformResourceIdentifier) == [f"loopsmith:{role}"]
        left = own.not_valid_after_utc - datetime.now(UTC)
        assert timedelta(days=29) < left <= timedelta(days=30)
        held = Credentials.of_folder(fleet / role.folder / name)
        assert held.tokens == {"cpu/zen 4": token_file(fleet, "cpu/zen 4").read_text().strip()}
        assert not (fleet / role.folder / name / "authority.key").exists()
    assert "dev1" in str(certificate(fleet / "servers/dev1").extensions)
    secret = [path for path in contents(fleet) if path.suffix in (".key", ".token")]
    assert len(secret) == 8 and {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}


def test_a_second_call_adds_and_overwrites_nothing(tmp_path: Path) -> None:
    make_certificates(tmp_path, keys=["cpu"])
    before = contents(tmp_path)
    made = make_certificates(tmp_path, hosts=["localhost", "dev2"], clients=["bob"], keys=["cpu", "arm"])
    after = contents(tmp_path)
    assert {path: after[path] for path in before} == before
    assert set(Credentials.of_folder(tmp_path / "servers/dev2").tokens) == {"cpu", "arm"}
    assert set(Credentials.of_folder(tmp_path / "trackers/localhost").tokens) == {"cpu", "arm"}
    assert set(Credentials.of_folder(tmp_path / "clients/client").tokens) == {"cpu"}  # who was not named
    assert tmp_path / "authority.key" in made.kept
    again = make_certificates(tmp_path, hosts=["dev2"], keys=["arm"])
    assert again.written == [] and contents(tmp_path) == after


def test_a_broken_authority_is_not_replaced(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    (tmp_path / "authority.key").unlink()
    with pytest.raises(RunnerError, match="belong together"):
        make_certificates(tmp_path, hosts=["x"])
    assert not (tmp_path / "authority.key").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"hosts": ["../x"]},
        {"clients": [""]},
        {"keys": ["a\nb"]},
        {"keys": ["k" * 61]},
        {"days": 0},
        {"trackers": ["a/b"]},
    ],
)
def test_what_is_no_name_is_refused(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(RunnerError):
        make_certificates(tmp_path / "f", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "f").exists()


def test_secrets_that_others_may_read_are_refused(tmp_path: Path) -> None:
    make_certificates(tmp_path, keys=["cpu"])
    token = tmp_path / "clients/client/tokens/cpu.token"
    token.chmod(0o640)
    with pytest.raises(RunnerError, match="chmod 600"):
        Credentials.of_folder(tmp_path / "clients/client")


def test_the_folder_of_the_whole_fleet_is_nobodys(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    with pytest.raises(RunnerError, match="name the one of who runs here"):
        Credentials.of_folder(tmp_path)
    with pytest.raises(RunnerError, match="loopsmith rpc certs"):
        Credentials.of_folder(tmp_path / "nowhere")


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    make_certificates(tmp_path, keys=["cpu"])
    held = Credentials.of_folder(tmp_path / "clients/client")
    assert "PRIVATE" not in repr(held) and held.tokens["cpu"] not in repr(held)


def test_the_command(tmp_path: Path) -> None:
    run = CliRunner().invoke(
        app, ["rpc", "certs", str(tmp_path / "f"), "--host", "dev1", "--key", "cpu", "--days", "7"]
    )
    assert run.exit_code == 0, run.output
    assert "15 files written, 0 kept" in run.output and "valid until" in run.output
    more = CliRunner().invoke(app, ["rpc", "certs", str(tmp_path / "f"), "--key", "arm"])
    assert "name the hosts and clients that get them" in " ".join(more.output.split())
    wrong = CliRunner().invoke(app, ["rpc", "certs", str(tmp_path / "f"), "--key", "k" * 99])
    assert wrong.exit_code == 1 and isinstance(wrong.exception, RunnerError)
