"""A shell over SSH reports the result of a command, or that it is unknown."""

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.ssh_machines import (
    SshMachine,
    lose_connections,
    real_sshd,
    ssh_servers,
    sshd_missing,
)

from navarch.ports.shell import ShellError
from navarch.ssh.client import SshShells

WITHIN = timedelta(seconds=10)
SERVERS = [
    "in this process",
    pytest.param(
        "OpenSSH",
        marks=pytest.mark.skipif(sshd_missing() is not None, reason=str(sshd_missing())),
    ),
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("server", SERVERS)
def test_a_connection_lost_during_a_command_is_an_error_not_an_exit_code(
    server: str, when: str
) -> None:
    async def story(machine: SshMachine) -> None:
        shell = await SshShells().connect(machine.login, within=WITHIN)
        lose_connections([machine], when, "touch")
        with pytest.raises(ShellError, match="connection was lost"):
            await shell.run("touch here", within=WITHIN)
        await shell.close()
        assert (machine.folder / "here").exists() is (when == "after")

    async def in_this_process(folder: Path) -> None:
        async with ssh_servers(folder, 1) as machines:
            await story(machines[0])

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "ssh"
        if server == "OpenSSH":
            with real_sshd(folder, 1) as machines:
                asyncio.run(story(machines[0]))
        else:
            asyncio.run(in_this_process(folder))
