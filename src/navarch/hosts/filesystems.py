"""Values in `/proc` and `/sys`, and mounted filesystems, read without blocking."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from navarch.ports.host import Filesystem, HostError


def read_text(path: Path) -> str:
    """Return a file's text; raise HostError if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise HostError(f"{path}: {os.strerror(error.errno or 0)}") from error


def word(path: Path) -> str:
    """Return a file's text without surrounding space; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def number(path: Path) -> int:
    """Return the number in a file; zero if there is none."""
    text = word(path)
    return int(text) if text.isdecimal() else 0


def names(path: Path) -> list[str]:
    """Return the sorted names in a folder; empty if it cannot be read."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


ON_DISK = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay"})
NETWORK = frozenset(
    {
        *("nfs", "nfs4", "lustre", "ceph", "cifs", "smb3", "gpfs", "beegfs", "wekafs", "9p"),
        *("fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs", "fuse.sshfs", "fuse.glusterfs"),
    }
)
ANSWER_S = 3.0
"""How long a network filesystem may take to report its free space."""


def read_filesystems(proc: Path, fstab: Path) -> Iterator[Filesystem]:
    """Yield each filesystem that holds data once, however often it is mounted."""
    entries = [line.split() for line in word(fstab).splitlines() if line.lstrip()[:1] != "#"]
    writable = {e[1] for e in entries if len(e) >= 4 and "ro" not in e[3].split(",")}
    seen: set[str] = set()
    for line in read_text(proc / "self" / "mountinfo").splitlines():
        mount = parse_mount(line)
        if mount is None or mount[0] in seen:
            continue
        device, path, kind, read_only = mount
        if kind in ON_DISK | NETWORK and os.path.isdir(path) | (kind in NETWORK):
            seen.add(device)
            yield _measure(path, kind, read_only, path in writable)


def parse_mount(line: str) -> tuple[str, str, str, bool] | None:
    """Return device number, path, kind and read-only flag from a line of mountinfo."""
    before, dash, after = line.partition(" - ")
    fields, rest = before.split(" "), after.split(" ")
    if not dash or len(fields) < 6 or len(rest) < 3:
        return None
    path = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
    # Only the superblock's options count: the kernel sets them to `ro` when a disk fails. Those of
    # the mount belong to one namespace: the sandbox of the agent's service has read-only mounts.
    read_only = "ro" in rest[2].split(",")
    return fields[2], path, rest[0], read_only


def _measure(path: str, kind: str, read_only: bool, writable: bool) -> Filesystem:
    if kind in NETWORK and not _responds(path):
        return Filesystem(
            path=path, kind=kind, read_only=read_only, answers=False, wanted_writable=writable
        )
    try:
        room = os.statvfs(path)
    except OSError:
        return Filesystem(path=path, kind=kind, read_only=read_only, answers=False)
    return Filesystem(
        path=path,
        kind=kind,
        read_only=read_only,
        total_bytes=room.f_blocks * room.f_frsize,
        free_bytes=room.f_bavail * room.f_frsize,
        files_total=room.f_files,
        files_free=room.f_favail,
        wanted_writable=writable,
    )


def _responds(path: str) -> bool:
    """Return whether a child process can stat `path` within the deadline.

    A process that accesses a dead server cannot be killed. So a child does it, and is abandoned if
    it does not return.
    """
    command = ["stat", "--file-system", "--format=%i", "--", path]
    quiet = subprocess.DEVNULL
    try:
        probe = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    except OSError:
        return True  # That is not the filesystem's fault.
    try:
        return probe.wait(timeout=ANSWER_S) == 0
    except subprocess.TimeoutExpired:
        probe.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            probe.wait(timeout=0.1)
        return False
