"""Machines on a network of their own: each is a network namespace, behind one switch.

The switch is the bridge of another namespace, in which the control plane listens. Nothing of it
reaches the network of the host.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

NEEDED = ("unshare", "nsenter", "ip", "sshd", "ssh-keygen")

SWITCH = "10.77.0.1"
"""The address of the namespace with the bridge."""


def network_missing() -> str | None:
    """Return why there can be no such network here; None if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    attempt = "ip link add br0 type bridge && ip link add veth0 type veth peer name veth1"
    tried = subprocess.run(["unshare", "-n", "sh", "-c", attempt], capture_output=True, check=False)
    return None if tried.returncode == 0 else f"no bridge: {tried.stderr.decode().strip()}"


@dataclass(slots=True)
class Namespace:
    """A network namespace, held by a process that sleeps."""

    address: str
    holder: "subprocess.Popen[bytes]"

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs `words` in this namespace."""
        return ["nsenter", "--net", "--target", str(self.holder.pid), *words]

    def ip(self, words: str) -> None:
        """Change links, addresses or routes."""
        subprocess.run(self.command("ip", *words.split()), check=True)


@dataclass(slots=True)
class MachineNetwork:
    """The switch, the machines behind it, and the processes that run there."""

    folder: Path
    switch: Namespace
    machines: list[Namespace] = field(default_factory=list)
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def add_machine(self) -> Namespace:
        """Connect one more machine, with a real SSH server."""
        number = len(self.machines)
        machine = Namespace(f"10.77.0.{number + 11}", _hold())
        self.machines.append(machine)
        self.switch.ip(f"link add port{number} type veth peer name eth0 netns {machine.holder.pid}")
        self.switch.ip(f"link set port{number} master br0 up")
        machine.ip("link set lo up")
        machine.ip("link set eth0 up")
        machine.ip(f"address add {machine.address}/24 dev eth0")
        key = self.folder / "host-key"
        if not key.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        program = shutil.which("sshd")
        assert program is not None
        config = ("-f", "/dev/null", "-h", str(key), "-o", "PidFile=none", "-o", "UsePAM=no")
        self.start(machine, f"sshd-{number}", [program, "-D", "-e", *config])
        return machine

    def start(self, where: Namespace, name: str, words: Sequence[str]) -> None:
        """Run a program until the end; its output is in the folder, under its name."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("NAVARCH_")}
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                where.command(*words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        self.processes.append(process)

    def log(self, name: str) -> str:
        """Return the end of the output of a program."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]

    def forbid_server(self, machine: Namespace) -> None:
        """Cut a machine off from the control plane; other machines still reach it."""
        machine.ip(f"route add unreachable {SWITCH}/32")

    def allow_server(self, machine: Namespace) -> None:
        """Let a machine reach the control plane again."""
        machine.ip(f"route del unreachable {SWITCH}/32")

    def unplug(self, machine: Namespace) -> None:
        """Pull the cable of a machine."""
        self.switch.ip(f"link set port{self.machines.index(machine)} down")

    def plug_in(self, machine: Namespace) -> None:
        """Put the cable back."""
        self.switch.ip(f"link set port{self.machines.index(machine)} up")


@contextmanager
def machine_network(folder: Path) -> Iterator[MachineNetwork]:
    """Make a network without machines; end everything that runs in it afterwards."""
    network = MachineNetwork(folder, Namespace(SWITCH, _hold()))
    try:
        network.switch.ip("link set lo up")
        network.switch.ip("link add br0 type bridge")
        network.switch.ip(f"address add {SWITCH}/24 dev br0")
        network.switch.ip("link set br0 up")
        yield network
    finally:
        holders = [each.holder for each in (network.switch, *network.machines)]
        for process in (*network.processes, *holders):
            process.kill()
            process.wait()


def _hold() -> "subprocess.Popen[bytes]":
    """Start a process in a new network namespace, and wait until it is there."""
    holder = subprocess.Popen(
        ["unshare", "-n", "sh", "-c", "echo; exec sleep infinity"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline(), "the namespace was not made"
    holder.stdout.close()
    return holder
