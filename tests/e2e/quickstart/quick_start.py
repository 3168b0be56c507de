"""What the quick starts need: their commands, an account, and a cloud whose machines boot here."""

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pytest
from tests.support.cloud_network import (
    USER,
    CloudMachine,
    CloudMachines,
    network_missing,
    network_refused,
)
from tests.support.ssh_machines import a_key
from tests.support.terminal import TypingTerminal

ROOT = Path(__file__).parents[3]
SSH_CONFIG = """\
Host *
  IdentityFile {home}/.ssh/id_ed25519
  UserKnownHostsFile {home}/.ssh/known_hosts
  StrictHostKeyChecking accept-new
"""


def reader_account(folder: Path) -> Mapping[str, str]:
    """Make a home folder with an SSH key; return the environment of its owner's terminals."""
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    (home / ".ssh" / "id_ed25519.pub").write_text(a_key(home / ".ssh" / "id_ed25519") + "\n")
    (home / ".ssh" / "config").write_text(SSH_CONFIG.format(home=home))
    programs = folder / "bin"
    programs.mkdir()
    # OpenSSH looks for its files in the home folder of /etc/passwd, whatever HOME is.
    ssh = programs / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {home}/.ssh/config "$@"\n')
    ssh.chmod(0o755)
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    path = f"{programs}:{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    return kept | {"HOME": str(home), "PATH": path}


def skip_unless_machines_start(folder: Path) -> None:
    """Skip the test where no machine can be started, in a container without privileges."""
    refused = network_missing() or network_refused(folder)
    if refused is not None:
        pytest.skip(refused)


def readme_commands(section: str) -> list[list[str]]:
    """Return the commands of each shell block in a section of the README."""
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.search(rf"^## {section}\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"the README has no section {section!r}"
    blocks = re.findall(r"^```sh\n(.*?)^```$", found[1], re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in blocks]


@dataclass(frozen=True, slots=True)
class MachineAtCloud:
    """What a cloud gives to a machine."""

    address: str
    user_data: bytes
    keys: Sequence[str] = ()


class BootedCloud:
    """Boots here the machines that a cloud has started, and ends those that it has terminated."""

    def __init__(self, folder: Path, started: Callable[[], Mapping[str, MachineAtCloud]]) -> None:
        folder.mkdir()
        self._machines = CloudMachines(folder)
        self._started = started
        self._running: dict[str, CloudMachine] = {}
        self._ended = threading.Event()
        self._threads = ThreadPoolExecutor(1)
        self._following: Future[None] | None = None
        self.count = 0
        """How many machines have booted."""

    def __enter__(self) -> "BootedCloud":
        """Begin to boot machines."""
        self._following = self._threads.submit(self._follow)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """End all machines."""
        self._ended.set()
        self._threads.shutdown()
        self._machines.close()
        self.check()

    def check(self) -> None:
        """Raise the error of a machine that did not boot."""
        if self._following is not None and self._following.done():
            self._following.result()

    @property
    def newest(self) -> CloudMachine:
        """The machine that booted last."""
        return list(self._running.values())[-1]

    def _follow(self) -> None:
        while not self._ended.wait(0.1):
            self._boot_and_end()

    def _boot_and_end(self) -> None:
        started = self._started()
        for name in self._running.keys() - started.keys():
            del self._running[name]
            self._machines.stop(name)
        for name in started.keys() - self._running.keys():
            given = started[name]
            machine = self._machines.start(name, given.address)
            if given.keys:
                machine.authorize(given.keys)
            machine.boot(given.user_data)
            self._running[name] = machine
            self.count += 1


def log_in(terminal: TypingTerminal, line: str) -> None:
    """Open a shell on a machine with this command, and leave it."""
    until(lambda: terminal.succeeds(f"{line} -- true"), within_s=15.0)
    terminal.type(line)
    terminal.wait_for("$ ")
    terminal.type("id -un")
    terminal.wait_for(f"\r\n{USER}\r\n")
    terminal.type("exit")
    terminal.finish()


def until(holds: Callable[[], bool], *, within_s: float = 90.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)
