"""A real Docker engine for tests: a daemon with its own folder and network.

It runs in a network namespace, so its bridge and its rules do not affect the host.
"""

import io
import os
import shutil
import signal
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEEDED = ("dockerd", "unshare", "nsenter", "ip", "busybox", "docker")


def engine_missing() -> str | None:
    """Return why no engine can be started here; None if one can."""
    if os.geteuid() != 0:
        return "a Docker engine needs root"
    missing = [program for program in NEEDED if shutil.which(program) is None]
    return f"not installed: {', '.join(missing)}" if missing else None


@contextmanager
def docker_engine(folder: Path) -> Iterator[str]:
    """Run an engine with a small image, `navarch/test`; yield its address."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "d.sock"
    command = (
        f"ip link set lo up; exec dockerd --host unix://{path} --data-root {folder}/data "
        f"--exec-root {folder}/exec --pidfile {folder}/pid"
    )
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", command],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        _wait_for(path, daemon, folder / "log")
        _import_image(f"unix://{path}")
        yield f"unix://{path}"
    finally:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(timeout=30)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def namespace_of(folder: Path) -> list[str]:
    """Return the command prefix that enters the network namespace of the engine in `folder`.

    In that namespace, containers can be reached, and can reach listening processes.
    """
    pid = (folder / "pid").read_text().strip()
    return ["nsenter", "--net", "--target", pid]


class EngineDidNotStartError(RuntimeError):
    """The engine ended or did not respond. The message has the end of its log."""


def _wait_for(path: Path, daemon: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(300):
        if daemon.poll() is not None:
            raise EngineDidNotStartError(log.read_text(errors="replace")[-500:])
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
                probe.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                if b" 200 " in probe.recv(64):
                    return
            except OSError:
                pass
        try:
            daemon.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
    raise EngineDidNotStartError(log.read_text(errors="replace")[-500:])


def _import_image(host: str) -> None:
    """Import an image with busybox as its only program."""
    found = shutil.which("busybox")
    assert found is not None
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        tar.add(os.path.realpath(found), "bin/busybox")
        for tool in ("sh", "sleep", "env", "true", "cat"):
            link = tarfile.TarInfo(f"bin/{tool}")
            link.type = tarfile.SYMTYPE
            link.linkname = "busybox"
            tar.addfile(link)
    subprocess.run(
        ["docker", "-H", host, "import", "-", "navarch/test"],
        input=held.getvalue(),
        check=True,
        stdout=subprocess.DEVNULL,
    )
