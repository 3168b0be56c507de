"""Evidence and bring-up logs of machines, for agents that report and operators that read them."""

import hashlib
from collections.abc import Sequence

from navarch.core.bringup import BringUpLog
from navarch.core.errors import InvalidError, NotFoundError
from navarch.core.ids import NodeId
from navarch.core.incident import CONTENT_BYTES_MAX, Evidence, EvidenceNote
from navarch.ports.bringup import BringUpLogs
from navarch.ports.evidence import Archive
from navarch.ports.store import Store


class EvidenceService:
    """Stores bundles of evidence, if their content matches their note."""

    def __init__(self, store: Store, archive: Archive) -> None:
        self._store = store
        self._archive = archive

    async def report_evidence(self, evidence: Evidence) -> None:
        """Store a bundle."""
        note = evidence.note
        if note.node not in self._store.fleet().nodes:
            raise NotFoundError(f"no node {note.node}")
        if not note.id or len(note.id) > 100:
            raise InvalidError("a bundle needs a unique name of at most 100 characters")
        if len(evidence.content) > CONTENT_BYTES_MAX:
            raise InvalidError(f"a bundle may have at most {CONTENT_BYTES_MAX} bytes")
        if hashlib.sha256(evidence.content).hexdigest() != note.sha256:
            raise InvalidError("the content does not match the checksum of the bundle")
        await self._archive.keep(evidence)

    async def list_evidence(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the bundles of a node, newest first, also of a node that is gone."""
        kept = await self._archive.list(node)
        if not kept and node not in self._store.fleet().nodes:
            raise NotFoundError(f"no node {node}")
        return kept

    async def get_evidence(self, node: NodeId, name: str) -> Evidence:
        """Return one bundle."""
        return await self._archive.get(node, name)


class BringUpService:
    """Serves the bring-up logs of machines."""

    def __init__(self, store: Store, logs: BringUpLogs) -> None:
        self._store = store
        self._logs = logs

    async def list_bringups(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return every attempt on a node's machine, also of a node that is gone."""
        kept = await self._logs.list(node)
        if not kept and node not in self._store.fleet().nodes:
            raise NotFoundError(f"no node {node}")
        return kept
