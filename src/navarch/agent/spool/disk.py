"""The agent's state directory: small files that a crash cannot corrupt."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from navarch.core.errors import NavarchError

LOCK = "lock"
_NEW = ".new"


class DiskError(NavarchError):
    """The state directory cannot be read or written; callers log it and continue without."""


class Disk(Protocol):
    """Named files. Calls block and raise only DiskError.

    `replace` is atomic: after a crash a file has its old or its new contents. Every `append` is
    complete, except perhaps the last.
    """

    def sizes(self) -> Mapping[str, int]:
        """Return the length in bytes of every file."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file, or None if it does not exist."""
        ...

    def append(self, name: str, data: bytes, *, sync: bool) -> None:
        """Add to the end of a file; with `sync`, return once a power cut cannot undo it."""
        ...

    def replace(self, name: str, data: bytes, *, sync: bool) -> None:
        """Replace the contents of a file atomically."""
        ...

    def remove(self, name: str) -> None:
        """Delete a file if it exists."""
        ...

    def close(self) -> None:
        """Release the directory."""
        ...


class MemoryDisk:
    """A disk in memory, for simulated machines."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.files: dict[str, bytes] = dict(files or {})

    def sizes(self) -> Mapping[str, int]:
        """Return the length of every file."""
        return {name: len(data) for name, data in self.files.items()}

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file."""
        return self.files.get(name)

    def append(self, name: str, data: bytes, *, sync: bool) -> None:
        """Add to the end of a file."""
        del sync
        self.files[name] = self.files.get(name, b"") + data

    def replace(self, name: str, data: bytes, *, sync: bool) -> None:
        """Replace the contents of a file."""
        del sync
        self.files[name] = data

    def remove(self, name: str) -> None:
        """Delete a file."""
        self.files.pop(name, None)

    def close(self) -> None:
        """Do nothing."""


class FolderDisk:
    """A directory of the file system, locked for one agent at a time.

    `sync` costs a disk write (0.1 to 10 ms). Callers use it where losing the data in a power cut
    does harm that a duplicate does not. A killed process loses nothing either way, because
    written data stays in the page cache.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._appending: tuple[str, int] | None = None
        with _explained(path):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise DiskError(f"{path} is in use by another agent") from error

    def sizes(self) -> Mapping[str, int]:
        """Return the length of every file, and delete temporary files left by a crash."""
        with _explained(self._path):
            for left_over in self._path.glob(f"*{_NEW}"):
                left_over.unlink(missing_ok=True)
            return {
                file.name: file.stat().st_size
                for file in sorted(self._path.iterdir())
                if file.is_file() and file.name != LOCK
            }

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file."""
        with _explained(self._path):
            try:
                return (self._path / name).read_bytes()
            except FileNotFoundError:
                return None

    def append(self, name: str, data: bytes, *, sync: bool) -> None:
        """Add to the end of a file."""
        with _explained(self._path):
            if self._appending is None or self._appending[0] != name:
                self._stop_appending()
                path = self._path / name
                new = not path.exists()
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                self._appending = (name, file)
                if new:
                    # Without this, a power cut could lose the file itself, even with synced
                    # contents.
                    self._sync_folder()
            file = self._appending[1]
            written = os.write(file, data)
            if written != len(data):
                raise OSError(f"only {written} of {len(data)} bytes of {name} could be written")
            if sync:
                os.fdatasync(file)

    def replace(self, name: str, data: bytes, *, sync: bool) -> None:
        """Replace the contents of a file by renaming a complete one over it."""
        with _explained(self._path):
            self._stop_appending(name)
            new = self._path / (name + _NEW)
            file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "wb") as out:
                out.write(data)
                if sync:
                    out.flush()
                    os.fsync(file)
            new.replace(self._path / name)
            if sync:
                self._sync_folder()

    def remove(self, name: str) -> None:
        """Delete a file."""
        with _explained(self._path):
            self._stop_appending(name)
            (self._path / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock on the directory."""
        self._stop_appending()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _stop_appending(self, name: str | None = None) -> None:
        """Close the file opened for appending, if it is `name` or no name is given."""
        if self._appending is not None and name in (None, self._appending[0]):
            os.close(self._appending[1])
            self._appending = None

    def _sync_folder(self) -> None:
        folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
"""Errors of a disk that is full or broken, and not of a wrong path or missing permission."""
_PROBE = "probe"
_PROBE_BYTES = 64 * 1024
_NUMBERED = ("stream", "health", "metrics", "evidence")
"""The files with records that are numbered within the stream of reports."""


class DetachedDisk(MemoryDisk):
    """What an agent works on if its disk is full or broken: memory, with what the disk has.

    Without its stream and the reports that wait on disk. Reports are numbered within a stream, and
    a number that is not stored durably must never be used twice: the agent makes a stream of its
    own. The reports on disk are delivered after a restart with room.
    """

    def __init__(self, folder: FolderDisk | None) -> None:
        """The lock of `folder` is held, so that no other agent runs beside this one."""
        super().__init__()
        self._folder = folder
        if folder is not None:
            with contextlib.suppress(DiskError):
                names = [name for name in folder.sizes() if not name.startswith(_NUMBERED)]
                for name in names:
                    data = folder.read(name)
                    if data is not None:
                        self.files[name] = data

    def close(self) -> None:
        """Release the directory."""
        if self._folder is not None:
            self._folder.close()


def open_disk(path: Path) -> FolderDisk | DetachedDisk:
    """Return the disk at `path`, detached if it is full or broken; raise DiskError otherwise.

    An agent that does not start is a node that looks dead, and one with a full disk is alive.
    """
    folder: FolderDisk | None = None
    try:
        folder = FolderDisk(path)
        folder.replace(_PROBE, bytes(_PROBE_BYTES), sync=True)
        folder.remove(_PROBE)
    except DiskError as error:
        cause = error.__cause__
        if not isinstance(cause, OSError) or cause.errno not in FULL:
            raise
        return DetachedDisk(folder)
    return folder


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror or error}") from error
