"""Evidence: handed in by agents, asked for by operators."""

import hashlib
from collections.abc import Sequence

from navarch.core.errors import InvalidError, NotFoundError
from navarch.core.evidence import CONTENT_BYTES_MAX, Evidence, EvidenceNote
from navarch.core.ids import NodeId
from navarch.ports.evidence import Archive
from navarch.ports.store import Store


class EvidenceService:
    """Keeps what proves to be what it says it is."""

    def __init__(self, store: Store, archive: Archive) -> None:
        self._store = store
        self._archive = archive

    async def report_evidence(self, evidence: Evidence) -> None:
        """Keep a bundle."""
        note = evidence.note
        if note.node not in self._store.fleet().nodes:
            raise NotFoundError(f"no node {note.node}")
        if not note.id or len(note.id) > 100:
            raise InvalidError("a bundle needs a short name of its own")
        if len(evidence.content) > CONTENT_BYTES_MAX:
            raise InvalidError(f"a bundle may have {CONTENT_BYTES_MAX} bytes")
        if hashlib.sha256(evidence.content).hexdigest() != note.sha256:
            raise InvalidError("the content is not the one that the bundle names")
        await self._archive.keep(evidence)

    async def list_evidence(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the bundles of a node, newest first; a node that is gone keeps its own."""
        kept = await self._archive.list(node)
        if not kept and node not in self._store.fleet().nodes:
            raise NotFoundError(f"no node {node}")
        return kept

    async def get_evidence(self, node: NodeId, name: str) -> Evidence:
        """Return one bundle."""
        return await self._archive.get(node, name)
