"""A machine with a real systemd as its first process, in namespaces of this one.

Its root folder is a copy-on-write view of this machine's, without services of its own. It has the
host's network while its commands run, and only loopback once it has started.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE_S = 60.0

ENTER = """\
set -e
mount --make-rprivate /
mount -t tmpfs layers "$0"
mkdir "$0/upper" "$0/work" "$0/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" "$0/root"
cd "$0/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs run run
mount -t tmpfs tmp tmp
mkdir -p ".$1" old
mount --rbind "$1" ".$1"
rm -rf lib/systemd/system/*.wants etc/systemd/system/*.wants etc/systemd/system/*.requires
for unit in systemd-networkd systemd-networkd-wait-online systemd-remount-fs systemd-udevd; do
  ln -sf /dev/null etc/systemd/system/$unit.service
done
printf '[Unit]\\nRequires=systemd-journald.service\\n' > etc/systemd/system/navarch-test.target
pivot_root . old
cd /
umount -l /old
sh -e "$2"
exec unshare --net sh -c "ip link set lo up; container=other exec /lib/systemd/systemd \\
  --system --unit=navarch-test.target --log-target=null --show-status=0"
"""


class MachineDidNotStartError(RuntimeError):
    """systemd cannot be the first process of a namespace here."""


class SystemdMachine:
    """A running machine."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._enter = ["nsenter", f"--target={pid}", "--mount", "--pid", "--net", "--root", "--wd"]

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a program on the machine."""
        return subprocess.run(
            [*self._enter, *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )

    def until(self, *words: str) -> str:
        """Run a program until it succeeds; return its output."""
        deadline = time.monotonic() + PATIENCE_S
        while (ran := self.run(*words)).returncode:
            if time.monotonic() > deadline:
                journal = self.run("journalctl", "--no-pager", "--lines=40", "_UID=0", "_UID=987")
                raise AssertionError(f"{words}: {ran.stdout}{ran.stderr}\n{journal.stdout}")
            time.sleep(0.2)
        return ran.stdout


def machine_missing() -> str | None:
    """Return why no machine can be started here; None if one can."""
    if os.geteuid() != 0:
        return "a machine of its own needs root"
    needed = ("unshare", "nsenter", "pivot_root", "ip", "systemctl")
    lacking = [name for name in needed if shutil.which(name) is None]
    lacking += [name for name in ("/lib/systemd/systemd",) if not Path(name).exists()]
    return f"not installed: {', '.join(lacking)}" if lacking else None


@contextmanager
def systemd_machine(
    folder: Path, shared: Path, commands: Sequence[str]
) -> Iterator[SystemdMachine]:
    """Run a machine on which `commands` have been run; it sees the folder `shared`."""
    layers, script, log = folder / "layers", shared / "commands", folder / "log"
    layers.mkdir()
    script.write_text("\n".join(commands))
    words = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
    with log.open("wb") as output:
        started = subprocess.Popen(
            [*words, "sh", "-c", ENTER, str(layers), str(shared), str(script)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield SystemdMachine(_first_process(started, log))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def _first_process(started: "subprocess.Popen[bytes]", log: Path) -> int:
    """Return the process ID of systemd, once it accepts commands."""
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
    deadline = time.monotonic() + 3 * PATIENCE_S
    while time.monotonic() < deadline and started.poll() is None:
        found = children.read_text().split()
        if found and "systemd" in Path(f"/proc/{found[0]}/comm").read_text():
            machine = SystemdMachine(int(found[0]))
            machine.until("systemctl", "is-active", "navarch-test.target")
            return int(found[0])
        time.sleep(0.1)
    raise MachineDidNotStartError(log.read_text(errors="replace")[-800:])
