"""Shells over SSH, with asyncssh: hundreds of connections in one event loop."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import asyncssh

from navarch.core.bringup import OUTPUT_BYTES_MAX
from navarch.ports.shell import HostKeyError, Login, LoginRefusedError, Ran, Shell, ShellError

CHUNK_BYTES = 16 * 1024
KEEPALIVE_S = 15
"""A machine that vanishes during a command is detected after three of these."""


class SshShells:
    """Logins over SSH. The user's own SSH configuration is not used."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, int], asyncssh.SSHKey] = {}

    async def connect(self, login: Login, *, within: timedelta) -> Shell:
        """Log in to one machine."""
        key = self._key(login.key_file)
        try:
            async with asyncio.timeout(within.total_seconds()):
                connection = await asyncssh.connect(
                    login.address,
                    login.port,
                    username=login.user,
                    client_keys=[key] if key else None,
                    known_hosts=_trusted(login),
                    config=None,
                    agent_path=None,
                    compression_algs=None,
                    keepalive_interval=KEEPALIVE_S,
                    preferred_auth="publickey",
                    # Looking up the local host name takes seconds without a DNS server.
                    gss_host=None,
                )
        except TimeoutError as error:
            raise ShellError(f"{login.address}: no shell within {within}") from error
        except asyncssh.HostKeyNotVerifiable as error:
            raise HostKeyError(
                f"{login.address} has another host key than the pinned one"
            ) from error
        except asyncssh.PermissionDenied as error:
            raise LoginRefusedError(f"{login.address} refuses the key of {login.user}") from error
        except (OSError, asyncssh.Error) as error:
            raise ShellError(f"{login.address}: {error}") from error
        return _SshShell(connection, login.address)

    def _key(self, file: str) -> asyncssh.SSHKey | None:
        """Return the key in `file`, read again when the file changes."""
        if not file:
            return None
        try:
            known = (file, Path(file).stat().st_mtime_ns)
            if known not in self._keys:
                self._keys[known] = asyncssh.read_private_key(file)
        except OSError as error:
            raise ShellError(f"reading SSH private key: {file}: {error.strerror}") from error
        except asyncssh.KeyImportError as error:
            raise ShellError(f"parsing SSH private key: {file}: {error}") from error
        return self._keys[known]


class _SshShell:
    def __init__(self, connection: asyncssh.SSHClientConnection, address: str) -> None:
        self._connection = connection
        self._address = address

    @property
    def host_key(self) -> str:
        """The public key that the machine has proved to hold."""
        key = self._connection.get_server_host_key()
        return key.export_public_key().decode().strip() if key else ""

    async def run(self, command: str, *, within: timedelta) -> Ran:
        """Run one command in its own session."""
        try:
            async with self._connection.create_process(
                command, encoding=None, stdin=asyncssh.DEVNULL
            ) as process:
                return await _collect(process, within)
        except (OSError, asyncssh.Error) as error:
            raise ShellError(f"{self._address}: the connection was lost: {error}") from error

    async def close(self) -> None:
        """Close the connection, without waiting for long."""
        self._connection.close()
        with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
            async with asyncio.timeout(2.0):
                await self._connection.wait_closed()


async def _collect(process: "asyncssh.SSHClientProcess[bytes]", within: timedelta) -> Ran:
    stdout, stderr = _Tail(), _Tail()
    timed_out = False
    try:
        async with asyncio.timeout(within.total_seconds()), asyncio.TaskGroup() as tasks:
            tasks.create_task(_drain(process.stdout, stdout.add))
            tasks.create_task(_drain(process.stderr, stderr.add))
            await process.wait_closed()
    except TimeoutError:
        timed_out = True
        with contextlib.suppress(OSError, asyncssh.Error):
            process.kill()
        process.close()
    lost = process.exit_status is None and process.exit_signal is None
    if lost and not timed_out:
        raise asyncssh.ConnectionLost("no exit status was received")
    code = -1 if timed_out or process.exit_status is None else process.exit_status
    return Ran(exit_code=code, stdout=stdout.text(), stderr=stderr.text(), timed_out=timed_out)


async def _drain(reader: "asyncssh.SSHReader[bytes]", add: Callable[[bytes], None]) -> None:
    # A lost connection is detected by its missing exit status.
    with contextlib.suppress(OSError, asyncssh.Error):
        while chunk := await reader.read(CHUNK_BYTES):
            add(chunk)


class _Tail:
    """The last part of a command's output; earlier output is dropped as it arrives."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = False

    def add(self, chunk: bytes) -> None:
        self._kept += chunk
        if len(self._kept) > 2 * OUTPUT_BYTES_MAX:
            self._trim()

    def text(self) -> str:
        self._trim()
        text = self._kept.decode(errors="replace")
        return f"[...]\n{text}" if self._cut else text

    def _trim(self) -> None:
        if len(self._kept) > OUTPUT_BYTES_MAX:
            self._cut = True
            del self._kept[:-OUTPUT_BYTES_MAX]


def _trusted(login: Login) -> tuple[list[asyncssh.SSHKey], list[object], list[object]] | None:
    if not login.host_key:
        return None
    # The key alone, without a host name before it.
    words = login.host_key.split()
    starts = [i for i, word in enumerate(words) if word.startswith(("ssh-", "ecdsa-", "sk-"))]
    key = " ".join(words[starts[0] : starts[0] + 2]) if starts else login.host_key
    try:
        return [asyncssh.import_public_key(key)], [], []
    except asyncssh.KeyImportError as error:
        raise HostKeyError(
            f"{login.address}: the pinned host key is invalid; write it as ssh-keyscan does"
        ) from error
