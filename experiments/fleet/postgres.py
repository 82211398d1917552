"""A PostgreSQL server of one's own that can be killed and started again, with what it has promised on the disk (fsync)."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import time
from pathlib import Path

_START_SECONDS = 60.0
_PROGRAMS = "/usr/lib/postgresql/*/bin"
_USERS = ("postgres", "nobody")
"""Who it runs as where this process is root, which it refuses to be: the first of them that there is."""


def postgres_folder() -> Path | None:
    """Where its programs are; None where there are none."""
    found = shutil.which("initdb")
    folders = [*glob.glob(_PROGRAMS), *([str(Path(found).parent)] if found else [])]
    return next((Path(name) for name in folders if Path(name, "initdb").exists()), None)


class Postgres:
    """A server.

    Args:
        folder: of its files, made for it.
        port: where it listens.

    Raises:
        RuntimeError: there is no PostgreSQL here, or it does not start.
    """

    def __init__(self, folder: Path, port: int) -> None:
        found = postgres_folder()
        if found is None:
            raise RuntimeError("there is no PostgreSQL on this machine: apt-get install postgresql")
        self.port, self._programs, self._folder = port, found, folder
        folder.mkdir(parents=True)
        self._user = _user()
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        made = self._run(
            "initdb",
            "-D",
            str(folder / "data"),
            "-U",
            "loopsmith",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
        )
        if made.wait():
            raise RuntimeError(f"initdb failed: {self._log()}")
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def _run(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        user = self._user
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self._programs / name), *options],
                cwd=self._folder,
                env={**os.environ, "HOME": str(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=None if user is None else user.pw_uid,
                group=None if user is None else user.pw_gid,
                extra_groups=None if user is None else [],
            )

    def _log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-2000:]

    def url(self, port: int | None = None) -> str:
        """For SQLAlchemy; by way of another port where one is given."""
        return f"postgresql+psycopg://loopsmith@127.0.0.1:{port or self.port}/postgres"

    def start(self) -> None:
        """Start it, again after it was killed, as soon as the processes of the killed one have let go of its files."""
        options = ("-D", str(self._folder / "data"), "-h", "127.0.0.1", "-p", str(self.port), "-k", "")
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if self.process is None or self.process.poll() is not None:
                self.process = self._run("postgres", *options)
            if self._run("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)).wait() == 0:
                return
            time.sleep(0.1)
        raise RuntimeError(f"PostgreSQL does not start: {self._log()}")

    def kill(self) -> None:
        """End it by ``kill -9``."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it at once, with all its processes."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(3)  # SIGQUIT: its own way of ending at once
            self.process.wait(_START_SECONDS)


def _user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in _USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise RuntimeError(f"PostgreSQL does not run as root, and there is no user {' or '.join(_USERS)}")
