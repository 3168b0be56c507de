"""Bring-up logs of the control plane: in memory, or as files next to its store."""

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

import msgspec

from navarch.core.bringup import LOGS_MAX, BringUpLog
from navarch.core.errors import StoreError
from navarch.core.ids import NodeId
from navarch.ports.offload import Offload
from navarch.stores.snapshot import read_records


class MemoryBringUpLogs:
    """Bring-up logs in memory, for tests and simulations."""

    def __init__(self) -> None:
        self._kept: dict[NodeId, dict[str, BringUpLog]] = {}

    async def keep(self, log: BringUpLog) -> None:
        """Store a log."""
        kept = self._kept.setdefault(log.node, {})
        kept[log.id] = log
        for old in _oldest_first(kept.values())[:-LOGS_MAX]:
            del kept[old.id]

    async def list(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return the logs of a node, oldest first."""
        return _oldest_first(self._kept.get(node, {}).values())


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
        return await self._offload.run(lambda: _oldest_first(self._read_all(node)))

    def _keep(self, log: BringUpLog) -> None:
        place = self._place(log.node)
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = place / f"{quote(log.id, safe='')}.json"
            new = file.with_suffix(".part")
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as writing:
                writing.write(msgspec.json.encode(log))
                writing.flush()
                os.fsync(writing.fileno())
            new.replace(file)
            for old in _oldest_first(self._read_all(log.node))[:-LOGS_MAX]:
                (place / f"{quote(old.id, safe='')}.json").unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{place}: the bring-up log cannot be written: {error}") from error

    def _read_all(self, node: NodeId) -> Sequence[BringUpLog]:
        return read_records(self._place(node).glob("*.json"), BringUpLog)

    def _place(self, node: NodeId) -> Path:
        # With a leading letter, because quoting keeps dots and a node may be named "..".
        return self._folder / f"n{quote(node, safe='')}"


def _oldest_first(logs: Iterable[BringUpLog]) -> Sequence[BringUpLog]:
    return sorted(logs, key=lambda log: (log.started_at, log.attempt, log.id))
