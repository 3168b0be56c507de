"""Evidence bundles of the control plane: in memory, or as files next to its store."""

from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from urllib.parse import quote

import msgspec

from navarch.core.errors import NotFoundError
from navarch.core.ids import NodeId
from navarch.core.incident import Evidence, EvidenceNote
from navarch.ports.offload import Offload
from navarch.stores.snapshot import read_records

KEPT_MAX = 20
"""The number of bundles kept per node. A bundle of a quiet machine has about fifty kilobytes."""


class MemoryArchive:
    """Evidence in memory, for tests and simulations."""

    def __init__(self) -> None:
        self._kept: dict[NodeId, dict[str, Evidence]] = {}

    async def keep(self, evidence: Evidence) -> None:
        """Store a bundle."""
        kept = self._kept.setdefault(evidence.note.node, {})
        kept[evidence.note.id] = evidence
        for note in _newest_first(kept.values())[KEPT_MAX:]:
            del kept[note.id]

    async def list(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the notes of a node's bundles, newest first."""
        return _newest_first(self._kept.get(node, {}).values())

    async def get(self, node: NodeId, name: str) -> Evidence:
        """Return one bundle."""
        try:
            return self._kept[node][name]
        except KeyError as error:
            raise NotFoundError(f"no evidence {name} of node {node}") from error


class FolderArchive:
    """Evidence as files: a folder per node, a file per bundle. Folders outlive their nodes."""

    def __init__(self, folder: Path, offload: Offload) -> None:
        self._folder = folder
        self._offload = offload

    async def keep(self, evidence: Evidence) -> None:
        """Write a bundle atomically."""
        await self._offload.run(partial(self._keep, evidence))

    async def list(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the notes of a node's bundles, newest first."""
        return await self._offload.run(lambda: _newest_first(self._read_all(node)))

    async def get(self, node: NodeId, name: str) -> Evidence:
        """Return one bundle."""
        file = self._place(node) / f"{quote(name, safe='')}.json"
        found = await self._offload.run(lambda: read_records([file], Evidence))
        if not found:
            raise NotFoundError(f"no evidence {name} of node {node}")
        return found[0]

    def _keep(self, evidence: Evidence) -> None:
        place = self._place(evidence.note.node)
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"{quote(evidence.note.id, safe='')}.json"
        new = file.with_suffix(".part")
        new.write_bytes(msgspec.json.encode(evidence))
        new.replace(file)
        for note in _newest_first(self._read_all(evidence.note.node))[KEPT_MAX:]:
            (place / f"{quote(note.id, safe='')}.json").unlink(missing_ok=True)

    def _read_all(self, node: NodeId) -> Sequence[Evidence]:
        return read_records(self._place(node).glob("*.json"), Evidence)

    def _place(self, node: NodeId) -> Path:
        # With a leading letter, because quoting keeps dots and a node may be named "..".
        return self._folder / f"n{quote(node, safe='')}"


def _newest_first(kept: Iterable[Evidence]) -> Sequence[EvidenceNote]:
    notes = [evidence.note for evidence in kept]
    return sorted(notes, key=attrgetter("taken_at", "id"), reverse=True)
