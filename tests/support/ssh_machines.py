"""Local SSH machines: servers in this process, and the real sshd, on loopback addresses.

Each machine has its own loopback address and its own folder, in which its commands run.
"""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from navarch.ports.shell import Login


@dataclass(frozen=True, slots=True, kw_only=True)
class SshMachine:
    """One machine with an SSH server."""

    login: Login
    folder: Path


def address_of(index: int) -> str:
    return f"127.77.{index // 250}.{index % 250 + 1}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((address_of(0), 0))
        port: int = probe.getsockname()[1]
        return port


def a_key(file: Path) -> str:
    """Write a private key and return its public key."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(str(file))
    file.chmod(0o600)
    return key.export_public_key().decode().strip()


def _prepare(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "authorized").write_text(a_key(folder / "login-key") + "\n")


LOSE = "lose"
"""The file that selects connections to lose: `before` or `after`, and a part of the command."""


def lose_connections(machines: Sequence[SshMachine], when: str, part: str) -> None:
    """Close the connection of commands that contain `part`, `before` or `after` they run."""
    (machines[0].folder.parent / LOSE).write_text(f"{when} {part}\n")


def keep_connections(machines: Sequence[SshMachine]) -> None:
    """Stop closing connections."""
    (machines[0].folder.parent / LOSE).unlink(missing_ok=True)


def _is_lost(folder: Path, command: str, when: str) -> bool:
    try:
        when_lost, _, part = (folder / LOSE).read_text().strip().partition(" ")
    except FileNotFoundError:
        return False
    return when_lost == when and part in command


_FORCED = """\
cd "$1"
lose() {
  [ -e ../lose ] && read -r when part < ../lose && [ "$when" = "$1" ] || return 0
  case "$SSH_ORIGINAL_COMMAND" in *"$part"*) kill -KILL "$PPID"; exit 255 ;; esac
}
lose before
sh -c "$SSH_ORIGINAL_COMMAND"
code=$?
lose after
exit $code
"""
"""The script that the real sshd runs for every command. Its parent is the connection's sshd."""


class _Server(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:  # noqa: ARG002 - every user with the key
        return True


@asynccontextmanager
async def ssh_servers(
    folder: Path, count: int, *, command_s: float | None = None
) -> AsyncIterator[Sequence[SshMachine]]:
    """Serve SSH in this process at `count` addresses.

    Commands are run by a real shell, or with `command_s` only take that long.
    """
    _prepare(folder)
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    pinned = host_key.export_public_key().decode().strip()
    port = free_port()
    servers = []
    machines = []
    for index in range(count):
        home = folder / f"m{index}"
        home.mkdir(exist_ok=True)

        async def handle(process: "asyncssh.SSHServerProcess[bytes]", home: Path = home) -> None:
            if command_s is not None:
                await asyncio.sleep(command_s)
                process.exit(0)
                return
            command = process.command or "true"
            if _is_lost(folder, command, "before"):
                process.channel.get_connection().abort()
                return
            child = await asyncio.create_subprocess_shell(
                command,
                cwd=home,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                stdin=asyncio.subprocess.DEVNULL,
            )
            out, err = await child.communicate()
            if _is_lost(folder, command, "after"):
                process.channel.get_connection().abort()
                return
            process.stdout.write(out)
            process.stderr.write(err)
            process.exit(child.returncode or 0)

        servers.append(
            await asyncssh.listen(
                address_of(index),
                port,
                server_factory=_Server,
                server_host_keys=[host_key],
                authorized_client_keys=str(folder / "authorized"),
                process_factory=handle,
                encoding=None,
            )
        )
        login = Login(
            address=address_of(index),
            port=port,
            user="root",
            key_file=str(folder / "login-key"),
            host_key=pinned,
        )
        machines.append(SshMachine(login=login, folder=home))
    try:
        yield machines
    finally:
        for server in servers:
            server.close()
        for server in servers:
            await server.wait_closed()


def sshd_missing() -> str | None:
    """Return why the real sshd cannot be used here; None if it can."""
    if not Path("/usr/sbin/sshd").exists():
        return "there is no /usr/sbin/sshd here (Debian: openssh-server)"
    if os.geteuid() != 0:
        return "sshd needs root to log in other users"
    return None


ADDRESSES_MAX = 16
"""The most addresses that one sshd listens on."""


@contextmanager
def real_sshd(folder: Path, count: int) -> Iterator[Sequence[SshMachine]]:
    """Run OpenSSH's own server at `count` addresses."""
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    _prepare(folder)
    pinned = a_key(folder / "host-key")
    port = free_port()
    machines = []
    for index in range(count):
        home = folder / f"m{index}"
        home.mkdir(exist_ok=True)
        login = Login(
            address=address_of(index),
            port=port,
            user="root",
            key_file=str(folder / "login-key"),
            host_key=pinned,
        )
        machines.append(SshMachine(login=login, folder=home))
    with ExitStack() as stack:
        for first in range(0, count, ADDRESSES_MAX):
            served = machines[first : first + ADDRESSES_MAX]
            stack.enter_context(_sshd(folder, f"sshd{first}", served))
        yield machines


@contextmanager
def _sshd(folder: Path, name: str, machines: Sequence[SshMachine]) -> Iterator[None]:
    lines = [
        f"Port {machines[0].login.port}",
        f"HostKey {folder}/host-key",
        f"AuthorizedKeysFile {folder}/authorized",
        f"PidFile {folder}/{name}.pid",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "PermitRootLogin yes",
        "MaxStartups 500:30:1000",
        "PrintMotd no",
        "UseDNS no",
        # Keeps the developer's ~/.bashrc from affecting commands.
        "SetEnv SHLVL=2",
    ]
    lines += [f"ListenAddress {machine.login.address}" for machine in machines]
    for machine in machines:
        lines += [
            f"Match LocalAddress {machine.login.address}",
            f"  ForceCommand exec sh {folder}/forced {machine.folder}",
        ]
    (folder / "forced").write_text(_FORCED)
    config, log = folder / f"{name}.conf", folder / f"{name}.log"
    config.write_text("\n".join(lines) + "\n")
    with log.open("wb") as writing:
        daemon = subprocess.Popen(
            [shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-e", "-f", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=writing,
        )
    try:
        for machine in machines:
            _wait_for(machine.login, daemon, log)
        yield
    finally:
        daemon.terminate()
        daemon.wait()


def _wait_for(login: Login, daemon: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(200):
        if daemon.poll() is not None:
            raise RuntimeError(f"sshd ended: {log.read_text()[-500:]}")
        try:
            socket.create_connection((login.address, login.port), timeout=0.2).close()
        except OSError:
            try:
                daemon.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
        else:
            return
    raise RuntimeError(f"sshd did not come up: {log.read_text()[-500:]}")
