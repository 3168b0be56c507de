"""A real PostgreSQL server on a free port of this machine, with a fresh database directory."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import glob
from itertools import count
from pathlib import Path
from shlex import quote
from tempfile import mkdtemp

from tests.support.fleet_process import free_port

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # The operating system survives every test, so nothing needs to reach the disk.
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
}


def missing_postgres() -> str | None:
    """Return why no server can be started here, or None."""
    if _programs() is None:
        return "PostgreSQL is not installed (apt-get install postgresql)"
    if os.geteuid() == 0 and _unprivileged() is None:
        return "PostgreSQL does not run as root, and there is no user `postgres`"
    return None


class PostgresServer:
    """One server; it can be killed, paused and started again on the same data."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        standby_of: "PostgresServer | None" = None,
    ) -> None:
        """With `standby_of`, copy the data of that server and follow it until `promote`."""
        programs = _programs()
        assert programs is not None
        self._programs = programs
        self._user = _unprivileged() if os.geteuid() == 0 else None
        self._folder = folder
        self._data = folder / "data"
        self._settings = {**SETTINGS, **(settings or {})}
        self._schemas = count()
        # It is free again while the server is down, and no connection takes it then.
        self.port = free_port()
        if self._user is not None:
            shutil.chown(folder, self._user)
        if standby_of is not None:
            self._copy(standby_of)
            return
        command = ["initdb", "--no-sync", "--auth=trust", "--username=navarch", "--encoding=UTF8"]
        self._run(*command, "--locale=C", f"--pgdata={self._data}")

    def _copy(self, primary: "PostgresServer") -> None:
        source = ["--host=127.0.0.1", f"--port={primary.port}", "--username=navarch"]
        how = ["--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync"]
        self._run("pg_basebackup", *source, *how, f"--pgdata={self._data}")

    @property
    def url(self) -> str:
        """The URL of the database `postgres` of this server."""
        return f"postgresql://navarch@127.0.0.1:{self.port}/postgres"

    @property
    def log(self) -> Path:
        """What the server has written."""
        return self._folder / "log"

    def new_url(self) -> str:
        """Return the URL of a new, empty schema."""
        schema = f"test_{next(self._schemas)}"
        self.execute(f"CREATE SCHEMA {schema}")
        return f"{self.url}?options=-csearch_path%3D{schema}"

    def execute(self, script: str, url: str | None = None) -> list[tuple[object, ...]]:
        """Run SQL as an operator would, and return the rows."""
        import psycopg

        with psycopg.connect(url or self.url, autocommit=True) as connection:
            cursor = connection.execute(script.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        settings = {**self._settings, "port": self.port, "unix_socket_directories": self._folder}
        options = " ".join(f"-c {name}={quote(str(value))}" for name, value in settings.items())
        log = f"--log={self.log}"
        self._run("pg_ctl", "start", "--wait", f"--pgdata={self._data}", log, "-o", options)

    def kill(self) -> None:
        """End every process of the server with SIGKILL, as a crash of its machine does."""
        pids = self.pids()
        _signal(pids, signal.SIGKILL)
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            os.sched_yield()
        (self._data / "postmaster.pid").unlink()

    def signal(self, number: int) -> None:
        """Send a signal to every process of the server, to pause it for example."""
        _signal(self.pids(), number)

    def stop(self, mode: str = "fast") -> None:
        """End the server and its sessions; with the mode `immediate`, without a checkpoint."""
        self._run("pg_ctl", "stop", "--wait", f"--mode={mode}", f"--pgdata={self._data}")

    def promote(self) -> None:
        """Let a standby become a primary."""
        self._run("pg_ctl", "promote", "--wait", f"--pgdata={self._data}")

    @property
    def running(self) -> bool:
        """Whether the server was started and neither stopped nor killed."""
        return (self._data / "postmaster.pid").exists()

    def pids(self) -> list[int]:
        """Return the server process and its children, of which each has a session of its own."""
        parent = int((self._data / "postmaster.pid").read_text("utf-8").split()[0])
        mine = [parent]
        for path in glob("/proc/[0-9]*/stat"):
            try:
                fields = Path(path).read_text("utf-8").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                mine.append(int(path.split("/")[2]))
        return mine

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            user=self._user,
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Run a server until the block ends."""
    folder = Path(mkdtemp(prefix="navarch-postgres-"))  # short: it holds a Unix socket
    folder.chmod(0o755)
    try:
        server = PostgresServer(folder)
        server.start()
        try:
            yield server
        finally:
            if server.running:
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # Background workers come and go.
            os.kill(pid, number)


def _programs() -> Path | None:
    """Return the folder of the newest installed version."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    installed = [Path(x) for x in glob("/usr/lib/postgresql/*/bin/initdb")]
    newest = max(installed, key=lambda path: int(path.parts[-3]), default=None)
    return None if newest is None else newest.parent


def _unprivileged() -> int | None:
    try:
        return pwd.getpwnam("postgres").pw_uid
    except KeyError:
        return None
