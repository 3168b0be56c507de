"""Archives in memory, in place of the folders of a server."""

from collections.abc import Sequence
from operator import attrgetter

from navarch.core.bringup import LOGS_MAX, BringUpLog
from navarch.core.errors import NotFoundError
from navarch.core.ids import NodeId
from navarch.core.incident import EvidenceNote
from navarch.core.receipt import KeptEvidence
from navarch.stores.evidence import KEPT_MAX


class MemoryArchive:
    """Evidence in memory."""

    def __init__(self) -> None:
        self._kept: dict[NodeId, dict[str, KeptEvidence]] = {}

    async def keep(self, evidence: KeptEvidence) -> None:
        """Store a bundle."""
        kept = self._kept.setdefault(evidence.note.node, {})
        kept[evidence.note.id] = evidence
        for note in (await self.list(evidence.note.node))[KEPT_MAX:]:
            del kept[note.id]

    async def list(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the notes of a node's bundles, newest first."""
        notes = [evidence.note for evidence in self._kept.get(node, {}).values()]
        return sorted(notes, key=attrgetter("taken_at", "id"), reverse=True)

    async def get(self, node: NodeId, name: str) -> KeptEvidence:
        """Return one bundle."""
        try:
            return self._kept[node][name]
        except KeyError as error:
            raise NotFoundError(f"no evidence {name} of node {node}") from error


class MemoryBringUpLogs:
    """Bring-up logs in memory."""

    def __init__(self) -> None:
        self._kept: dict[NodeId, dict[str, BringUpLog]] = {}

    async def keep(self, log: BringUpLog) -> None:
        """Store a log."""
        kept = self._kept.setdefault(log.node, {})
        kept[log.id] = log
        for old in (await self.list(log.node))[:-LOGS_MAX]:
            del kept[old.id]

    async def list(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return the logs of a node, oldest first."""
        logs = self._kept.get(node, {}).values()
        return sorted(logs, key=attrgetter("started_at", "attempt", "id"))
