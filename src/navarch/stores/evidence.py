"""Files that are replaced as a whole, and the records of machines kept in them."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec
import structlog

from navarch.core.bringup import LOGS_MAX, BringUpLog
from navarch.core.errors import NotFoundError, StoreError
from navarch.core.ids import NodeId
from navarch.core.incident import EvidenceNote
from navarch.core.receipt import KeptEvidence
from navarch.ports.clock import Offload

T = TypeVar("T")

log = structlog.get_logger(__name__)


def write_whole(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace the file at `path` with `data`, durably. Blocking."""
    scratch = path.with_name(path.name + ".new")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fdatasync(file.fileno())
    scratch.replace(path)


def read_whole(path: Path) -> bytes | None:
    """Return the contents of the file at `path`, or None if it does not exist. Blocking."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def read_records(files: Iterable[Path], kind: type[T]) -> list[T]:
    """Return the records in JSON `files`, except those that cannot be read. Blocking."""
    found: list[T] = []
    for file in files:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            found.append(msgspec.json.decode(file.read_bytes(), type=kind))
    return found


def _folder_of(folder: Path, node: NodeId) -> Path:
    # With a leading letter, because quoting keeps dots and a node may be named "..".
    return folder / f"n{quote(node, safe='')}"


def make_private(folder: Path) -> None:
    """Create a folder that only its owner can open, or make it such; what it holds may stay."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        folder.chmod(0o700)
    except OSError as error:
        log.warning("store.not_private", folder=str(folder), error=str(error))


KEPT_MAX = 20
"""The number of bundles kept per node. A bundle of a quiet machine has about fifty kilobytes."""


class FolderArchive:
    """Evidence as files: a folder per node, a file per bundle. Folders outlive their nodes."""

    def __init__(self, folder: Path, offload: Offload) -> None:
        self._folder = folder
        self._offload = offload

    async def keep(self, evidence: KeptEvidence) -> None:
        """Write a bundle atomically."""
        await self._offload.run(partial(self._keep, evidence))

    async def list(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the notes of a node's bundles, newest first."""
        files = _folder_of(self._folder, node).glob("*.json")
        return await self._offload.run(lambda: _newest_first(read_records(files, KeptEvidence)))

    async def get(self, node: NodeId, name: str) -> KeptEvidence:
        """Return one bundle."""
        file = _folder_of(self._folder, node) / f"{quote(name, safe='')}.json"
        found = await self._offload.run(lambda: read_records([file], KeptEvidence))
        if not found:
            raise NotFoundError(f"no evidence {name} of node {node}")
        return found[0]

    def _keep(self, evidence: KeptEvidence) -> None:
        place = _folder_of(self._folder, evidence.note.node)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = place / f"{quote(evidence.note.id, safe='')}.json"
        write_whole(file, msgspec.json.encode(evidence))
        for note in _newest_first(read_records(place.glob("*.json"), KeptEvidence))[KEPT_MAX:]:
            (place / f"{quote(note.id, safe='')}.json").unlink(missing_ok=True)


def _newest_first(kept: Iterable[KeptEvidence]) -> Sequence[EvidenceNote]:
    notes = [evidence.note for evidence in kept]
    return sorted(notes, key=attrgetter("taken_at", "id"), reverse=True)


class FolderBringUpLogs:
    """Bring-up logs as private files: a folder per node, a file per attempt."""

    def __init__(self, folder: Path, offload: Offload) -> None:
        self._folder = folder
        self._offload = offload

    async def keep(self, log: BringUpLog) -> None:
        """Write a log atomically."""
        await self._offload.run(partial(self._keep, log))

    async def list(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return the logs of a node, oldest first."""
        files = _folder_of(self._folder, node).glob("*.json")
        return await self._offload.run(lambda: _oldest_first(read_records(files, BringUpLog)))

    def _keep(self, log: BringUpLog) -> None:
        place = _folder_of(self._folder, log.node)
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = place / f"{quote(log.id, safe='')}.json"
            write_whole(file, msgspec.json.encode(log), mode=0o600)
            for old in _oldest_first(read_records(place.glob("*.json"), BringUpLog))[:-LOGS_MAX]:
                (place / f"{quote(old.id, safe='')}.json").unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{place}: the bring-up log cannot be written: {error}") from error


def _oldest_first(logs: Iterable[BringUpLog]) -> Sequence[BringUpLog]:
    return sorted(logs, key=lambda log: (log.started_at, log.attempt, log.id))


SWEPT_AT_ONCE = 50
"""How many folders of nodes are looked at in one piece: a few milliseconds."""


class AgingFolder:
    """The files in the folders of nodes, with the age of their last write."""

    def __init__(self, folder: Path, offload: Offload) -> None:
        self._folder = folder
        self._offload = offload
        self._sweep: Iterator[None] | None = None

    async def prune(self, before: datetime, *, bytes_max: int) -> bool:
        """Delete some files that are due; return whether the sweep goes on."""
        sweep = self._sweep or _sweep(self._folder, before.timestamp(), bytes_max)
        self._sweep = None  # an error begins another
        done = await self._offload.run(lambda: sum(1 for _ in islice(sweep, SWEPT_AT_ONCE)))
        if done < SWEPT_AT_ONCE:
            return False
        self._sweep = sweep
        return True


def _sweep(folder: Path, before: float, bytes_max: int) -> Iterator[None]:
    """Delete what is due, one folder or file between two items."""
    kept: list[tuple[float, int, Path]] = []
    for place in sorted(folder.glob("n*")):
        for file in place.iterdir():
            with contextlib.suppress(FileNotFoundError):
                found = file.stat()
                if found.st_mtime < before:
                    file.unlink()
                else:
                    kept.append((found.st_mtime, found.st_size, file))
        _remove_if_empty(place)
        yield
    size = sum(each for _, each, _ in kept)
    for _, each, file in sorted(kept):
        if size <= bytes_max:
            return
        file.unlink(missing_ok=True)
        _remove_if_empty(file.parent)
        size -= each
        yield


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
