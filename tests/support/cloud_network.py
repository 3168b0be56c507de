"""A network with a server and the machines of a cloud, in namespaces of this machine.

The calling thread and the processes that it starts have the network to themselves, with every port
free. A machine is a real systemd that boots an image with a stand-in for the driver, reachable at
the public address that its cloud reports, with the real sshd. Its kernel log is a pipe.
"""

import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from pathlib import Path

from tests.support.nvml_stand_in import Mood, build_stand_in, set_mood
from tests.support.ssh_machines import sshd_missing
from tests.support.systemd_machine import (
    MachineDidNotStartError,
    SystemdMachine,
    machine_missing,
    systemd_machine,
)

SERVER = "navarch.example.com"
ADDRESS = "10.77.0.1"
"""The address of the server, and of the local clouds."""
USER = "ubuntu"
NEW_NETWORK = 0x40000000

IMAGE = """\
printf '127.0.0.1 localhost\\n{address} {server}\\n' > /etc/hosts
: > /etc/resolv.conf
rm -f /etc/systemd/journald.conf.d/*
printf '[Journal]\\nReadKMsg=no\\n' > /etc/systemd/journald.conf
mount --bind {shared}/kmsg /dev/kmsg
cp {shared}/libnvidia-ml.so.1 /usr/lib/
mkdir -p /etc/systemd/system/navarch-agent.service.d /run/sshd
cp {shared}/hardware.conf /etc/systemd/system/navarch-agent.service.d/
id {user} > /dev/null 2>&1 || useradd --create-home --shell /bin/sh {user}
usermod --password '*' {user}
install -d -o {user} -m 700 /home/{user}/.ssh
hostname {name}
"""
"""What the image of a cloud contains. The driver is a stand-in, and the kernel's log is a pipe."""

HARDWARE = """\
[Service]
Environment=STAND_IN_GPUS=8 STAND_IN_FAILS=idle STAND_IN_MOOD={shared}/mood
"""


def network_missing() -> str | None:
    """Return which program such a network lacks here; None if there are all."""
    missing = machine_missing() or sshd_missing()
    if missing is None and shutil.which("cc") is None:
        return "no C compiler for the stand-in of the driver (Debian: gcc)"
    return missing


def network_refused(folder: Path) -> str | None:
    """Return why such a network cannot be started here; None if it does."""
    folder.mkdir()
    try:
        with own_network(), systemd_machine(folder, folder, []):
            return None
    except (OSError, subprocess.CalledProcessError, MachineDidNotStartError) as error:
        return f"no machine in namespaces can be started here: {error}"


@contextmanager
def own_network() -> Iterator[None]:
    """Give the calling thread a network of its own until the block ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        _ip("link", "set", "lo", "up")
        _ip("address", "add", f"{ADDRESS}/32", "dev", "lo")
        yield
    finally:
        libc.setns(before, NEW_NETWORK)
        os.close(before)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@dataclass
class CloudMachine:
    """A machine that has booted."""

    systemd: SystemdMachine
    folder: Path
    kernel_log: int = field(repr=False)
    """The end of the pipe to write to."""
    sequence: int = 0

    def boot(self, user_data: bytes) -> str:
        """Do with user data what cloud-init does; return the output."""
        parts = list(message_from_bytes(user_data).walk())
        output = ""
        for part in parts if len(parts) > 1 else []:
            text = part.get_payload(decode=True)
            if part.get_content_type() == "text/cloud-config":
                assert isinstance(text, bytes)
                self.authorize(_keys(text))
            elif part.get_content_type() == "text/x-shellscript":
                assert isinstance(text, bytes)
                output += self._run(text)
        return output if len(parts) > 1 else self._run(user_data)

    def _run(self, script: bytes) -> str:
        assert script.startswith(b"#!"), script[:80]
        file = self.folder / "user-data"
        file.write_bytes(script)
        file.chmod(0o700)
        ran = self.systemd.run(str(file))
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr

    def authorize(self, public_keys: Sequence[str]) -> None:
        """Let these keys log in, as a cloud and cloud-init do."""
        file = self.folder / "keys"
        file.write_text("".join(f"{key}\n" for key in public_keys))
        target = f"/home/{USER}/.ssh/authorized_keys"
        ran = self.systemd.run("install", "-o", USER, "-m", "600", str(file), target)
        assert ran.returncode == 0, ran.stderr

    def report_xid(self, code: int, gpu: int) -> None:
        """Write what the driver writes to the kernel's log."""
        self.sequence += 1
        micros = time.monotonic_ns() // 1000
        words = f"NVRM: Xid (PCI:0000:{gpu + 1:02x}:00): {code}, GPU has fallen off the bus."
        os.write(self.kernel_log, f"4,{self.sequence},{micros},-;{words}\n".encode())


def _keys(cloud_config: bytes) -> list[str]:
    import yaml

    return list(yaml.safe_load(cloud_config)["ssh_authorized_keys"])


class CloudMachines:
    """The machines of a cloud that run here, by the name that the cloud gives them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stacks: dict[str, ExitStack] = {}
        self._built = folder / "image"
        self._built.mkdir()
        assert build_stand_in(self._built) is not None, "there is no C compiler"

    def start(self, name: str, address: str) -> CloudMachine:
        """Boot the machine `name`, reachable at `address`."""
        shared = self._folder / f"m{len(self._stacks)}"
        folder = shared / "machine"
        folder.mkdir(parents=True)
        (shared / "libnvidia-ml.so.1").write_bytes((self._built / "libnvidia-ml.so.1").read_bytes())
        (shared / "hardware.conf").write_text(HARDWARE.format(shared=shared))
        set_mood(shared / "mood", Mood.WELL)
        os.mkfifo(shared / "kmsg")
        kernel_log = os.open(shared / "kmsg", os.O_RDWR | os.O_NONBLOCK)
        commands = IMAGE.format(
            shared=shared, server=SERVER, address=ADDRESS, user=USER, name="machine"
        )
        stack = self._stacks[name] = ExitStack()
        stack.callback(os.close, kernel_log)
        systemd = stack.enter_context(systemd_machine(folder, shared, commands.splitlines()))
        self._connect(systemd, address)
        systemd.until("/usr/sbin/sshd", "-o", "UsePAM=no", "-o", "UseDNS=no")
        return CloudMachine(systemd, shared, kernel_log)

    def _connect(self, systemd: SystemdMachine, address: str) -> None:
        ours = f"m{len(self._stacks)}"
        _ip("link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", str(systemd.pid))
        _ip("link", "set", ours, "up")
        _ip("route", "add", address, "dev", ours)
        for words in (
            f"address add {address}/32 dev eth0",
            "link set eth0 up",
            f"route add {ADDRESS} dev eth0",
            f"route add default via {ADDRESS}",
        ):
            ran = systemd.run("ip", *words.split())
            assert ran.returncode == 0, ran.stderr

    def stop(self, name: str) -> None:
        """End a machine, as its cloud does."""
        self._stacks[name].close()

    def close(self) -> None:
        """End all machines."""
        for stack in self._stacks.values():
            stack.close()
